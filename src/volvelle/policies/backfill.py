"""EASY backfill (Lifka, JSSPP'95; Mu'alem and Feitelson, TPDS'01).

First in, first out, but later jobs may start ahead of a head job that does not fit, as long as they do
not delay it: the head gets a reservation at the time when, by what is believed of the running jobs,
enough GPUs will be free (the shadow time). A later job starts if it fits now and is believed to end by
then, or takes only GPUs the head will not need (the extra GPUs). Believed durations come from the
estimator; with wrong ones the reservation moves, as on real clusters. Jobs are gangs here: elastic
jobs run on the GPUs they request.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import (
    GPUS,
    HELD,
    POOL,
    TYPE,
    TYPES,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, seconds_left
from volvelle.core.policy import Allocation, Kernel, Policy, policies
from volvelle.core.state import Reason
from volvelle.core.view import View

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GPUS_SHORT = int(Reason.GPUS)
_ORDER = int(Reason.ORDER)
_QUOTA = int(Reason.QUOTA)


@policies.register
class EasyBackfill(Policy):
    """First in, first out, with later jobs let in where they do not delay the head of the queue."""

    name: ClassVar[str] = "easy"
    source: ClassVar[str] = "EASY (JSSPP'95)"
    optimises: ClassVar[str] = "utilisation, without delaying the head of the queue"
    starvation_free: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False

    @property
    def resizes(self) -> bool:
        """Jobs are gangs here."""
        return False

    def allocate(self, view: View) -> Allocation:
        """Keep what runs, start the head jobs that fit, reserve, backfill."""
        jobs = view.jobs
        order = np.argsort(jobs.number)
        given = backfill(jobs.matrix, order, jobs.seconds_to_end, view.capacity, view.quota)
        return Allocation(given[TARGET], given[TARGET_TYPE], given[TARGET_REASON], order)

    def kernel(self, *, named: bool) -> Kernel:
        """The same as machine code."""
        return Kernel(decide, np.zeros(0), rates=False)


@kernel
def decide(
    matrix: Floats,
    now: float,
    capacity: Floats,
    quota: Floats,
    table: Floats,
    parameters: Floats,
    given: Floats,
) -> None:
    """`EasyBackfill.allocate` as machine code."""
    jobs = matrix.shape[1]
    ends = seconds_left(matrix, now)
    given[:3] = backfill(matrix, np.arange(jobs), ends, capacity, quota)


@compiled
def backfill(
    matrix: Floats,
    order: Ints,
    ends: Floats,
    capacity: Floats,
    quota: Floats,
) -> Floats:
    """EASY over jobs in ``order``. Returns (3, jobs) as `volvelle.core.fill.fill` does.

    ``ends`` are the believed seconds until each job ends if it runs from now on. A job takes the
    first GPU type that will do; the head reserves the type on which it is believed to start first.
    """
    jobs = len(order)
    result = np.zeros((3, jobs))
    result[1, :] = -1.0
    free = capacity.copy()
    left = quota.copy()
    for row in range(jobs):
        held = matrix[HELD, row]
        if held > 0.0:
            gpu_type = int(matrix[TYPE, row])
            result[0, row] = held
            result[1, row] = gpu_type
            free[gpu_type] -= held
            if matrix[POOL, row] >= 0:
                left[int(matrix[POOL, row])] -= held
    reserved, shadow, extra = -1, np.inf, 0.0
    for row in order:
        if result[0, row] > 0.0:
            continue
        need = matrix[GPUS, row]
        pool = int(matrix[POOL, row])
        if pool >= 0 and need > left[pool]:
            result[2, row] = _QUOTA
            continue
        wished = int(matrix[TYPES, row])
        chosen = -1
        for gpu_type in range(len(free)):
            if not (wished >> gpu_type) & 1 or free[gpu_type] < need:
                continue
            delays = gpu_type == reserved and ends[row] > shadow and need > extra
            if not delays:
                chosen = gpu_type
                break
        if chosen >= 0:
            result[0, row] = need
            result[1, row] = chosen
            free[chosen] -= need
            if pool >= 0:
                left[pool] -= need
            if chosen == reserved and ends[row] > shadow:
                extra -= need
            continue
        result[2, row] = _GPUS_SHORT if reserved < 0 else _ORDER
        if reserved < 0:
            for gpu_type in range(len(free)):
                if (wished >> gpu_type) & 1:
                    seconds, over = _shadow(result, ends, gpu_type, free[gpu_type], need)
                    if seconds < shadow:
                        reserved, shadow, extra = gpu_type, seconds, over
    return result


@compiled
def _shadow(
    result: Floats, ends: Floats, gpu_type: int, free: float, need: float
) -> tuple[float, float]:
    """Seconds until ``need`` GPUs of a type are believed free, and how many are left over then.

    Counts the jobs that run and those started in this very decision, also all that end at that time.
    """
    running = np.flatnonzero((result[0] > 0.0) & (result[1] == gpu_type))
    shadow = np.inf
    for i in np.argsort(ends[running], kind="mergesort"):
        end = ends[running[i]]
        if end > shadow:
            break
        free += result[0, running[i]]
        if free >= need:
            shadow = end
    return (shadow, free - need) if free >= need else (np.inf, 0.0)
