"""The loop: one moment after another, each in phases, until Python has to be asked.

    AHEAD ─▶ NEWS ─▶ NODES ─▶ ARRIVALS ─▶ DIRECTION ─▶ PROMISES ─▶ ADMISSION ─▶ DECISION
      ▲                                                                            ▼
      └─────────────── CLOSE ◀── DIVISION ◀── RATES ◀── COMMIT ◀── PLACING ◀───────┘

`advance` returns a question (ASK_...) where somebody written in Python has to answer it: a policy, a
placement, an admission, what happens to a job or a node that no formula here knows. The answer goes into the
arrays and `advance` is called again; the phase says where it goes on.
"""

import math

from volvelle.core.compiled import kernel
from volvelle.core.forward.decide import change, decide_by_order
from volvelle.core.forward.expected import drop_outdated, next_expected, take_expected
from volvelle.core.forward.gpus import keep_in_mind, place, release
from volvelle.core.forward.jobs import (
    begins_late,
    checkpoint_ends,
    enter,
    leave,
    note_through,
    start,
    stop,
)
from volvelle.core.forward.log import log_decision, log_event, log_moment
from volvelle.core.forward.waiting import wait
from volvelle.core.state import *
from volvelle.model.tolerances import SAME_AMOUNT

_NUMBER, _SUBMIT, _GPUS = (Jobs.float_columns.index(name) for name in ("number", "submit", "gpus"))
_PLACEMENT = int(Reason.PLACEMENT)
PATIENCE = 1000
"""Wake-ups to no effect, while nothing runs, after which nothing is expected of them any more."""


@kernel
def advance(s: State, rules: Rules, until: float, moments: int) -> int:  # noqa: PLR0911
    """Let time pass for at most ``moments`` moments, none later than ``until``; says why it returns."""
    count, clock = s.count, s.clock
    last = count[MOMENTS] + moments
    while True:
        if count[PHASE] == AHEAD:
            if count[MOMENTS] >= last:
                return PAUSED
            if _nothing_is_left(s):
                return THROUGH
            now = next_moment(s)
            if now == INFINITY:
                return THROUGH
            if now > until:
                return UNTIL
            full = room(s, rules, now)
            if full != AHEAD:
                return full
            begin_moment(s, now)
            count[PHASE] = NEWS
        if count[PHASE] == NEWS:
            while next_expected(s) <= clock[NOW]:
                if _news(s, rules):
                    return ASK_NEWS
            count[PHASE] = NODES
        if count[PHASE] == NODES:
            count[PHASE] = ARRIVALS
            if clock[NODE_AT] <= clock[NOW]:
                return ASK_NODES
        if count[PHASE] == ARRIVALS:
            _take_in(s, rules)
            if clock[WAKE] <= clock[NOW]:
                _wake_up(s, rules)
            count[PHASE] = DIRECTION
        if count[PHASE] == DIRECTION:
            count[PHASE] = LIMITS
            if clock[DIRECT_AT] <= clock[NOW] and jobs_left(s) > 0:
                return ASK_DIRECTOR
        if count[PHASE] == LIMITS:
            count[PHASE] = PROMISES
            if clock[TIMED] <= clock[NOW]:
                return ASK_LIMITS
        if count[PHASE] == PROMISES:
            count[PHASE] = DEPENDENCIES
            if clock[PROMISED] <= clock[NOW]:
                return ASK_PROMISES
        if count[PHASE] == DEPENDENCIES:
            count[PHASE] = ADMISSION
            if clock[ELIGIBLE] <= clock[NOW]:
                return ASK_DEPENDENCIES
        if count[PHASE] == ADMISSION:
            count[PHASE] = DECISION
            if count[QUEUED] < count[COME] or count[RETURNED] > 0:
                if rules.admits:
                    return ASK_ADMISSION
                _admit(s, rules)
        if count[PHASE] == DECISION:
            count[PHASE] = PLACING
            if is_due(s, rules):
                count[DIRTY] = 0
                clock[DECIDED] = clock[NOW]
                if rules.decides == ORDER:
                    decide_by_order(s, rules, clock[NOW])
                else:
                    if not rules.grouped:
                        list_rows(s)
                    if rules.decides == ASKED or not _ask_kernel(s, rules):
                        return ASK_POLICY
        if count[PHASE] == PLACING:
            count[PHASE] = COMMIT
            if rules.places != COUNTED and count[CHANGED] > 0:
                release_changed(s)
                if rules.places == ASKED or count[NODES_NAMED] == 1:
                    return ASK_PLACEMENT
                for i in range(count[CHANGED]):
                    row = s.changed[i]
                    if s.jobs.target[row] > 0.0 and not place(s, rules, row):
                        refuse(s, row)
        if count[PHASE] == COMMIT:
            count[PHASE] = RATES
            count[MARK] = count[LOGGED_EVENTS]
            _commit(s, rules)
        if count[PHASE] == RATES:
            count[PHASE] = DIVISION
            if count[UNRATED] > 0:
                return ASK_RATES
        if count[PHASE] == DIVISION:
            count[PHASE] = CLOSING
            count[UNRATED] = 0
            if rules.divides and clock[DECIDED] == clock[NOW]:
                return ASK_DIVISION
        _close(s, rules)
        count[PHASE] = AHEAD
        if rules.pauses == EVERY_MOMENT or (rules.pauses > EVERY_MOMENT and count[NEWCOMERS] > 0):
            return PAUSED


