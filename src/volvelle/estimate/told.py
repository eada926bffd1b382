"""P50 and P90 of a predicted time, calibrated by the state that can be observed when they are told.

The class knows of no scheduler. One `ToldTimes` calibrates one kind of event (starts, or finishes)::

    told = ToldTimes()
    times = told.tell(job, now, observed, predicted_seconds)    # P50, P90: seconds from now on
    told.foresee({job: expected, ...})                          # present expectations of open jobs
    told.came(job, later)                                       # or told.withdraw(job)

- Quantiles are those of the scores log(took / predicted) of the `_NEAREST` earlier tellings that were most
  alike in `Observed` and in predicted time over believed service (`volvelle.estimate.likeness`).
- A correction is added, in distances from P50 to P90: one term for all jobs, and one for each class of
  observable state to which the job belongs. A miss raises the terms of its classes, a hit lowers them, so
  that each class approaches its share: adaptive conformal inference (Gibbs and Candes, 2021) with one
  indicator for each class. Terms decay by `_DECAY` at each step.
- Open jobs are censored. Their present expectation is a provisional outcome, that counts for the square root
  of the part of the expected time that has passed, until the outcome is known or the told time has passed.
  So the correction does not lag by the length of the queue.
- Until `_LEAST` events have come the scores include assumed ones, and the times are marked as ``prior``.

The constants were chosen on parts of four Philly traces, by scripts that are not kept (decision 69).
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from volvelle.core.view import BoolColumn, FloatColumn, IntColumn
from volvelle.estimate.likeness import Observed, Past
from volvelle.model.tolerances import SAME_MOMENT

Key = TypeVar("Key", bound=Hashable)

SHARES = (0.5, 0.9)
"""Shares of jobs that are to keep their P50 and their P90."""

STATE_CLASSES: Mapping[str, tuple[float, ...]] = {
    "load": (4.0, 16.0, 64.0, 256.0),
    "arrivals": (1.0, 4.0, 16.0, 64.0, 256.0),
    "service": (300.0, 3600.0, 8 * 3600.0, 64 * 3600.0),
    "width": (1.0, 2.0, 4.0, 8.0),
}
"""Classes of observable state: upper bounds of each attribute, in jobs, seconds or GPUs; the last is open."""


def state_classes(observed: Observed) -> tuple[int, ...]:
    """The number of the job's class in each attribute of `STATE_CLASSES`."""
    values = observed.load, observed.arrivals, observed.service, observed.width
    bounds = zip(STATE_CLASSES.values(), values, strict=True)
    return tuple(bisect_left(upper, value) for upper, value in bounds)


class Told(NamedTuple):
    """P50 and P90 in seconds from the moment of telling. prior: assumptions are part of them."""

    p50: float
    p90: float
    prior: bool


_STEP = 0.1
"""Distances from P50 to P90 by which a miss moves a term, times the share; `_FURTHEST`: their largest sum."""
_FURTHEST = 2.5
_DECAY = 0.005
_LEAST = 20
_LEAST_SPREAD = 0.005
"""Least distance from P50 to P90, as a logarithm."""
_LEAST_SECONDS = 1e-3
_SAME_SCORE = 1e-9
_APART = 1.25
"""Tellings of a job that waits on are learned from when its wait has grown by this factor."""
_KINDS = 3
"""The most classes by name that an `Observed` has."""
_TERMS = 1 + len(STATE_CLASSES) + _KINDS
_ASSUMED = (
    *(-1.2, -0.8, -0.6, -0.4, -0.3, -0.2, -0.1, 0.0, 0.0, 0.0, 0.0),
    *(0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 2.1),
)
"""Scores before any is known: one half by the prediction, nine of ten by three to four times that."""


class _Answer(NamedTuple):
    """Times told, with the scores before the correction, their spread, and the classes."""

    told: Told
    base: FloatColumn
    spread: float
    terms: IntColumn
    kinds: IntColumn


