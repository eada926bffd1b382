"""Finish-time fairness of Gavel (OSDI'20), after the metric of Themis (NSDI'20).

    minimise  max over jobs i of  (age(i) + R(i) / (sum over t of T(i, t) X(i, t))) / (D(i) + R(i) / F(i))

R is what is left of a job, F its rate on an isolated n-th of the cluster (GPUs(t) / (n gpus(i)) of its
time on each type, scaled down to 1 in all), D the seconds that what it has done would have taken there,
added up from one allocation to the next, each part at the F of its time. Weights do not count.

A value rho is within reach where X gives every job the rate R / (rho (D + R / F) - age), which is a linear
program; the smallest is found by halving the interval between what no X can beat and the best X so far, down
to 0.1 %. (Gavel's simulator solves the convex program.) The gap is that of the interval.
"""

from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.systems.gavel.base import GavelProgram
from volvelle.systems.gavel.demand import Demand, raise_together

_CLOSE = 1e-3
"""The interval of rho is narrow enough when it is this share of its lower end."""

_HALVINGS = 60
"""The most programs solved for one allocation."""

_DONE = 1e-9
"""Work left of a job that is believed to be about to end."""


@policies.register
class GavelFinishTime(GavelProgram):
    """Finish-time fairness: nobody ends much later than on an n-th of the cluster."""

    name: ClassVar[str] = "gavel-ftf"
    source: ClassVar[str] = "Gavel (OSDI'20), after Themis (NSDI'20)"
    optimises: ClassVar[str] = "finish-time fairness, over GPU types"

    _isolated: dict[int, tuple[float, float, float]] = PrivateAttr(default_factory=dict)
    """By job: seconds on an n-th of the cluster so far; work done and F when last counted."""

    def fractions(self, view: View, demand: Demand) -> Floats:
        """The fairest fractions, as far as programs find them."""
        left = np.maximum(view.jobs.remaining_work, _DONE)
        age = view.now - view.jobs.submit_time
        alone = self._alone(view, demand, left)
        best, gap = fairest(demand, age, left, alone, self.time_limit)
        self._gaps.note(gap)
        return best

    def _alone(self, view: View, demand: Demand, left: FloatColumn) -> FloatColumn:
        """D + R / F for each job, and take note of what D needs the next time."""
        jobs = max(int(demand.able.sum()), 1)
        share = np.where(demand.rates > 0, demand.capacity / (jobs * demand.gpus[:, None]), 0.0)
        share /= np.maximum(share.sum(axis=1), 1.0)[:, None]
        rate = (demand.rates * share).sum(axis=1)
        alone = np.ones(len(left))
        counted: dict[int, tuple[float, float, float]] = {}
        done = view.jobs.work_done
        for row, number in enumerate(view.jobs.number.astype(np.int64).tolist()):
            seconds, before, former = self._isolated.get(number, (0.0, 0.0, 0.0))
            if former > 0:
                seconds += max(float(done[row]) - before, 0.0) / former
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
