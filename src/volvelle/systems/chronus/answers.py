"""Answers to jobs that come: what is guaranteed to them, or the earliest finish that could be."""

import numpy as np

from volvelle.core.columns import (
    CHECKPOINT,
    GPUS,
    HELD,
    NUMBER,
    PREEMPTIBLE,
    STARTS_OVER,
    TIME_LIMIT,
    TYPE,
)
from volvelle.core.compiled import kernel
from volvelle.core.promises import LEAST_SLACK
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.growth import then_by
from volvelle.systems.chronus.guarantees import (
    arrange,
    enter,
    first_slot,
    gap_of,
    learn_starts,
    need_of,
    reserve_for,
)
from volvelle.systems.chronus.look import (
    COUNTED,
    LAST,
    LATER,
    LEAST,
    OF_USER,
    PROMISED,
    ROW,
    SECONDS,
    SEEN,
    SEEN_ONCE,
    STARTING,
    TOO_LARGE,
    UNTIL,
    runs_on,
    steps_at,
)
from volvelle.systems.chronus.memory import (
    CHOSEN,
    FINISH_BY,
    FIRST,
    FIXED,
    JOB,
    KIND,
    KINDS,
    MARGIN,
    NOW,
    OF_POOL,
    PERIOD,
    SLOT_SECONDS,
    USER_SHARE,
    WAIT,
    WIDE,
    WIDTH,
    capacity_of,
    chosen_of,
    is_short,
    quota_of,
    rows_of,
    tell,
)
from volvelle.systems.chronus.reasons import (
    LEASES,
    LONG_CHECKPOINT,
    NOT_BEFORE_IT_STARTS,
    NOTHING,
    POOL_IS_FULL,
    SHARE_OF_USER,
    SMALLER_JOBS,
    TOO_LONG,
    TOO_MUCH,
)
from volvelle.systems.chronus.recent import largest_within, rate_of_smaller, sum_of
from volvelle.systems.chronus.reservations import (
    earliest,
    first_with_room,
    has_room,
    leave,
    reserve_now,
)


@kernel
def jobs_to_answer(jobs: Floats) -> Ints:
    """The jobs that are seen for the first time."""
    new, some = np.empty(jobs.shape[1], np.int64), 0
    for job in range(jobs.shape[1]):
        if jobs[SEEN, job] <= 0.0:
            new[some] = job
            some += 1
    return new[:some]


@kernel
def answer(jobs: Floats, look: Floats, memory: Floats) -> bool:
    """Tell jobs that come what is guaranteed to them; whether there was room for all."""
    new = jobs_to_answer(jobs)
    if len(new) == 0:
        return True
    learn_starts(jobs, memory)
    until = jobs[UNTIL].copy()
    for job in new:
        until[job] = until[job] if until[job] > 0.0 else INFINITY
    for job in then_by(then_by(then_by(new, jobs[NUMBER]), until), jobs[PREEMPTIBLE]):
        asks = jobs[LAST, job] > 0.0 or jobs[UNTIL, job] > 0.0 or jobs[PREEMPTIBLE, job] != 1.0
        if asks and is_short(memory, 1, 1, _latest(jobs, look, memory, job)):
            return False
        jobs[SEEN, job] = SEEN_ONCE
        if asks:
            _answer_one(jobs, look, memory, job)
    return True


@kernel
def _latest(jobs: Floats, look: Floats, memory: Floats, job: int) -> float:
    """A time that is not before any slot that a job may be told of."""
    seconds, now = 0.0, memory[NOW]
    for kind in range(int(memory[KINDS])):
        if look[SECONDS + kind, job] < INFINITY:
            seconds = max(seconds, need_of(jobs, look, memory, kind, job) + look[STARTING, job])
    given = jobs[UNTIL, job] if jobs[UNTIL, job] < INFINITY else 0.0
    last = max(jobs[LAST, job], given)
    wide = (memory[FIRST] + 2.0 * memory[WIDTH] + 3.0) * memory[SLOT_SECONDS]
    wait = max(last, wide) - now + seconds + gap_of(look, memory, job)
    wait *= 1.0 + max(memory[MARGIN], LEAST_SLACK)
    return float(now + (4.0 if jobs[LATER, job] == 1.0 else 1.0) * wait)