# ---------------------------------------------------------------------- which moment


@kernel
def _nothing_is_left(s: State) -> bool:
    """Whether all jobs that are waited for are through, or nothing could change any more.

    That is where a policy is woken again and again, or nodes fail and return for ever, to no effect.
    """
    count = s.count
    if count[TRACKED] == 0:
        return True
    come = count[COME] == len(s.verdict)
    if come and jobs_left(s) == 0:
        return bool(s.clock[ELIGIBLE] == INFINITY)
    woken, endless = s.clock[WAKE] < INFINITY, count[ENDLESS] == 1
    impatient = woken and count[IDLE_WAKES] <= PATIENCE
    if impatient or not come or count[RUNNING] > 0 or not (woken or endless):
        return False
    nodes_help = s.clock[NODE_AT] < INFINITY and (count[AWAY] > 0 or not endless)
    return not nodes_help


@kernel
def jobs_left(s: State) -> int:
    """Jobs in the system and in the admission queue."""
    count = s.count
    return int(count[JOBS] + count[COME] - count[QUEUED] + count[RETURNED])


@kernel
def next_moment(s: State) -> float:
    """When something happens next, infinite for never."""
    clock, count = s.clock, s.count
    now = min(next_expected(s), clock[WAKE])
    if count[COME] < len(s.verdict):
        now = min(now, s.arrivals[_SUBMIT][count[COME]])
    if now < INFINITY or jobs_left(s) > 0:
        now = min(now, clock[NODE_AT])
        if now < INFINITY and clock[DIRECT_AT] > clock[NOW]:
            now = min(now, clock[DIRECT_AT])
    return float(max(now, clock[NOW]))


@kernel
def room(s: State, rules: Rules, now: float) -> int:
    """AHEAD where there is room for all that may happen at ``now``, else what is full."""
    count = s.count
    coming, last = count[COME], len(s.verdict)
    while coming < last and s.arrivals[_SUBMIT][coming] <= now:
        coming += 1
    entering = coming - count[QUEUED] + count[RETURNED]
    concerned = count[JOBS] + entering
    if entering > count[SPARE] or count[CLASSES] + entering > len(s.classes.first):
        return ROWS_FULL
    if count[RELEASES] + 2 * concerned + 4 > len(s.releases.at):
        return ROWS_FULL
    if count[EXPECTED] + 2 * concerned + 8 > len(s.expected.at):
        drop_outdated(s)
        if count[EXPECTED] + 2 * concerned + 8 > len(s.expected.at):
            return ROWS_FULL
    if rules.logs and (
        count[LOGGED_EVENTS] + 4 * concerned + 8 > len(s.events.kind)
        or count[LOGGED_DECISIONS] + 2 * concerned + 8 > len(s.decisions.job)
        or count[LOGGED_SLOTS] + 2 * len(s.slots.owner) > len(s.slots_log)
        or count[LOGGED_MOMENTS] + 2 > len(s.moments.time)
    ):
        return LOG_FULL
    return AHEAD


@kernel
def begin_moment(s: State, now: float) -> None:
    """It is ``now``; nothing has happened yet."""
    s.clock[NOW] = now
    s.count[CHANGED] = 0
    s.count[UNRATED] = 0
    s.count[NEWCOMERS] = 0
    s.count[WOKE] = 0
    s.count[NODES_NAMED] = 0
    s.count[EVENTS_BEFORE] = s.count[EVENTS]


