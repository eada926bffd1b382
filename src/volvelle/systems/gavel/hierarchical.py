"""Max-min fairness by water filling, over entities and their jobs (Gavel, OSDI'20).

The jobs' levels, gpus(i) x (sum over t of T(i, t) X(i, t) / P(i)) as in `gavel-las`, rise together until
some can rise no more; these are held where they are, and the others go on:

    repeat:  maximise  L  where  level(i) after  >=  level(i) before + L w(i)   for all jobs i

The entities are the pools; jobs of no pool are one more. An entity's weight is its pool's quota (for jobs
of no pool the GPUs that no quota covers, at least one). ``within=fairness`` divides it among its jobs that
still rise, in proportion to their weights; ``within=fifo`` gives all of it to the first of them. A cluster
without pools is one entity: then this is max-min fairness of all jobs, gone through to the end.

Departure: which jobs can rise no more is read from the dual values of the program, which prove it; Gavel's
simulator asks a mixed-integer program.
"""

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, FloatColumn, Floats, IntColumn
from volvelle.model.tolerances import LEAST_DIVISOR, SAME_SHARE
from volvelle.policies import rounds
from volvelle.systems.gavel.base import GavelProgram
from volvelle.systems.gavel.demand import Demand, raise_together
from volvelle.systems.gavel.las import (
    decide,
    normaliser,
    split_over_types,
    types_alike,
    water_level,
)


@policies.register
class GavelHierarchical(GavelProgram):
    """Max-min fairness between pools and within them, by water filling."""

    name: ClassVar[str] = "gavel-hierarchical"
    needs_durations: ClassVar[bool] = False
    optimises: ClassVar[str] = "instantaneous fairness of pools and jobs, over GPU types"

    within: Literal["fairness", "fifo"] = Field(
        "fairness", description="how a pool divides its share among its jobs"
    )

    @property
    def decision(self) -> Callable[..., float]:
        """A round by the closed form where it is one; else Python fills by programs."""
        return rounds.decide if self.space_sharing or self.within == "fifo" else decide

    def fractions(self, view: View, demand: Demand) -> Floats:
        """Water filling, or its closed form for one entity on GPUs of one kind."""
        if self.within == "fairness" and types_alike(demand):
            return split_over_types(demand, water_level(demand))
        if self.within == "fairness" and not len(demand.pairs):
            groups, group = demand.grouped()
            return self._fill(groups, np.zeros(len(groups.gpus)))[group]
        return self._fill(demand, view.jobs.number)

    def _fill(self, demand: Demand, number: FloatColumn) -> Floats:
        scale = normaliser(demand)
        level = np.zeros(len(demand.gpus))
        rising = demand.able
        best = demand.equal_split()
        worst_gap = 0.0
        while rising.any():
            need = self._weights(demand, rising, number)
            held = level * (1 - SAME_SHARE)
            shared = raise_together(demand, scale, need, held, best, self.time_limit)
            worst_gap = max(worst_gap, shared.gap)
            best = shared.fractions
            if shared.binding is None or not shared.binding.any():
                break
            level = level + shared.level * need
            rising = rising & ~shared.binding
        self._gaps.note(worst_gap)
        return best

    def _weights(self, demand: Demand, rising: BoolColumn, number: FloatColumn) -> FloatColumn:
        """How fast each job's level rises: its part of its entity's weight."""
        weights = np.zeros(len(rising))
        uncovered = max(float(demand.capacity.sum() - demand.owned.sum()), 1.0)
        for entity, weight in enumerate([uncovered, *demand.owned.tolist()], start=-1):
            mine: IntColumn = np.flatnonzero(rising & (demand.pool == entity))
            if not len(mine):
                continue
            if self.within == "fifo":
                weights[mine[np.argmin(number[mine])]] = weight
                continue
            parts = np.maximum(demand.weight[mine], LEAST_DIVISOR)
            weights[mine] = weight * parts / float(demand.alike[mine] @ parts)
        return weights
