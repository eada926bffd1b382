"""Reservations: in which slots jobs are to have their GPUs, so that they end by what they are guaranteed.

A **slot** is a best-effort lease; slot k begins at k times its seconds. A job with a reservation has the GPUs
of its gang, of one type, in each of its slots; the slots follow one another or not. Its work in a **run** of
slots without a break is their time less a **gap**: what a start or restore costs it, and the wait until GPUs
are free. Reservations are as late as they can be: so they say who has to run now, and leave the next slots to
jobs that come with less time. A job that starts over when it is stopped has one run, of all its work, which
begins now once it runs and there is room for that.

What is reserved fits: in no slot do reservations hold more GPUs than there are, unless GPUs are lost.
"""

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats
from volvelle.model.tolerances import SAME_MOMENT, WHOLE_ROUND
from volvelle.systems.chronus.memory import (
    FINISH_BY,
    FIRST,
    FIXED,
    GAP,
    JOB,
    KIND,
    NOW,
    OF_POOL,
    SLOT,
    SLOT_SECONDS,
    SLOTS,
    SOME,
    WIDE,
    WIDTH,
    capacity_of,
    free_of,
    held_of,
    rows_of,
)
from volvelle.systems.chronus.recent import sum_of


@kernel
def wide_enough(width: int, needed: int) -> int:
    """How many slots a book of so many has once it has those that are needed."""
    return width if needed <= width else max(needed, 2 * width)


@kernel
def reach(memory: Floats, end: int) -> None:
    """Have slots up to this one."""
    width, free, held = int(memory[WIDTH]), free_of(memory), held_of(memory)
    wider = wide_enough(width, end - int(memory[FIRST]))
    for at in range(width, wider):
        for kind in range(len(free)):
            free[kind, at] = capacity_of(memory)[kind]
        for row in range(len(held)):
            held[row, at] = 0.0
    memory[WIDTH] = wider


@kernel
def reach_time(memory: Floats, time: float) -> None:
    """Have slots until then."""
    reach(memory, int(time / memory[SLOT_SECONDS]) + 2)


@kernel
def forget_passed(memory: Floats) -> None:
    """Slots before the present one are over, and forgotten where they are many."""
    passed, width = int(memory[SLOT] - memory[FIRST]), int(memory[WIDTH])
    if passed < width // 2:
        return
    rows, free, held = rows_of(memory), free_of(memory), held_of(memory)
    kept = max(width - passed, 0)
    for at in range(width):
        for kind in range(len(free)):
            there = at < kept
            free[kind, at] = free[kind, at + passed] if there else capacity_of(memory)[kind]
    for row in range(len(held)):
        rows[SOME, row] = 0.0
        for at in range(width):
            held[row, at] = held[row, at + passed] if at < kept else 0.0
            rows[SOME, row] = max(rows[SOME, row], held[row, at])
    memory[FIRST] = memory[SLOT]


@kernel
def take_row(memory: Floats, number: float, gpus: float, pool: float) -> int:
    """The row of a job that enters, without slots."""
    row, rows = 0, rows_of(memory)
    while rows[JOB, row] >= 0.0:
        row += 1
    rows[JOB, row], rows[WIDE, row], rows[OF_POOL, row] = number, gpus, pool
    rows[FINISH_BY, row], rows[GAP, row], rows[FIXED, row] = INFINITY, 0.0, 0.0
    return row


@kernel
def leave(memory: Floats, row: int) -> None:
    """The job in a row needs nothing any more."""
    free_row(memory, row)
    rows_of(memory)[JOB, row] = -1.0


@kernel
def free_row(memory: Floats, row: int) -> None:
    """Take its slots from a job."""
    rows, width = rows_of(memory), int(memory[WIDTH])
    if rows[SOME, row] == 1.0:
        free = free_of(memory)[int(rows[KIND, row]), :width]
        give_back(free, held_of(memory)[row, :width], rows[WIDE, row])
        rows[SOME, row] = 0.0


@kernel
def reserve(
    memory: Floats, row: int, start: int, need: float, first_gap: float, one_run: bool
) -> bool:
    """Let a job without slots have the latest free ones from ``start`` on in which it does ``need`` seconds
    of work in time, on GPUs of its row's type; whether there are such.

    first_gap: what a run that begins with slot ``start`` costs it, seconds: less than its gap where it
    runs on GPUs of this type already. one_run: its slots are to follow one another.
    """
    rows = rows_of(memory)
    reach_time(memory, rows[FINISH_BY, row])
    width = int(memory[WIDTH])
    able = reserve_late(
        free_of(memory)[int(rows[KIND, row]), :width],
        held_of(memory)[row, :width],
        int(memory[FIRST]),
        memory[SLOT_SECONDS],
        memory[NOW],
        start,
        rows[FINISH_BY, row],
        rows[WIDE, row],
        need,
        rows[GAP, row],
        first_gap,
        one_run,
    )
    rows[SOME, row] = 1.0 if able else 0.0
    return able


@kernel
def reserve_now(memory: Floats, row: int, kind: int, seconds: float) -> bool:
    """Let a job that is not interrupted have its GPUs from now on for so long; whether they are free.

    Where they are not, what it had stays.
    """
    now, first, slot_seconds = memory[NOW], int(memory[FIRST]), memory[SLOT_SECONDS]
    needed = int((now + seconds) / slot_seconds) + 2 - first
    if wide_enough(int(memory[WIDTH]), needed) > memory[SLOTS]:
        return False  # it takes far longer than it is guaranteed
    reach_time(memory, now + seconds)
    rows, free, held = rows_of(memory), free_of(memory), held_of(memory)
    begin = int(now / slot_seconds + WHOLE_ROUND) - first
    last = int(np.ceil((now + seconds) / slot_seconds - WHOLE_ROUND)) - first
    end = max(last, begin + 1)
    for at in range(begin, end):
        own = held[row, at] > 0.0 and rows[KIND, row] == kind
        if free[kind, at] < rows[WIDE, row] and not own:
            return False
    free_row(memory, row)
    rows[KIND, row] = kind
    for at in range(begin, end):
        free[kind, at] -= rows[WIDE, row]
        held[row, at] = 1.0
    rows[SOME, row] = 1.0
    return True


