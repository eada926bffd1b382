"""Calibration of forecasts: P50 and P90 of a finish, and P50 of a start, from the errors of past forecasts.

Both are calibrated by `volvelle.estimate.told.ToldTimes` at a job's first forecast, and anew when the job
starts or is stopped. In between what remains counts as often as then. P50 of a finish is no later than a
guarantee that the forecast keeps. A start is no earlier than P50 of the end that lets the job in, and leaves
half of its run before P50 of its finish: medians that are learned apart contradict each other without that.
"""

import math
import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from volvelle.core.decision import Promise
from volvelle.core.forecast import Forecast
from volvelle.core.promises import keeps
from volvelle.core.scheduler_state import SchedulerState
from volvelle.estimate.likeness import ARRIVALS_SECONDS, Observed, believed_service
from volvelle.estimate.told import AT_ONCE_SECONDS, Asking, ToldTimes
from volvelle.live.scheduler_queries import declarations, holds_gpus, unheld_job_numbers
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import JobSpec
from volvelle.model.tolerances import SAME_MOMENT


class PastForecast(NamedTuple):
    """The first forecast of a job. Times on the journal's clock.

    width: GPUs. service: seconds that the job was believed to run. start: as forecast; None where it ran.
    started, ended: None where that has not happened, or is not known.
    """

    number: int
    submitted: float
    finish: float
    width: float
    service: float
    ended: float | None = None
    start: float | None = None
    started: float | None = None


class CalibratedTimes(NamedTuple):
    """P50 and P90 of a finish, and P50 of a start, on the journal's clock; None where none is forecast.

    prior: too few jobs have ended, so that assumptions are part of them.
    """

    p50: float | None
    p90: float | None
    prior: bool
    start: float | None = None

    def under(self, promise: Promise | None, begins: float | None, finish: float | None) -> Self:
        """The same for a job with this guarantee, if any: P50 no later, unless its forecast ``finish`` is.

        Guarantees hold more often than in half of all cases, so P50 of such a job is no later than its
        guarantee; P90 says how far that is at risk. A start is no later than P50; where a guarantee is kept,
        no later than the forecast's run before P50, or ``begins``, as forecast, if that is later.
        """
        p50, start, finish_by = self.p50, self.start, None if promise is None else promise.finish_by
        if p50 is None:
            return self
        if finish_by is not None and finish is not None and keeps(finish, finish_by):
            p50 = min(p50, finish_by)
            if start is not None and begins is not None:
                start = min(start, max(p50 - (finish - begins), begins))
        start = None if start is None else min(start, p50)
        if (p50, start) == (self.p50, self.start):
            return self
        return self._replace(p50=p50, start=start)


_LEAST_RUN = 0.5
"""Share of its run that a start leaves before P50 of the finish."""
UNKNOWN = CalibratedTimes(None, None, prior=False)
"""Times of a job that is not forecast to finish."""


