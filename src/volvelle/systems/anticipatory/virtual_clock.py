"""The virtual clock of a pool: the starts of its jobs in the isolated reference (section 5.1).

The clock serves jobs first come, first served on the GPUs that the pool owns, by a loop over its jobs in
order of submission with the sorted ends of running ones. Real starts do not move it, only arrivals do.
"""

from dataclasses import dataclass, field

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.core.forward.moments import boundary
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.model.tolerances import SAME_AMOUNT


@dataclass
class VirtualClock:
    """A pool that owns ``owned`` GPUs, and decides at multiples of ``period`` seconds (0: at events).

    ends, gpus: of jobs that run virtually, by their ends. head: the last virtual start.
    """

    owned: float
    period: float = 0.0
    head: float = -np.inf
    ends: FloatColumn = field(default_factory=lambda: np.zeros(0))
    gpus: FloatColumn = field(default_factory=lambda: np.zeros(0))

    def occupy(self, end: float, gpus: float) -> None:
        """A job that runs already does so virtually too, until ``end``."""
        at = int(np.searchsorted(self.ends, end, side="right"))
        self.ends, self.gpus = np.insert(self.ends, at, end), np.insert(self.gpus, at, gpus)

    def starts(self, submit: FloatColumn, gpus: FloatColumn, seconds: FloatColumn) -> FloatColumn:
        """Starts of the next jobs, in order of submission; infinite for jobs that are too wide."""
        count, room = len(self.ends), np.zeros(len(submit))
        ends, widths = np.concatenate([self.ends, room]), np.concatenate([self.gpus, room])
        found, count, self.head = first_come_first_served(
            submit, gpus, seconds, self.owned, self.period, self.head, ends, widths, count
        )
        self.ends, self.gpus = ends[:count].copy(), widths[:count].copy()
        return found


@compiled
def first_come_first_served(
    submit: Floats,
    gpus: Floats,
    seconds: Floats,
    owned: float,
    period: float,
    head: float,
    ends: Floats,
    widths: Floats,
    count: int,
) -> tuple[Floats, int, float]:
    """Start times of jobs, first come, first served, on ``owned`` GPUs.

    ends, ascending, and widths: of running jobs, the first ``count`` entries of arrays with room for all
    jobs; changed in place. head: the start of the last job. Returns the starts, infinite for jobs wider than
    ``owned``, the new count and the new head.
    """
    jobs = len(submit)
    found = np.full(jobs, np.inf)
    free = owned
    for at in range(count):
        free -= widths[at]
    first = 0  # jobs before it have ended
    last = count
    for job in range(jobs):
        need = gpus[job]
        if need > owned + SAME_AMOUNT:
            continue
        start = max(submit[job], head)
        while first < last and (ends[first] <= start or free + SAME_AMOUNT < need):
            start = max(start, ends[first])
            free += widths[first]
            first += 1
        if period > 0.0:
            start = boundary(start, period, False)
        found[job] = head = start
        free -= need
        end = start + seconds[job]
        at = last
        while at > first and ends[at - 1] > end:
            ends[at], widths[at] = ends[at - 1], widths[at - 1]
            at -= 1
        ends[at], widths[at] = end, need
        last += 1
    for at in range(first, last):
        ends[at - first], widths[at - first] = ends[at], widths[at]
    return found, last - first, head
