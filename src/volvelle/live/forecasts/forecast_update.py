"""Forecasts all jobs by running a fork of the scheduler ahead under its beliefs (PCS, OSDI'24, section 4)."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

from volvelle.core.forecast import Forecast
from volvelle.core.paying import compile_where_it_pays
from volvelle.core.scheduler import Scheduler
from volvelle.live.forecasts.calibration import UNKNOWN, ForecastCalibration
from volvelle.live.forecasts.overruns import foresee, late_finishes
from volvelle.live.scheduler_queries import guessed_jobs, submit_times, unheld_job_numbers
from volvelle.live.status.reasons import WaitingReason, waiting_reasons
from volvelle.live.store.rows import FirstForecast

_JOBS_PER_PART = 250
_FRESH = 0.1
"""The share of the time to the first told finish for which a forecast holds where the rest of an overdue job
grows as time passes; elsewhere all of it."""


@dataclass(frozen=True)
class ForecastTimes:
    """Forecast times of one job on the journal's clock; None if not known."""

    start: float | None
    p50: float | None
    p90: float | None
    guessed: bool = False
    """Whether nothing was known of how long it takes, or of how well forecasts hold."""


@dataclass(frozen=True)
class ForecastUpdate:
    """Forecasts of jobs, and why they wait.

    first: forecasts of jobs that had none before. seconds: that it took; None if it is in another
    part.
    """

    times: dict[int, ForecastTimes]
    reasons: dict[int, WaitingReason]
    first: tuple[FirstForecast, ...]
    seconds: float | None
    until: float = math.inf
    """When it is out of date though nothing happens, on the journal's clock."""

    def parts(self) -> Iterable["ForecastUpdate"]:
        """The same in parts of a few hundred jobs, so that the controller is never busy for long."""
        numbers = list(self.times)
        for first in range(0, len(numbers), _JOBS_PER_PART):
            these = numbers[first : first + _JOBS_PER_PART]
            wanted = set(these)
            yield ForecastUpdate(
                {number: self.times[number] for number in these},
                {number: self.reasons[number] for number in these if number in self.reasons},
                tuple(each for each in self.first if each.number in wanted),
                self.seconds if first == 0 else None,
                self.until,
            )


def forecast_jobs(
    scheduler: Scheduler, now: float, calibration: ForecastCalibration, epoch: float
) -> ForecastUpdate:
    """Forecast all jobs of ``scheduler`` at ``now``; ``epoch``: its time 0.

    First forecasts are added to ``calibration``. The scheduler is a fork used by nothing else.
    """
    began = time.perf_counter()
    compile_where_it_pays(scheduler, repeatedly=True)
    scheduler.now = max(scheduler.now, now)
    result, late = foresee(scheduler), late_finishes(scheduler)
    calibrated, first = calibration.tell(scheduler, dict(submit_times(scheduler)), result, late)
    guessed = guessed_jobs(scheduler)
    times = {
        number: ForecastTimes(start, p50, p90, prior or number in guessed)
        for number in unheld_job_numbers(scheduler)
        for p50, p90, prior, start in [
            calibrated.get(number) or UNKNOWN._replace(start=result.upcoming.get(number))
        ]
    }
    forecasts = [_first_forecast(number, result, times[number], now, epoch) for number in first]
    reasons = waiting_reasons(scheduler)
    until = min((each.p50 for each in times.values() if each.p50 is not None), default=math.inf)
    until = now + _FRESH * (until - now) if late else until
    return ForecastUpdate(times, reasons, tuple(forecasts), time.perf_counter() - began, until)


def _first_forecast(
    number: int, result: Forecast, times: ForecastTimes, now: float, epoch: float
) -> FirstForecast:
    start = result.upcoming.get(number, -math.inf)
    p50, p90, start_ahead = (
        None if each is None else epoch + each
        for each in (times.p50, times.p90, start if start >= now else None)
    )
    return FirstForecast(number, epoch + result.finish[number], p50, p90, start_ahead)
