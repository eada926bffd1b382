"""The compiled inner loops over `Column` matrices. ``py_func`` of each is its plain twin."""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import Column, Reason
from volvelle.core.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Numba folds module-level integers into the code; it cannot read class attributes.
_NUMBER = Column.NUMBER
_TYPES = Column.TYPES
_POOL = Column.POOL
_PREEMPTIBLE = Column.PREEMPTIBLE
_HELD = Column.HELD
_TYPE = Column.TYPE
_PINNED = Column.PINNED
_FIRST_START = Column.FIRST_START
_STARTED = Column.STARTED
_PROGRESS_FROM = Column.PROGRESS_FROM
_ATTAINED = Column.ATTAINED
_ATTAINED_GPU = Column.ATTAINED_GPU
_DONE = Column.DONE
_RATE = Column.RATE
_ATTEMPT = Column.ATTEMPT
_PREEMPTIONS = Column.PREEMPTIONS
_RESTORE = Column.RESTORE
_START_GAP = Column.START_GAP
_TOTAL = Column.TOTAL
_SCALE = Column.SCALE
_UNIT_RATE = Column.UNIT_RATE
_REASON = Column.REASON
_RESIZE = Column.RESIZE
_GPUS_SHORT = int(Reason.GPUS)
_ORDER = int(Reason.ORDER)
_QUOTA = int(Reason.QUOTA)

TARGET, TARGET_TYPE, TARGET_REASON = 0, 1, 2
"""Rows of what `fill` returns."""


@compiled
def settle_ties(order: Ints, keys: Floats, matrix: Floats) -> None:
    """Put runs of equal keys in ``order`` (which sorts ``keys``) into order of submission, in place."""
    start = 0
    for end in range(1, len(order) + 1):
        if end < len(order) and keys[order[end]] == keys[order[start]]:
            continue
        if end - start > 1:
            tied = order[start:end].copy()
            by_number = np.argsort(matrix[_NUMBER][tied])
            for i in range(end - start):
                order[start + i] = tied[by_number[i]]
        start = end


@compiled
def sort_again(hint: Ints, keys: Floats, matrix: Floats) -> tuple[Ints, bool]:
    """Rows by (key, number), starting from ``hint``: rows in an order that was right a while ago.

    Rows out of place are dropped on the way, sorted by themselves and merged in again, so that little
    change costs about one step a row. Returns the order and whether it is finished: where many rows
    are out of place it gives up.
    """
    jobs = len(keys)
    order = _candidates(hint, jobs)
    kept, dropped = np.empty(jobs, np.int64), np.empty(jobs, np.int64)
    keeps = drops = 0
    for row in order:
        if keeps == 0 or not _before(row, kept[keeps - 1], keys, matrix):
            kept[keeps] = row
            keeps += 1
            continue
        if keeps == 1 or not _before(row, kept[keeps - 2], keys, matrix):
            dropped[drops] = kept[keeps - 1]  # the one before is out of place, not this one
            kept[keeps - 1] = row
        else:
            dropped[drops] = row
        drops += 1
        if drops > 16 + jobs // 4:
            return order, False
    if drops == 0:
        return kept, True
    late = dropped[:drops][np.argsort(keys[dropped[:drops]])]
    settle_ties(late, keys, matrix)
    i = j = 0
    for place in range(jobs):
        if j == drops or (i < keeps and _before(kept[i], late[j], keys, matrix)):
            order[place] = kept[i]
            i += 1
        else:
            order[place] = late[j]
            j += 1
    return order, True


@compiled
def _before(row: int, other: int, keys: Floats, matrix: Floats) -> bool:
    """Whether ``row`` is served before ``other``."""
    first, second = keys[row], keys[other]
    return bool(
        first < second or (first == second and matrix[_NUMBER, row] < matrix[_NUMBER, other])
    )


@compiled
def _candidates(hint: Ints, jobs: int) -> Ints:
    """All rows once: those of ``hint`` that there are in its order, then the others."""
    order = np.empty(jobs, np.int64)
    seen = np.zeros(jobs, np.bool_)
    count = 0
    for row in hint:
        if row < jobs and not seen[row]:
            seen[row] = True
            order[count] = row
            count += 1
    for row in range(jobs):
        if not seen[row]:
            order[count] = row
            count += 1
    return order