# ---------------------------------------------------------------------- what happens


@kernel
def _news(s: State, rules: Rules) -> bool:
    """Let the first thing that is expected happen; whether Python has to say what that is."""
    heap, count = s.expected, s.count
    kind, row = heap.kind[0], int(heap.row[0])
    number, stamp, value = heap.of[0], heap.stamp[0], heap.value[0]
    take_expected(s)
    count[EVENTS] += 1
    if kind == STOPPED and value == value:  # noqa: PLR0124 - not NaN
        log_event(s, rules, CHECKPOINTED, number, stamp, value)
        note_checkpoint(s, row, number, value)
        return False
    # with a job that is pinned to a draining node, capacity goes too
    known = s.jobs.truly_asked[row] == 0.0 and s.jobs.pinned[row] == 0.0
    if kind == MILESTONE and known and not rules.learns:
        log_event(s, rules, FINISHED, number, s.jobs.attempt[row], 0.0)
        leave(s, rules, row)
        return False
    count[SUBJECT] = row
    count[SUBJECT_KIND] = int(kind)
    s.clock[SUBJECT_NUMBER] = number
    s.clock[SUBJECT_STAMP] = stamp
    return True


@kernel
def note_checkpoint(s: State, row: int, number: float, work: float) -> None:
    """The job's last stop is over, ``work`` units are safe; it may have left ``row`` since."""
    jobs = s.jobs
    if jobs.number[row] == number and jobs.held[row] == 0.0:
        jobs.done[row] = work


@kernel
def _take_in(s: State, rules: Rules) -> None:
    """Jobs are submitted; those that cannot run here are turned away."""
    count, now = s.count, s.clock[NOW]
    first, last = count[COME], len(s.verdict)
    while count[COME] < last and s.arrivals[_SUBMIT][count[COME]] <= now:
        log_event(s, rules, SUBMITTED, s.arrivals[_NUMBER][count[COME]], 0.0, 0.0)
        count[COME] += 1
    count[NEWCOMERS] = count[COME] - first
    count[EVENTS] += count[NEWCOMERS]
    for i in range(first, count[COME]):
        if s.verdict[i] == OBSTACLE:
            _reject(s, rules, i)
        elif s.verdict[i] == DEPENDS:
            s.clock[ELIGIBLE] = now


@kernel
def _reject(s: State, rules: Rules, i: int) -> None:
    log_event(s, rules, REJECTED, s.arrivals[_NUMBER][i], 0.0, 0.0)
    note_through(s, s.arrivals[_NUMBER][i])


@kernel
def _wake_up(s: State, rules: Rules) -> None:
    s.clock[WAKE] = INFINITY
    s.count[WOKE] = 1
    s.count[EVENTS] += 1
    log_event(s, rules, WOKEN, -1.0, 0.0, 0.0)


@kernel
def _admit(s: State, rules: Rules) -> None:
    """Let jobs enter in order of submission, as far as the limit on their demand goes."""
    count, clock = s.count, s.clock
    while count[QUEUED] < count[COME]:
        i = count[QUEUED]
        verdict = s.verdict[i]
        if verdict == ENTERS or verdict == NO_PROGRESS:  # noqa: PLR1714, SIM109 - Numba
            demand = clock[DEMAND] + s.arrivals[_GPUS][i]
            if demand > clock[LIMIT] and clock[DEMAND] > SAME_AMOUNT:
                return
            if verdict == ENTERS:
                enter(s, rules, i, clock[NOW])
            else:
                _reject(s, rules, i)
        count[QUEUED] += 1


# ---------------------------------------------------------------------- the decision


@kernel
def boundary(now: float, period: float, after: bool) -> float:
    """The first multiple of ``period`` at or, where it says so, after ``now``."""
    index = math.floor(now / period)
    while index * period < now or (after and index * period <= now):
        index += 1
    return float(index * period)


@kernel
def _time_matters(s: State, rules: Rules) -> bool:
    """Whether the decision may change though nothing happens: somebody runs and somebody has too little."""
    return rules.time_varying and s.count[RUNNING] > 0 and s.count[SHORT] > 0


@kernel
def is_due(s: State, rules: Rules) -> bool:
    """Whether it is to be decided now."""
    now, dirty = s.clock[NOW], s.count[DIRTY] == 1
    if rules.round > 0.0:
        if now != boundary(now, rules.round, False):
            return False
        if not dirty and s.clock[DECIDED] < now and _time_matters(s, rules):
            return True
    return bool(dirty or (s.clock[NAMED_WAKE] <= now and s.clock[DECIDED] < now))


