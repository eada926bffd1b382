"""Markets, what an allocation is worth in them, and their equilibrium (NSDI'23, appendix C), the
optimum of the Eisenberg-Gale program, by Clarabel.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volvelle.model.arrays import Floats
from volvelle.model.problems import Problem

Utility = Literal["linear", "leontief"]


@dataclass(frozen=True, init=False, eq=False)
class Market:
    """Buyers of volatile resources.

    values: (buyers, resources, rounds): for ``linear`` utility what a unit is worth, u_ijt; for ``leontief``
    how much of a resource a unit of utility takes, a_ijt (0: none of it). budgets: (buyers,) positive.
    supply: (resources, rounds), one unit of each unless said otherwise.

    Raises ValueError where these are not such, or where a buyer could buy no utility, or without limit.
    """

    values: Floats
    budgets: Floats
    supply: Floats
    utility: Utility

    def __init__(
        self,
        values: ArrayLike,
        budgets: ArrayLike,
        supply: ArrayLike | None = None,
        utility: Utility = "linear",
    ) -> None:
        worth = np.array(values, dtype=np.float64)
        if worth.ndim != 3:
            raise ValueError(f"values by buyer, resource and round are expected, not {worth.shape}")
        there = np.ones(worth.shape[1:]) if supply is None else np.array(supply, dtype=np.float64)
        money = np.array(budgets, dtype=np.float64)
        for name, value in (
            ("values", worth),
            ("budgets", money),
            ("supply", there),
            ("utility", utility),
        ):
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        buyers, resources, rounds = self.values.shape
        if self.budgets.shape != (buyers,):
            raise ValueError(f"{buyers} buyers need as many budgets, not {self.budgets.shape}")
        if self.supply.shape != (resources, rounds):
            raise ValueError(
                f"supply by resource and round, {(resources, rounds)}, is expected, "
                f"not {self.supply.shape}"
            )
        for name in ("values", "budgets", "supply"):
            column = getattr(self, name)
            if not (np.isfinite(column) & (column >= 0.0)).all():
                raise ValueError(f"{name} have to be finite and not negative")
        if (poor := np.flatnonzero(self.budgets == 0.0)).size:
            raise ValueError(f"buyer {poor[0]} has a budget of 0, with which nothing can be bought")
        needs: NDArray[np.bool_] = self.values > 0.0
        there: NDArray[np.bool_] = self.supply > 0.0
        if self.utility == "linear":
            useful = (needs & there).any(axis=(1, 2))
        else:
            if not needs.any(axis=1).all():
                buyer, one = np.argwhere(~needs.any(axis=1))[0]
                raise ValueError(f"buyer {buyer} takes nothing for its utility in round {one}")
            able: NDArray[np.bool_] = np.all(~needs | there, axis=1)
            useful = np.any(able, axis=1)
        if not useful.all():
            raise ValueError(f"nothing there is worth anything to buyer {np.argmin(useful)}")


class Equilibrium(NamedTuple):
    """allocation: (buyers, resources, rounds). prices: (resources, rounds). utility: (buyers,)."""

    allocation: Floats
    prices: Floats
    utility: Floats

    @property
    def spent(self) -> Floats:
        """(buyers,) what each pays."""
        spent: Floats = (self.allocation * self.prices).sum(axis=(1, 2))
        return spent


def utility(market: Market, allocation: ArrayLike) -> Floats:
    """(buyers,) U_i of what each has, (buyers, resources, rounds)."""
    held = np.asarray(allocation, dtype=np.float64)
    if market.utility == "linear":
        summed: Floats = (market.values * held).sum(axis=(1, 2))
        return summed
    needs = market.values > 0.0
    parts = np.divide(held, market.values, out=np.full(held.shape, np.inf), where=needs)
    least: Floats = parts.min(axis=1).sum(axis=1)
    return least


def equal_split(market: Market) -> Floats:
    """(buyers, resources, rounds) C/N: as much of everything for everybody."""
    buyers = len(market.budgets)
    return np.repeat(market.supply[None] / buyers, buyers, axis=0)


def finish_time_fairness(market: Market, allocation: ArrayLike) -> Floats:
    """(buyers,) rho: utility of an equal split over that of what each has (appendix E)."""
    rho: Floats = utility(market, equal_split(market)) / utility(market, allocation)
    return rho


def equilibrium(market: Market, *, tolerance: float = 1e-9) -> Equilibrium:
    """Allocation and prices at which the market clears, to the solver's ``tolerance``.

    Raises `Problem` where the solver is not installed or does not get there.
    """
    # A purchase is of a resource in a round, or of all a unit of utility takes in a round.
    if market.utility == "linear":
        buyer, resource, one = np.nonzero(market.values)
        value = market.values[buyer, resource, one]
        use = np.arange(len(buyer)), resource, one, np.ones(len(buyer))
    else:
        buyers, _, rounds = market.values.shape
        buyer, time = (axis.ravel() for axis in np.indices((buyers, rounds)))
        value = np.ones(len(buyer))
        purchase, resource = np.nonzero(market.values[buyer, :, time])
        one = time[purchase]
        use = purchase, resource, one, market.values[buyer[purchase], resource, one]
    bought, prices = _eisenberg_gale(market, buyer, value, use, tolerance)
    allocation = np.zeros(market.values.shape)
    np.add.at(allocation, (buyer[use[0]], use[1], use[2]), use[3] * bought[use[0]])
    return Equilibrium(allocation, prices, utility(market, allocation))


def _eisenberg_gale(
    market: Market, buyer: Any, value: Floats, use: tuple[Any, Any, Any, Floats], tolerance: float
) -> tuple[Floats, Floats]:
    """How much of each purchase, and prices. Raises `Problem` as `equilibrium`."""
    try:
        import clarabel  # noqa: PLC0415 - an extra
        from scipy import sparse  # noqa: PLC0415 - an extra
    except ImportError:
        raise Problem(
            "markets are solved by Clarabel, which is not installed",
            mend="install volvelle with the extra market",
        ) from None

    purchases, buyers, rounds = len(buyer), len(market.budgets), market.supply.shape[1]
    worth = sparse.csr_matrix((value, (buyer, np.arange(purchases))), shape=(buyers, purchases))
    sold = sparse.csc_matrix(
        (use[3], (use[1] * rounds + use[2], use[0])), shape=(market.supply.size, purchases)
    )
    constant = np.zeros(3 * buyers)
    constant[1::3] = 1.0
    linear = sparse.vstack([sold, -sparse.identity(purchases)])
    padded = sparse.hstack([linear, sparse.csc_matrix((linear.shape[0], buyers))])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((purchases + buyers, purchases + buyers)),
        np.concatenate([np.zeros(purchases), -market.budgets / market.budgets.sum()]),
        sparse.vstack([padded, _cones(worth, sparse)], format="csc"),
        np.concatenate([market.supply.ravel(), np.zeros(purchases), constant]),
        [
            clarabel.NonnegativeConeT(linear.shape[0]),
            *(clarabel.ExponentialConeT() for _ in range(buyers)),
        ],
        settings,
    ).solve()
    if str(solution.status) not in {"Solved", "AlmostSolved"}:
        raise Problem(f"the market's program was not solved: {solution.status}")
    bought = np.maximum(np.array(solution.x[:purchases]), 0.0)
    paid = np.maximum(np.array(solution.z[: market.supply.size]), 0.0)
    return bought, paid.reshape(market.supply.shape) * market.budgets.sum()


def _cones(worth: Any, sparse: Any) -> Any:
    """Rows by which (t, 1, U) of each buyer is in the exponential cone.

    U = ``worth`` x; behind the purchases x come the bounds t of each buyer's log U.
    """
    buyers, purchases = worth.shape
    scale = np.maximum(abs(worth).max(axis=1).toarray().ravel(), 1e-300)
    scaled = (sparse.diags(1.0 / scale) @ worth).tocoo()
    return sparse.csc_matrix(
        (
            np.concatenate([-np.ones(buyers), -scaled.data]),
            (
                np.concatenate([3 * np.arange(buyers), 3 * scaled.row + 2]),
                np.concatenate([purchases + np.arange(buyers), scaled.col]),
            ),
        ),
        shape=(3 * buyers, purchases + buyers),
    )
