"""Forecasts of each job since the controller started, by time."""

from array import array
from collections import OrderedDict
from math import isnan, nan

from volvelle.live.status.view import ForecastPoint, JobStatusView

MAX_POINTS = 64
"""Of one job, an even number; beyond, every second one is dropped."""

_ENDED_JOBS = 1000
_MIN_CHANGE = 0.01
"""A forecast is another one if it differs by this share of the time that is left."""
_MIN_CHANGE_SECONDS = 1.0


class ForecastHistory:
    """The forecasts of live jobs, and of the latest that ended. Any thread may read."""

    def __init__(self) -> None:
        self._live: dict[int, array[float]] = {}
        self._ended: OrderedDict[int, array[float]] = OrderedDict()

    def add(self, time: float, job: JobStatusView) -> None:
        """Keep the present forecast of ``job``, if it is there and differs from the last."""
        times = tuple(
            nan if each is None else each
            for each in (job.predicted_start, job.predicted_p50, job.predicted_p90)
        )
        if all(map(isnan, times)):
            return
        points = self._live.setdefault(job.number, array("d"))
        while points and points[-4] > time:  # of a clock that was set back since
            points = points[:-4]
        if points and not any(
            _differs(time, *pair) for pair in zip(points[-3:], times, strict=True)
        ):
            return
        grown = points + array("d", (time, *times))
        if len(grown) > 4 * MAX_POINTS:  # of an odd number the first and the last stay
            grown = array("d", (x for at in range(0, len(grown), 8) for x in grown[at : at + 4]))
        self._live[job.number] = grown

    def end(self, number: int) -> None:
        """A job is over."""
        if (points := self._live.pop(number, None)) is not None:
            self._ended[number] = points
            if len(self._ended) > _ENDED_JOBS:
                self._ended.popitem(last=False)

    def of(self, number: int) -> tuple[ForecastPoint, ...]:
        """The forecasts of a job, the earliest first."""
        points = self._live.get(number) or self._ended.get(number) or ()
        return tuple(
            ForecastPoint(points[at], *(None if isnan(x) else x for x in points[at + 1 : at + 4]))
            for at in range(0, len(points), 4)
        )


def _differs(time: float, before: float, now: float) -> bool:
    if isnan(before) or isnan(now):
        return isnan(before) != isnan(now)
    return abs(now - before) > max(_MIN_CHANGE_SECONDS, _MIN_CHANGE * abs(now - time))
