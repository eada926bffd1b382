"""The weekly rhythm of a trace: its rate of submission by hour of the week, and time warped by it.

In operational time, the number of jobs expected so far, submissions come at a constant rate; what
is left there are bursts. Hours are those of the trace's own clock, counted from its time 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volvelle.model.units import DAY, HOUR
from volvelle.workload.workload import FloatColumn

WEEK = 7 * DAY
_HOURS = 168


@dataclass(frozen=True)
class WeeklyRhythm:
    """Rate of submission by hour of the week, ``rates`` in jobs per second, 168 of them above 0."""

    rates: FloatColumn

    @cached_property
    def _cumulated(self) -> FloatColumn:
        return np.concatenate([[0.0], np.cumsum(self.rates * HOUR)])

    def expected(self, seconds: FloatColumn) -> FloatColumn:
        """Jobs expected between time 0 and each of ``seconds``: operational time."""
        weeks, rest = np.divmod(seconds, WEEK)
        within: FloatColumn = np.interp(rest, np.arange(_HOURS + 1) * HOUR, self._cumulated)
        jobs: FloatColumn = weeks * self._cumulated[-1] + within
        return jobs

    def moment(self, expected: FloatColumn) -> FloatColumn:
        """The inverse of `expected`."""
        weeks, rest = np.divmod(expected, self._cumulated[-1])
        within: FloatColumn = np.interp(rest, self._cumulated, np.arange(_HOURS + 1) * HOUR)
        seconds: FloatColumn = weeks * WEEK + within
        return seconds

    @property
    def profile(self) -> FloatColumn:
        """The rates relative to their mean."""
        relative: FloatColumn = self.rates / float(self.rates.mean())
        return relative


def weekly_rhythm(submits: FloatColumn) -> WeeklyRhythm:
    """The rhythm of ascending submission times over a span above 0 s.

    Each hour of the week is shrunk towards its hour of the day, and that towards the whole trace,
    with the weight of one hour seen once, so that a short trace is not overfitted.
    """
    begin, end = float(submits[0]), float(submits[-1])
    hours = np.arange(begin // HOUR, end // HOUR + 1).astype(np.int64)
    seen = np.minimum((hours + 1) * HOUR, end) - np.maximum(hours * HOUR, begin)
    exposure = np.bincount(hours % _HOURS, weights=seen, minlength=_HOURS)
    counts = np.bincount((submits // HOUR).astype(np.int64) % _HOURS, minlength=_HOURS)
    overall = len(submits) / (end - begin)
    daily_counts = np.tile(counts.reshape(7, 24).sum(axis=0), 7)
    daily_exposure = np.tile(exposure.reshape(7, 24).sum(axis=0), 7)
    daily = (daily_counts + overall * HOUR) / (daily_exposure + HOUR)
    return WeeklyRhythm((counts + daily * HOUR) / (exposure + HOUR))
