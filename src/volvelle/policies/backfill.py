"""Backfill: first in, first out, and later jobs may start ahead of those that do not fit, but not delay
them.

EASY (Lifka, JSSPP'95; Mu'alem and Feitelson, TPDS'01): the head of the queue gets a reservation at the
time when, by what is believed of the running jobs, enough GPUs will be free (the shadow time). A later job
starts if it fits now and is believed to end by then, or takes only GPUs the head will not need (the extra
GPUs).

Conservative (TPDS'01, section 3): every job that waits has a reservation, at the first time at which it
fits beside those of jobs before it. A later job starts if it delays none of them. Reservations are made
anew at each decision, in order of submission, so that they move up when a job ends early.

Both keep what is free from when on in profiles (`volvelle.policies.profile`), in seconds from now. Believed
durations come from the estimator; with wrong ones reservations move, as on real clusters. Jobs are gangs
here: elastic jobs run on the GPUs they request.
"""

from typing import ClassVar

import numpy as np

from volvelle.core.columns import GPUS, POOL, PRIORITY, TYPES
from volvelle.core.compiled import kernel
from volvelle.core.fill import ClusterNow, keep_running, let_have, seconds_left
from volvelle.core.policy import Kernel, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.profile import Profile, add, earliest_fit, fits, profile_of, write_running

_GPUS_SHORT = int(Reason.GPUS)
_ORDER = int(Reason.ORDER)
_QUOTA = int(Reason.QUOTA)


@policies.register
class EasyBackfill(Policy):
    """First in, first out within a priority; later jobs go ahead where the head is not delayed."""

    name: ClassVar[str] = "easy"
    source: ClassVar[str] = "EASY (JSSPP'95)"
    optimises: ClassVar[str] = "utilisation, without delaying the head of the queue"
    starvation_free: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    heeds_priority: ClassVar[bool] = True
    keeps_running: ClassVar[bool] = True
    gangs: ClassVar[bool] = True

    def kernel(self, *, named: bool) -> Kernel:
        """Keep what runs, start the head jobs that fit, reserve, backfill."""
        return Kernel(decide, np.zeros(0), rates=False, serves_all=True)


@policies.register
class ConservativeBackfill(EasyBackfill):
    """First in, first out within a priority; later jobs go ahead where nobody who waits is delayed."""

    name: ClassVar[str] = "conservative"
    source: ClassVar[str] = "Mu'alem and Feitelson (TPDS'01)"
    optimises: ClassVar[str] = "utilisation, with a start for every job that arrivals do not delay"

    def kernel(self, *, named: bool) -> Kernel:
        """Keep what runs, then start each job that waits, or reserve."""
        return Kernel(decide_conservatively, np.zeros(0), rates=False, serves_all=True)


@kernel
def by_priority(matrix: Floats) -> Ints:
    """Jobs by priority, the highest first; of equals, those submitted first."""
    return np.argsort(-matrix[PRIORITY], kind="mergesort")


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """EASY's decision (`Kernel`)."""
    order = by_priority(jobs)
    out[3] = order
    ends = seconds_left(jobs, cluster.now)
    out[:3] = backfill(jobs, order, ends, cluster.capacity, cluster.quota)
    return INFINITY


