"""What a pool will need soon, as far as its past tells: predictions, and whether they hold (5.2 to 5.4).

At multiples of the shortest quantum it is predicted, for each pool and quantum, whether jobs come; if so, as
many GPUs as came at most in a recent quantum. When a quantum is over it is known what came: that is counted
by pool and quantum, recent ones more, and becomes what the next model is trained on.
"""

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import GPUS, NUMBER, POOL, SUBMIT
from volvelle.core.compiled import compiled, kernel
from volvelle.core.view import FloatColumn, IntColumn, View
from volvelle.estimate.arrivals import ArrivalModel, QuantumSamples
from volvelle.estimate.past import Past
from volvelle.model.problems import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FORGETS = 0.98
"""What an outcome counts when the next is there."""
_ENOUGH = 10.0
"""Outcomes, weighed so, from which recall and precision are judged."""


@dataclass
class Waiting:
    """A prediction whose quantum is not over: when it was made, features, and whether jobs were to come."""

    time: float
    features: Floats
    predicted: NDArray[np.bool_]


@dataclass
class LoadPredictions:
    """Predictions for ``pools`` pools over ``quanta``, seconds; ``names`` for what is said of them.

    windows: how many recent quanta count for the load. refit: seconds between trainings on what was seen,
    0: never. least_recall, least_precision: below which nothing is lent on a prediction.
    """

    names: tuple[str, ...]
    quanta: Floats
    windows: int
    refit: float
    least_recall: float
    least_precision: float
    model: ArrivalModel | None = None
    past: Past | None = None
    chances: Floats = field(init=False)
    """How likely jobs come, (quanta, pools)."""
    load: Floats = field(init=False)
    """GPUs that come then, (quanta, pools)."""
    off: NDArray[np.bool_] = field(init=False)
    """Where predictions do not hold, (quanta, pools)."""
    notices: list[str] = field(default_factory=list)
    """What there is to say since this was last asked."""

    def __post_init__(self) -> None:
        shape = len(self.quanta), len(self.names)
        self.chances, self.load = np.ones(shape), np.full(shape, np.inf)
        self.off = np.zeros(shape, dtype=np.bool_)
        self._hits, self._misses, self._alarms = (np.zeros(shape) for _ in range(3))
        self._open: list[deque[Waiting]] = [deque() for _ in self.quanta]
        self._samples = QuantumSamples(len(self.quanta))
        self.due = self._fitted = -np.inf
        self._fitted_after = 0
        self._numbers, self._pools = np.zeros(0), np.zeros(0)

    def see(self, view: View) -> tuple[IntColumn, FloatColumn]:
        """Note who came and who left since the last look: rows of those, numbers of these."""
        matrix = view.jobs.matrix
        numbers, pools = matrix[NUMBER].copy(), matrix[POOL].copy()
        if self.past is None:
            self.past = Past(len(self.names), view.now)
            self._fitted = view.now
        came, gone = came_and_gone(self._numbers, numbers)
        for row in came.tolist():
            if pools[row] >= 0.0:
                self.past.arrive(int(pools[row]), matrix[SUBMIT, row], matrix[GPUS, row])
        for pool in self._pools[gone].tolist():
            if pool >= 0.0:
                self.past.end(int(pool), view.now)
        left = self._numbers[gone]
        self._numbers, self._pools = numbers, pools
        return came, left

    def predict(self, view: View, threshold: Floats | float) -> None:
        """Predict anew; jobs are to come where that is as likely as ``threshold``, by pool or for all."""
        assert self.past is not None
        step = float(self.quanta[0])
        self.due = (np.floor(view.now / step) + 1.0) * step
        self._judge(view.now)
        if self.refit and view.now >= self._fitted + self.refit:
            self._train(view.now)
        running = view.jobs.running
        expected = view.jobs.seconds_to_end[running]
        features = self.past.features(view.now, self.quanta, view.jobs.pool[running], expected)
        if self.model is None:
            self.chances = self.past.rates(view.now, self.quanta, self.windows)
        else:
            self.chances = self.model.chances(features)
        self.load = self.past.most_load(view.now, self.quanta, self.windows)
        for at, waiting in enumerate(self._open):
            waiting.append(Waiting(view.now, features[at], self.chances[at] >= threshold))

    def _judge(self, now: float) -> None:
        """See what came of predictions whose quantum is over."""
        assert self.past is not None
        for at, waiting in enumerate(self._open):
            while waiting and waiting[0].time + self.quanta[at] <= now:
                one = waiting.popleft()
                came = self.past.came_within(one.time, one.time + float(self.quanta[at])) > 0
                if self.refit:
                    self._samples.add(at, one.features, came)
                for counts, found in (
                    (self._hits, one.predicted & came),
                    (self._misses, ~one.predicted & came),
                    (self._alarms, one.predicted & ~came),
                ):
                    counts[at] = counts[at] * np.where(came | one.predicted, _FORGETS, 1.0) + found
        told, predicted = self._hits + self._misses, self._hits + self._alarms
        bad = (told >= _ENOUGH) & (self._hits < self.least_recall * told)
        bad |= (predicted >= _ENOUGH) & (self._hits < self.least_precision * predicted)
        for at, pool in np.argwhere(bad != self.off).tolist():
            known = f"work expected in pool {self.names[pool]} within {lasting(self.quanta[at])}"
            if bad[at, pool]:
                recall = self._hits[at, pool] / max(told[at, pool], 1e-9)
                precision = self._hits[at, pool] / max(predicted[at, pool], 1e-9)
                self.notices.append(
                    f"predictions of {known} do not hold (recall {recall:.2f}, precision "
                    f"{precision:.2f}): it lends nothing for so long"
                )
            else:
                self.notices.append(f"predictions of {known} hold again: it lends")
        self.off = bad

    def _train(self, now: float) -> None:
        """Fit a model to what was seen, if anything came since the last time."""
        assert self.past is not None
        self._fitted = now
        came = int(self.past.arrivals.sum())
        if came == self._fitted_after or not all(self._samples.rows):
            return
        self._fitted_after = came
        self.model = ArrivalModel.train(self._samples, self.quanta.tolist())
        self.notices.append(f"trained on {came} arrivals in {len(self.names)} pools")


@compiled
def came_and_gone(before: Floats, after: Floats) -> tuple[Ints, Ints]:
    """Where new jobs stand among those that are there ``after``, and where who left stood ``before``."""
    return not_in(after, before), not_in(before, after)


@kernel
def not_in(numbers: Floats, others: Floats) -> Ints:
    """Where the ``numbers`` stand that are not among the ``others``; both are distinct, in any order.

    Those in both mostly come in the same order: then it is one pass.
    """
    found = np.zeros(len(numbers), dtype=np.int64)
    count = at = 0
    for place in range(len(numbers)):
        looked = 0
        while looked < len(others) and others[(at + looked) % len(others)] != numbers[place]:
            looked += 1
        if looked == len(others):
            found[count] = place
            count += 1
        else:
            at += looked + 1
    return found[:count]


def read_model(path: str, quanta: tuple[float, ...]) -> ArrivalModel:
    """The model in a file. Raises `Problem` where there is none for these ``quanta``."""
    found = ArrivalModel.load(Path(path))
    if found.quanta != quanta:
        written = "/".join(lasting(each) for each in found.quanta)
        raise Problem(f"{path} is for quanta {written}", mend=f"write quanta={written}")
    return found


def lasting(seconds: float) -> str:
    """A duration in the largest unit that needs no fraction."""
    for size, unit in ((3600.0, "h"), (60.0, "m")):
        if seconds >= size and seconds % size == 0.0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
