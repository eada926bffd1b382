"""Calibration of forecasts: P50 and P90 of a forecast finish, from the errors of past forecasts.

A finish is calibrated by `volvelle.estimate.told.ToldTimes` at a job's first forecast, and anew when the job
starts or is stopped. In between what remains counts as often as then. P50 is no later than a guarantee that
the forecast keeps.
"""

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import numpy as np

from volvelle.core.decision import Promise
from volvelle.core.promises import keeps
from volvelle.core.scheduler_state import SchedulerState
from volvelle.estimate.likeness import ARRIVALS_SECONDS, Observed, believed_service
from volvelle.estimate.told import ToldTimes
from volvelle.live.scheduler_queries import declarations, holds_gpus, unheld_job_numbers
from volvelle.model.job import JobSpec


class PastForecast(NamedTuple):
    """The first forecast of a job. Times on the journal's clock.

    width: GPUs. service: seconds that the job was
    believed to run. ended: None where it goes on.
    """

    number: int
    submitted: float
    finish: float
    width: float
    service: float
    ended: float | None = None


class CalibratedTimes(NamedTuple):
    """P50 and P90 of a finish on the journal's clock; None where none is forecast.

    prior: too few jobs have ended, so that assumptions are part of them.
    """

    p50: float | None
    p90: float | None
    prior: bool

    def under(self, promise: Promise | None, finish: float | None) -> Self:
        """The same for a job with this promise, if any: P50 no later, unless its forecast ``finish`` is.

        Guarantees hold more often than in half of all cases, so P50 of such a job is no later than its
        guarantee; P90 says how far that is at risk.
        """
        finish_by = None if promise is None else promise.finish_by
        if finish_by is None or finish is None or self.p50 is None or not keeps(finish, finish_by):
            return self
        return self._replace(p50=min(self.p50, finish_by))


def told_start(now: float, start: float, finish: float | None, p50: float | None) -> float:
    """The start that is told beside P50, for a forecast ``start`` and ``finish``.

    P50 is calibrated. Where it is sooner than the forecast finish, so is the start, in proportion: the job
    keeps its share of the time until then.
    """
    if finish is None or p50 is None or not now < start < finish:
        return start
    return min(start, now + (start - now) * (p50 - now) / (finish - now))


UNKNOWN = CalibratedTimes(None, None, prior=False)
"""Times of a job that is not forecast to finish."""


class ForecastCalibration:
    """First forecasts of jobs and their errors. Times are on the journal's clock. Threads may share it."""

    def __init__(self) -> None:
        self._told = ToldTimes[int]()
        self._running: dict[int, bool] = {}
        """Whether a job held GPUs when it was calibrated."""
        self._arrivals: list[float] = []
        """Submissions of the last `ARRIVALS_SECONDS`, in order."""
        self._lock = threading.Lock()

    def replay(self, past: Iterable[PastForecast]) -> None:
        """Learn from stored first forecasts of jobs that finished or go on."""
        forecasts = sorted(past, key=lambda each: each.submitted)
        ends = sorted((each.ended, each.number) for each in forecasts if each.ended is not None)
        over = 0
        for come, each in enumerate(forecasts, 1):
            while over < len(ends) and ends[over][0] <= each.submitted:
                self._told.came(ends[over][1], ends[over][0])
                over += 1
            arrivals = self._arrived(each.submitted, each.submitted)
            state = come - over, arrivals, each.service, each.width
            observed = Observed(*state, _kinds(running=False))
            self._told.tell(each.number, each.submitted, observed, each.finish - each.submitted)
            self._running[each.number] = False
        for ended, number in ends[over:]:
            self._told.came(number, ended)
        for _, number in ends:
            del self._running[number]

    def tell(
        self,
        scheduler: SchedulerState,
        submitted: Mapping[int, float],
        finishes: Mapping[int, float],
    ) -> tuple[dict[int, CalibratedTimes], list[int]]:
        """P50 and P90 of forecast finishes, and the jobs that had no forecast before.

        submitted: when jobs were submitted that are not held.
        """
        now = scheduler.now
        with self._lock:
            waited_for = [number for number in submitted if number in finishes]
            first = [number for number in waited_for if number not in self._told]
            for number in first:
                self._arrived(now, submitted[number])
            self._told.foresee(finishes)
            crowd = _Crowd(len(submitted), self._arrived(now), declarations(scheduler))
            for number in waited_for:
                running = holds_gpus(scheduler, number)
                if self._running.get(number) is not running:
                    self._told.tell(
                        number, now, *_asked(scheduler, number, finishes[number], crowd)
                    )
                    self._running[number] = running
            numbers = [number for number in finishes if number in self._told]
            p50, p90 = self._told.again(numbers, np.array([finishes[n] - now for n in numbers]))
            times = zip((now + p50).tolist(), (now + p90).tolist(), strict=True)
            prior = self._told.prior
        promises = scheduler.promises
        found = {
            n: CalibratedTimes(*both, prior).under(promises.get(n), finishes[n])
            for n, both in zip(numbers, times, strict=True)
        }
        return found, first

    def ask(self, scheduler: SchedulerState, number: int, finish: float | None) -> CalibratedTimes:
        """P50 and P90 of a job that is forecast to finish so, and is not noted."""
        if finish is None:
            return UNKNOWN
        with self._lock:
            told = self._told.ask(scheduler.now, *self._asked(scheduler, number, finish))
        return CalibratedTimes(scheduler.now + told.p50, scheduler.now + told.p90, told.prior)

    def again(self, number: int, now: float, finish: float | None) -> float | None:
        """P50 of a job's finish if that were forecast to be ``finish``, by what the job was told by last."""
        with self._lock:
            if finish is None or number not in self._told:
                return finish
            p50, _ = self._told.again([number], np.array([finish - now]))
        return now + float(p50[0])

    def share_within(
        self, scheduler: SchedulerState, number: int, finish: float, seconds: float
    ) -> float:
        """Share of jobs with such a forecast that take at most ``seconds``."""
        with self._lock:
            observed, predicted, _ = self._asked(scheduler, number, finish)
            return self._told.share_within(observed, predicted, seconds)

    def job_ended(self, number: int, time: float, *, finished: bool) -> None:
        """A job is over; learn from it if it finished."""
        with self._lock:
            self._running.pop(number, None)
            if number in self._told and finished:
                self._told.came(number, time)
            else:
                self._told.withdraw(number)

    def _asked(
        self, scheduler: SchedulerState, number: int, finish: float
    ) -> tuple[Observed, float, float | None]:
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


class _Crowd(NamedTuple):
    """Jobs in the system, arrivals of late, and declarations of the jobs that wait for admission."""

    load: int
    arrivals: int
    declared: Mapping[int, JobSpec]


def _asked(
    scheduler: SchedulerState, number: int, finish: float, crowd: _Crowd
) -> tuple[Observed, float, float | None]:
    """The state to tell a job by, the seconds that are forecast, and its time limit."""
    waits = scheduler.row_of(number) is None
    spec = crowd.declared[number] if waits else scheduler.spec(number)
    seconds = finish - scheduler.now
    service = believed_service(scheduler, number, seconds)
    kinds = _kinds(running=holds_gpus(scheduler, number))
    observed = Observed(crowd.load, crowd.arrivals, service, spec.gpus, kinds)
    return observed, seconds, spec.time_limit_seconds


def _kinds(*, running: bool) -> tuple[str]:
    return ("runs" if running else "waits",)
