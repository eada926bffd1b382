"""How much work has come lately, by size."""

import math
from dataclasses import dataclass, field

import numpy as np

from volvelle.model.arrays import FloatColumn

_LEAST_SECONDS = 3600.0
"""Over which a rate is seen at least: the first minutes say little."""


@dataclass
class RecentWork:
    """Jobs that came in the last ``period`` seconds: when, and the GPU-seconds each was believed to need."""

    period: float
    came: FloatColumn = field(default_factory=lambda: np.zeros(0))
    work: FloatColumn = field(default_factory=lambda: np.zeros(0))
    sizes: FloatColumn = field(default_factory=lambda: np.zeros(0))
    """The same work, the smallest first, while `sums` are known."""
    sums: FloatColumn = field(default_factory=lambda: np.zeros(0))
    """Of `sizes`, up to each; none while they are not known."""

    def add(self, came: FloatColumn, work: FloatColumn) -> None:
        """These jobs came, the last of them now; those that came too long ago are forgotten."""
        if not len(came):
            return
        came, work = np.concatenate([self.came, came]), np.concatenate([self.work, work])
        first = int(np.searchsorted(came, came[-1] - self.period))
        self.came, self.work = came[first:], work[first:]
        self.sums = np.zeros(0)

    def rate_of_smaller(self, work: float, now: float) -> float:
        """GPUs that jobs no larger than this one, which came too, keep busy: one standard error fewer.

        So few jobs, of which it is not known whether as many will come again, count for nothing.
        """
        small = self.work[self.work <= work]
        if len(small) < 3:
            return 0.0
        seconds = min(max(now - float(self.came[0]), _LEAST_SECONDS), self.period)
        return float(small.sum()) / seconds * (1.0 - 1.0 / math.sqrt(len(small) - 1))

    def largest_within(self, work: float) -> float:
        """The size from which on jobs do not find room in so many GPU-seconds if smaller ones go first."""
        if not len(self.sums):
            self.sizes = np.sort(self.work)
            self.sums = np.cumsum(self.sizes)
        first = int(np.searchsorted(self.sums, work, side="right"))
        return float(self.sizes[first]) if first < len(self.sizes) else float(np.inf)
