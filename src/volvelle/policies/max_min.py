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
from pydantic import Field

from volvelle.core.columns import HELD, LEAST, MOST, POOL, WEIGHT
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET, ClusterNow, water_fill
from volvelle.core.policy import Kernel, Policy, policies
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import LEAST_DIVISOR
from volvelle.policies.growth import give_least, may_grow, served_on, then_by


@policies.register
class MaxMin(Policy):
    """Max-min fair share: every job its minimum, then one GPU at a time to all in turn."""

    name: ClassVar[str] = "max-min"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "AFS (NSDI'21); water-filling"
    optimises: ClassVar[str] = "instantaneous fairness"
    keeps_running: ClassVar[bool] = True

    weighted: bool = Field(False, description="shares in proportion to the jobs' weights")

    def kernel(self, *, named: bool) -> Kernel:
        """Minimum shares in order, then water-filling within each GPU type."""
        return Kernel(decide, np.array([float(self.weighted)]), rates=False)


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`Kernel`). memory: whether shares are in proportion to weights."""
    weighted = memory[0] == 1.0
    order = np.argsort(np.where(jobs[HELD] > 0.0, 0.0, 1.0), kind="mergesort")
    if weighted:
        order = then_by(order, -jobs[WEIGHT])
    left = give_least(jobs, order, jobs[LEAST], cluster, out)
    gpus = out[TARGET]
    for gpu_type in range(len(cluster.capacity)):
        mine = served_on(gpu_type, order, out)
        free = cluster.capacity[gpu_type] - gpus[mine].sum()
        if free < 1.0:
            continue
        if weighted:
            grow_by_weight(jobs, mine, gpus, free, left)
        else:
            water_fill(jobs, mine, gpus, jobs[MOST], free, left)
    return INFINITY


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