@kernel
def decide_conservatively(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of conservative backfill (`Kernel`)."""
    order = by_priority(jobs)
    out[3] = order
    ends = seconds_left(jobs, cluster.now)
    out[:3] = reserve_all(jobs, order, ends, cluster.capacity, cluster.quota)
    return INFINITY


@kernel
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
    result, free, left = _running(matrix, capacity, quota)
    reserved, soonest = -1, np.inf
    ahead = profile_of(0.0, 0.0, 2 * jobs + 3)  # every job ends at a time of its own, or starts now
    waiting = order[result[0][order] == 0.0]
    for place in range(len(waiting)):
        row = waiting[place]
        if reserved >= 0 and len(left) == 0 and free.max() <= 0.0:  # nobody can start any more
            result[2][waiting[place:]] = _ORDER
            break
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
            # before the head starts only what runs ends: more is free than now
            if gpu_type != reserved or fits(ahead, soonest, ends[row], need):
                chosen = gpu_type
                break
        if chosen >= 0:
            let_have(matrix, row, chosen, need, free, left, result)
            if chosen == reserved:
                add(ahead, 0.0, ends[row], -need)
            continue
        result[2, row] = _GPUS_SHORT if reserved < 0 else _ORDER
        if reserved < 0:
            reserved, soonest = _reserve(result, ends, free, wished, need, ahead)
    return result


@kernel
def _running(matrix: Floats, capacity: Floats, quota: Floats) -> tuple[Floats, Floats, Floats]:
    """The allocation in which those that run keep what they hold; GPUs by type and pool that it leaves."""
    result, free, left = np.zeros((3, matrix.shape[1])), capacity.copy(), quota.copy()
    keep_running(matrix, free, left, result)
    return result, free, left


@kernel
def _reserve(
    result: Floats,
    ends: Floats,
    free: Floats,
    wished: int,
    need: float,
    ahead: Profile,
) -> tuple[int, float]:
    """Reserve GPUs of the type on which ``need`` of them are believed to be free first, from then on.

    Jobs that run, and those started in this very decision, end when they are believed to. Returns the type
    (-1 where that will never be), and in how many seconds; the profile of the type is written to ``ahead``.
    """
    reserved, written, soonest = -1, -1, np.inf
    for gpu_type in range(len(free)):
        if (wished >> gpu_type) & 1:
            written = gpu_type
            _write(result, ends, gpu_type, free[gpu_type], need, ahead)
            start = earliest_fit(ahead, need, np.inf, 0.0)
            if start < soonest:
                reserved, soonest = gpu_type, start
    if reserved >= 0:
        if reserved != written:
            _write(result, ends, reserved, free[reserved], need, ahead)
        add(ahead, soonest, np.inf, -need)
    return reserved, soonest


@kernel
def _write(
    result: Floats, ends: Floats, gpu_type: int, free: float, enough: float, ahead: Profile
) -> None:
    """Write the profile of a GPU type, from now on until ``enough`` GPUs are free."""
    running = np.flatnonzero((result[0] > 0.0) & (result[1] == gpu_type))
    gpus = result[0][running]
    write_running(ahead, 0.0, free, ends[running], gpus, enough)


@kernel
def reserve_all(
    matrix: Floats,
    order: Ints,
    ends: Floats,
    capacity: Floats,
    quota: Floats,
) -> Floats:
    """Conservative backfill over jobs in ``order``; arguments and result as of `backfill`.

    A job has its reservation on the GPU type on which it can start first, within its pool's quota too.
    """
    jobs, types = len(order), len(capacity)
    result, free, left = _running(matrix, capacity, quota)
    last = jobs - 1  # of those that fit what is free now: reservations behind it delay nobody
    while last >= 0 and _stays(result, matrix[GPUS], order[last], free):
        last -= 1
    shape = (types + len(quota), 3 * jobs + 4)
    ahead = Profile(np.empty(shape), np.empty(shape), np.zeros(shape[0], np.int64))
    if last >= 0:
        for gpu_type in range(types):
            _write(result, ends, gpu_type, free[gpu_type], np.inf, _of(ahead, gpu_type))
        for pool in range(len(quota)):
            mine = np.flatnonzero((result[0] > 0.0) & (matrix[POOL, :jobs] == pool))
            one, gpus = _of(ahead, types + pool), result[0][mine]
            write_running(one, 0.0, left[pool], ends[mine], gpus, np.inf)
    for place in range(jobs):
        row = order[place]
        if result[0, row] > 0.0:
            continue
        need, pool, wished = matrix[GPUS, row], int(matrix[POOL, row]), int(matrix[TYPES, row])
        chosen, soonest, fits_now = -1, np.inf, False
        for gpu_type in range(types):
            if not (wished >> gpu_type) & 1:
                continue
            fits_now = fits_now or free[gpu_type] >= need
            if place > last:
                continue
            start = _first_start(ahead, gpu_type, types + pool, need, ends[row], pool)
            if start < soonest:
                chosen, soonest = gpu_type, start
        if chosen >= 0:
            end = soonest + ends[row]
            add(_of(ahead, chosen), soonest, end, -need)
            if pool >= 0:
                add(_of(ahead, types + pool), soonest, end, -need)
        within = pool < 0 or need <= left[pool]
        if chosen >= 0 and soonest == 0.0 and within and free[chosen] >= need:
            let_have(matrix, row, chosen, need, free, left, result)
            while last > place and _stays(result, matrix[GPUS], order[last], free):
                last -= 1
        elif not within:
            result[2, row] = _QUOTA
        else:
            result[2, row] = _ORDER if fits_now else _GPUS_SHORT
    return result


@kernel
def _stays(result: Floats, gpus: Floats, row: int, free: Floats) -> bool:
    """Whether a job runs already, or needs more than is free."""
    return bool(result[0, row] > 0.0 or gpus[row] > free.max())


@kernel
def _of(profiles: Profile, at: int) -> Profile:
    """One of several, which are the rows: those of GPU types, then of pools."""
    return Profile(profiles.times[at], profiles.free[at], profiles.size[at : at + 1])


@kernel
def _first_start(
    ahead: Profile, gpu_type: int, pools: int, need: float, seconds: float, pool: int
) -> float:
    """The first time at which a job fits its GPU type and, if it has one, its pool (profile ``pools``)."""
    mine = _of(ahead, gpu_type)
    start = earliest_fit(mine, need, seconds, 0.0)
    while pool >= 0 and start < np.inf:
        within = earliest_fit(_of(ahead, pools), need, seconds, start)
        if within == start:
            break
        start = earliest_fit(mine, need, seconds, within)
        if start == within:
            break
    return start
