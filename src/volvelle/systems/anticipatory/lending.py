"""Figures 7 and 8 of anticipatory scheduling as one function of arrays: who starts, and in which lane."""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import (
    ATTAINED,
    CHECKPOINT,
    FULL_RATE,
    GPUS,
    HELD,
    PINNED,
    POOL,
    PREEMPTIBLE,
    RESTORE,
    SCALE,
    STARTED,
    TIME_LIMIT,
    TOTAL,
    TYPE,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, keep_running
from volvelle.core.state import Reason
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.gangs import gang_type
from volvelle.systems.anticipatory.memory import (
    ASK_AT,
    BORROWED,
    DEDICATED,
    LANE,
    LENDS,
    LEVEL,
    NO_LANE,
    OWNED,
    STRANGE,
    WANTED_WAKE,
    tables,
)
from volvelle.systems.anticipatory.watch import open_for, watch, within

Floats = NDArray[np.float64]

_GPUS_SHORT, _ORDER = int(Reason.GPUS), int(Reason.ORDER)
_QUOTA, _RESERVED = int(Reason.QUOTA), int(Reason.RESERVED)

_DEAR = 0.1
"""A stop and a restart are dear if they take more than this share of a job's time."""


@compiled
def serve(
    matrix: Floats,
    now: float,
    capacity: Floats,
    quota: Floats,
    words: Floats,
    due: float,
    preempt: bool,
    bounded: bool,
) -> Floats:
    """Figures 7 and 8 for what is expected now, and when to look again. The own columns are written.

    words: `volvelle.systems.anticipatory.memory`; what is kept is written there. due: when predictions are,
    which matters while jobs wait and GPUs are idle. Returns (4, jobs) as `volvelle.core.fill.fill` does with
    the order of starts.
    """
    known = tables(words)
    seconds = matrix[TOTAL] * matrix[SCALE] / matrix[FULL_RATE]
    given = share(
        matrix,
        seconds,
        bounds(matrix) if bounded else seconds,
        now,
        capacity,
        quota,
        known.by_pool[OWNED],
        known.by_pool[LENDS],
        known.expected,
        known.by_pool[LEVEL],
        known.quanta,
        preempt,
        known.kept,
    )
    waits, idle = False, capacity.sum()
    for row in range(matrix.shape[1]):
        waits |= given[TARGET, row] == 0.0
        idle -= given[TARGET, row]
    words[ASK_AT] = due if words[STRANGE] == 0.0 else -np.inf
    words[WANTED_WAKE] = due if waits and idle > SAME_AMOUNT else np.inf
    return given


@kernel
def share(
    matrix: Floats,
    seconds: Floats,
    until: Floats,
    now: float,
    capacity: Floats,
    quota: Floats,
    owned: Floats,
    lends: Floats,
    expected: Floats,
    levels: Floats,
    quanta: Floats,
    preempt: bool,
    kept: Floats,
) -> Floats:
    """Figures 7 and 8. The own column is written.

    seconds: each job is believed to take. until: for how long it counts as a borrower. lends: 0 for who does
    not. expected: GPUs of work to come, (quanta, pools). levels: the share of what it does not use that each
    pool keeps at least. kept: what is kept, (quanta, pools), is written there. Returns (4, jobs) as `serve`
    does.
    """
    jobs, pools = matrix.shape[1], len(owned)
    given = np.zeros((4, jobs))
    free, left = capacity.copy(), quota.copy()
    keep_running(matrix, free, left, given)
    owns = np.append(owned, max(capacity.sum() - owned.sum(), 0.0))  # the last: of no pool
    own, held, pending = np.zeros(pools + 1), np.zeros(pools + 1), np.zeros(pools + 1)
    others = 0  # jobs that wait and could run on what their pools own
    closed = np.zeros((len(quanta), pools + 1), dtype=np.bool_)  # kinds that were outlived
    stoppable = 0.0
    for row in range(jobs):
        pool, gpus = int(matrix[POOL, row]), matrix[HELD, row]
        if gpus == 0.0:
            matrix[LANE, row] = NO_LANE
            continue
        held[pool] += gpus
        if matrix[LANE, row] == NO_LANE:  # it ran before this policy came
            fits = own[pool] + gpus <= owns[pool] + SAME_AMOUNT
            matrix[LANE, row] = DEDICATED if fits else BORROWED
        if matrix[LANE, row] == DEDICATED:
            own[pool] += gpus
        elif preempt and _stoppable(matrix, seconds, row):
            stoppable += gpus
        else:
            ran = now - matrix[STARTED, row]
            watch(closed, within(until[row], quanta), pool, ran, quanta)
    following = np.full(jobs, -1)
    head, last = np.full(pools + 1, -1), np.full(pools + 1, -1)
    unused, full = owns - own, np.zeros(pools + 1, dtype=np.bool_)
    for row in range(jobs):
        pool, need = int(matrix[POOL, row]), matrix[GPUS, row]
        if matrix[HELD, row] > 0.0:
            returns = preempt and matrix[LANE, row] == BORROWED and need <= owns[pool] + SAME_AMOUNT
            if not (returns and _stoppable(matrix, seconds, row)):
                continue
            if full[pool] or need > unused[pool] + SAME_AMOUNT:
                full[pool] = True
                continue
            matrix[LANE, row] = DEDICATED  # its turn has come: it is stopped no more
            own[pool] += need
            unused[pool] -= need
            stoppable -= need
            continue
        if pool >= 0 and need > quota[pool] + SAME_AMOUNT:
            given[TARGET_REASON, row] = _QUOTA
            continue
        given[TARGET_REASON, row] = _ORDER
        pending[pool] += need
        if need > owns[pool] + SAME_AMOUNT:
            continue
        others += 1
        if full[pool]:
            continue
        unused[pool] -= need
        full[pool] = preempt and unused[pool] < -SAME_AMOUNT
        if head[pool] < 0:
            head[pool] = row
        else:
            following[last[pool]] = row
        last[pool] = row
    served, order = 0, np.full(jobs, -1)
    while True:  # figure 7: dedicated
        best, least = -2, np.inf
        for pool in range(pools + 1):
            if head[pool] >= 0 and (best == -2 or held[pool] < least * owns[pool]):
                best, least = pool, held[pool] / owns[pool]
        if best == -2:
            break
        row, pool = head[best], best if best < pools else -1
        need = matrix[GPUS, row]
        allowed = left[pool] if pool >= 0 else np.inf
        capped = need > allowed + SAME_AMOUNT and not preempt
        if own[best] + need > owns[best] + SAME_AMOUNT or capped:
            if capped:
                given[TARGET_REASON, row] = _QUOTA
            head[best] = -1
            continue
        chosen = gang_type(matrix, row, free)
        if chosen < 0 and preempt:
            stoppable -= _stop(matrix, seconds, row, free, left, held, given)
            chosen = gang_type(matrix, row, free)
        if chosen < 0 or (pool >= 0 and need > left[pool] + SAME_AMOUNT):  # its GPUs are lent
            given[TARGET_REASON, row] = _GPUS_SHORT
            head[best] = -1
            continue
        head[best] = following[row]
        given[TARGET, row], given[TARGET_TYPE, row] = need, chosen
        matrix[LANE, row] = DEDICATED
        free[chosen] -= need
        own[best] += need
        held[best] += need
        pending[best] -= need
        others -= 1
        if pool >= 0:
            left[pool] -= need
        order[served] = row
        served += 1
    kept[:] = 0.0
    for at in range(len(quanta)):  # figure 8: spare
        while True:
            usable = free.sum()
            for pool in range(pools + 1):
                idle = max(owns[pool] - own[pool], 0.0)
                soon = pending[pool]
                if pool < pools:
                    soon += expected[at, pool] if lends[pool] > 0.0 else np.inf
                    soon = max(soon, levels[pool] * idle)
                    kept[at, pool] = min(soon, idle)
                usable -= min(soon, idle)
            usable = min(usable + stoppable, free.sum())
            alone = at == len(quanta) - 1 and others == 0
            if free.sum() <= SAME_AMOUNT or (usable <= SAME_AMOUNT and not preempt and not alone):
                break
            best, least = -1, np.inf
            for row in range(jobs):
                if matrix[HELD, row] > 0.0 or given[TARGET, row] > 0.0:
                    continue
                pool, need = int(matrix[POOL, row]), matrix[GPUS, row]
                last_resort = alone and need > owns[pool] + SAME_AMOUNT
                ends = open_for(closed, within(until[row], quanta), pool)
                if ends > at and not last_resort:
                    continue
                room = free.sum() if last_resort else usable
                if preempt and _stoppable(matrix, seconds, row):
                    room = free.sum()
                if need > room + SAME_AMOUNT or gang_type(matrix, row, free) < 0:
                    continue
                if pool >= 0 and (need > left[pool] + SAME_AMOUNT):
                    continue
                ratio = held[pool] / owns[pool] if owns[pool] > 0.0 else np.inf
                if best < 0 or ratio < least:
                    best, least = row, ratio
            if best < 0:
                break
            pool, need = int(matrix[POOL, best]), matrix[GPUS, best]
            chosen = gang_type(matrix, best, free)
            given[TARGET, best], given[TARGET_TYPE, best] = need, chosen
            matrix[LANE, best] = BORROWED
            free[chosen] -= need
            held[pool] += need
            pending[pool] -= need
            others -= int(need <= owns[pool] + SAME_AMOUNT)
            if pool >= 0:
                left[pool] -= need
            if _stoppable(matrix, seconds, best) and preempt:
                stoppable += need
            order[served] = best
            served += 1
    for row in range(jobs):
        if matrix[HELD, row] == 0.0 and given[TARGET, row] > 0.0:
            continue
        order[served] = row
        served += 1
        if given[TARGET, row] > 0.0 or given[TARGET_REASON, row] == _QUOTA:
            continue
        if gang_type(matrix, row, free) >= 0:
            given[TARGET_REASON, row] = _RESERVED
        else:
            given[TARGET_REASON, row] = _GPUS_SHORT
    given[3] = order
    return given


@kernel
def bounds(matrix: Floats) -> Floats:
    """For how long each job can hold GPUs at most: to its time limit, for ever without one."""
    found = np.full(matrix.shape[1], np.inf)
    for row in range(matrix.shape[1]):
        if matrix[TIME_LIMIT, row] > 0.0:
            found[row] = max(matrix[TIME_LIMIT, row] - matrix[ATTAINED, row], 0.0)
    return found


@kernel
def _stoppable(matrix: Floats, seconds: Floats, row: int) -> bool:
    """Whether a job may be stopped, and that costs little of its time."""
    cost = matrix[CHECKPOINT, row] + matrix[RESTORE, row]
    may = matrix[PREEMPTIBLE, row] > 0.0 and matrix[PINNED, row] == 0.0
    return bool(may and cost <= _DEAR * seconds[row])


@kernel
def _stop(
    matrix: Floats,
    seconds: Floats,
    row: int,
    free: Floats,
    left: Floats,
    held: Floats,
    given: Floats,
) -> float:
    """Stop borrowers, the latest first, until ``row`` has its GPUs; the GPUs that they held.

    Nobody is stopped where that would not be enough.
    """
    stopped = 0.0
    for gpu_type in range(len(free)):
        alone = np.zeros(len(free))
        alone[gpu_type] = matrix[GPUS, row]
        if gang_type(matrix, row, alone) < 0:
            continue
        mine = np.flatnonzero(
            (matrix[LANE] == BORROWED)
            & (matrix[TYPE] == gpu_type)
            & (matrix[HELD] > 0.0)
            & (given[TARGET] > 0.0)
        )
        mine = mine[np.argsort(-matrix[STARTED][mine], kind="mergesort")]
        total = 0.0
        for other in mine:
            total += matrix[HELD, other] if _stoppable(matrix, seconds, int(other)) else 0.0
        if free[gpu_type] + total + SAME_AMOUNT < matrix[GPUS, row]:
            continue
        for other in mine:
            if free[gpu_type] + SAME_AMOUNT >= matrix[GPUS, row]:
                return stopped
            if not _stoppable(matrix, seconds, int(other)):
                continue
            gpus, pool = matrix[HELD, other], int(matrix[POOL, other])
            given[TARGET, other], given[TARGET_TYPE, other] = 0.0, -1.0
            free[gpu_type] += gpus
            held[pool] -= gpus
            stopped += gpus
            if pool >= 0:
                left[pool] += gpus
        return stopped
    return stopped
