"""Forecasts all jobs by running a fork of the scheduler ahead under its beliefs (PCS, OSDI'24, section 4)."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from volvelle.core.fork import Fork
from volvelle.core.scheduler import Scheduler
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.scheduler_queries import guessed_jobs, submit_times, unheld_job_numbers
from volvelle.live.status.reasons import waiting_reasons
from volvelle.live.store.rows import FirstForecast

_JOBS_PER_PART = 250


@dataclass(frozen=True)
class ForecastTimes:
    """Forecast times of one job on the journal's clock; None if not known."""

    start: float | None
    p50: float | None
    p90: float | None
    guessed: bool = False
    """Whether nothing was known of how long it takes when it was submitted."""


@dataclass(frozen=True)
class ForecastUpdate:
    """Forecasts of jobs, and why they wait.

    promises: of jobs that were forecast for the first time. seconds: that it took; None if it is in another
    part.
    """

    times: dict[int, ForecastTimes]
    reasons: dict[int, str]
    promises: tuple[FirstForecast, ...]
    seconds: float | None

    def parts(self) -> Iterable["ForecastUpdate"]:
        """The same in parts of a few hundred jobs, so that the controller is never busy for long."""
        numbers = list(self.times)
        for first in range(0, len(numbers), _JOBS_PER_PART):
            these = numbers[first : first + _JOBS_PER_PART]
            wanted = set(these)
            yield ForecastUpdate(
                {number: self.times[number] for number in these},
                {number: self.reasons[number] for number in these if number in self.reasons},
                tuple(promise for promise in self.promises if promise.number in wanted),
                self.seconds if first == 0 else None,
            )


def forecast_jobs(
    scheduler: Scheduler, now: float, calibration: ForecastCalibration, epoch: float
) -> ForecastUpdate:
    """Forecast all jobs of ``scheduler`` at ``now``; ``epoch``: its time 0.

    First forecasts are added to ``calibration``. The scheduler is a fork used by nothing else.
    """
    began = time.perf_counter()
    scheduler.compile_where_it_pays()
    scheduler.now = max(scheduler.now, now)
    result = Fork(scheduler).until()
    calibrated = calibration.at(scheduler.now)
    guessed = guessed_jobs(scheduler)
    times = {
        number: ForecastTimes(
            result.upcoming.get(number),
            *calibrated.of(result.finish.get(number)),
            number in guessed,
        )
        for number in unheld_job_numbers(scheduler)
    }
    promises = []
    for number, submitted in submit_times(scheduler):
        finish = result.finish.get(number)
        if finish is not None and not calibration.has_first_forecast(number):
            told = times[number].p50, times[number].p90
            calibration.add_first_forecast(number, submitted, finish, told)
            promises.append(_promise(number, finish, times[number], epoch))
    reasons = waiting_reasons(scheduler, result.upcoming)
    return ForecastUpdate(times, reasons, tuple(promises), time.perf_counter() - began)


def _promise(number: int, finish: float, times: ForecastTimes, epoch: float) -> FirstForecast:
    p50, p90 = (None if each is None else epoch + each for each in (times.p50, times.p90))
    return FirstForecast(number, epoch + finish, p50, p90)
