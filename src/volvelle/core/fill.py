"""Serving all jobs at once, one after another: for policies that say the order or the shares.

What an order that is kept decides step by step (`volvelle.core.forward.decide`) is what `fill` says of all.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import (
    ATTAINED,
    DONE,
    HELD,
    MOST,
    PINNED,
    POOL,
    PREEMPTIBLE,
    PROGRESS_FROM,
    RATE,
    REQUEST_RATE,
    SCALE,
    START_GAP,
    STARTED,
    TOTAL,
    TYPE,
    TYPES,
)
from volvelle.core.compiled import compiled_later, kernel
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT

TARGET, TARGET_TYPE, TARGET_REASON = 0, 1, 2
"""Rows of what `fill` returns."""


class ClusterNow(NamedTuple):
    """The GPUs and pools at ``now``, seconds since the run's start, as kernels of policies get them.

    capacity: GPUs by type, free or held. quota: the most GPUs that the jobs of each pool may hold. owned:
    GPUs that each pool owns. lends: 1 for a pool that lends, else 0. rates: believed units of work a second
    by (curve, GPU type, GPUs), for whole GPUs; empty where a kernel says that it does not look at `rates`.
    cpus, memory: of the nodes that take jobs, GB; infinite where none says how much it has.

    For kernels that name nodes alone: up, by node, 1 where it takes jobs; places, (3, GPUs by name + 1), to
    which they write a job, a node and GPUs there each, by job and node, and a job of -1 behind the last.
    """

    now: float
    capacity: Floats
    quota: Floats
    owned: Floats
    lends: Floats
    rates: Floats
    cpus: float = INFINITY
    memory: float = INFINITY
    up: Floats = np.zeros(0)
    places: Floats = np.full((3, 1), -1.0)


_GPUS_SHORT = int(Reason.GPUS)
_ORDER = int(Reason.ORDER)
_QUOTA = int(Reason.QUOTA)


@compiled_later
def fill(
    matrix: Floats,
    order: Ints,
    least: Floats,
    most: Floats,
    capacity: Floats,
    quota: Floats,
    preemptive: bool,
    strict: bool,
) -> Floats:
    """Give GPUs to jobs in ``order``: each gets all it can use, at least ``least``, or nothing.

    ``matrix`` is (columns, jobs); ``capacity`` GPUs by type and ``quota`` by pool are left as they
    are. Jobs that may not be preempted keep what they hold (an elastic one at least ``least``) before
    any job is served. A gang takes GPUs of one type: the one it holds, else the first that will do.
    ``strict`` stops at the first job that does not fit; otherwise it is skipped.
    Returns (3, jobs): GPUs, their type (-1 none), and the `Reason` of those that get none.
    """
    jobs = len(order)
    held, pinned, preemptible = matrix[HELD], matrix[PINNED], matrix[PREEMPTIBLE]
    type_of, pool_of, types = matrix[TYPE], matrix[POOL], matrix[TYPES]
    result = np.zeros((3, jobs))
    result[1, :] = -1.0
    free = capacity.copy()
    left = quota.copy()
    for row in range(jobs):
        if held[row] > 0.0 and (not preemptive or pinned[row] == 1.0 or preemptible[row] == 0.0):
            keep = held[row]
            if least[row] < most[row] and pinned[row] != 1.0:
                keep = min(keep, least[row])
            let_have(matrix, row, int(type_of[row]), keep, free, left, result)
    blocked = False
    unserved = free.sum()
    for row in order:
        kept = result[0, row]
        if unserved <= SAME_AMOUNT:  # nothing left to give: the rest only needs its reasons
            if kept == 0.0:
                result[2, row] = _ORDER if blocked else _GPUS_SHORT
                blocked = strict
            continue
        pool = int(pool_of[row])
        within = left[pool] if pool >= 0 else np.inf
        if kept > 0.0:
            if least[row] < most[row] and pinned[row] == 0.0:
                gpu_type = int(result[1, row])
                room, extra = min(free[gpu_type], within), most[row] - kept
                if room + SAME_AMOUNT < extra:
                    extra = np.floor(max(room, 0.0) + SAME_AMOUNT)  # a job grows by whole GPUs
                result[0, row] += extra
                free[gpu_type] -= extra
                unserved -= extra
                if pool >= 0:
                    left[pool] -= extra
            continue
        need = least[row]
        if most[row] <= 0.0:
            continue
        chosen = -1
        if not blocked and need <= within + SAME_AMOUNT:
            wished = int(types[row])
            holds = int(type_of[row])
            if holds >= 0 and free[holds] > SAME_AMOUNT and free[holds] + SAME_AMOUNT >= need:
                chosen = holds
            else:
                for gpu_type in range(len(free)):
                    fits = free[gpu_type] > SAME_AMOUNT and free[gpu_type] + SAME_AMOUNT >= need
                    if fits and (wished >> gpu_type) & 1:
                        chosen = gpu_type
                        break
        if chosen < 0:
            if blocked:
                result[2, row] = _ORDER
            elif need > within + SAME_AMOUNT:
                result[2, row] = _QUOTA
            else:
                result[2, row] = _GPUS_SHORT
            blocked = strict
            continue
        give = most[row]
        if min(free[chosen], within) + SAME_AMOUNT < give:
            give = need + np.floor(min(free[chosen], within) - need + SAME_AMOUNT)
        let_have(matrix, row, chosen, give, free, left, result)
        unserved -= give
    return result


@kernel
def serve_all(matrix: Floats, capacity: Floats, quota: Floats, given: Floats) -> bool:
    """Give every job all it can use of the one type, if there is enough; whether there is.

    As `volvelle.core.order_policy.all_served`: types or pools need a closer look.
    """
    return give_all(matrix, matrix[MOST], capacity, quota, given)


@kernel
def give_all(matrix: Floats, most: Floats, capacity: Floats, quota: Floats, given: Floats) -> bool:
    """The same with ``most`` GPUs for each job."""
    if len(capacity) > 1 or len(quota) > 0:
        return False
    if most.sum() > capacity[0] or matrix[PINNED].any():
        return False
    given[TARGET] = most
    given[TARGET_TYPE] = 0.0
    given[TARGET_REASON] = 0.0
    return True


@compiled_later
def water_fill(
    matrix: Floats, order: Ints, target: Floats, most: Floats, free: float, left: Floats
) -> float:
    """Raise ``target`` one GPU at a time, round after round in ``order``, up to ``most``; in place.

    Only jobs that hold something already are raised, and within what ``left`` says their pool has
    left (changed in place too). Returns what is left of ``free``.
    """
    given = True
    while given and free >= 1.0:
        given = False
        for row in order:
            if free < 1.0:
                break
            pool = int(matrix[POOL, row])
            if target[row] <= 0.0 or target[row] + 1.0 > most[row]:
                continue
            if matrix[PINNED, row] == 1.0 or (pool >= 0 and left[pool] < 1.0):
                continue
            target[row] += 1.0
            free -= 1.0
            if pool >= 0:
                left[pool] -= 1.0
            given = True
    return free


@compiled_later
def work_left(matrix: Floats, jobs: int, now: float) -> Floats:
    """Units of work believed left to each of the first ``jobs`` jobs, never negative."""
    worked = np.maximum(now - matrix[PROGRESS_FROM, :jobs], 0.0)
    done = matrix[DONE, :jobs] + worked * matrix[RATE, :jobs]
    return np.maximum(matrix[TOTAL, :jobs] - done, 0.0) * matrix[SCALE, :jobs]


@kernel
def seconds_left(matrix: Floats, now: float) -> Floats:
    """Seconds until each job is believed to end: on what it holds, or else on what it requests.

    The rest of a start's or restore's cost is counted. A job that is believed to stand still never ends.
    """
    worked = np.maximum(now - matrix[PROGRESS_FROM], 0.0)
    done = matrix[DONE] + worked * matrix[RATE]
    left = np.maximum(matrix[TOTAL] - done, 0.0) * matrix[SCALE]
    runs = matrix[HELD] > 0.0
    gap = np.where(runs, np.maximum(matrix[PROGRESS_FROM] - now, 0.0), matrix[START_GAP])
    rate = np.where(runs, matrix[RATE], matrix[REQUEST_RATE])
    moves = rate > 0.0
    return np.where(moves, gap + left / np.where(moves, rate, 1.0), np.inf)


@kernel
def attained_seconds(matrix: Floats, now: float, row: int) -> float:
    """Seconds with GPUs held so far."""
    held_for = max(now - matrix[STARTED, row], 0.0) if matrix[HELD, row] > 0.0 else 0.0
    return float(held_for + matrix[ATTAINED, row])


@kernel
def let_have(
    matrix: Floats, row: int, gpu_type: int, gpus: float, free: Floats, left: Floats, given: Floats
) -> None:
    """Give the job in ``row`` GPUs of a type, out of what is ``free`` by type and ``left`` by pool."""
    given[TARGET, row], given[TARGET_TYPE, row] = gpus, gpu_type
    free[gpu_type] -= gpus
    if matrix[POOL, row] >= 0.0:
        left[int(matrix[POOL, row])] -= gpus


@kernel
def keep_running(matrix: Floats, free: Floats, left: Floats, given: Floats) -> None:
    """Let jobs that run keep what they hold; ``free`` by type and ``left`` by pool are what is over then."""
    given[TARGET] = matrix[HELD]
    given[TARGET_TYPE] = np.where(matrix[HELD] > 0.0, matrix[TYPE], -1.0)
    for row in np.flatnonzero(matrix[HELD] > 0.0):
        free[int(matrix[TYPE, row])] -= matrix[HELD, row]
        if matrix[POOL, row] >= 0.0:
            left[int(matrix[POOL, row])] -= matrix[HELD, row]