class _Open:
    """Tellings whose event has not come: columns by slot; unused slots are not ``waits``."""

    def __init__(self, slots: int) -> None:
        self.waits: BoolColumn = np.zeros(slots, dtype=np.bool_)
        self.judged: BoolColumn = np.zeros((len(SHARES), slots), dtype=np.bool_)
        self.bound, self.base = np.zeros((2, len(SHARES), slots))
        """Told times on the clock, and quantiles of scores before the correction."""
        self.moment, self.raw, self.spread, self.expected = np.zeros((4, slots))
        """The moment of telling, seconds predicted, distance from P50 to P90, event as expected now."""
        self.terms: IntColumn = np.zeros((_TERMS, slots), dtype=np.int64)
        self.features: FloatColumn = np.zeros((Past.features, slots))
        self.kinds: IntColumn = np.zeros((_KINDS, slots), dtype=np.int64)
        self.free = list(range(slots - 1, -1, -1))

    def grown(self) -> "_Open":
        """The same with twice the slots."""
        old, more = len(self.waits), _Open(2 * len(self.waits))
        for name, column in vars(self).items():
            if name != "free":
                getattr(more, name)[..., :old] = column
        more.free = list(range(2 * old - 1, old - 1, -1))
        return more


class ToldTimes(Generic[Key]):
    """Tells P50 and P90 of jobs, and learns from what becomes of them. Times are seconds on one clock.

    offset_seconds: added to predicted and actual seconds when they are compared, so that an event which is
    expected at once has quantiles too: 0 for finishes, the time that is as good as at once for starts.
    """

    def __init__(self, *, offset_seconds: float = 0.0) -> None:
        self._offset = offset_seconds
        self._past = Past(_KINDS)
        self._open = _Open(64)
        self._slots: defaultdict[Key, list[int]] = defaultdict(list)
        self._names: dict[Hashable, int] = {}
        self._learned, self._provisional = np.zeros((2, len(SHARES), 64))
        """Corrections by quantile and term: from outcomes, and from expectations. Term 0 is no term."""
        self._now = -math.inf
        self._came = 0

    def __contains__(self, key: object) -> bool:
        """Whether times were told of the job and its event has not come."""
        return key in self._slots

    @property
    def prior(self) -> bool:
        """Whether fewer than `_LEAST` events have come."""
        return self._came < _LEAST

    def ask(
        self,
        now: float,
        observed: Observed,
        predicted_seconds: float,
        limit_seconds: float | None = None,
    ) -> Told:
        """Quantiles for a job that is not noted. limit_seconds: a declared limit of its run time.

        While times are prior, P90 is no earlier than a run to the limit.
        """
        self._pass_time(now)
        return self._ask(observed, predicted_seconds, limit_seconds).told

    def tell(
        self,
        key: Key,
        now: float,
        observed: Observed,
        predicted_seconds: float,
        limit_seconds: float | None = None,
    ) -> Told:
        """Quantiles for a job of which more will be heard.

        Of a job that was told before, the scores of its last telling hold on, until its kinds change or its
        wait has grown by `_APART`.
        """
        self._pass_time(now)
        slots = self._slots.get(key)
        if slots is not None:
            self._open.expected[slots] = now + predicted_seconds
            if not self._due(slots, now, observed):
                p50, p90 = self.again([key], np.array([predicted_seconds]))
                return Told(float(p50[0]), float(p90[0]), self.prior)
        answer = self._ask(observed, predicted_seconds, limit_seconds)
        self._note(key, now, observed, predicted_seconds, answer)
        return answer.told

    def again(
        self, keys: Iterable[Key], predicted_seconds: FloatColumn
    ) -> tuple[FloatColumn, FloatColumn]:
        """P50 and P90 of jobs that were told before, as of then: by the scores of their last telling."""
        o, slots = self._open, [self._slots[key][-1] for key in keys]
        raw = np.maximum(predicted_seconds + self._offset, _LEAST_SECONDS)
        scores = o.base[:, slots] + self._corrections(o.terms[:, slots]) * o.spread[slots]
        p50, p90 = np.maximum(raw * np.exp(scores) - self._offset, 0.0)
        return p50, np.maximum(p50, p90)

    def foresee(self, expected: Mapping[Key, float]) -> None:
        """Take these times as those at which the events of open jobs are expected now."""
        for key, time in expected.items():
            if (slots := self._slots.get(key)) is not None:
                self._open.expected[slots] = time
        self._now = -math.inf

    def came(self, key: Key, now: float) -> None:
        """Learn from an event."""
        for slot in self._slots.pop(key, ()):
            if self._open.moment[slot] <= now + SAME_MOMENT:
                self._learn(slot, now)
            self._let_go(slot)
        self._came += 1

    def withdraw(self, key: Key | None = None) -> None:
        """Forget a job, or all, whose event will not come; misses so far have counted."""
        gone = [key] if key is not None else list(self._slots)
        for each in gone:
            for slot in self._slots.pop(each, ()):
                self._let_go(slot)

    def share_within(
        self, observed: Observed, predicted_seconds: float, seconds: float
    ) -> float | None:
        """The share of jobs like one that take ``seconds`` at most; None before enough events."""
        if self.prior:
            return None
        raw = self._raw(predicted_seconds)
        scores = self._past.nearest(observed, raw, self._kinds(observed))
        return float(np.mean(scores <= math.log(self._raw(seconds) / raw)))

    # ------------------------------------------------------------------ quantiles

    def _raw(self, seconds: float) -> float:
        return max(seconds + self._offset, _LEAST_SECONDS)

    def _ask(
        self, observed: Observed, predicted_seconds: float, limit_seconds: float | None
    ) -> _Answer:
        kinds, raw = self._kinds(observed), self._raw(predicted_seconds)
        scores = self._past.nearest(observed, raw, kinds)
        if len(scores) < _LEAST:
            scores = np.concatenate([scores, _ASSUMED])
        ranks = [min(math.ceil((len(scores) + 1) * share), len(scores)) - 1 for share in SHARES]
        base = np.partition(scores, ranks)[ranks]
        spread = max(float(base[-1] - base[0]), _LEAST_SPREAD)
        terms = self._terms(observed, kinds)
        p50, p90 = self._seconds(raw, base, spread, terms)
        if self.prior and limit_seconds is not None:
            p90 = max(p90, predicted_seconds - observed.service + limit_seconds)
        return _Answer(Told(p50, p90, self.prior), base, spread, terms, kinds)

    def _seconds(
        self, raw: float, base: FloatColumn, spread: float, terms: IntColumn
    ) -> tuple[float, float]:
        scores = base + self._corrections(terms) * spread
        p50, p90 = (max(raw * math.exp(score) - self._offset, 0.0) for score in scores.tolist())
        return p50, max(p50, p90)

    # ------------------------------------------------------------------ open tellings

    def _due(self, slots: list[int], now: float, observed: Observed) -> bool:
        """Whether this telling of a job that was told before is to be learned from too."""
        o, last = self._open, slots[-1]
        if np.any(o.kinds[:, last] != self._kinds(observed)):
            return True
        waited = float(o.moment[last] - o.moment[slots[0]]) + max(self._offset, _LEAST_SECONDS)
        return bool(now - o.moment[last] >= (_APART - 1.0) * waited) and self._offset > 0.0

    def _note(
        self, key: Key, now: float, observed: Observed, predicted_seconds: float, answer: _Answer
    ) -> None:
        if not self._open.free:
            self._open = self._open.grown()
        o, slot = self._open, self._open.free.pop()
        self._slots[key].append(slot)
        raw = self._raw(predicted_seconds)
        o.waits[slot], o.judged[:, slot] = True, False
        o.moment[slot], o.raw[slot], o.expected[slot] = now, raw, now + predicted_seconds
        o.bound[:, slot] = now + answer.told.p50, now + answer.told.p90
        o.base[:, slot], o.spread[slot] = answer.base, answer.spread
        o.terms[:, slot], o.kinds[:, slot] = answer.terms, answer.kinds
        o.features[:, slot] = Past.described(observed, raw)

    def _let_go(self, slot: int) -> None:
        self._open.waits[slot] = False
        self._open.free.append(slot)
        self._now = -math.inf

    def _learn(self, slot: int, now: float) -> None:
        """A hit counts only if the present correction keeps it too, as ends may be known late."""
        o = self._open
        took = now - float(o.moment[slot])
        score = math.log(self._raw(took) / float(o.raw[slot]))
        present = o.base[:, slot] + self._corrections(o.terms[:, slot]) * o.spread[slot]
        for which in range(len(SHARES)):
            if not o.judged[which, slot]:
                held = _held(which, score, float(present[which]), _SAME_SCORE)
                if which:
                    held = min(held, _held(which, now, float(o.bound[which, slot]), SAME_MOMENT))
                self._step(which, o.terms[:, slot], held)
        self._past.add(o.features[:, slot], o.kinds[:, slot], score)

    # ------------------------------------------------------------------ corrections

    def _kinds(self, observed: Observed) -> IntColumn:
        found = [self._term(kind) for kind in observed.kinds[:_KINDS]]
        return np.array(found + [0] * (_KINDS - len(found)))

    def _terms(self, observed: Observed, kinds: IntColumn) -> IntColumn:
        """The terms of a job's correction: of all jobs, and of each class to which it belongs."""
        numbered: Iterable[Hashable] = zip(STATE_CLASSES, state_classes(observed), strict=True)
        found = [self._term(name) for name in ("all", *numbered)]
        return np.concatenate([found, kinds])

    def _term(self, name: Hashable) -> int:
        found = self._names.setdefault(name, 1 + len(self._names))
        if found == self._learned.shape[1]:
            self._learned = np.pad(self._learned, ((0, 0), (0, found)))
            self._provisional = np.pad(self._provisional, ((0, 0), (0, found)))
        return found

    def _corrections(self, terms: IntColumn) -> FloatColumn:
        both = self._learned[:, terms] + self._provisional[:, terms]
        total: FloatColumn = both.sum(axis=1)
        return np.clip(total, -_FURTHEST, _FURTHEST)

    def _step(self, which: int, terms: IntColumn, held: float) -> None:
        self._learned[which, terms] *= 1.0 - _DECAY
        self._learned[which, terms] += _STEP * (SHARES[which] - held)
        self._learned[which, 0] = 0.0

    def _pass_time(self, now: float) -> None:
        """Count what is known of open tellings: those whose time has passed, and what is expected."""
        if now <= self._now:
            return
        self._now = now
        o = self._open
        for which, bound in enumerate(o.bound):
            late = o.waits & ~o.judged[which] & (bound < now - SAME_MOMENT)
            for slot in sorted(late.nonzero()[0].tolist(), key=bound.__getitem__):
                o.judged[which, slot] = True
                self._step(which, o.terms[:, slot], 0.0)
        self._expect(now)

    def _expect(self, now: float) -> None:
        """Provisional corrections: open tellings as judged by what is expected of them."""
        o = self._open
        takes = np.maximum(o.expected, now) - o.moment
        passed = np.sqrt(np.clip((now - o.moment) / np.maximum(takes, _LEAST_SECONDS), 0.0, 1.0))
        for which, share in enumerate(SHARES):
            late = o.moment + takes - o.bound[which]
            held = np.where(np.abs(late) <= SAME_MOMENT, (0.5, 1.0)[which], late < 0.0)
            known = o.waits & ~o.judged[which]
            steps = np.where(known, _STEP * (share - held) * passed, 0.0)
            size = self._provisional.shape[1]
            whole = np.bincount(o.terms.ravel(), np.tile(steps, _TERMS), size)
            whole[0] = 0.0
            self._provisional[which] = whole


def _held(which: int, value: float, bound: float, same: float) -> float:
    """1 where ``value`` is below its bound, 0 where above; at the bound one half for P50, 1 for P90."""
    if abs(value - bound) <= same:
        return 0.5 if which == 0 else 1.0
    return float(value < bound)
