"""Max-min fairness of Gavel (OSDI'20), its version of least attained service.

    maximise  min over jobs i of  gpus(i) / weight(i)  x  sum over t of T(i, t) X(i, t) / P(i)

where P(i) is the rate of a job that spends its time on the GPU types in proportion to their numbers (and
stays at 0 for types on which it cannot run). Only the smallest value is raised, as in Gavel's simulator; what
is left of the GPUs lies wherever the solver leaves it, and rounds hand it out. `gavel-hierarchical` goes on.
With ``space_sharing``, where two may gain by it, a second program raises the sum of all values with the
smallest held: what the first leaves open may be pairs that nobody gains from, and rounds would follow them.
On Gavel's 120 jobs this alone makes mean completion times 4 % shorter; the simulator's, whose solver stops
inside the set of solutions, lies between the two (2 % from each, under its own rounds).

Where all types are alike to every job (a cluster of one type, or ``aware=false``) no program is solved:
`fill_level` gives one of its solutions, the one in which nobody can have more without another having less.
Jobs that differ in nothing are one entry of the program.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from volvelle.core.columns import GPUS, WEIGHT
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import ClusterNow
from volvelle.core.policy import policies
from volvelle.core.state import INFINITY
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.model.tolerances import LEAST_DIVISOR, SOLVED
from volvelle.policies import rounds
from volvelle.policies.claims import FRACTIONS, NOTHING, set_alone
from volvelle.policies.rounds import give, rates_of, what_is_due
from volvelle.systems.gavel.base import GavelProgram
from volvelle.systems.gavel.demand import Demand, maximise_sum, raise_together

_ALIKE = 1e-12


@policies.register
class GavelLas(GavelProgram):
    """Max-min fairness: the job with the least normalised throughput for its weight is raised."""

    name: ClassVar[str] = "gavel-las"
    needs_durations: ClassVar[bool] = False
    optimises: ClassVar[str] = "instantaneous fairness, over GPU types"

    @property
    def decision(self) -> Callable[..., float]:
        """A round by the closed form where all types are alike; else Python solves the program."""
        return rounds.decide if self.space_sharing else decide

    def fractions(self, view: View, demand: Demand) -> Floats:
        """The program, or its closed form."""
        if types_alike(demand):
            return split_over_types(demand, water_level(demand))
        entries, group = (demand, None) if len(demand.pairs) else demand.grouped()
        scale = normaliser(entries) / _weights(entries)
        need = entries.able.astype(np.float64)
        split = entries.equal_split()
        shared = raise_together(entries, scale, need, np.zeros(len(need)), split, self.time_limit)
        self._gaps.note(shared.gap)
        if group is not None:
            return shared.fractions[group]
        floor = need * shared.level * (1 - SOLVED)
        types = np.ones(len(demand.capacity))
        rest = maximise_sum(demand, scale, types, floor, shared.fractions, self.time_limit)
        self._gaps.note(rest.gap)
        return rest.fractions


def normaliser(demand: Demand) -> FloatColumn:
    """The factor that makes a rate comparable: GPUs over the rate under a proportional share."""
    proportional = demand.proportional
    return np.divide(
        demand.gpus, proportional, out=np.zeros_like(proportional), where=proportional > 0
    )


def types_alike(demand: Demand) -> bool:
    """Whether it is the same to every job where it runs: no types that differ, quotas or pairs."""
    return not len(demand.pairs) and alike(demand.rates.T.copy(), demand.capacity, demand.quota)


@compiled
def alike(rates: Floats, capacity: Floats, quota: Floats) -> bool:
    """Whether no pools have quotas, and rates, (types, jobs), differ on no types of which there are GPUs."""
    if len(quota) > 0:
        return False
    for job in range(rates.shape[1]):
        least, most = np.inf, 0.0
        for gpu_type in range(len(capacity)):
            if capacity[gpu_type] > 0.0:
                least, most = min(least, rates[gpu_type, job]), max(most, rates[gpu_type, job])
        if most - least > _ALIKE * max(most, 1.0):
            return False
    return True


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`): water filling in closed form, if all types are alike."""
    due, capacity = what_is_due(jobs, cluster, memory), cluster.capacity
    if due == FRACTIONS:
        rates = rates_of(jobs, cluster, memory)
        if not alike(rates, capacity, cluster.quota):
            return -INFINITY
        target = np.zeros(rates.shape)
        if (rates > 0.0).any():
            level = fill_level(jobs[GPUS], jobs[WEIGHT], capacity.sum())
            for gpu_type in range(len(target)):
                target[gpu_type] = level * (capacity[gpu_type] / capacity.sum())
        set_alone(jobs, cluster.now, memory, target)
    elif due != NOTHING:
        return -INFINITY
    return give(jobs, cluster, memory, out)


@compiled
def fill_level(gpus: Floats, weight: Floats, capacity: float) -> Floats:
    """The fraction of its time each job runs where GPUs over weight are made equal.

    x(i) = min(1, level x weight(i) / gpus(i)) with the level at which all GPUs are given; 1 where there
    are enough.
    """
    jobs = len(gpus)
    if gpus.sum() <= capacity:
        return np.ones(jobs)
    weight = np.maximum(weight, LEAST_DIVISOR)
    order = np.argsort(gpus / weight, kind="mergesort")
    given, sharing, level = 0.0, np.empty(jobs), 0.0
    sharing[order[::-1]] = np.cumsum(weight[order][::-1])
    for row in order:
        level = (capacity - given) / sharing[row]
        if level * weight[row] < gpus[row]:
            break
        given += gpus[row]
    return np.minimum(1.0, level * weight / gpus)


def water_level(demand: Demand) -> FloatColumn:
    """The same of a program's jobs."""
    return fill_level(demand.gpus, demand.weight, float(demand.capacity.sum()))


def split_over_types(demand: Demand, fraction: FloatColumn) -> Floats:
    """``fraction`` of each job's time, spent on the types in proportion to their GPUs."""
    split: Floats = fraction[:, None] * (demand.capacity / demand.capacity.sum())
    return split


def _weights(demand: Demand) -> FloatColumn:
    return np.maximum(demand.weight, LEAST_DIVISOR)
