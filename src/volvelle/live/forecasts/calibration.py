"""Calibration of forecasts: P50 and P90 of a forecast finish, from the errors of past forecasts.

The remaining time of a job is multiplied by how much longer jobs took than was forecast at their submission,
more where too few of the first P90s held (`volvelle.estimate.calibration`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from volvelle.core.view import FloatColumn
from volvelle.estimate.calibration import Calibration


@dataclass(frozen=True)
class CalibratedTimes:
    """The calibration at time ``now``: what remains counts so many times; NaN if too little is known."""

    now: float
    p50_factor: float
    p90_factor: float

    def of(self, finish: float | None) -> tuple[float | None, float | None]:
        """P50 and P90 of a forecast finish. Without enough data P50 is the forecast itself."""
        if finish is None:
            return None, None
        remaining = max(finish - self.now, 0.0)
        if math.isnan(self.p50_factor) or math.isnan(self.p90_factor):
            return finish, None
        p50 = self.now + remaining * self.p50_factor
        return p50, max(self.now + remaining * self.p90_factor, p50)


@dataclass
class _FirstForecast:
    """Of a job that is not over. told: its P50 and P90, infinite where that is judged or never was."""

    submitted: float
    finish: float
    told: list[float]


class ForecastCalibration:
    """First forecasts of jobs and their errors. Times are on the journal's clock."""

    def __init__(self) -> None:
        self._calibrations = (
            Calibration(0.5, tie=0.5),
            Calibration(0.9, slack=0.005),
        )
        self._open: dict[int, _FirstForecast] = {}

    def learn(self, forecast_seconds: float, actual_seconds: float) -> None:
        """Learn from a job that has finished."""
        for calibration in self._calibrations:
            calibration.learn(forecast_seconds, actual_seconds)

    def add_first_forecast(
        self, number: int, submitted: float, finish: float, told: Iterable[float | None] = ()
    ) -> None:
        """Record the first forecast of a job, and the P50 and P90 that were told with it."""
        known = [math.inf if each is None else each for each in told]
        self._open[number] = _FirstForecast(submitted, finish, known)

    def has_first_forecast(self, number: int) -> bool:
        """Whether a job that is not over has a first forecast."""
        return number in self._open

    def job_ended(self, number: int, time: float, *, finished: bool) -> None:
        """A job is over; learn from it if it finished."""
        first = self._open.pop(number, None)
        if first is not None and finished:
            self.learn(first.finish - first.submitted, time - first.submitted)
            self.judge(first.told, time)

    def judge(self, told: Iterable[float | None], ended: float) -> None:
        """Steer by P50 and P90 as told of a job that ended; infinite: judged before, None: not told."""
        for calibration, each in zip(self._calibrations, told, strict=False):
            if each is not None and each < math.inf:
                calibration.steer(each, ended)

    def at(self, now: float) -> CalibratedTimes:
        """The calibration at ``now``. Open jobs that are overdue count with the time they took so far."""
        for first in self._open.values():
            for which, each in enumerate(first.told):
                if each < now:
                    self._calibrations[which].steer(each, math.inf)
                    first.told[which] = math.inf
        firsts = np.array([(first.submitted, first.finish) for first in self._open.values()])
        firsts = firsts.reshape(-1, 2)
        forecast, so_far = firsts[:, 1] - firsts[:, 0], now - firsts[:, 0]
        overdue = (so_far > forecast) & (forecast > 0.0)
        late: FloatColumn = so_far[overdue] / forecast[overdue]
        return CalibratedTimes(now, *(each.stated(1.0, late) for each in self._calibrations))

    def share_within(self, forecast_seconds: float, seconds: float) -> float | None:
        """Share of jobs with such a forecast that take at most ``seconds``; None if too little is known."""
        return self._calibrations[0].share_within(forecast_seconds, seconds)