@kernel
def wake_at(s: State, rules: Rules) -> float:
    """When the scheduler is to be woken though nothing happens, infinite for never."""
    now, named = s.clock[NOW], s.clock[NAMED_WAKE]
    if rules.round > 0.0:
        if s.count[DIRTY] == 1 or _time_matters(s, rules):
            named = boundary(now, rules.round, True)
        elif named < INFINITY:
            named = boundary(named, rules.round, False)
    for clock in (PROMISED, ELIGIBLE, TIMED):
        named = min(named, s.clock[clock])
    return float(named)


@kernel
def list_rows(s: State) -> None:
    """Write the rows of all jobs to `State.order`, by submission."""
    row = s.count[OLDEST]
    for i in range(s.count[JOBS]):
        s.order[i] = row
        row = s.jobs.younger[row]


@kernel
def _ask_kernel(s: State, rules: Rules) -> bool:
    """Let the policy's kernel decide what jobs are to hold; False where Python has to be asked first."""
    jobs, ask_at = s.jobs, INFINITY
    if s.count[JOBS] > 0 or rules.grouped:
        ask_at = s.decide(s)
        if rules.yields and ask_at == -INFINITY:
            return False
    s.clock[NAMED_WAKE] = ask_at if ask_at > s.clock[NOW] else INFINITY
    if not rules.grouped:
        for i in range(s.count[JOBS]):
            row = s.order[i]
            if jobs.target[row] != jobs.held[row] or jobs.target_type[row] != jobs.type[row]:
                change(s, row)
    return True


@kernel
def release_changed(s: State) -> None:
    """Release the slots of all jobs that the decision changes, before any of them takes some."""
    end = 0
    for i in range(s.count[CHANGED]):
        row = s.changed[i]
        if s.jobs.held[row] > 0.0:
            end = keep_in_mind(s, row, end)
            release(s, row)


@kernel
def refuse(s: State, row: int) -> None:
    """The placement finds no room for the job in ``row``: it gets nothing."""
    s.jobs.target[row] = 0.0
    s.jobs.target_type[row] = -1.0
    s.jobs.reason[row] = _PLACEMENT


@kernel
def _commit(s: State, rules: Rules) -> None:
    """Let all that the decision changes happen: first stops, then starts and resizes."""
    jobs, now, many = s.jobs, s.clock[NOW], s.count[CHANGED]
    kept, stopped = 0, 0
    for i in range(many):
        row = s.changed[i]
        if jobs.target[row] > 0.0:
            s.changed[kept] = row
            kept += 1
        elif jobs.held[row] > 0.0:
            reason = jobs.reason[row]
            free_at = checkpoint_ends(s, rules, row, now)
            if rules.places != COUNTED and free_at > now:
                _delay_old(s, row, free_at)
            stop(s, rules, row, now)
            jobs.reason[row] = reason
            log_decision(s, rules, row)
            stopped += 1
        elif rules.decides == ORDER:
            wait(s, row)  # it was to start, and was refused
    for i in range(kept):
        start(s, rules, s.changed[i], now)
        log_decision(s, rules, s.changed[i])
    for i in range(kept):
        begins_late(s, rules, s.changed[i])
    s.count[CHANGED] = kept + stopped


@kernel
def _delay_old(s: State, row: int, time: float) -> None:
    """Let the slots that the job in ``row`` held before the decision be free in fact only at ``time``."""
    first = s.jobs.old_slots[row]
    for i in range(first, first + int(s.jobs.held[row])):
        s.slots.free_at[s.slots.old[i]] = time


@kernel
def _close(s: State, rules: Rules) -> None:
    """The moment is over: when to be woken next. Late starts are told in a moment of their own."""
    count = s.count
    s.clock[WAKE] = wake_at(s, rules)
    alone = count[WOKE] == 1 and count[EVENTS] == count[EVENTS_BEFORE] + 1
    if alone and count[CHANGED] == 0:
        count[IDLE_WAKES] += 1
    else:
        count[IDLE_WAKES] = 0
    log_moment(s, rules, count[MARK])
    if count[LOGGED_EVENTS] > count[MARK]:
        log_moment(s, rules, count[LOGGED_EVENTS])
