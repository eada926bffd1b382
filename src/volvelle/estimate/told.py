"""P50 and P90 of a time that is predicted at submission, calibrated by what can be observed then.

Nothing here knows of a scheduler. A caller predicts one time of a job (its finish, or its start), says what
could be observed of the job and the cluster at submission, and later what came. One `ToldTimes` calibrates
one kind of time::

    told = ToldTimes()
    for one in history:                       # oldest first: submissions and ends in order of time
        told.submit(one.id, now, observed, predicted_seconds)
        told.finish(one.id, later)            # or told.withdraw(one.id): over without a result
    times = told.ask(Observed(load=41, arrivals=12, service=3600.0, width=4), predicted_seconds)
    times.p50, times.p90                      # seconds from the submission on
    times.prior                               # True: from assumptions, as too few jobs have ended
    msgspec.json.encode(told.memory())        # saved; ToldTimes(memory) goes on from there

A job that was submitted and has not ended is censored: its age counts once it exceeds what was told.

The quantiles of a job are those of log(took / predicted) of the `_NEAREST` ended jobs that were most alike
in state at submission: each attribute of `Observed`, and predicted time over believed service, as ranks
among the jobs that are known. A correction is added, a multiple of the distance from P50 to P90: a sum of
one term for all jobs and one for each class of observable state to which the job belongs (`STATE_CLASSES`).
Each term is stepped against the misses of its class, so that in the long run every class has its share
(online gradient descent on the pinball loss with one indicator for each class; Gibbs and Candes, 2021, for
one class). A miss counts as soon as the time told has passed; a hit counts only if the present correction
keeps it too, so that ends that are reported late do not lower what is told now.
"""

import math
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from volvelle.core.view import FloatColumn
from volvelle.model.tolerances import SAME_MOMENT

Key = TypeVar("Key", bound=Hashable)

SHARES = (0.5, 0.9)
"""Shares of jobs that are to keep their P50 and their P90."""

ARRIVALS_SECONDS = 1800.0
"""Time before a submission whose arrivals are counted."""


class Observed(NamedTuple):
    """Attributes of a job and of the cluster that are known when the job is submitted.

    load: jobs in the system, the job included. arrivals: jobs submitted in the last `ARRIVALS_SECONDS`, the
    job included. service: seconds that the job is believed to run on the GPUs that it asks for. width: GPUs
    asked for. kind: number of its class (queue, pool or deadline class); 0 where there is one class only.
    """

    load: float
    arrivals: float
    service: float
    width: float
    kind: int = 0


class Told(NamedTuple):
    """P50 and P90 in seconds from the submission on. prior: whether too few jobs have ended to say so."""

    p50: float
    p90: float
    prior: bool


STATE_CLASSES: dict[str, tuple[float, ...]] = {
    "load": (4.0, 16.0, 64.0, 256.0),
    "arrivals": (1.0, 4.0, 16.0, 64.0, 256.0),
    "service": (300.0, 3600.0, 8 * 3600.0, 64 * 3600.0),
    "width": (1.0, 2.0, 4.0, 8.0),
}
"""Classes of observable state: upper bounds of each attribute, in jobs, seconds or GPUs; the last is open."""

_NEAREST = 150
_WINDOW = 2000
"""Ended jobs that are remembered, and those of them whose scores tell of a job."""
_LEAST = 20
"""Ended jobs before times are not told from the prior any more."""
_STEP = 0.1
_FURTHEST = 4.0
"""Steps of corrections, and the largest sum of them; in distances from P50 to P90."""
_LEAST_SPREAD = 0.005
"""Least distance from P50 to P90, as a logarithm."""
_PRIOR_SCORES = (
    *(-1.2, -0.8, -0.6, -0.4, -0.3, -0.2, -0.1, 0.0, 0.0, 0.0, 0.0),
    *(0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 2.1),
)
"""Assumed scores where none is known: one half by the prediction, nine of ten by three to four times that."""


def state_classes(observed: Observed) -> tuple[int, ...]:
    """The number of the job's class in each attribute of `STATE_CLASSES`."""
    found = zip(STATE_CLASSES.values(), observed, strict=False)
    return tuple(bisect_left(bounds, value) for bounds, value in found)


