"""Predictions of the load of each pool, and their accuracy (5.2 to 5.4).

At multiples of the shortest quantum the policy predicts, for each pool and quantum, whether jobs come; if so,
as many GPUs as came at most in a recent quantum. When a quantum is over, the outcome is counted by pool and
quantum, recent outcomes more, and becomes a sample for the next model.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from volvelle.core.compiled import compiled, kernel
from volvelle.core.view import View
from volvelle.model.arrays import Floats
from volvelle.model.problems import Problem
from volvelle.policies.growth import count_up_to
from volvelle.systems.anticipatory.arrivals import ArrivalModel, QuantumSamples
from volvelle.systems.anticipatory.memory import (
    ASK_AT,
    BY_MODEL,
    LEAST_PRECISION,
    LEAST_RECALL,
    PREDICTED,
    THRESHOLD,
    WINDOWS,
    Memory,
    Predictions,
    past_of,
    predictions_of,
    tables,
)
from volvelle.systems.anticipatory.past import Past, recent_loads

_FORGETS = 0.98
"""The weight of an outcome once the next is known."""
_ENOUGH = 10.0
"""Outcomes, weighed so, from which recall and precision are judged."""


@dataclass
class LoadPredictions:
    """Predictions for the pools ``names`` over ``quanta``, seconds, where Python predicts or gives notice.

    refit: seconds between trainings, 0: never. fitted: the last of these, or the beginning.
    """

    names: tuple[str, ...]
    quanta: Floats
    refit: float
    fitted: float
    model: ArrivalModel | None = None
    notices: list[str] = field(default_factory=list)
    """Notices since the last decision."""
    _features: list[list[Floats]] = field(init=False)
    _samples: QuantumSamples = field(init=False)
    _fitted_after: int = 0

    def __post_init__(self) -> None:
        if not hasattr(self, "_features"):
            self._features = [[] for _ in self.quanta]
            self._samples = QuantumSamples.of(len(self.quanta))

    def predict(self, view: View, memory: Memory) -> None:
        """Predict anew."""
        words, now, past, predictions = memory.words, view.now, memory.past, memory.predictions
        if self.refit:
            self._sample(now, past, predictions)
        self._tell(judge(words, now), predictions)
        if self.refit and now >= self.fitted + self.refit:
            self._train(now, int(past.arrivals.sum()))
        by_recent_loads(words, now)
        if self.refit or self.model is not None:
            running = view.jobs.running
            expected = view.jobs.seconds_to_end[running]
            features = past.features(now, self.quanta, view.jobs.pool[running], expected)
            if self.model is not None:
                predictions.chances[:] = self.model.chances(features)
            if self.refit:
                for kept, seen in zip(self._features, features, strict=True):
                    kept.append(seen)
        keep_open(words, now)

    def _tell(self, bad: Floats, predictions: Predictions) -> None:
        """Give notice of predictions that cease to hold, or hold again."""
        hits, misses, alarms = predictions.counts
        for at, pool in np.argwhere(bad != predictions.off).tolist():
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
        predictions.off[:] = bad

    def _sample(self, now: float, past: Past, predictions: Predictions) -> None:
        """Keep features of predictions whose quantum is over, with their outcomes, as samples."""
        for at, quantum in enumerate(self.quanta.tolist()):
            first, ring = int(predictions.first[at]), predictions.made[at]
            for place in range(int(predictions.many[at])):
                made = float(ring[(first + place) % len(ring)])
                if made + quantum > now:
                    break
                came = past.came_within(made, made + quantum) > 0
                self._samples.add(at, self._features[at].pop(0), came)

    def _train(self, now: float, came: int) -> None:
        """Fit a model to the samples, if jobs came since the last fit."""
        self.fitted = now
        if came == self._fitted_after or not all(self._samples.rows):
            return
        self._fitted_after = came
        self.model = ArrivalModel.train(self._samples, self.quanta.tolist())
        self.notices.append(f"trained on {came} arrivals in {len(self.names)} pools")


@kernel
def forecast(words: Floats, now: float) -> bool:
    """Predict anew by recent loads; whether that was done.

    Python predicts by a model, and where predictions cease to hold or hold again, since it gives notice.
    """
    if words[BY_MODEL] > 0.0 or (judge(words, now) != predictions_of(words).off).any():
        return False
    by_recent_loads(words, now)
    keep_open(words, now)
    tables(words).expected[:] = expected_load(words)
    return True


@compiled
def by_recent_loads(words: Floats, now: float) -> None:
    """Predict that jobs come as often, and as many GPUs at most, as in the recent quanta."""
    predictions, quanta = predictions_of(words), tables(words).quanta[: int(words[PREDICTED])]
    words[ASK_AT] = (np.floor(now / quanta[0]) + 1.0) * quanta[0]
    rates, most = recent_loads(past_of(words), now, quanta, int(words[WINDOWS]))
    predictions.chances[:], predictions.load[:] = rates, most


@compiled
def keep_open(words: Floats, now: float) -> None:
    """Keep what is predicted until its quantum is over."""
    predictions, threshold = predictions_of(words), tables(words).by_pool[THRESHOLD]
    chances, made, told = predictions.chances, predictions.made, predictions.told
    first, many = predictions.first, predictions.many
    for at in range(len(made)):
        last = int(first[at] + many[at]) % made.shape[1]
        made[at, last] = now
        for pool in range(chances.shape[1]):
            told[at, last, pool] = 1.0 if chances[at, pool] >= threshold[pool] else 0.0
        many[at] += 1.0


@compiled
def expected_load(words: Floats) -> Floats:
    """GPUs that are predicted to come, (quanta, pools); infinite where predictions do not hold."""
    predictions, threshold = predictions_of(words), tables(words).by_pool[THRESHOLD]
    found = np.zeros(predictions.off.shape)
    for at in range(len(predictions.off)):
        for pool in range(predictions.off.shape[1]):
            if predictions.off[at, pool] > 0.0:
                found[at, pool] = np.inf
            elif predictions.chances[at, pool] >= threshold[pool]:
                found[at, pool] = predictions.load[at, pool]
    return found


@compiled
def judge(words: Floats, now: float) -> Floats:
    """Count outcomes of predictions that are over. Returns 1 where they do not hold, (quanta, pools)."""
    past, predictions, quanta = past_of(words), predictions_of(words), tables(words).quanta
    counts, made, told = predictions.counts, predictions.made, predictions.told
    first, many, bad = predictions.first, predictions.many, np.zeros(predictions.off.shape)
    least_recall, least_precision = words[LEAST_RECALL], words[LEAST_PRECISION]
    for at in range(len(made)):
        while many[at] > 0.0 and made[at, int(first[at])] + quanta[at] <= now:
            oldest = int(first[at])
            begin = made[at, oldest]
            for pool in range(len(past.arrivals)):
                last = count_up_to(past.came[pool], int(past.arrivals[pool]), begin + quanta[at])
                comes = last > count_up_to(past.came[pool], last, begin)
                expected = told[at, oldest, pool] > 0.0
                if comes or expected:
                    counts[:, at, pool] *= _FORGETS
                    counts[2 if not comes else 0 if expected else 1, at, pool] += 1.0
            first[at], many[at] = (oldest + 1) % made.shape[1], many[at] - 1.0
        for pool in range(len(past.arrivals)):
            hits, misses, alarms = counts[:, at, pool]
            if hits + misses >= _ENOUGH and hits < least_recall * (hits + misses):
                bad[at, pool] = 1.0
            if hits + alarms >= _ENOUGH and hits < least_precision * (hits + alarms):
                bad[at, pool] = 1.0
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