@kernel
def earliest(
    memory: Floats, kind: int, start: int, gpus: float, need: float, gap: float, one_run: bool
) -> float:
    """When a job could be through that has GPUs whenever they are free from slot ``start`` on."""
    if gpus > capacity_of(memory)[kind]:
        return INFINITY
    free = free_of(memory)[kind, : int(memory[WIDTH])]
    first, seconds = int(memory[FIRST]), memory[SLOT_SECONDS]
    return earliest_finish(free, first, seconds, memory[NOW], start, gpus, need, gap, one_run)


@kernel
def free_in(memory: Floats, slots: int) -> Floats:
    """(slots,) GPUs of all types that are free from the present slot on."""
    reach(memory, int(memory[SLOT]) + slots)
    first, found, free = int(memory[SLOT] - memory[FIRST]), np.zeros(slots), free_of(memory)
    for kind in range(len(free)):
        for at in range(slots):
            found[at] += free[kind, first + at]
    return found


@kernel
def share(memory: Floats, until: float) -> float:
    """Which share of the GPUs' time from the present slot until then is reserved."""
    last = int(np.ceil(until / memory[SLOT_SECONDS] - WHOLE_ROUND))
    slots = max(last - int(memory[SLOT]), 1)
    there, free = capacity_of(memory).sum(), free_in(memory, slots)
    return 1.0 - float(sum_of(free) / slots / there) if there > 0.0 else 1.0


@kernel
def has_room(memory: Floats, until: float, work: float, rate: float) -> bool:
    """Whether ``work`` GPU-seconds and ``rate`` GPUs are free until then; always if rate is 0."""
    if rate == 0.0:
        return True
    free = capacity_of(memory).sum() * (1.0 - share(memory, until))
    return bool(until > memory[NOW] and work / (until - memory[NOW]) + rate <= free)


@kernel
def first_with_room(memory: Floats, soonest: float, work: float, rate: float) -> float:
    """The first time, not before ``soonest``, until which there `has_room`; infinite without one."""
    if soonest == INFINITY or has_room(memory, soonest, work, rate):
        return soonest
    total, slot = 0.0, memory[SLOT]
    free = free_in(memory, int(memory[FIRST] + memory[WIDTH] - slot))
    for i in range(len(free)):
        total += free[i]
        late = (slot + i + 1) * memory[SLOT_SECONDS]
        if late >= soonest and work / (late - memory[NOW]) + rate <= total / (i + 1):
            return float(late)
    return INFINITY


@kernel
def resize(memory: Floats, capacity: Floats) -> bool:
    """Take new numbers of GPUs; whether all reservations still fit."""
    fits, free, before = True, free_of(memory), capacity_of(memory)
    for kind in range(len(capacity)):
        for at in range(int(memory[WIDTH])):
            free[kind, at] += capacity[kind] - before[kind]
            fits = fits and free[kind, at] >= 0.0
        before[kind] = capacity[kind]
    return fits


@kernel
def give_back(free: Floats, held: Floats, gpus: float) -> None:
    """Free the slots of one job, in place."""
    for slot in range(len(held)):
        if held[slot] > 0.0:
            held[slot] = 0.0
            free[slot] += gpus


@kernel
def reserve_late(
    free: Floats,
    held: Floats,
    first: int,
    slot_seconds: float,
    now: float,
    start: int,
    finish_by: float,
    gpus: float,
    need: float,
    gap: float,
    first_gap: float,
    one_run: bool,
) -> bool:
    """`reserve` for a job without slots; in place. first: the slot of the first column."""
    done, run = 0.0, 0.0
    slot = int(np.ceil(finish_by / slot_seconds - WHOLE_ROUND)) - 1
    while slot >= start:
        at = slot - first
        usable = min((slot + 1) * slot_seconds, finish_by) - max(slot * slot_seconds, now)
        if usable > 0.0 and free[at] >= gpus:
            held[at] = 1.0
            run += usable
            cost = first_gap if slot == start else gap
            if done + run - cost >= need - SAME_MOMENT:
                for each in range(at, len(held)):
                    if held[each] > 0.0:
                        free[each] -= gpus
                return True
        elif run > 0.0:
            if run > gap and not one_run:
                done += run - gap
            else:
                each = at + 1
                while each < len(held) and held[each] > 0.0:
                    held[each] = 0.0
                    each += 1
            run = 0.0
        slot -= 1
    held[:] = 0.0
    return False


@kernel
def earliest_finish(
    free: Floats,
    first: int,
    slot_seconds: float,
    now: float,
    start: int,
    gpus: float,
    need: float,
    gap: float,
    one_run: bool,
) -> float:
    """`earliest` on what is free of a type. first: the slot of the first column."""
    done, begun = 0.0, np.inf
    for slot in range(start, first + len(free)):
        if free[slot - first] < gpus:
            if begun < np.inf:
                done += 0.0 if one_run else max(slot * slot_seconds - begun - gap, 0.0)
                begun = np.inf
            continue
        begun = min(begun, max(slot * slot_seconds, now))
        if done + (slot + 1) * slot_seconds - begun - gap >= need:
            return float(begun + gap + need - done)
    begun = min(begun, max((first + len(free)) * slot_seconds, start * slot_seconds, now))
    return float(begun + gap + need - done)
