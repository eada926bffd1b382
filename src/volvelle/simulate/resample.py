"""The recent past, and futures drawn from it: further arrivals, and errors of beliefs.

Arrivals are resampled in blocks of consecutive ones with their gaps, of any length up to the whole past, so
that bursts of any length stay bursts. What comes now goes on first: the latest arrivals come again, as often
as not twice as many as came already. How long jobs really take, over what was believed of them, is drawn from
what was seen of finished jobs; of a job under way only what is still possible.
"""

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from volvelle.core.parts import Belief
from volvelle.core.view import FloatColumn, IntColumn
from volvelle.model.job import JobSpec
from volvelle.model.tolerances import SAME_SHARE

_BEYOND = 20  # arrivals after the horizon
_LEAST = 20  # arrivals, or ends, before anything is drawn from them
_OVERDUE = 1.05  # what a job that did more than ever was seen is believed to take, over that


class Arrival(NamedTuple):
    """A job that came at ``time``: as it was declared, and what was believed of it.

    columns: those with which it came (`volvelle.core.state.Jobs`).
    """

    time: float
    spec: JobSpec
    belief: Belief
    columns: FloatColumn


class RecentPast:
    """The latest ``window`` arrivals and ends of a run."""

    def __init__(self, *, window: int = 500) -> None:
        self._arrivals: deque[Arrival] = deque(maxlen=window)
        self._ratios: deque[float] = deque(maxlen=window)

    def arrived(self, arrival: Arrival) -> None:
        """A job came."""
        self._arrivals.append(arrival)

    def finished(self, ratio: float) -> None:
        """A job took ``ratio`` times as long as was believed at its submission, where that is known."""
        if 0.0 < ratio < math.inf:
            self._ratios.append(ratio)

    @property
    def arrivals(self) -> list[Arrival]:
        """The latest, in order."""
        return list(self._arrivals)

    @property
    def enough(self) -> bool:
        """Whether there are as many arrivals as it takes to draw from them."""
        return len(self._arrivals) >= _LEAST

    def coming(
        self, horizon: float, most: int, rng: np.random.Generator
    ) -> tuple[IntColumn, FloatColumn]:
        """Which of the past arrivals come again within twice ``horizon``, and in how many seconds.

        Only the first ``most`` do.
        """
        times = [arrival.time for arrival in self._arrivals]
        gaps = np.diff(times, prepend=times[0])
        gaps[0] = gaps[1:].mean()
        drawn = _blocks(len(gaps), most, rng)
        seconds = np.cumsum(gaps[drawn])
        count = int(np.searchsorted(seconds, 2.0 * horizon, side="right")) + _BEYOND
        return drawn[:count], seconds[:count]

    @property
    def beliefs_known(self) -> bool:
        """Whether enough jobs are over to say how far beliefs err."""
        return len(self._ratios) >= _LEAST

    @property
    def beliefs_err(self) -> bool:
        """Whether jobs were seen to take longer or shorter than believed."""
        return self.beliefs_known and max(self._ratios) - min(self._ratios) >= SAME_SHARE

    def ratios(self, done: FloatColumn, rng: np.random.Generator) -> FloatColumn:
        """What jobs take over what is believed, of which they have ``done`` these shares."""
        if not self.beliefs_err:
            return np.ones(len(done))
        known = np.sort(np.array(self._ratios))
        possible = np.searchsorted(known, done, side="right")
        drawn = possible + (rng.random(len(done)) * (len(known) - possible)).astype(np.int64)
        ratios = known[np.minimum(drawn, len(known) - 1)]
        return np.where(possible == len(known), _OVERDUE * done, ratios)


def _blocks(known: int, most: int, rng: np.random.Generator) -> IntColumn:
    """Which ``most`` of the ``known`` arrivals come again, in blocks; at the beginning the latest.

    How many of the latest go on is drawn log-uniformly, as the lengths of blocks are. They come again once at
    least, and k times with the chance 1/k (Pareto's distribution: what lasted long will last long).
    """
    mean_length = (known - 1) / math.log(known)
    lengths = (known ** rng.random(2 + int(2 * most / mean_length))).astype(np.int64)
    starts = (rng.random(len(lengths)) * (known - lengths + 1)).astype(np.int64)
    starts[0] = known - lengths[0]
    counts = lengths.copy()
    counts[0] = min(lengths[0] / (1.0 - rng.random()), most)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    drawn: IntColumn = np.repeat(starts, counts) + within % np.repeat(lengths, counts)
    return drawn[:most]
