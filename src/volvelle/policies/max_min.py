"""Max-min fair share over GPUs: nobody can get more without taking from one who has less.

Whole GPUs go round in turns, running jobs first, then by submission, each job up to the most it can
use (the water-filling of the AFS simulator's MaxMin). A job gets its minimum or nothing, so a gang counts
as one step; nobody who runs is pushed below the minimum. For gangs alone that is fifo with skipping:
sharing over time is what las with a round does.

With ``weighted`` it is GPUs over the job's weight that are made equal: the next GPU goes to the job with
the smallest share, and where there are too many jobs the heaviest have theirs first.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from volvelle.core.columns import MOST, POOL, WEIGHT
from volvelle.core.compiled import compiled
from volvelle.core.fill import water_fill
from volvelle.core.policy import Allocation, Policy, policies, rank
from volvelle.core.view import FloatColumn, IntColumn, View
from volvelle.model.tolerances import LEAST_DIVISOR
from volvelle.policies.growth import least_then_more, may_grow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@policies.register
class MaxMin(Policy):
    """Max-min fair share: every job its minimum, then one GPU at a time to all in turn."""

    name: ClassVar[str] = "max-min"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "AFS (NSDI'21); water-filling"
    optimises: ClassVar[str] = "instantaneous fairness"

    weighted: bool = Field(False, description="shares in proportion to the jobs' weights")

    def allocate(self, view: View) -> Allocation:
        """Minimum shares in order, then water-filling within each GPU type."""
        jobs, matrix = view.jobs, view.jobs.matrix
        waits = np.where(jobs.running, 0.0, 1.0)

        def grow(
            rows: IntColumn, gpus: FloatColumn, free: float, left: FloatColumn, gpu_type: int
        ) -> None:
            if self.weighted:
                grow_by_weight(matrix, rows, gpus, free, left)
            else:
                water_fill(matrix, rows, gpus, matrix[MOST], free, left)

        if self.weighted:
            return least_then_more(view, np.lexsort((jobs.number, waits, -jobs.weight)), grow)
        return least_then_more(view, rank(waits), grow)


@compiled
def grow_by_weight(matrix: Floats, rows: Ints, gpus: Floats, free: float, left: Floats) -> float:
    """Hand out ``free`` GPUs one at a time to who has fewest for their weight, in place.

    Of equals the first of ``rows`` has it. Returns what is left of ``free``.
    """
    while free >= 1.0:
        best, least_share = -1, np.inf
        for row in rows:
            share = gpus[row] / max(matrix[WEIGHT, row], LEAST_DIVISOR)
            if share < least_share and may_grow(matrix, row, gpus, left):
                best, least_share = row, share
        if best < 0:
            break
        gpus[best] += 1.0
        free -= 1.0
        pool = int(matrix[POOL, best])
        if pool >= 0:
            left[pool] -= 1.0
    return free
