"""The weekly rhythm of a trace: its rate of submission by hour of the week, and time warped by it.

In operational time, the number of jobs expected so far, submissions come at a constant rate; what
is left there are bursts. Hours are those of the trace's own clock, counted from its time 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from volvelle.model.arrays import FloatColumn
from volvelle.model.units import DAY, HOUR

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

    Hours of the day and days of the week are shrunk towards the whole trace, and each hour of the
    week towards the product of the two, so that a burst is not taken for a habit. The weight of
    the prior, in hours seen, is Bühlmann's (1967, "Experience rating and credibility"): the noise
    of an hour's count over the variance of the rates, which are taken to vary by half their mean
    over the day, and by a third of it otherwise.
    """
    begin, end = float(submits[0]), float(submits[-1])
    hours = np.arange(begin // HOUR, end // HOUR + 1).astype(np.int64)
    seen = np.minimum((hours + 1) * HOUR, end) - np.maximum(hours * HOUR, begin)
    counts = np.bincount((submits // HOUR).astype(np.int64) - hours[0], minlength=len(hours))
    jobs, exposure = (
        np.bincount(hours % _HOURS, weights=column, minlength=_HOURS).reshape(7, 24)
        for column in (counts, seen)
    )
    overall = len(submits) / (end - begin)
    noise = _noise(counts.astype(np.float64)) / (overall * HOUR) ** 2
    by_day, otherwise = (HOUR * max(1.0, noise / spread**2) for spread in (1 / 2, 1 / 3))
    of_day = (jobs.sum(axis=0) + overall * by_day) / (exposure.sum(axis=0) + by_day)
    of_week = (jobs.sum(axis=1) + overall * otherwise) / (exposure.sum(axis=1) + otherwise)
    prior = np.outer(of_week / overall, of_day)
    return WeeklyRhythm(((jobs + prior * otherwise) / (exposure + otherwise)).ravel())


def _noise(counts: FloatColumn) -> float:
    """The variance of an hour's count about its expectation, from neighbours: no rhythm in it."""
    steps = np.diff(counts)
    return max(float(np.mean(steps**2)) / 2 if len(steps) else 0.0, float(counts.mean()))