@kernel
def _answer_one(jobs: Floats, look: Floats, memory: Floats, job: int) -> None:
    asks, given, number = jobs[LAST, job] > 0.0, jobs[UNTIL, job], jobs[NUMBER, job]
    if jobs[PREEMPTIBLE, job] != 1.0:
        if jobs[HELD, job] > 0.0:
            hold_to_end(jobs, look, memory, job, int(jobs[TYPE, job]))
        elif asks and given == 0.0:
            tell(memory, number, INFINITY, -1, INFINITY, NOT_BEFORE_IT_STARTS, 0.0)
    elif 0.0 < given < INFINITY:
        row, rows = enter(jobs, look, memory, job), rows_of(memory)
        rows[FINISH_BY, row], rows[KIND, row] = given, _first_type(look, memory, job)
        jobs[ROW, job] = row + 1.0
        if not reserve_for(jobs, look, memory, job, row, given):
            arrange(jobs, look, memory)
    elif asks:
        why, taken = limit_of(jobs, look, memory, job)
        if why != NOTHING:
            tell(memory, number, INFINITY, -1, INFINITY, why, taken)
            return
        why = promise(jobs, look, memory, job, 0.0)
        if why != NOTHING and given == 0.0:
            _offer(jobs, look, memory, job, why)


@kernel
def _first_type(look: Floats, memory: Floats, job: int) -> int:
    """The first GPU type that will do."""
    for kind in range(int(memory[KINDS])):
        if look[SECONDS + kind, job] < INFINITY:
            return kind
    return 0


@kernel
def limit_of(jobs: Floats, look: Floats, memory: Floats, job: int) -> tuple[int, float]:
    """Which limit, its own or that of its user or pool, a guarantee to it would exceed; and GPUs taken."""
    if jobs[TIME_LIMIT, job] > 0.0 and look[LEAST, job] > jobs[TIME_LIMIT, job]:
        return TOO_LONG, 0.0
    gpus = capacity_of(memory).sum()
    for whose in range(2):
        limit = memory[USER_SHARE + whose]
        if limit == 1.0 or look[OF_USER + whose, job] == 0.0:
            continue
        taken = 0.0
        for one in range(jobs.shape[1]):
            alike = look[OF_USER + whose, one] == look[OF_USER + whose, job]
            if alike and look[PROMISED, one] == 1.0 and jobs[ROW, one] > 0.0:
                taken += jobs[GPUS, one]
        if taken + jobs[GPUS, job] > limit * gpus:
            return SHARE_OF_USER + whose, taken
    return NOTHING, 0.0


@kernel
def promise(jobs: Floats, look: Floats, memory: Floats, job: int, later: float) -> int:
    """Guarantee the first of a job's steps that can be, or a later finish; why that cannot be.

    later: a finish, seconds, in place of its steps; 0 for none.
    """
    work = look[LEAST, job] * jobs[GPUS, job]
    if jobs[CHECKPOINT, job] > memory[WAIT]:
        return LONG_CHECKPOINT
    if work >= largest_within(memory, capacity_of(memory).sum() * memory[PERIOD]):
        jobs[SEEN, job] = TOO_LARGE
        return TOO_MUCH
    rate, row = rate_of_smaller(memory, work), enter(jobs, look, memory, job)
    why, step = POOL_IS_FULL, 0
    if _pool_has_room(memory, row):
        why, steps = SMALLER_JOBS, len(look) - steps_at(memory)
        while step < steps:
            finish_by = later if later > 0.0 else look[steps_at(memory) + step, job]
            if finish_by == 0.0:
                break
            room = has_room(memory, finish_by, work, rate)
            if room:
                why = LEASES
            if room and reserve_for(jobs, look, memory, job, row, finish_by):
                place = -1 if later > 0.0 else step
                _guarantee(jobs, look, memory, job, row, finish_by, place)
                return NOTHING
            step = steps if later > 0.0 else step + 1
    leave(memory, row)
    return why