class Memory(msgspec.Struct, frozen=True):
    """The memory of a `ToldTimes`: plain numbers, to be saved.

    features, scores: of ended jobs, the oldest first. corrections: by quantile, ``[name, class, value]``.
    ended: how many jobs have ended in all; 0 where the memory is another cluster's and serves as a prior.
    """

    features: list[list[float]] = []
    scores: list[float] = []
    corrections: list[list[tuple[str, int, float]]] = []
    ended: int = 0


@dataclass
class _Open:
    submitted: float
    predicted: float
    features: tuple[float, ...]
    classes: tuple[tuple[str, int], ...]
    base: Sequence[float]
    spread: float
    told: Told
    judged: set[int]


class ToldTimes(Generic[Key]):
    """Tells P50 and P90 of jobs, and learns from what becomes of them. Times are seconds on one clock.

    memory: of an earlier run, or of another cluster. offset_seconds: added to predicted and actual times when
    they are compared: 0 for finishes; for starts, which may be predicted at once, a time that is as good as
    at once (60 s).
    """

    def __init__(self, memory: Memory | None = None, *, offset_seconds: float = 0.0) -> None:
        self._offset = offset_seconds
        self._features: FloatColumn = np.empty((_FEATURES, _WINDOW))
        self._scores: FloatColumn = np.empty(_WINDOW)
        self._known = self._ended = 0
        self._corrections: list[dict[tuple[str, int], float]] = [{} for _ in SHARES]
        self._open: dict[Key, _Open] = {}
        self._bounds: list[tuple[float, int, Key, int]] = []
        self._told_bounds = 0
        if memory is not None:
            for features, score in zip(memory.features, memory.scores, strict=True):
                self._remember(features, score)
            self._ended = memory.ended
            for known, saved in zip(self._corrections, memory.corrections, strict=False):
                known.update({(name, which): value for name, which, value in saved})

    def __contains__(self, key: object) -> bool:
        """Whether the job was submitted and has neither ended nor been withdrawn."""
        return key in self._open

    @property
    def prior(self) -> bool:
        """Whether fewer than `_LEAST` jobs have ended."""
        return self._ended < _LEAST

    def memory(self) -> Memory:
        """The lessons of ended jobs; open jobs are not part of them."""
        count = min(self._known, _WINDOW)
        order = (np.arange(count) + max(self._known - _WINDOW, 0)) % _WINDOW
        return Memory(
            self._features[:, order].T.tolist(),
            self._scores[order].tolist(),
            [[(*where, value) for where, value in one.items()] for one in self._corrections],
            self._ended,
        )

    def ask(
        self, observed: Observed, predicted_seconds: float, *, limit_seconds: float | None = None
    ) -> Told:
        """Quantiles for a job, which is not noted. limit_seconds: a declared limit of its run time.

        While times are told from the prior, P90 is no earlier than a run to the limit.
        """
        return self._tell(observed, predicted_seconds, limit_seconds)[0]

    def submit(
        self,
        key: Key,
        now: float,
        observed: Observed,
        predicted_seconds: float,
        *,
        limit_seconds: float | None = None,
    ) -> Told:
        """Tell the quantiles of a job that is submitted ``now``, and note it."""
        self.pass_time(now)
        told, base, spread = self._tell(observed, predicted_seconds, limit_seconds)
        classes = _terms(observed)
        features = _features(observed, self._raw(predicted_seconds))
        self._open[key] = _Open(
            now, predicted_seconds, features, classes, base, spread, told, set()
        )
        for which, seconds in enumerate(told[: len(SHARES)]):
            self._told_bounds += 1
            heappush(self._bounds, (now + seconds, self._told_bounds, key, which))
        return told

    def finish(self, key: Key, now: float) -> None:
        """Learn from a job that came to the predicted event ``now``."""
        self.pass_time(now)
        job = self._open.pop(key)
        took = now - job.submitted
        score = math.log(max(took + self._offset, _LEAST_SECONDS) / self._raw(job.predicted))
        for which, seconds in enumerate(job.told[: len(SHARES)]):
            if which not in job.judged:
                now_told = job.base[which] + self._correction(which, job.classes) * job.spread
                held = _held(which, score, now_told, _SAME_SCORE)
                if which:
                    held = min(held, _held(which, took, seconds, SAME_MOMENT))
                self._step(which, job.classes, held)
        self._remember(job.features, score)
        self._ended += 1

    def withdraw(self, key: Key) -> None:
        """Forget a job that will never come to the predicted event; its misses so far have counted."""
        del self._open[key]

    def pass_time(self, now: float) -> None:
        """Count the misses of open jobs whose told times are before ``now``."""
        while self._bounds and self._bounds[0][0] < now - SAME_MOMENT:
            at, _, key, which = heappop(self._bounds)
            job = self._open.get(key)
            if (
                job is not None
                and which not in job.judged
                and job.submitted + job.told[which] == at
            ):
                job.judged.add(which)
                self._step(which, job.classes, 0.0)

    # ------------------------------------------------------------------ quantiles

    def _raw(self, predicted_seconds: float) -> float:
        return max(predicted_seconds + self._offset, _LEAST_SECONDS)

    def _tell(
        self, observed: Observed, predicted_seconds: float, limit_seconds: float | None
    ) -> tuple[Told, Sequence[float], float]:
        """The quantiles, those of the scores before the correction, and their spread."""
        raw = self._raw(predicted_seconds)
        scores = self._nearest(np.array(_features(observed, raw)))
        if len(scores) < _LEAST:
            scores = np.concatenate([scores, _PRIOR_SCORES])
        ranks = [min(math.ceil((len(scores) + 1) * share), len(scores)) - 1 for share in SHARES]
        sorted_scores = np.partition(scores, ranks)
        base = [float(sorted_scores[rank]) for rank in ranks]
        spread = max(base[-1] - base[0], _LEAST_SPREAD)
        classes = _terms(observed)
        p50, p90 = (
            max(raw * math.exp(base[which] + self._correction(which, classes) * spread), 0.0)
            - self._offset
            for which in range(len(SHARES))
        )
        if self.prior and limit_seconds is not None:
            p90 = max(p90, predicted_seconds - observed.service + limit_seconds)
        p50 = max(p50, 0.0)
        return Told(p50, max(p50, p90), self.prior), base, spread

    def _nearest(self, features: FloatColumn) -> FloatColumn:
        """Scores of the ended jobs that were most alike at submission, the latest of equals."""
        count = min(self._known, _WINDOW)
        if count <= _NEAREST:
            return self._scores[:count]
        age = (self._known - 1 - np.arange(count)) % _WINDOW
        distance = age / _WINDOW  # of equally near ones the latest
        for known, value in zip(self._features[:, :count], features, strict=True):
            order = np.sort(known)
            ranks = np.searchsorted(order, known) + np.searchsorted(order, known, "right")
            rank = np.searchsorted(order, value) + np.searchsorted(order, value, "right")
            distance += (ranks - float(rank)) ** 2
        return self._scores[np.argpartition(distance, _NEAREST - 1)[:_NEAREST]]

    def _remember(self, features: Sequence[float], score: float) -> None:
        at = self._known % _WINDOW
        self._features[:, at] = features
        self._scores[at] = score
        self._known += 1

    # ------------------------------------------------------------------ corrections

    def _correction(self, which: int, classes: tuple[tuple[str, int], ...]) -> float:
        terms = self._corrections[which]
        total = sum(terms.get(one, 0.0) for one in classes)
        return min(max(total, -_FURTHEST), _FURTHEST)

    def _step(self, which: int, classes: tuple[tuple[str, int], ...], held: float) -> None:
        terms = self._corrections[which]
        for one in classes:
            terms[one] = terms.get(one, 0.0) + _STEP * (SHARES[which] - held)


_FEATURES = 6
_LEAST_SECONDS = 1e-3
_SAME_SCORE = 1e-9


def _features(observed: Observed, raw_seconds: float) -> tuple[float, ...]:
    return (*map(float, observed), raw_seconds / max(observed.service, _LEAST_SECONDS))


def _terms(observed: Observed) -> tuple[tuple[str, int], ...]:
    """The terms of a job's correction: of all jobs, and of each class to which it belongs."""
    own = zip(STATE_CLASSES, state_classes(observed), strict=True)
    return ("all", 0), *own, ("kind", observed.kind)


def _held(which: int, value: float, bound: float, same: float) -> float:
    """1 where ``value`` is below its bound, 0 where above; at the bound one half for P50, 1 for P90."""
    if abs(value - bound) <= same:
        return 0.5 if which == 0 else 1.0
    return float(value < bound)
