"""Least first, then more: the frame of the policies that hand out whole GPUs one at a time.

Jobs get the fewest GPUs they run on, in an order that the policy gives; with what is left they grow,
within each GPU type, by a rule of the policy. A gang has nothing to grow to. For jobs that run on one
GPU or more this is what the papers write: one GPU each, then the next GPU to whoever wins it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import CURVE, LEAST, MOST, PINNED, POOL, TYPE, TYPES
from volvelle.core.compiled import compiled
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, fill
from volvelle.core.forward.rates import rate_on
from volvelle.core.policy import Allocation
from volvelle.core.view import FloatColumn, IntColumn, View

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Grow = Callable[[IntColumn, FloatColumn, float, FloatColumn, int], object]
"""Raises GPUs in place: (rows in order, GPUs of every job, GPUs left, quotas left, GPU type)."""


def least_then_more(
    view: View, order: IntColumn, grow: Grow, least: FloatColumn | None = None
) -> Allocation:
    """The least for jobs in ``order``, skipping what does not fit, then ``grow`` for those served.

    ``least`` replaces the fewest GPUs that jobs run on.
    """
    jobs = view.jobs
    if least is None:
        least = jobs.matrix[LEAST]
    given = fill(jobs.matrix, order, least, least, view.capacity, view.quota, True, False)
    gpus, types = given[TARGET], given[TARGET_TYPE]
    left = view.quota.copy()
    if len(left):
        left -= np.bincount(jobs.pool + 1, weights=gpus, minlength=len(left) + 1)[1:]
    for gpu_type, capacity in enumerate(view.capacity.tolist()):
        mine = order[types[order] == gpu_type]
        free = capacity - float(gpus[mine].sum())
        if free >= 1.0:
            grow(mine, gpus, free, left, gpu_type)
    return Allocation(gpus, types, given[TARGET_REASON], order)


@compiled
def may_grow(matrix: Floats, row: int, gpus: Floats, left: Floats) -> bool:
    """Whether the job in ``row`` can use one GPU more and its pool has one left."""
    pool = int(matrix[POOL, row])
    return (
        gpus[row] + 1.0 <= matrix[MOST, row]
        and matrix[PINNED, row] == 0.0
        and (pool < 0 or left[pool] >= 1.0)
    )


@compiled
def seconds_on_least(matrix: Floats, table: NDArray[np.float64], work: Floats) -> Floats:
    """Seconds left to each job on the fewest GPUs it runs on, of the type it holds or would take."""
    seconds = np.empty(len(work))
    for row in range(len(work)):
        gpu_type = int(matrix[TYPE, row])
        if gpu_type < 0:
            types = int(matrix[TYPES, row])
            gpu_type = 0
            while not (types >> gpu_type) & 1:
                gpu_type += 1
        rate = rate_on(table, int(matrix[CURVE, row]), gpu_type, matrix[LEAST, row])
        seconds[row] = work[row] / rate if rate > 0.0 else np.inf
    return seconds
