"""Guarantees that are kept: what jobs that left have taught, and reservations made anew."""

import math

import numpy as np

from volvelle.core.columns import CHECKPOINT, HELD, NUMBER, POOL, STARTS_OVER, TYPE
from volvelle.core.compiled import kernel
from volvelle.core.promises import ADAPTS_BY, keeps
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.growth import then_by
from volvelle.systems.chronus.look import COUNTED, GIVEN, ROW, SECONDS, START, STARTING, runs_on
from volvelle.systems.chronus.memory import (
    BROKEN,
    FINISH_BY,
    FRESH,
    GAP,
    JOB,
    KIND,
    KINDS,
    LATE,
    LATES,
    LEAST_MARGIN,
    MARGIN,
    NOW,
    PACE,
    PACES,
    SEEN_LAST,
    SLOT,
    SOME,
    WAIT,
    book_kept,
    capacity_of,
    lates_of,
    paces_of,
    rows_in_use,
    rows_of,
    take_back,
    tell,
)
from volvelle.systems.chronus.reasons import IMPOSSIBLE
from volvelle.systems.chronus.reservations import (
    forget_passed,
    free_row,
    leave,
    reserve,
    reserve_now,
    resize,
    take_row,
)
from volvelle.systems.chronus.standing import (
    at_most,
    believed_left,
    lateness,
    measure,
    places_of,
    to_renew,
)

_ENOUGH = 20
"""From how many jobs on a pace says something about others."""
_HAIR, _HAIR_SECONDS = 0.01, 1.0
"""Share of what is believed left of a job, and seconds at least, by which a guarantee may seem missed where
starts take what they take: that is less than an estimate says."""


@kernel
def forget_those_that_left(jobs: Floats, look: Floats, memory: Floats, capacity: Floats) -> None:
    """Free the reservations of jobs that are through, and see how many GPUs there are."""
    rows = rows_of(memory)
    place = places_of(jobs, rows.shape[1])
    for row in range(len(place)):
        if place[row] < 0 and rows[JOB, row] >= 0.0:
            _learn(memory, rows[FINISH_BY, row], True)
            leave(memory, row)
    if (capacity != capacity_of(memory)).any() and not resize(memory, capacity):
        movable = rows_in_use(memory, True)
        for row in movable:
            free_row(memory, row)
        _reserve_all(jobs, look, memory, movable, place)


@kernel
def learn_starts(jobs: Floats, memory: Floats) -> None:
    """See how late jobs started that were given GPUs since the last lease."""
    late = lateness(jobs, memory[WAIT])
    if len(late) > 0:
        seen = _add(lates_of(memory), int(memory[LATES]), late)
        memory[LATES] += len(late)
        memory[LATE] = _all_but(memory[BROKEN], lates_of(memory)[:seen])


@kernel
def _add(lasts: Floats, before: int, values: Floats) -> int:
    """Add values to the last ones, of which there were some before; how many are known now."""
    for i in range(len(values)):
        lasts[(before + i) % SEEN_LAST] = values[i]
    return min(before + len(values), SEEN_LAST)


@kernel
def _all_but(most: float, values: Floats) -> float:
    """The value that no more than the share ``most`` of them exceed."""
    many = len(values)
    largest, some = np.empty(many - math.ceil((many - 1) * (1.0 - most))), 0
    for value in values:  # the largest first
        if some == len(largest) and value <= largest[some - 1]:
            continue
        some = min(some + 1, len(largest))
        at = some - 1
        while at > 0 and largest[at - 1] < value:
            largest[at] = largest[at - 1]
            at -= 1
        largest[at] = value
    return float(largest[some - 1])


@kernel
def renew(jobs: Floats, look: Floats, memory: Floats) -> None:
    """A lease ended: reserve what guaranteed jobs still need; see who can still be kept."""
    seen = measure(jobs, look, memory)
    if len(seen) > 0:
        known = _add(paces_of(memory), int(memory[PACES]), seen)
        memory[PACES] += len(seen)
        if known >= _ENOUGH:
            memory[PACE] = max(_all_but(memory[BROKEN], paces_of(memory)[:known]), 1.0)
    learn_starts(jobs, memory)
    jobs[GIVEN] = 0.0
    forget_passed(memory)
    place = places_of(jobs, rows_of(memory).shape[1])
    _adapt_to_checkpoints(jobs, look, memory, place)
    for row in rows_in_use(memory, False):
        if not keeps(memory[NOW], rows_of(memory)[FINISH_BY, row]):
            _drop(jobs, memory, row, place[row])
    _reserve_all(jobs, look, memory, to_renew(jobs, memory, place), place)


