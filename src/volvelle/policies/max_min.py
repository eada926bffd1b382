"""Max-min fair share over GPUs: nobody can get more without taking from one who has less.

Whole GPUs go round in turns, running jobs first, then by submission, each job up to the most it can
use (the water-filling of the AFS simulator's MaxMin). A job gets its minimum or nothing, so a gang counts
as one step; nobody who runs is pushed below the minimum. For gangs alone that is fifo with skipping:
sharing over time is what las with a round does.
"""

from typing import ClassVar

import numpy as np

from volvelle.core.kernels import TARGET, TARGET_REASON, TARGET_TYPE, fill, water_fill
from volvelle.core.policy import Allocation, Policy, View, policies, rank


@policies.register
class MaxMin(Policy):
    """Max-min fair share: every job its minimum, then one GPU at a time to all in turn."""

    name: ClassVar[str] = "max-min"
    source: ClassVar[str] = "AFS (NSDI'21) section 5; water-filling"
    optimises: ClassVar[str] = "instantaneous fairness"

    def allocate(self, view: View) -> Allocation:
        """Minimum shares in order, then water-filling within each GPU type."""
        jobs = view.jobs
        least, most = np.array(jobs.min_gpus), np.array(jobs.max_gpus)
        order = rank(np.where(jobs.running, 0.0, 1.0), jobs)
        given = fill(jobs.matrix, order, least, least, view.capacity, view.quota, True, False)
        gpus, types = given[TARGET], given[TARGET_TYPE]
        left = view.quota.copy()
        held_by_pool = np.bincount(jobs.pool + 1, weights=gpus, minlength=len(left) + 1)
        left -= held_by_pool[1:]
        for gpu_type, capacity in enumerate(view.capacity):
            mine = order[types[order] == gpu_type]
            water_fill(jobs.matrix, mine, gpus, most, capacity - gpus[mine].sum(), left)
        return Allocation(gpus, types, given[TARGET_REASON], order)
