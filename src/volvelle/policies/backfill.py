"""EASY backfill (Lifka, JSSPP'95; Mu'alem and Feitelson, TPDS'01).

First in, first out, but later jobs may start ahead of a head job that does not fit, as long as they do
not delay it: the head gets a reservation at the time when, by what is believed of the running jobs,
enough GPUs will be free (the shadow time). A later job starts if it fits now and is believed to end by
then, or takes only GPUs the head will not need (the extra GPUs). Believed durations come from the
estimator; with wrong ones the reservation moves, as on real clusters. Jobs are gangs here: elastic
jobs run on the GPUs they request.
"""

from heapq import heapify, heappop
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import (
    GPUS,
    HELD,
    POOL,
    PROGRESS_FROM,
    RATE,
    REQUEST_RATE,
    START_GAP,
    TYPE,
    TYPES,
)
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, work_left
from volvelle.core.policy import Allocation, Kernel, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.core.view import View

Floats = NDArray[np.float64]

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
        held, held_type, pools, gpus, types = (
            jobs.kept(name) for name in ("held", "type", "pool", "gpus", "types")
        )
        ends, free, left = (
            each.tolist() for each in (jobs.seconds_to_end, view.capacity, view.quota)
        )
        given, given_type, reason = [0.0] * len(jobs), [-1.0] * len(jobs), [0.0] * len(jobs)
        backfill(
            held, held_type, pools, gpus, types, ends, free, left, given, given_type, reason
        )  # fmt: skip
        return Allocation(np.array(given), np.array(given_type), np.array(reason))

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
    ends = work_left(matrix, jobs, now)
    for row in range(jobs):
        gap, rate = matrix[START_GAP, row], matrix[REQUEST_RATE, row]
        if matrix[HELD, row] > 0.0:
            gap, rate = max(matrix[PROGRESS_FROM, row] - now, 0.0), matrix[RATE, row]
        ends[row] = gap + ends[row] / rate if rate > 0.0 else np.inf
    given[TARGET_TYPE] = -1.0
    backfill(
        matrix[HELD],
        matrix[TYPE],
        matrix[POOL],
        matrix[GPUS],
        matrix[TYPES],
        ends,
        capacity.copy(),
        quota.copy(),
        given[TARGET],
        given[TARGET_TYPE],
        given[TARGET_REASON],
    )


@kernel
def backfill(
    held: Any,
    held_type: Any,
    pools: Any,
    gpus: Any,
    types: Any,
    ends: Any,
    free: Any,
    left: Any,
    given: Any,
    given_type: Any,
    reason: Any,
) -> None:
    """EASY over jobs by submission: columns are lists here, arrays in machine code.

    ``ends`` are the believed seconds until each job ends if it runs from now on, ``free`` GPUs by type and
    ``left`` by pool; both are used up. Writes what each job is given (nobody anything before), of which type
    (before: -1), and why it waits. A job takes the first GPU type that will do; the head reserves the type on
    which it is believed to start first.
    """
    jobs = len(gpus)
    for row in range(jobs):
        if held[row] > 0.0:
            gpu_type, pool = int(held_type[row]), int(pools[row])
            given[row] = held[row]
            given_type[row] = gpu_type
            free[gpu_type] -= held[row]
            if pool >= 0:
                left[pool] -= held[row]
    reserved, shadow, extra = -1, INFINITY, 0.0
    for row in range(jobs):
        if given[row] > 0.0:
            continue
        need, pool = gpus[row], int(pools[row])
        if pool >= 0 and need > left[pool]:
            reason[row] = _QUOTA
            continue
        wished = int(types[row])
        chosen = -1
        for gpu_type in range(len(free)):
            if not (wished >> gpu_type) & 1 or free[gpu_type] < need:
                continue
            delays = gpu_type == reserved and ends[row] > shadow and need > extra
            if not delays:
                chosen = gpu_type
                break
        if chosen >= 0:
            given[row] = need
            given_type[row] = chosen
            free[chosen] -= need
            if pool >= 0:
                left[pool] -= need
            if chosen == reserved and ends[row] > shadow:
                extra -= need
            continue
        reason[row] = _GPUS_SHORT if reserved < 0 else _ORDER
        if reserved < 0:
            for gpu_type in range(len(free)):
                if (wished >> gpu_type) & 1:
                    seconds, over = _shadow(given, given_type, ends, gpu_type, free[gpu_type], need)
                    if seconds < shadow:
                        reserved, shadow, extra = gpu_type, seconds, over


@kernel
def _shadow(
    given: Any, given_type: Any, ends: Any, gpu_type: int, free: float, need: float
) -> tuple[float, float]:
    """Seconds until ``need`` GPUs of a type are believed free, and how many are left over then.

    Counts the jobs that run and those started in this very decision, also all that end at that time.
    """
    running = [(0.0, 0) for _ in range(0)]
    for row in range(len(given)):
        if given[row] > 0.0 and given_type[row] == gpu_type:
            running.append((ends[row], row))
    heapify(running)
    shadow = INFINITY
    while len(running) > 0:
        end, row = heappop(running)
        if end > shadow:
            break
        free += given[row]
        if free >= need:
            shadow = end
    return (shadow, free - need) if free >= need else (INFINITY, 0.0)