@kernel
def _reserve_all(jobs: Floats, look: Floats, memory: Floats, rows: Ints, place: Ints) -> None:
    """Reserve anew for these rows, least time first.

    Jobs without one keep their guarantee as long as it is not impossible: they are served right after
    those that have one.
    """
    table = rows_of(memory)
    rows = then_by(rows, table[FINISH_BY])
    for again in range(2):
        lacking = _reserve_each(jobs, look, memory, rows, place, 1.0)
        rows = rows if again else lacking
    if len(lacking) > 0:
        arrange(jobs, look, memory)
    for row in rows:
        if table[SOME, row] == 1.0:
            continue
        if not _is_able(look, memory, row, place[row], int(table[KIND, row])):
            tell(memory, table[JOB, row], INFINITY, -1, INFINITY, IMPOSSIBLE, 0.0)
            _drop(jobs, memory, row, place[row])


@kernel
def _is_able(look: Floats, memory: Floats, row: int, job: int, kind: int) -> bool:
    """Whether a job can still be through in time on this type, if nothing stops it."""
    seconds = look[SECONDS + kind, job]
    hair = max(_HAIR * seconds, _HAIR_SECONDS) if memory[LATE] > 0.0 else 0.0
    return keeps(memory[NOW] + seconds - hair, rows_of(memory)[FINISH_BY, row])


@kernel
def arrange(jobs: Floats, look: Floats, memory: Floats) -> None:
    """Reserve for all anew, the earliest guarantee first, if that has room for all or for more.

    Reservations are as late as they can be, longer than is believed, and made one after another: a job
    may find no room beside those of others that could be elsewhere, or shorter. Without a reservation it
    would be stopped for them.
    """
    before, table = book_kept(memory), rows_of(memory)
    rows = then_by(rows_in_use(memory, True), table[FINISH_BY])
    place, lacked = places_of(jobs, table.shape[1]), 0
    for row in rows:
        lacked += int(table[SOME, row] == 0.0)
    for spare in (1.0, 0.0):
        for row in rows:
            free_row(memory, row)
        lacking = len(_reserve_each(jobs, look, memory, rows, place, spare))
        if lacking == 0 or (spare == 0.0 and lacking < lacked):
            return
    take_back(memory, before)


@kernel
def _reserve_each(
    jobs: Floats, look: Floats, memory: Floats, rows: Ints, place: Ints, spare: float
) -> Ints:
    """Reserve anew for these rows, one after another; those for which there is no room.

    spare: the part of the time beyond what is believed that is reserved. Running jobs that start over go
    first, as what they have done is lost if they do not run on.
    """
    table, slot, types = rows_of(memory), int(memory[SLOT]), int(memory[KINDS])
    lacking, some = np.empty(len(rows), np.int64), 0
    able = np.zeros(len(rows), np.bool_)
    for i in range(len(rows)):
        if jobs[STARTS_OVER, place[rows[i]]] == 1.0:
            able[i] = _runs_on(jobs, look, memory, rows[i], place[rows[i]], spare)
    for i in range(len(rows)):
        row, job = rows[i], place[rows[i]]
        if able[i]:
            continue
        kind, gap = int(table[KIND, row]), gap_of(look, memory, job)
        least = believed_left(jobs, look, look[SECONDS + types + kind, job], job, kind)
        most = at_most(jobs, job, least, memory[PACE], memory[MARGIN])
        first_gap = look[STARTING, job] if runs_on(jobs, job, kind) else gap
        free_row(memory, row)
        table[GAP, row] = gap
        need, one_run = least + spare * (most - least), jobs[STARTS_OVER, job] == 1.0
        if not reserve(memory, row, slot, need, first_gap, one_run):
            lacking[some] = row
            some += 1
    return lacking[:some]


