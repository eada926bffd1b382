"""The volatile Fisher market: goods that cannot be kept, bought over rounds by buyers with budgets.

Shockwave (Zheng et al., NSDI'23, section 4, appendices C to E). A seller has some of each resource in each
round; what is bought in a round cannot be carried over to another. Buyers (jobs) have budgets and a
utility that may differ from round to round, as that of a job does whose batch size changes. In
**equilibrium** nobody can buy more utility with the same budget, and what has a price is sold out.

For utilities that add up over rounds and are linear or Leontief in each, the equilibrium is the
optimum of the Eisenberg-Gale program (theorem C.1, program 3)::

    maximise  sum over buyers i of B_i log U_i(X_i),    sum over i of x_ijt <= supply_jt,   x >= 0

and prices are the multipliers of the supply. This package needs no scheduler and imports none.

    from volvelle.systems.shockwave.market import Market, equilibrium

    two = Market(values=[[[1.0, 2.0]], [[1.0, 1.0]]], budgets=[1.0, 1.0])
    found = equilibrium(two)   # found.allocation, found.prices, found.utility

Programs are solved by Clarabel (Goulart and Chen), an interior-point solver for cones: the extra
``market``.
"""

from volvelle.systems.shockwave.market.fisher import (
    Equilibrium,
    Market,
    Utility,
    equal_split,
    equilibrium,
    finish_time_fairness,
    utility,
)

__all__ = [
    "Equilibrium",
    "Market",
    "Utility",
    "equal_split",
    "equilibrium",
    "finish_time_fairness",
    "utility",
]