class ForecastCalibration:
    """First forecasts of jobs and their errors. Times are on the journal's clock. Threads may share it."""

    def __init__(self) -> None:
        self._told = ToldTimes[int](own_runs=True)
        self._starts = ToldTimes[int](offset_seconds=AT_ONCE_SECONDS)
        self._running: dict[int, bool] = {}
        """Whether a job held GPUs when it was calibrated."""
        self._arrivals: list[float] = []
        """Submissions of the last `ARRIVALS_SECONDS`, in order."""
        self._lock = threading.Lock()

    def replay(self, past: Iterable[PastForecast]) -> None:
        """Learn from stored first forecasts of jobs that finished or go on."""
        forecasts = sorted(past, key=lambda each: each.submitted)
        news = sorted(
            (time, over, each.number)
            for each in forecasts
            for over, time in enumerate((each.started, each.ended))
            if time is not None
        )
        learned = ended = 0
        for come, each in enumerate(forecasts, 1):
            while learned < len(news) and news[learned][0] <= each.submitted:
                ended += news[learned][1]
                self._learn(*news[learned])
                learned += 1
            arrivals = self._arrived(each.submitted, each.submitted)
            state = come - ended, arrivals, each.service, each.width
            observed = Observed(*state, _kinds(running=False))
            self._told.tell(each.number, each.submitted, observed, each.finish - each.submitted)
            if each.start is not None:
                wait = each.start - each.submitted
                self._starts.tell(each.number, each.submitted, observed, wait)
            self._running[each.number] = False
        for one in news[learned:]:
            self._learn(*one)

    def _learn(self, time: float, over: int, number: int) -> None:
        """Learn from the start of a job, or from its end."""
        told = self._told if over else self._starts
        if number in told:
            told.came(number, time)
        if over:
            self._starts.withdraw(number)
            self._running.pop(number, None)

    def tell(
        self, scheduler: SchedulerState, submitted: Mapping[int, float], forecast: Forecast
    ) -> tuple[dict[int, CalibratedTimes], list[int]]:
        """P50 and P90 of forecast finishes, P50 of starts, and the jobs that had no forecast before.

        submitted: when jobs were submitted that are not held.
        """
        now, finishes, starts = scheduler.now, forecast.finish, forecast.upcoming
        with self._lock:
            waited_for = [number for number in submitted if number in finishes]
            first = [number for number in waited_for if number not in self._told]
            for number in first:
                self._arrived(now, submitted[number])
            self._told.foresee(finishes)
            self._starts.foresee(starts)
            crowd = _Crowd(len(submitted), self._arrived(now), declarations(scheduler))
            ends: list[Asking[int]] = []
            begins: list[Asking[int]] = []
            for number in waited_for:
                running = holds_gpus(scheduler, number)
                if self._running.get(number) is running:
                    continue
                self._running[number] = running
                one = _asked(scheduler, number, finishes[number], crowd)
                ends.append(one)
                if running and number in self._starts:
                    self._starts.tell_all(now, begins)
                    self._learn(starts.get(number, now), 0, number)
                    begins = []
                elif not running and number in starts:
                    begins.append(Asking(number, one.observed, starts[number] - now))
            self._told.tell_all(now, ends)
            self._starts.tell_all(now, begins)
        return self.told(scheduler, forecast), first

    def told(self, scheduler: SchedulerState, forecast: Forecast) -> dict[int, CalibratedTimes]:
        """Times of the jobs that were told before if their forecasts were these, by the scores of then."""
        finishes, starts, promises = forecast.finish, forecast.upcoming, scheduler.promises
        with self._lock:
            numbers = [n for n in finishes if n in self._told]
            found = self._again(scheduler.now, numbers, starts, finishes)
        return {
            n: each.under(promises.get(n), starts.get(n), finishes[n]) for n, each in found.items()
        }

    def ask(
        self, scheduler: SchedulerState, number: int, start: float | None, finish: float | None
    ) -> CalibratedTimes:
        """Times of a job that is forecast to start and to finish so, and is not noted."""
        if finish is None:
            return UNKNOWN._replace(start=start)
        now = scheduler.now
        with self._lock:
            one = self._asked(scheduler, number, finish)
            told = self._told.ask(now, *one[1:])
            if start is not None and start > now:
                begins = now + self._starts.ask(now, one.observed, start - now).p50
                times = (np.array([each]) for each in (start, finish, begins, now + told.p50))
                start = float(_in_order(now, *times)[0])
        return CalibratedTimes(now + told.p50, now + told.p90, told.prior, start)

    def again(
        self, number: int, now: float, start: float, finish: float | None
    ) -> tuple[float, float | None]:
        """P50 of a job's start and finish if its forecast were this, by the scores of when it was told."""
        with self._lock:
            if finish is None or number not in self._told:
                return start, finish
            times = self._again(now, [number], {number: start}, {number: finish})[number]
        p50 = times.p50
        return (start if p50 is None or times.start is None else min(times.start, p50)), p50

    def _again(
        self,
        now: float,
        numbers: Sequence[int],
        starts: Mapping[int, float],
        finishes: Mapping[int, float],
    ) -> dict[int, CalibratedTimes]:
        """Times of jobs that were told before, by the scores of then."""
        if not numbers:
            return {}
        finish = np.array([finishes[n] for n in numbers])
        start = np.array([starts.get(n, math.nan) for n in numbers])
        p50, p90 = self._told.again(numbers, finish - now)
        wait = [at for at, n in enumerate(numbers) if n in self._starts and n in starts]
        begins = start.copy()
        begins[wait] = now + self._starts.again([numbers[at] for at in wait], start[wait] - now)[0]
        begins = _in_order(now, start, finish, begins, now + p50)
        times = zip(
            numbers, (now + p50).tolist(), (now + p90).tolist(), begins.tolist(), strict=True
        )
        return {
            n: CalibratedTimes(half, most, self._told.prior, begin if n in starts else None)
            for n, half, most, begin in times
        }

    def share_within(
        self, scheduler: SchedulerState, number: int, finish: float, seconds: float
    ) -> float:
        """Share of jobs with such a forecast that take at most ``seconds``."""
        with self._lock:
            one = self._asked(scheduler, number, finish)
            return self._told.share_within(one.observed, one.predicted_seconds, seconds)

    def job_ended(self, number: int, time: float, *, finished: bool) -> None:
        """A job is over; learn from it if it finished."""
        with self._lock:
            if not finished:
                self._told.withdraw(number)
            self._learn(time, 1, number)

    def _asked(self, scheduler: SchedulerState, number: int, finish: float) -> Asking[int]:
        """As `_asked`, of a job that may be new."""
        arrivals = self._arrived(scheduler.now) + (number not in self._told)
        crowd = _Crowd(len(unheld_job_numbers(scheduler)), arrivals, declarations(scheduler))
        return _asked(scheduler, number, finish, crowd)

    def _arrived(self, now: float, submitted: float | None = None) -> int:
        """Submissions of the last `ARRIVALS_SECONDS`; one more was at ``submitted``."""
        if submitted is not None:
            insort(self._arrivals, submitted)
        del self._arrivals[: bisect_left(self._arrivals, now - ARRIVALS_SECONDS)]
        return len(self._arrivals)


