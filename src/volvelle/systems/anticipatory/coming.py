"""Predictions of the load of each pool, and their accuracy (5.2 to 5.4).

At multiples of the shortest quantum the policy predicts, for each pool and quantum, whether jobs come; if so,
as many GPUs as came at most in a recent quantum. When a quantum is over, the outcome is counted by pool and
quantum, recent outcomes more, and becomes a sample for the next model.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
from volvelle.core.view import View
from volvelle.model.arrays import Floats, Ints
from volvelle.model.problems import Problem
from volvelle.policies.growth import count_up_to
from volvelle.systems.anticipatory.arrivals import ArrivalModel, QuantumSamples
from volvelle.systems.anticipatory.past import Past

_FORGETS = 0.98
"""The weight of an outcome once the next is known."""
_ENOUGH = 10.0
"""Outcomes, weighed so, from which recall and precision are judged."""


@dataclass
class LoadPredictions:
    """Predictions for the pools ``names`` over ``quanta``, seconds.

    windows: how many recent quanta count for the load. refit: seconds between trainings, 0: never.
    least_recall, least_precision: a prediction with less lends no GPUs.
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
    """Notices since the last decision."""
    due: float = -np.inf
    _counts: Floats = field(init=False)
    _made: Floats = field(init=False)
    _told: NDArray[np.bool_] = field(init=False)
    _first: NDArray[np.int64] = field(init=False)
    _many: NDArray[np.int64] = field(init=False)
    _features: list[list[Floats]] = field(init=False)
    _samples: QuantumSamples = field(init=False)
    _fitted: float = -np.inf
    _fitted_after: int = 0

    def __post_init__(self) -> None:
        if hasattr(self, "chances"):
            return
        shape = len(self.quanta), len(self.names)
        self.chances, self.load = np.ones(shape), np.full(shape, np.inf)
        self.off = np.zeros(shape, dtype=np.bool_)
        self._counts = np.zeros((3, *shape))
        room = int(self.quanta[-1] // self.quanta[0]) + 2
        self._made = np.zeros((shape[0], room))
        self._told = np.zeros((shape[0], room, shape[1]), dtype=np.bool_)
        self._first, self._many = (np.zeros(shape[0], dtype=np.int64) for _ in range(2))
        self._features = [[] for _ in self.quanta]
        self._samples = QuantumSamples.of(len(self.quanta))

    def see(self, now: float, notes: Floats) -> None:
        """Add arrivals and departures by their notes (`volvelle.systems.anticipatory.memory`)."""
        if self.past is None:
            self.past = Past.of(len(self.names), now)
            for pool, name in enumerate(self.names):
                if self.model is not None and name in self.model.earlier:
                    self.past.begin(pool, self.model.earlier[name], now)
            self._fitted = now
        if len(notes):
            self.past.take(notes)

    def predict(self, view: View, threshold: Floats | float) -> None:
        """Predict anew: jobs come where the chance is at least ``threshold``, by pool or for all."""
        assert self.past is not None
        step = float(self.quanta[0])
        self.due = (np.floor(view.now / step) + 1.0) * step
        self._judge(view.now)
        if self.refit and view.now >= self._fitted + self.refit:
            self._train(view.now)
        features = self._looked_at(view) if self.refit or self.model is not None else None
        self.chances, self.load = self.past.recent(view.now, self.quanta, self.windows)
        if self.model is not None and features is not None:
            self.chances = self.model.chances(features)
        if self.refit and features is not None:
            for at, kept in enumerate(self._features):
                kept.append(features[at])
        every = np.arange(len(self.quanta))
        last = (self._first + self._many) % self._made.shape[1]
        self._made[every, last], self._told[every, last] = view.now, self.chances >= threshold
        self._many += 1

    def _looked_at(self, view: View) -> Floats:
        assert self.past is not None
        running = view.jobs.running
        expected = view.jobs.seconds_to_end[running]
        return self.past.features(view.now, self.quanta, view.jobs.pool[running], expected)

    def _judge(self, now: float) -> None:
        """Judge predictions whose quantum is over."""
        assert self.past is not None
        if self.refit:
            self._sample(now)
        bad = judge(
            now,
            self.quanta,
            self.past.came,
            self.past.arrivals,
            self._made,
            self._told,
            self._first,
            self._many,
            self._counts,
            self.least_recall,
            self.least_precision,
        )
        if (bad == self.off).all():
            return
        hits, misses, alarms = self._counts
        for at, pool in np.argwhere(bad != self.off).tolist():
            known = f"work expected in pool {self.names[pool]} within {lasting(self.quanta[at])}"
            if bad[at, pool]:
                hit = hits[at, pool]
                recall = hit / max(hit + misses[at, pool], 1e-9)
                precision = hit / max(hit + alarms[at, pool], 1e-9)
                self.notices.append(
                    f"predictions of {known} do not hold (recall {recall:.2f}, precision "
                    f"{precision:.2f}): it lends nothing for so long"
                )
            else:
                self.notices.append(f"predictions of {known} hold again: it lends")
        self.off = bad

    def _sample(self, now: float) -> None:
        """Keep features of predictions whose quantum is over, with their outcomes, as samples."""
        assert self.past is not None
        for at, quantum in enumerate(self.quanta.tolist()):
            for place in range(int(self._many[at])):
                made = float(self._made[at, (self._first[at] + place) % self._made.shape[1]])
                if made + quantum > now:
                    break
                came = self.past.came_within(made, made + quantum) > 0
                self._samples.add(at, self._features[at].pop(0), came)

    def _train(self, now: float) -> None:
        """Fit a model to the samples, if jobs came since the last fit."""
        assert self.past is not None
        self._fitted = now
        came = int(self.past.arrivals.sum())
        if came == self._fitted_after or not all(self._samples.rows):
            return
        self._fitted_after = came
        self.model = ArrivalModel.train(self._samples, self.quanta.tolist())
        self.notices.append(f"trained on {came} arrivals in {len(self.names)} pools")


@compiled
def judge(
    now: float,
    quanta: Floats,
    came: Floats,
    arrivals: Ints,
    made: Floats,
    told: NDArray[np.bool_],
    first: Ints,
    many: Ints,
    counts: Floats,
    least_recall: float,
    least_precision: float,
) -> NDArray[np.bool_]:
    """Count outcomes of predictions whose quantum is over. Returns where they do not hold, (quanta, pools).

    came, arrivals: as in `Past`. made, told: when predictions were made, (quanta, room), and whether jobs
    were to come, (quanta, room, pools), rings of which ``many`` from ``first`` on are open. counts: hits,
    misses, false alarms, (3, quanta, pools).
    """
    bad = np.zeros(counts.shape[1:], dtype=np.bool_)
    for at in range(len(quanta)):
        while many[at] > 0 and made[at, first[at]] + quanta[at] <= now:
            begin = made[at, first[at]]
            for pool in range(len(arrivals)):
                last = count_up_to(came[pool], arrivals[pool], begin + quanta[at])
                comes = last > count_up_to(came[pool], last, begin)
                expected = told[at, first[at], pool]
                if comes or expected:
                    counts[:, at, pool] *= _FORGETS
                    counts[2 if not comes else 0 if expected else 1, at, pool] += 1.0
            first[at], many[at] = (first[at] + 1) % made.shape[1], many[at] - 1
        for pool in range(len(arrivals)):
            hits, misses, alarms = counts[:, at, pool]
            if hits + misses >= _ENOUGH and hits < least_recall * (hits + misses):
                bad[at, pool] = True
            if hits + alarms >= _ENOUGH and hits < least_precision * (hits + alarms):
                bad[at, pool] = True
    return bad


def read_model(path: str, quanta: tuple[float, ...]) -> ArrivalModel:
    """The model in a file. Raises `Problem` where the file has none for these ``quanta``."""
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
