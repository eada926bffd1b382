"""Finish-time fairness of Gavel (OSDI'20), after the metric of Themis (NSDI'20).

    minimise  max over jobs i of  (age(i) + R(i) / (sum over t of T(i, t) X(i, t))) / (D(i) + R(i) / F(i))

R is what is left of a job, F its rate on an isolated n-th of the cluster (GPUs(t) / (n gpus(i)) of its
time on each type, scaled down to 1 in all), D the seconds that what it has done would have taken there,
added up from one allocation to the next, each part at the F of its time. Weights do not count.

A value rho is within reach where X gives every job the rate R / (rho (D + R / F) - age), which is a linear
program; the smallest is found by halving the interval between what no X can beat and the best X so far, down
to 0.1 %. (Gavel's simulator solves the convex program.) The gap is that of the interval.

Where one job that is late anyway decides about rho, most GPUs are left to be divided as one likes.
``ties=centre`` divides them as the solver of Shockwave's simulator (NSDI'23) does, whose baseline Themis is
this program; with ``steps`` D counts as it does there: a larger batch leaves fewer steps, and the drop is
taken as done (a smaller one takes it back).
"""

from collections.abc import Iterable
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.systems.gavel.base import GavelProgram, steps_per_unit
from volvelle.systems.gavel.demand import Demand, raise_together

_CLOSE = 1e-3
"""The interval of rho is narrow enough when it is this share of its lower end."""

_HALVINGS = 60
"""The most steps of a search by halves: of programs solved for one allocation, or of prices."""

_DONE = 1e-9
"""Work left of a job that is believed to be about to end."""


@policies.register
class GavelFinishTime(GavelProgram):
    """Finish-time fairness: nobody ends much later than on an n-th of the cluster."""

    name: ClassVar[str] = "gavel-ftf"
    source: ClassVar[str] = "Gavel (OSDI'20), after Themis (NSDI'20)"
    optimises: ClassVar[str] = "finish-time fairness, over GPU types"

    steps: bool = Field(False, description="a change of the batch size counts as steps done")
    ties: Literal["any", "centre"] = Field(
        "any", description="of the fairest answers any, or their centre (on one GPU type)"
    )

    _isolated: dict[int, tuple[float, float, float]] = PrivateAttr(default_factory=dict)
    """By job: seconds on an n-th of the cluster so far; work done and F when last counted."""

    def fractions(self, view: View, demand: Demand) -> Floats:
        """The fairest fractions, as far as programs find them."""
        left = np.maximum(view.jobs.remaining_work, _DONE)
        age = view.now - view.jobs.submit_time
        alone = self._alone(view, demand, left)
        best, gap = fairest(demand, age, left, alone, self.time_limit)
        self._gaps.note(gap)
        if self.ties == "any":
            return best
        worst = rho(demand, best, age, left, alone)
        rate = np.where(demand.able, demand.rates[:, 0], np.inf)
        floor = np.minimum(left / (rate * np.maximum(worst * alone - age, _DONE)), 1.0)
        return centre(demand, floor)[:, None]

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` also where the centre is asked for and GPUs are not alike, pooled or shared."""
        super().refuse(cluster, jobs)
        if self.ties == "centre" and (
            len(cluster.gpu_types) > 1 or cluster.pools or self.space_sharing
        ):
            raise Problem(
                f"policy {self.name!r} finds the centre of its answers on one GPU type without pools and "
                "without sharing only",
                mend=f"use --policy {self.name}",
                usage=True,
            )

    def _alone(self, view: View, demand: Demand, left: FloatColumn) -> FloatColumn:
        """D + R / F for each job, and take note of what D needs the next time."""
        jobs = max(int(demand.able.sum()), 1)
        share = np.where(demand.rates > 0, demand.capacity / (jobs * demand.gpus[:, None]), 0.0)
        share /= np.maximum(share.sum(axis=1), 1.0)[:, None]
        rate = (demand.rates * share).sum(axis=1)
        alone = np.ones(len(left))
        counted: dict[int, tuple[float, float, float]] = {}
        done, least = view.jobs.work_done, 0.0
        if self.steps:
            unit = steps_per_unit(view)
            rate, left, done, least = rate * unit, left * unit, -left * unit, -np.inf
        for row, number in enumerate(view.jobs.number.astype(np.int64).tolist()):
            seconds, before, former = self._isolated.get(number, (0.0, 0.0, 0.0))
            if former > 0:
                seconds += max(float(done[row]) - before, least) / former
            counted[number] = (seconds, float(done[row]), float(rate[row]) or former)
            if rate[row] > 0:
                alone[row] = seconds + left[row] / rate[row]
        self._isolated = counted
        return alone


def rho(
    demand: Demand, fractions: Floats, age: FloatColumn, left: FloatColumn, alone: FloatColumn
) -> float:
    """The worst finish-time fairness that ``fractions`` lead to, of the jobs that can run."""
    rate = demand.throughput(fractions)
    seconds = np.divide(left, rate, out=np.full(len(left), np.inf), where=rate > 0)
    return float(((age + seconds) / alone)[demand.able].max())


def fairest(
    demand: Demand, age: FloatColumn, left: FloatColumn, alone: FloatColumn, seconds: float
) -> tuple[Floats, float]:
    """The fractions with the smallest worst rho, and the gap of the interval it is known to lie in."""
    able = demand.able
    fastest = np.where(able, demand.rates.max(axis=1), 1.0)
    low = float(((age + left / fastest) / alone)[able].max())
    best = demand.equal_split()
    high = rho(demand, best, age, left, alone)
    ask, nothing = able.astype(np.float64), np.zeros(len(able))
    for _ in range(_HALVINGS):
        if high - low <= _CLOSE * low:
            break
        middle = (low + high) / 2 if high < np.inf else 2 * low
        need = np.where(able, left / np.where(able, middle * alone - age, 1.0), 1.0)
        shared = raise_together(demand, 1.0 / need, ask, nothing, best, seconds)
        reached = rho(demand, shared.fractions, age, left, alone)
        if reached < high:
            best, high = shared.fractions, reached
        if shared.level * (1.0 + shared.gap) < 1.0:
            low = middle
        elif reached > middle * (1.0 + _CLOSE):  # the solver was late: neither is known
            break
    return best, max(high / low - 1.0, 0.0)


def centre(demand: Demand, floor: FloatColumn) -> FloatColumn:
    """The analytic centre of the fractions of at least ``floor`` on one GPU type, near which solvers end.

    It has the largest product of all distances: of fractions from their floors and from 1, of GPUs in use
    from all. At a price of a GPU each job takes the part u of its room with 1 / u - 1 / (1 - u) = its cost.
    """
    room = np.where(demand.able, 1.0 - floor, 0.0)
    spare = float(demand.capacity[0] - demand.gpus @ floor)
    low, high = 1e-9, 1e12
    part = np.zeros(len(room))
    for _ in range(_HALVINGS):
        price = float(np.sqrt(low * high))
        cost = price * demand.gpus * room
        part = 2.0 / (cost + 2.0 + np.sqrt(cost * cost + 4.0))
        if (spare - float(demand.gpus @ (room * part))) * price < 1.0:
            low = price
        else:
            high = price
    return floor + room * part