@kernel
def _guarantee(
    jobs: Floats, look: Floats, memory: Floats, job: int, row: int, finish_by: float, place: int
) -> None:
    """Tell a job that it is guaranteed to be through by then. place: of the step among those tried."""
    jobs[ROW, job] = row + 1.0
    look[PROMISED, job] = 1.0
    tell(memory, jobs[NUMBER, job], finish_by, place, INFINITY, NOTHING, 0.0)


@kernel
def _offer(jobs: Floats, look: Floats, memory: Floats, job: int, why: int) -> None:
    """Tell a job by when it could be through, or guarantee that if it accepts it.

    why: the reason why none of its steps is guaranteed.
    """
    number, now = jobs[NUMBER, job], memory[NOW]
    if jobs[SEEN, job] == TOO_LARGE:
        tell(memory, number, INFINITY, -1, INFINITY, why, memory[PERIOD])
        return
    gap, gpus, start = gap_of(look, memory, job), look[COUNTED, job], first_slot(jobs, memory, job)
    soonest, over = INFINITY, jobs[STARTS_OVER, job] == 1.0
    for kind in range(int(memory[KINDS])):
        if look[SECONDS + kind, job] < INFINITY:
            need = need_of(jobs, look, memory, kind, job)
            soonest = min(soonest, earliest(memory, kind, start, gpus, need, gap, over))
    soonest += (soonest - now) * max(memory[MARGIN], LEAST_SLACK)
    work = look[LEAST, job] * gpus
    rate = rate_of_smaller(memory, work)
    soonest = first_with_room(memory, soonest, work, rate)
    if jobs[LATER, job] == 1.0 and soonest < INFINITY:
        why = promise(jobs, look, memory, job, soonest)
    if why != NOTHING:
        tell(memory, number, INFINITY, -1, soonest, why, memory[MARGIN])


@kernel
def _pool_has_room(memory: Floats, row: int) -> bool:
    """Whether all of a pool that have reservations could run at once."""
    rows = rows_of(memory)
    gpus, some, pool = np.empty(rows.shape[1]), 0, rows[OF_POOL, row]
    if pool < 0.0:
        return True
    for one in range(len(gpus)):
        if rows[JOB, one] >= 0.0 and rows[OF_POOL, one] == pool:
            gpus[some] = rows[WIDE, one]
            some += 1
    return bool(sum_of(gpus[:some]) <= quota_of(memory)[int(pool)])


@kernel
def hold_to_end(jobs: Floats, look: Floats, memory: Floats, job: int, kind: int) -> bool:
    """Reserve GPUs for a job from now until it ends, and guarantee that; whether it is possible."""
    row, seconds = enter(jobs, look, memory, job), look[SECONDS + kind, job]
    if not runs_on(jobs, job, kind):
        seconds += gap_of(look, memory, job)
    if not (_pool_has_room(memory, row) and reserve_now(memory, row, kind, seconds)):
        leave(memory, row)
        return False
    rows_of(memory)[FIXED, row] = 1.0
    jobs[ROW, job] = row + 1.0
    if limit_of(jobs, look, memory, job)[0] == NOTHING:
        for step in range(len(look) - steps_at(memory)):
            finish_by = look[steps_at(memory) + step, job]
            if memory[NOW] + seconds <= finish_by:
                _guarantee(jobs, look, memory, job, row, finish_by, step)
                break
    return True


@kernel
def try_chosen(jobs: Floats, look: Floats, memory: Floats) -> bool:
    """Guarantee something to the jobs that a program chose; whether there was room for all."""
    while memory[CHOSEN] > 0.0:
        number = chosen_of(memory)[int(memory[CHOSEN]) - 1]
        job = 0
        while jobs[NUMBER, job] != number:
            job += 1
        if is_short(memory, 1, 1, _latest(jobs, look, memory, job)):
            return False
        memory[CHOSEN] -= 1.0
        if limit_of(jobs, look, memory, job)[0] == NOTHING:
            promise(jobs, look, memory, job, 0.0)
    return True