@kernel
def _runs_on(jobs: Floats, look: Floats, memory: Floats, row: int, job: int, spare: float) -> bool:
    """Reserve GPUs for a running job until it is through, if it can be in time and there is room."""
    kind = int(jobs[TYPE, job])
    if jobs[HELD, job] == 0.0 or not _is_able(look, memory, row, job, kind):
        return False
    seconds = look[SECONDS + kind, job]
    left = seconds - look[STARTING, job]
    more = at_most(jobs, job, left, memory[PACE], memory[MARGIN]) - left
    return reserve_now(memory, row, kind, seconds + spare * more) or reserve_now(
        memory, row, kind, seconds
    )


@kernel
def gap_of(look: Floats, memory: Floats, job: int) -> float:
    """Seconds from when a job is given GPUs until it works on them."""
    return float(look[START, job] + memory[WAIT] + memory[LATE])


@kernel
def need_of(jobs: Floats, look: Floats, memory: Floats, kind: int, job: int) -> float:
    """Seconds of work to be reserved for a job on this type."""
    seconds = look[SECONDS + int(memory[KINDS]) + kind, job]
    believed = believed_left(jobs, look, seconds, job, kind)
    return at_most(jobs, job, believed, memory[PACE], memory[MARGIN])


@kernel
def _drop(jobs: Floats, memory: Floats, row: int, job: int) -> None:
    """A guarantee was broken."""
    _learn(memory, rows_of(memory)[FINISH_BY, row], False)
    leave(memory, row)
    jobs[ROW, job] = 0.0


@kernel
def _learn(memory: Floats, finish_by: float, kept: bool) -> None:
    """Adapt the margin, as `volvelle.core.promises.Margin` does: a guarantee was kept or broken."""
    if finish_by < INFINITY:
        error = (0.0 if kept else 1.0) - memory[BROKEN] / 2.0
        memory[MARGIN] = max(memory[MARGIN] + ADAPTS_BY * error, memory[LEAST_MARGIN])


@kernel
def _adapt_to_checkpoints(jobs: Floats, look: Floats, memory: Floats, place: Ints) -> None:
    """Know of the longest checkpoint of the jobs here, if all guarantees can be kept with it.

    Jobs with longer ones do not run: to take their GPUs away would take too long.
    """
    longest, rows = jobs[CHECKPOINT].max(), rows_in_use(memory, True)
    if longest == memory[WAIT]:
        return
    if longest < memory[WAIT] or len(rows) == 0:
        memory[WAIT] = memory[WAIT] if len(rows) > 0 else longest
        return
    before, wait, memory[WAIT] = book_kept(memory), memory[WAIT], longest
    if len(_reserve_each(jobs, look, memory, rows, place, 1.0)) > 0:
        memory[WAIT] = wait
        take_back(memory, before)


@kernel
def reserve_for(
    jobs: Floats, look: Floats, memory: Floats, job: int, row: int, until: float
) -> bool:
    """Reserve what a job needs to be through by then, on the first type where that is possible."""
    table, gap = rows_of(memory), gap_of(look, memory, job)
    table[FINISH_BY, row], table[GAP, row] = until, gap
    start, over = first_slot(jobs, memory, job), jobs[STARTS_OVER, job] == 1.0
    if over and _runs_on(jobs, look, memory, row, job, 1.0):
        return True
    for kind in range(int(memory[KINDS])):
        if look[SECONDS + kind, job] == INFINITY:
            continue
        goes_on = start == int(memory[SLOT]) and runs_on(jobs, job, kind)
        need = need_of(jobs, look, memory, kind, job)
        free_row(memory, row)
        table[KIND, row] = kind
        first_gap = look[STARTING, job] if goes_on else gap
        if reserve(memory, row, start, need, first_gap, over):
            return True
    return False


@kernel
def first_slot(jobs: Floats, memory: Floats, job: int) -> int:
    """From which slot on a job can have GPUs: of a pool, from the next lease on if not now."""
    now = memory[FRESH] == 1.0 or jobs[POOL, job] < 0.0
    return int(memory[SLOT]) + (0 if now else 1)


@kernel
def enter(jobs: Floats, look: Floats, memory: Floats, job: int) -> int:
    """The row of a job that enters the book."""
    return take_row(memory, jobs[NUMBER, job], look[COUNTED, job], jobs[POOL, job])