def _in_order(
    now: float, start: FloatColumn, finish: FloatColumn, told: FloatColumn, p50: FloatColumn
) -> FloatColumn:
    """Starts as they are told, after P50 of an end at the forecast start and in time for the run.

    start, finish: as forecast, of all jobs; NaN for an unknown start. The run is as much shorter than
    forecast as P50 is sooner than the finish.
    """
    order = np.lexsort((p50, finish))
    at = np.minimum(np.searchsorted(finish[order], start), len(order) - 1)
    let_in = np.where(finish[order[at]] == start, p50[order[at]], -np.inf)
    ahead = np.maximum(finish - now, SAME_MOMENT)
    run = (finish - start) * np.minimum(1.0, (p50 - now) / ahead)
    found = np.minimum(np.maximum(told, let_in), p50 - _LEAST_RUN * run)
    return np.where(start > now, found, told)


class _Crowd(NamedTuple):
    """Jobs in the system, arrivals of late, and declarations of the jobs that wait for admission."""

    load: int
    arrivals: int
    declared: Mapping[int, JobSpec]


def _asked(scheduler: SchedulerState, number: int, finish: float, crowd: _Crowd) -> Asking[int]:
    """A job to be told, with the state of now, the seconds that are forecast, and its time limit."""
    waits = scheduler.row_of(number) is None
    spec = crowd.declared[number] if waits else scheduler.spec(number)
    seconds = finish - scheduler.now
    service = believed_service(scheduler, number, seconds)
    kinds = _kinds(running=holds_gpus(scheduler, number))
    observed = Observed(crowd.load, crowd.arrivals, service, spec.gpus, kinds)
    return Asking(number, observed, seconds, spec.time_limit_seconds)


def _kinds(*, running: bool) -> tuple[str]:
    return ("runs" if running else "waits",)
