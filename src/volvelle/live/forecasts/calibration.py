"""Calibration of forecasts: P50 and P90 of a forecast finish, from the errors of past forecasts.

The remaining time of a job is multiplied by how much longer jobs took than was forecast at their submission,
more where too few of the first P90s held (`volvelle.estimate.statements`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from volvelle.estimate.statements import Statements


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


class ForecastCalibration:
    """First forecasts of jobs and their errors. Times are on the journal's clock."""

    def __init__(self) -> None:
        self._statements = Statements()

    def learn(self, forecast_seconds: float, actual_seconds: float) -> None:
        """Learn from a job that has finished."""
        self._statements.learn(self._statements.reckon_alone(forecast_seconds), actual_seconds)

    def add_first_forecast(
        self,
        number: int,
        submitted: float,
        finish: float,
        told: Iterable[float | None] = (None, None),
    ) -> None:
        """Record the first forecast of a job, and the P50 and P90 that were shown with it."""
        reckoned = self._statements.reckon_alone(finish - submitted)
        self._statements.add(number, submitted, reckoned, told)

    def has_first_forecast(self, number: int) -> bool:
        """Whether a job that is not over has a first forecast."""
        return number in self._statements

    def job_ended(self, number: int, time: float, *, finished: bool) -> None:
        """A job is over; learn from it if it finished."""
        if number in self._statements:
            self._statements.ended(number, time, finished=finished)

    def judge(self, told: Iterable[float | None], ended: float) -> None:
        """Steer by the P50 and P90 shown for a job that ended; None: not shown."""
        self._statements.judge(told, ended)

    def at(self, now: float) -> CalibratedTimes:
        """The calibration at ``now``. Open jobs that are overdue count with the time they took so far."""
        self._statements.pass_time(now)
        one_second = self._statements.reckon_alone(1.0)
        return CalibratedTimes(now, *self._statements.stated(one_second, now))

    def share_within(self, forecast_seconds: float, seconds: float) -> float | None:
        """Share of jobs with such a forecast that take at most ``seconds``; None if too little is known."""
        return self._statements.share_within(forecast_seconds, seconds)
