"""P50 and P90 of a predicted time, calibrated by the state that can be observed when they are told.

The class knows of no scheduler. One `ToldTimes` calibrates one kind of event (starts, or finishes)::

    told = ToldTimes()
    told.foresee({job: expected, ...})                          # present expectations of open jobs
    times = told.tell(job, now, observed, predicted_seconds)    # P50, P90: seconds from now on
    told.came(job, later)                                       # or told.withdraw(job)

- Quantiles are those of the scores log(took / predicted) of the `_NEAREST` tellings that were most alike in
  `Observed`, in predicted time over believed service, and in when they were told
  (`volvelle.estimate.likeness`).
- Open jobs are censored. Their present expectation stands for the outcome, and counts for the square root of
  the part of the expected time that has passed. So a burst is seen while it lasts, and also where all earlier
  predictions were exact. In the part that is left the expectation is taken to drift on, as fast as in
  tellings that were alike, by `_FURTHEST_DRIFT` at most: in a long queue all jobs end a little later than
  predicted, by one and the same error, which shows long before the first of them ends.
- An expectation lacks the error of the job's own run, since beliefs become true in it. Where own runs are
  part of the times, scores of open jobs are spread by it, for the part that their own runs have in what is
  left, and an expectation within its bound counts by its chance to end within it. In a queue all open jobs
  are else expected alike, and P90 is told without any margin.
- The share whose quantile is taken is corrected, so that each class of observable state approaches its share
  (`volvelle.estimate.corrections`).
- Until `_LEAST` events have come the scores include assumed ones, and the times are marked as ``prior``.

The constants were chosen on parts of four Philly traces (decision 86).
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Generic

import numpy as np

from volvelle.estimate.corrections import KINDS, SHARES, Corrections
from volvelle.estimate.likeness import OVER_SERVICE, Observed, Past, described
from volvelle.estimate.tellings import Asking, Key, Scores, Tellings, Told
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.tolerances import SAME_MOMENT

_SHARES = np.array(SHARES)
_NEAREST = 250
_WINDOW = 2000
"""Tellings whose event came that are remembered, and those of all whose scores count for a job."""
_LEAST = 20
_LEAST_SECONDS = 1.0
"""The fewest that are compared: of a prediction of nothing, as of a job that is overdue when a server begins
anew, any time at all is thousands of times as long."""
_APART = 1.25
"""Tellings of a job that waits on are learned from when its wait has grown by this factor."""
_AT_ONCE = 0.1
"""Runs that are predicted to begin at once have a score of this at most of predicted time over service."""
_OWN_ERROR = 0.7
"""By what the errors of own runs, in logarithms, are multiplied."""
_LEVELS = (np.arange(20) + 0.5) / 20
_SPREAD = (math.sqrt(5.0) - 1.0) / 2.0
"""Multiples of it modulo 1 are spread evenly."""
_FURTHEST_DRIFT = 0.1
"""The largest score that the drift of expectations adds to an open telling."""
_ASSUMED = (
    *(-1.2, -0.8, -0.6, -0.4, -0.3, -0.2, -0.1, 0.0, 0.0, 0.0, 0.0),
    *(0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 2.1),
)
"""Scores before any is known: one half by the prediction, nine of ten by three to four times that."""


class ToldTimes(Generic[Key]):
    """Tells P50 and P90 of jobs, and learns from what becomes of them. Times are seconds on one clock.

    offset_seconds: added to predicted and actual seconds when they are compared, so that an event which is
    expected at once has quantiles too: 0 for finishes, the time that is as good as at once for starts.
    own_runs: the times are those of finishes, of which the job's own run is a part.
    """

    def __init__(self, *, offset_seconds: float = 0.0, own_runs: bool = False) -> None:
        self._offset, self._own_runs = offset_seconds, own_runs
        self._all = Tellings(64)
        self._slots: defaultdict[Key, list[int]] = defaultdict(list)
        """Of open jobs, in order of telling."""
        self._over = deque[int]()
        """Slots of tellings whose event came."""
        self._corrections = Corrections()
        self._own_errors: FloatColumn | None = None
        """Quantiles of the errors of own runs at `_LEVELS`, in logarithms; none where they are not known."""
        self._tellings = self._came = 0
        self._changed()

    def _changed(self, now: float = -math.inf) -> None:
        """Let all that follows from the tellings be made anew. now: until when open ones count."""
        self._now = now
        self._there: IntColumn | None = None
        """Slots of the tellings that count."""
        self._past: Past | None = None
        """Their attributes, where they are many."""
        self._by_terms: dict[bytes, FloatColumn] = {}
        """Scores of P50 and P90 by the terms of a job, where they are few."""

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
        terms = self._corrections.terms(observed)
        scores = self._quantiles(observed, predicted_seconds, terms)
        p50, p90 = self._seconds(predicted_seconds, scores).tolist()
        if self.prior and limit_seconds is not None:
            p90 = max(p90, predicted_seconds - observed.service + limit_seconds)
        return Told(p50, p90, self.prior)

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
        if not self._due(key, now, observed, predicted_seconds):
            p50, p90 = self.again([key], np.array([predicted_seconds]))
            return Told(float(p50[0]), float(p90[0]), self.prior)
        told = self.ask(now, observed, predicted_seconds, limit_seconds)
        terms = self._corrections.terms(observed)
        attributes = self._described(observed, predicted_seconds)
        seconds = np.array([told.p50, told.p90])
        self._note(self._slot_for(key), now, predicted_seconds, seconds, terms, attributes)
        return told

    def tell_all(self, now: float, asked: Iterable[Asking[Key]]) -> None:
        """`tell` for jobs at one time, in order; `again` has their times."""
        due: list[tuple[Asking[Key], IntColumn, FloatColumn, FloatColumn]] = []
        for one in asked:
            observed, predicted = one.observed, one.predicted_seconds
            if self._due(one.key, now, observed, predicted):
                self._pass_time(now)
                terms = self._corrections.terms(observed)
                scores = self._quantiles(observed, predicted, terms)
                due.append((one, terms, scores, self._described(observed, predicted)))
        if not due:
            return
        jobs, *columns = zip(*due, strict=True)
        of_terms, of_scores, attributes = (np.array(column).T.copy() for column in columns)
        seconds_predicted = np.array([job.predicted_seconds for job in jobs])
        seconds = self._seconds(seconds_predicted, of_scores)
        if self.prior:
            limits = [-math.inf if job.limit_seconds is None else job.limit_seconds for job in jobs]
            to_limit = seconds_predicted - [job.observed.service for job in jobs] + limits
            seconds[1] = np.maximum(seconds[1], to_limit)
        slots = np.array([self._slot_for(job.key) for job in jobs])
        self._note(slots, now, seconds_predicted, seconds, of_terms, attributes)

    def again(
        self, keys: Iterable[Key], predicted_seconds: FloatColumn
    ) -> tuple[FloatColumn, FloatColumn]:
        """P50 and P90 of jobs that were told before, as of then: by the scores of their last telling."""
        slots = [self._slots[key][-1] for key in keys]
        p50, p90 = self._seconds(predicted_seconds, self._all.told[:, slots])
        return p50, p90

    def drift(self, keys: Iterable[Key], *asked: float) -> float:
        """By which factor predicted times are to be stretched, one for all jobs.

        The median of P50 over predicted time, of these jobs and those ``asked``; 1 while times are prior.
        """
        last = [self._slots[key][-1] for key in keys]
        told = [*np.exp(self._all.told[0, last]).tolist(), *asked]
        return float(np.median(told)) if told and not self.prior else 1.0

    def foresee(self, expected: Mapping[Key, float]) -> None:
        """Take these times as those at which the events of open jobs are expected now."""
        for key, time in expected.items():
            if (slots := self._slots.get(key)) is not None:
                self._all.expected[slots] = time
        self._changed()

    def came(self, key: Key, now: float) -> None:
        """Learn from an event."""
        for slot in self._slots.pop(key, ()):
            if self._all.moment[slot] <= now + SAME_MOMENT:
                self._learn(slot, now)
            else:
                self._all.let_go(slot)
        self._came += 1
        if self._came % _LEAST == 0:
            self._own_errors = self._errors_of_own_runs()
        self._changed()

    def withdraw(self, key: Key | None = None) -> None:
        """Forget a job, or all, whose event will not come; misses so far have counted."""
        gone = [key] if key is not None else list(self._slots)
        for each in gone:
            for slot in self._slots.pop(each, ()):
                self._all.let_go(slot)
        self._changed()

    def share_within(self, observed: Observed, predicted_seconds: float, seconds: float) -> float:
        """The share of jobs like one that take ``seconds`` at most, by the levels that P50 and P90 go by.

        At least one half from P50 on, less before it.
        """
        terms = self._corrections.terms(observed)
        scores = self._alike(observed, predicted_seconds, terms)
        level = scores.level(math.log(self._raw(seconds) / self._raw(predicted_seconds)))
        if level == 1.0:
            return 1.0
        p50, p90 = (_SHARES + self._corrections.of(terms)).tolist()
        return float(np.interp(level, [0.0, p50, p90, 1.0], [0.0, *SHARES, 1.0]))

    # ------------------------------------------------------------------ quantiles

    def _raw(self, seconds: float) -> float:
        return max(seconds + self._offset, _LEAST_SECONDS)

    def _alike(self, observed: Observed, predicted_seconds: float, terms: IntColumn) -> Scores:
        """Scores of the tellings that were most alike; assumed ones while little is known."""
        t = self._all
        if self._there is None:
            self._there = t.weight.nonzero()[0]
        there = self._there
        if len(there) <= _NEAREST:
            return self._scores(there)
        if self._past is None:
            self._past = Past.of(t.attributes[:, there], t.kinds[:, there])
        attributes = described(observed, self._raw(predicted_seconds), self._tellings)
        return self._scores(there[self._past.nearest(_NEAREST, attributes, terms[-KINDS:])])

    def _scores(self, found: IntColumn) -> Scores:
        t = self._all
        scores, weights = _drifted_on(t.score[found], t.left[found]), t.weight[found]
        if self._own_errors is not None:
            level = (found * _SPREAD % 1.0 * len(_LEVELS)).astype(np.int64)
            scores += np.log1p(self._own_part(found) * np.expm1(self._own_errors[level]))
        if self.prior or not len(found):  # events may have come of which nothing was told
            scores = np.concatenate([scores, _ASSUMED])
            weights = np.concatenate([weights, np.ones(len(_ASSUMED))])
        return Scores.of(scores, weights)

    def _quantiles(
        self, observed: Observed, predicted_seconds: float, terms: IntColumn
    ) -> FloatColumn:
        """The scores of P50 and P90; those of jobs with the same terms are equal while tellings are few."""
        if (known := self._by_terms.get(terms.tobytes())) is not None:
            return known
        scores = self._alike(observed, predicted_seconds, terms)
        found = scores.quantiles(_SHARES + self._corrections.of(terms))
        if self._past is None:
            self._by_terms[terms.tobytes()] = found
        return found

    def _seconds(self, predicted_seconds: float | FloatColumn, scores: FloatColumn) -> FloatColumn:
        """P50 and P90 by their scores."""
        raw = np.maximum(predicted_seconds + self._offset, _LEAST_SECONDS)
        seconds = np.maximum(raw * np.exp(scores) - self._offset, 0.0)
        return np.maximum.accumulate(seconds, axis=0)

    # ------------------------------------------------------------------ tellings

    def _due(self, key: Key, now: float, observed: Observed, predicted_seconds: float) -> bool:
        """Whether this telling of a job is to be learned from: not of each that was told before."""
        slots = self._slots.get(key)
        if slots is None:
            return True
        t, last = self._all, slots[-1]
        t.expected[slots] = now + predicted_seconds
        if np.any(t.kinds[:, last] != self._corrections.terms(observed)[-KINDS:]):
            return True
        waited = float(t.moment[last] - t.moment[slots[0]]) + max(self._offset, _LEAST_SECONDS)
        grown = bool(now - t.moment[last] >= (_APART - 1.0) * waited)
        return grown and self._offset > 0.0 and not self._own_runs

    def _described(self, observed: Observed, predicted_seconds: float) -> FloatColumn:
        """The attributes of the next telling, by which it is compared with others."""
        self._tellings += 1
        return described(observed, self._raw(predicted_seconds), self._tellings - 1)

    def _slot_for(self, key: Key) -> int:
        """A slot for one more telling of a job."""
        if not self._all.free:
            self._all = self._all.grown()
        slot = self._all.free.pop()
        self._slots[key].append(slot)
        return slot

    def _note(
        self,
        slots: int | IntColumn,
        now: float,
        predicted_seconds: float | FloatColumn,
        seconds: FloatColumn,
        terms: IntColumn,
        attributes: FloatColumn,
    ) -> None:
        """Remember one telling or several: P50 and P90 in ``seconds``, terms, attributes in columns."""
        t, raw = self._all, np.maximum(predicted_seconds + self._offset, _LEAST_SECONDS)
        t.open[slots], t.judged[:, slots] = True, False
        t.moment[slots], t.raw[slots], t.expected[slots] = now, raw, now + predicted_seconds
        t.score[slots] = t.weight[slots] = t.left[slots] = 0.0
        t.bound[:, slots] = now + seconds
        t.told[:, slots] = np.log(np.maximum(seconds + self._offset, _LEAST_SECONDS) / raw)
        t.terms[:, slots], t.attributes[:, slots] = terms, attributes

    def _learn(self, slot: int, now: float) -> None:
        t = self._all
        for which, bound in enumerate(t.bound[:, slot].tolist()):
            if not t.judged[which, slot]:
                self._corrections.learn(which, t.terms[:, slot], float(_held(which, now - bound)))
        t.score[slot] = math.log(self._raw(now - float(t.moment[slot])) / float(t.raw[slot]))
        t.open[slot], t.weight[slot], t.left[slot] = False, 1.0, 0.0
        self._over.append(slot)
        if len(self._over) > _WINDOW:
            t.let_go(self._over.popleft())

    # ------------------------------------------------------------------ own runs

    def _errors_of_own_runs(self) -> FloatColumn | None:
        """Errors of runs that were predicted to begin at once, alike in both directions.

        Other jobs make such a run late, but not early: of each two tails the shorter counts.
        """
        if not self._own_runs:
            return None
        t, over = self._all, np.array(self._over, dtype=np.int64)
        scores = t.score[over[t.attributes[OVER_SERVICE, over] < _AT_ONCE]]
        if len(scores) < _LEAST:
            return None
        off = np.quantile(scores, _LEVELS) - np.median(scores)
        shorter: FloatColumn = np.sign(_LEVELS - 0.5) * np.minimum(np.abs(off), np.abs(off[::-1]))
        return _OWN_ERROR * shorter if shorter.any() else None

    def _own_part(self, slots: IntColumn) -> FloatColumn:
        """The part of the expected times that are left of the jobs' own runs."""
        t = self._all
        part: FloatColumn = (
            np.exp(-np.maximum(t.attributes[OVER_SERVICE, slots], 0.0)) * t.left[slots]
        )
        return part

    # ------------------------------------------------------------------ time

    def _pass_time(self, now: float) -> None:
        """Count what is known of open tellings: those whose time has passed, and what is expected."""
        if now <= self._now:
            return
        self._changed(now)
        t, there = self._all, self._all.open.nonzero()[0]
        moment = t.moment[there]
        takes = np.maximum(t.expected[there], now) - moment
        seconds = np.maximum(takes + self._offset, _LEAST_SECONDS)
        t.score[there] = np.log(seconds / t.raw[there])
        part = np.clip((now - moment) / np.maximum(takes, _LEAST_SECONDS), 0.0, 1.0)
        t.left[there], t.weight[there] = 1.0 - part, np.sqrt(part)
        spread = np.maximum(takes * self._own_part(there), SAME_MOMENT)
        for which in range(len(SHARES)):
            late = there[~t.judged[which, there] & (t.bound[which, there] < now - SAME_MOMENT)]
            for slot in late[np.argsort(t.bound[which, late])].tolist():
                t.judged[which, slot] = True
                self._corrections.learn(which, t.terms[:, slot], 0.0)
            room = t.bound[which, there] - moment - takes
            held = _held(which, -room)
            if self._own_errors is not None:
                least = np.log1p(np.maximum(room / spread, SAME_MOMENT - 1.0))
                held = np.interp(least, self._own_errors, _LEVELS, 0.0, 1.0)
            weight = np.where(t.judged[which, there], 0.0, t.weight[there])
            self._corrections.expect(which, t.terms[:, there], held, weight)


def _drifted_on(scores: FloatColumn, left: FloatColumn) -> FloatColumn:
    """Scores of tellings when they are over, if expectations drift on as they did in the parts that passed.

    left: parts of the expected times. One telling without drift is added, for where little has passed.
    """
    drift = float(scores.sum()) / (float((1.0 - left).sum()) + 1.0)
    bounded: FloatColumn = scores + left * min(max(drift, -_FURTHEST_DRIFT), _FURTHEST_DRIFT)
    return bounded


def _held(which: int, late: float | FloatColumn) -> FloatColumn:
    """1 where an event is before its bound, 0 where it is late; at the bound one half for P50, 1 for P90."""
    return np.where(np.abs(late) <= SAME_MOMENT, (0.5, 1.0)[which], np.less(late, 0.0))
