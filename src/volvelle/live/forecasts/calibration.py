"""Calibration of forecasts: P50 and P90 of a finish, and P50 of a start, from the errors of past forecasts.

P90 is told by `volvelle.estimate.told.ToldTimes` at a job's first forecast, and anew when the job starts or
is stopped. In between what remains counts as often as then. P50 of starts and finishes stretches the time
to the forecast, since `SECONDS_BESIDE` before now, by one factor for all jobs: medians that are learned
apart contradict each other (decision 113). While times are prior P50 is the forecast. P50 of a finish is no
later than a guarantee that the forecast keeps.
"""

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
from volvelle.estimate.tellings import Asking
from volvelle.estimate.told import ToldTimes
from volvelle.live.scheduler_queries import declarations, holds_gpus, unheld_job_numbers
from volvelle.model.job import JobSpec


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


SECONDS_BESIDE = 3.0
"""Added to predicted and actual times that are compared. Starts, reports and the pauses between forecasts
take some seconds of any job: no factor by which a job of hours takes longer."""
_NO_TIMES: Mapping[int, float] = {}
UNKNOWN = CalibratedTimes(None, None, prior=False)
"""Times of a job that is not forecast to finish."""


class ForecastCalibration:
    """First forecasts of jobs and their errors. Times are on the journal's clock. Threads may share it."""

    def __init__(self) -> None:
        self._told = ToldTimes[int](offset_seconds=SECONDS_BESIDE, own_runs=True)
        self._running: dict[int, bool] = {}
        """Whether a job held GPUs when it was calibrated."""
        self._arrivals: list[float] = []
        """Submissions of the last `ARRIVALS_SECONDS`, in order."""
        self._lock = threading.Lock()

    def replay(self, past: Iterable[PastForecast]) -> None:
        """Learn from stored first forecasts of jobs that finished or go on."""
        forecasts = sorted(past, key=lambda each: each.submitted)
        news = sorted(
            (time, over, each)
            for each in forecasts
            for over, time in enumerate((each.started, each.ended))
            if time is not None
        )
        learned = load = 0
        for each in forecasts:
            while learned < len(news) and news[learned][0] <= each.submitted:
                load -= self._recall(*news[learned], load)
                learned += 1
            load += 1
            self._arrived(each.submitted, each.submitted)
            ran = each.start is None
            self._tell_again(each, each.submitted, each.finish - each.submitted, load, runs=ran)
        for one in news[learned:]:
            load -= self._recall(*one, load)

    def _recall(self, time: float, over: int, past: PastForecast, load: int) -> int:
        """Learn from the end of a job, or tell it again as it starts; how many jobs fewer there are."""
        if over:
            self._learn(time, past.number)
        elif past.start is not None and past.number in self._told:
            self._tell_again(past, time, past.finish - past.start, load, runs=True)
        return over

    def _tell_again(
        self, past: PastForecast, time: float, seconds: float, load: int, *, runs: bool
    ) -> None:
        """Tell a job at a time that has passed as it was told then."""
        kinds = _kinds(running=runs)
        observed = Observed(load, self._arrived(time), past.service, past.width, kinds)
        self._told.tell(past.number, time, observed, seconds)
        self._running[past.number] = runs

    def _learn(self, time: float, number: int) -> None:
        """Learn from the end of a job."""
        if number in self._told:
            self._told.came(number, time)
        self._running.pop(number, None)

    def tell(
        self,
        scheduler: SchedulerState,
        submitted: Mapping[int, float],
        forecast: Forecast,
        late: Mapping[int, float] = _NO_TIMES,
    ) -> tuple[dict[int, CalibratedTimes], list[int]]:
        """P50 and P90 of forecast finishes, P50 of starts, and the jobs that had no forecast before.

        submitted: when jobs were submitted that are not held. late: finishes that P90 is no earlier than.
        """
        now, finishes = scheduler.now, forecast.finish
        with self._lock:
            waited_for = [number for number in submitted if number in finishes]
            first = [number for number in waited_for if number not in self._told]
            for number in first:
                self._arrived(now, submitted[number])
            self._told.foresee(finishes)
            crowd = _Crowd(len(submitted), self._arrived(now), declarations(scheduler))
            ends: list[Asking[int]] = []
            for number in waited_for:
                running = holds_gpus(scheduler, number)
                if self._running.get(number) is running:
                    continue
                self._running[number] = running
                ends.append(_asked(scheduler, number, finishes[number], crowd))
            self._told.tell_all(now, ends)
        return self.told(scheduler, forecast, late), first

    def told(
        self,
        scheduler: SchedulerState,
        forecast: Forecast,
        late: Mapping[int, float] = _NO_TIMES,
    ) -> dict[int, CalibratedTimes]:
        """Times of the jobs that were told before if their forecasts were these, by the scores of then."""
        finishes, starts, promises = forecast.finish, forecast.upcoming, scheduler.promises
        with self._lock:
            numbers = [n for n in finishes if n in self._told]
            found = self._again(scheduler.now, numbers, starts, finishes, late)
        return {
            n: each.under(promises.get(n), starts.get(n), finishes[n]) for n, each in found.items()
        }

    def ask(
        self,
        scheduler: SchedulerState,
        number: int,
        start: float | None,
        finish: float | None,
        late: float | None = None,
    ) -> CalibratedTimes:
        """Times of a job that is forecast to start and to finish so, and is not noted.

        late: a finish that P90 is no earlier than.
        """
        if finish is None:
            return UNKNOWN._replace(start=start)
        now = scheduler.now
        with self._lock:
            one = self._asked(scheduler, number, finish)
            told = self._told.ask(now, *one[1:])
            stretch = (told.p50 + SECONDS_BESIDE) / (one.predicted_seconds + SECONDS_BESIDE)
            drift = self._drift(stretch, waits=start is not None and start > now)
        p90 = max(now + told.p90, late or 0.0)
        return _drifted(now, drift, start, finish, p90, prior=told.prior)

    def again(
        self, number: int, now: float, start: float, finish: float | None
    ) -> tuple[float, float | None]:
        """P50 of a job's start and finish if its forecast were this, by the scores of when it was told."""
        with self._lock:
            if finish is None or number not in self._told:
                return start, finish
            drift = self._drift()
        times = _drifted(now, drift, start, finish, finish, prior=False)
        return start if times.start is None else times.start, times.p50

    def _again(
        self,
        now: float,
        numbers: Sequence[int],
        starts: Mapping[int, float],
        finishes: Mapping[int, float],
        late: Mapping[int, float],
    ) -> dict[int, CalibratedTimes]:
        """Times of jobs that were told before, by the scores of then."""
        finish = np.array([finishes[n] for n in numbers])
        latest = now + self._told.again(numbers, finish - now)[1]
        drift, prior = self._drift(), self._told.prior
        return {
            n: _drifted(
                now, drift, starts.get(n), finishes[n], max(p90, late.get(n, p90)), prior=prior
            )
            for n, p90 in zip(numbers, latest.tolist(), strict=True)
        }

    def _drift(self, stretch: float | None = None, *, waits: bool = False) -> float:
        """The factor of all that lies ahead, by the jobs that wait, and only where none does by all.

        stretch: P50 over predicted time of one job more. waits: it would not start at once.
        """
        queue = [number for number, running in self._running.items() if not running]
        by_queue = waits or bool(queue)
        more = () if stretch is None or by_queue is not waits else (stretch,)
        return self._told.drift(queue if by_queue else list(self._running), *more)

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
            self._learn(time, number)

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


def _drifted(
    now: float, drift: float, start: float | None, finish: float, p90: float, *, prior: bool
) -> CalibratedTimes:
    """Times of a job with this forecast, where what lies ahead takes ``drift`` times as long."""
    p50 = now + _stretched(drift, finish - now)
    if start is not None and start > now:
        start = now + _stretched(drift, start - now)
    return CalibratedTimes(p50, max(p50, p90), prior, start)


def _stretched(drift: float, seconds: float) -> float:
    return max(drift * (max(seconds, 0.0) + SECONDS_BESIDE) - SECONDS_BESIDE, 0.0)


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
