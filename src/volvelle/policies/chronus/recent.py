"""How much work has come lately, by size."""

from dataclasses import dataclass, field

import numpy as np

from volvelle.core.view import FloatColumn


@dataclass
class RecentWork:
    """Jobs that came in the last ``period`` seconds: when, and the GPU-seconds each was believed to need."""

    period: float
    came: FloatColumn = field(default_factory=lambda: np.zeros(0))
    work: FloatColumn = field(default_factory=lambda: np.zeros(0))

    def add(self, now: float, work: FloatColumn) -> None:
        """These jobs come now; those that came too long ago are forgotten."""
        first = int(np.searchsorted(self.came, now - self.period))
        self.came = np.concatenate([self.came[first:], np.full(len(work), now)])
        self.work = np.concatenate([self.work[first:], work])

    def of_smaller(self, work: float) -> float:
        """GPU-seconds of the jobs that need no more than ``work`` each."""
        return float(self.work[self.work <= work].sum())