@compiled
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
    anybody is served. A gang takes GPUs of one type: the one it holds, else the first that will do.
    ``strict`` stops at the first job that does not fit; otherwise it is skipped.
    Returns (3, jobs): GPUs, their type (-1 none), and the `Reason` of those that get none.
    """
    jobs = len(order)
    result = np.zeros((3, jobs))
    result[1, :] = -1.0
    free = capacity.copy()
    left = quota.copy()
    for row in range(jobs):
        held = matrix[_HELD, row]
        pinned = matrix[_PINNED, row] == 1.0
        if held > 0.0 and (not preemptive or pinned or matrix[_PREEMPTIBLE, row] == 0.0):
            keep = held
            if least[row] < most[row] and not pinned:
                keep = min(held, least[row])
            gpu_type = int(matrix[_TYPE, row])
            result[0, row] = keep
            result[1, row] = gpu_type
            free[gpu_type] -= keep
            pool = int(matrix[_POOL, row])
            if pool >= 0:
                left[pool] -= keep
    blocked = False
    unserved = free.sum()
    for row in order:
        kept = result[0, row]
        if unserved <= 0.0:  # nothing left to give: the rest only needs its reasons
            if kept == 0.0:
                result[2, row] = _ORDER if blocked else _GPUS_SHORT
                blocked = strict
            continue
        pool = int(matrix[_POOL, row])
        within = left[pool] if pool >= 0 else np.inf
        if kept > 0.0:
            if least[row] < most[row] and matrix[_PINNED, row] == 0.0:
                gpu_type = int(result[1, row])
                extra = max(min(most[row] - kept, free[gpu_type], within), 0.0)
                if kept + extra < most[row]:
                    extra = np.floor(extra)  # a job grows by whole GPUs
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
        if not blocked and need <= within:
            wished = int(matrix[_TYPES, row])
            holds = int(matrix[_TYPE, row])
            if holds >= 0 and free[holds] > 0.0 and free[holds] >= need:
                chosen = holds
            else:
                for gpu_type in range(len(free)):
                    fits = free[gpu_type] > 0.0 and free[gpu_type] >= need
                    if fits and (wished >> gpu_type) & 1:
                        chosen = gpu_type
                        break
        if chosen < 0:
            if blocked:
                result[2, row] = _ORDER
            elif need > within:
                result[2, row] = _QUOTA
            else:
                result[2, row] = _GPUS_SHORT
            blocked = strict
            continue
        give = min(most[row], free[chosen], within)
        if give < most[row]:
            give = need + np.floor(give - need)
        result[0, row] = give
        result[1, row] = chosen
        free[chosen] -= give
        unserved -= give
        if pool >= 0:
            left[pool] -= give
    return result


@compiled
def serve_all(matrix: Floats, jobs: int, most: Floats, capacity: float) -> Floats:
    """What `fill` returns where all of the first ``jobs`` jobs can have ``most``; else nothing."""
    total = 0.0
    for row in range(jobs):
        total += most[row]
        if total > capacity or matrix[_PINNED, row] == 1.0:
            return np.zeros((3, 0))
    result = np.zeros((3, jobs))
    result[0, :] = most[:jobs]
    return result


@compiled
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
            pool = int(matrix[_POOL, row])
            if target[row] <= 0.0 or target[row] + 1.0 > most[row]:
                continue
            if matrix[_PINNED, row] == 1.0 or (pool >= 0 and left[pool] < 1.0):
                continue
            target[row] += 1.0
            free -= 1.0
            if pool >= 0:
                left[pool] -= 1.0
            given = True
    return free


@compiled
def work_left(matrix: Floats, jobs: int, now: float) -> Floats:
    """Units of work believed left to each of the first ``jobs`` jobs, never negative."""
    left = np.empty(jobs)
    for row in range(jobs):
        worked = max(now - matrix[_PROGRESS_FROM, row], 0.0)
        done = matrix[_DONE, row] + worked * matrix[_RATE, row]
        left[row] = max(matrix[_TOTAL, row] - done, 0.0) * matrix[_SCALE, row]
    return left


@compiled
def note_reasons(
    matrix: Floats, gpus: Floats, types: Floats, reasons: Floats
) -> tuple[Ints, float]:
    """Write the reasons of an allocation to ``matrix``.

    Returns the rows whose GPUs are to change, and the GPUs of all jobs together.
    """
    changed = np.empty(len(gpus), np.int64)
    count, total = 0, 0.0
    for row in range(len(gpus)):
        total += gpus[row]
        matrix[_REASON, row] = reasons[row]
        if gpus[row] != matrix[_HELD, row] or types[row] != matrix[_TYPE, row]:
            changed[count] = row
            count += 1
    return changed[:count].copy(), total


@compiled
def unit_rates(matrix: Floats, rows: Ints, gpus: Floats) -> tuple[Ints, Floats, bool]:
    """Numbers of the jobs in ``rows``, and their rates on ``gpus`` where these are linear.

    NaN where a rate has to be asked of the job's model; the last value says whether there are any.
    """
    numbers = np.empty(len(rows), np.int64)
    rates = np.empty(len(rows))
    asked = False
    for i in range(len(rows)):
        numbers[i] = int(matrix[_NUMBER, rows[i]])
        rates[i] = matrix[_UNIT_RATE, rows[i]] * gpus[i]
        asked = asked or np.isnan(rates[i])
    return numbers, rates, asked


@compiled
def apply(
    matrix: Floats,
    rows: Ints,
    gpus: Floats,
    types: Floats,
    rates: Floats,
    now: float,
) -> Ints:
    """Let job ``rows[i]`` hold ``gpus[i]`` GPUs from ``now`` on, in place.

    What it attained so far is settled; work goes on at ``rates[i]`` after what the change costs. A
    job that is stopped before it really got its GPUs attained nothing. Returns the attempts.
    """
    attempts = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        row = rows[i]
        held = matrix[_HELD, row]
        gap = 0.0
        if held > 0.0:
            segment = max(now - matrix[_STARTED, row], 0.0)
            if matrix[_STARTED, row] > now and matrix[_FIRST_START, row] > now:
                matrix[_FIRST_START, row] = np.nan
            matrix[_ATTAINED, row] += segment
            matrix[_ATTAINED_GPU, row] += segment * held
            worked = max(now - matrix[_PROGRESS_FROM, row], 0.0)
            matrix[_DONE, row] += worked * matrix[_RATE, row]
            gap = matrix[_RESIZE, row]
            if gpus[i] == 0.0:
                matrix[_PREEMPTIONS, row] += 1.0
        elif gpus[i] > 0.0:
            gap = matrix[_START_GAP, row]
            matrix[_START_GAP, row] = matrix[_RESTORE, row]
            matrix[_ATTEMPT, row] += 1.0
            if np.isnan(matrix[_FIRST_START, row]):
                matrix[_FIRST_START, row] = now
        matrix[_HELD, row] = gpus[i]
        matrix[_TYPE, row] = types[i]
        matrix[_STARTED, row] = now
        matrix[_PROGRESS_FROM, row] = now + gap
        matrix[_RATE, row] = rates[i]
        attempts[i] = int(matrix[_ATTEMPT, row])
    return attempts


@compiled
def assign_slots(owner: Ints, free: Ints, slot_node: Ints, slots: Ints, number: int) -> None:
    """Give ``slots`` to job ``number``, or to nobody (-1), in place; ``free`` counts by node."""
    change = 1 if number < 0 else -1
    for slot in slots:
        owner[slot] = number
        free[slot_node[slot]] += change


@compiled
def free_by_node(free: Ints, schedulable: NDArray[np.bool_], node_type: Ints, wanted: int) -> Ints:
    """What each node can give to a job that wants GPUs of type ``wanted``."""
    usable = np.zeros(len(free), np.int64)
    for node in range(len(free)):
        if schedulable[node] and node_type[node] == wanted:
            usable[node] = free[node]
    return usable
