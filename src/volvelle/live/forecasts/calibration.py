"""Calibration of forecasts: P50 and P90 of a forecast finish, from the errors of past forecasts.

The remaining time of a job is multiplied by how much longer jobs like it took than was forecast at their
submission (`volvelle.estimate.calibration`).
"""

import math
from dataclasses import dataclass

import numpy as np

from volvelle.core.view import FloatColumn
from volvelle.estimate.calibration import Calibration

_GRID = np.geomspace(1.0, 1e8, 33)
"""Remaining seconds for which factors are computed; between them factors are interpolated."""
_LOG_GRID = np.log(_GRID)


@dataclass(frozen=True)
class CalibratedTimes:
    """The calibration at time ``now``: factors over the grid, None if too little is known."""

    now: float
    p50_factors: FloatColumn | None
    p90_factors: FloatColumn | None

    def of(self, finish: float | None) -> tuple[float | None, float | None]:
        """P50 and P90 of a forecast finish. Without enough data P50 is the forecast itself."""
        if finish is None:
            return None, None
        remaining = max(finish - self.now, 0.0)
        p50 = self._scaled(remaining, self.p50_factors)
        p90 = self._scaled(remaining, self.p90_factors)
        p50 = finish if p50 is None else p50
        return p50, None if p90 is None else max(p90, p50)

    def _scaled(self, remaining: float, factors: FloatColumn | None) -> float | None:
        if factors is None:
            return None
        at = math.log(max(remaining, 1.0))
        return self.now + remaining * float(np.interp(at, _LOG_GRID, factors))


class ForecastCalibration:
    """First forecasts of jobs and their errors. Times are on the journal's clock."""

    def __init__(self) -> None:
        self._p50, self._p90 = Calibration(0.5), Calibration(0.9, slack=0.005)
        self._open: dict[int, tuple[float, float]] = {}
        """Submission and first forecast finish of jobs that are not over."""

    def learn(self, forecast_seconds: float, actual_seconds: float) -> None:
        """Learn from a job that has finished."""
        for calibration in (self._p50, self._p90):
            calibration.learn(forecast_seconds, actual_seconds)

    def add_first_forecast(self, number: int, submitted: float, finish: float) -> None:
        """Record the first forecast of a job."""
        self._open[number] = (submitted, finish)

    def has_first_forecast(self, number: int) -> bool:
        """Whether a job that is not over has a first forecast."""
        return number in self._open

    def job_ended(self, number: int, time: float, *, finished: bool) -> None:
        """A job is over; learn from it if it finished."""
        first = self._open.pop(number, None)
        if first is not None and finished:
            submitted, finish = first
            self.learn(finish - submitted, time - submitted)

    def at(self, now: float) -> CalibratedTimes:
        """The calibration at ``now``. Open jobs that are overdue count with the time they took so far."""
        firsts = np.array(list(self._open.values())).reshape(-1, 2)
        forecast, so_far = firsts[:, 1] - firsts[:, 0], now - firsts[:, 0]
        late = (so_far > forecast) & (forecast > 0.0)
        found = []
        for calibration in (self._p50, self._p90):
            stated = [
                calibration.stated(seconds, forecast[late], so_far[late])
                for seconds in _GRID.tolist()
            ]
            factors = np.array(stated) / _GRID
            found.append(None if np.isnan(factors).any() else factors)
        return CalibratedTimes(now, found[0], found[1])

    def share_within(self, forecast_seconds: float, seconds: float) -> float | None:
        """Share of jobs with such a forecast that take at most ``seconds``; None if too little is known."""
        return self._p50.share_within(forecast_seconds, seconds)
