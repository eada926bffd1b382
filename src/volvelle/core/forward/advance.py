"""The loop: one moment after another, each in phases, until Python has to be asked.

    AHEAD ─▶ NEWS ─▶ NODES ─▶ ARRIVALS ─▶ DIRECTION ─▶ PROMISES ─▶ ADMISSION ─▶ DECISION
      ▲                                                                            ▼
      └────── CLOSE ◀── WATCH ◀── DIVISION ◀── RATES ◀── COMMIT ◀── PLACING ◀───────┘

`advance` returns a question (ASK_...) where a part written in Python has to answer it: a policy, a
placement, an admission, what happens to a job or a node that no formula here knows. The answer goes into the
arrays and `advance` is called again; the phase says where it goes on.
"""

from volvelle.core.compiled import kernel
from volvelle.core.forward.classes import count_left
from volvelle.core.forward.decide import decide_by_order, serve_the_last
from volvelle.core.forward.expected import next_expected, take_expected
from volvelle.core.forward.gpus import keep_in_mind, place, place_as_named, release
from volvelle.core.forward.jobs import (
    begins_late,
    checkpoint_ends,
    enter,
    leave,
    note_through,
    start,
    stop,
)
from volvelle.core.forward.log import log_decision, log_event
from volvelle.core.forward.moments import (
    begin_moment,
    close_moment,
    is_due,
    jobs_left,
    next_moment,
    nothing_is_left,
    room,
)
from volvelle.core.forward.running import list_served
from volvelle.core.forward.serving import change
from volvelle.core.forward.waiting import wait
from volvelle.core.forward.whole_gpus import cut_to_names, refuse
from volvelle.core.state import *
from volvelle.model.tolerances import SAME_AMOUNT

_NUMBER, _SUBMIT, _GPUS = PLACE["number"], PLACE["submit"], PLACE["gpus"]


@kernel
def advance(s: State, rules: Rules, until: float, moments: int) -> int:  # noqa: PLR0911
    """Let time pass for at most ``moments`` moments, none later than ``until``; says why it returns."""
    count, clock = s.count, s.clock
    last = count[MOMENTS] + moments
    settled, decided = False, True
    while True:
        if count[PHASE] == AHEAD:
            if count[MOMENTS] >= last:
                return PAUSED
            if nothing_is_left(s):
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
            if clock[SWITCH_AT] <= clock[NOW] and jobs_left(s) > 0:
                return ASK_SWITCHER
        if count[PHASE] == LIMITS:
            count[PHASE] = PROMISES
            if clock[TIMED] <= clock[NOW]:
                return ASK_LIMITS
        if count[PHASE] == PROMISES:
            count[PHASE] = DEPENDENCIES
            watched = rules.watches and count[DIRTY] == 1 and clock[PROMISED] < INFINITY
            if clock[PROMISED] <= clock[NOW] or watched:
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
            decided = is_due(s, rules)
            if decided:
                count[DIRTY] = 0
                clock[DECIDED] = clock[NOW]
                if rules.decides == ORDER:
                    settled = decide_by_order(s, rules, clock[NOW], settled)
                elif not rules.serves_all or not serve_the_last(s):
                    if not rules.grouped:
                        list_rows(s)
                    if rules.decides == ASKED or not _ask_kernel(s, rules):
                        return ASK_POLICY
                    if rules.tells >= 0 and s.memory[rules.tells] > 0.0:
                        return ASK_TOLD
        if count[PHASE] == PLACING:
            count[PHASE] = COMMIT
            if rules.places != COUNTED and count[CHANGED] > 0:
                settled = cut_to_names(s, rules) and settled
                release_changed(s)
                if rules.places == ASKED:
                    return ASK_PLACEMENT
                for i in range(count[CHANGED]):
                    row = s.changed[i]
                    if s.jobs.target[row] == 0.0:
                        continue
                    named = count[NODES_NAMED] > 0
                    if not (place_as_named(s, row) if named else place(s, rules, row)):
                        refuse(s, row)
                        settled = False
        if count[PHASE] == COMMIT:
            count[PHASE] = RATES
            count[MARK] = count[LOGGED_EVENTS]
            _commit(s, rules)
            if settled and count[DIRTY] == 0:
                count_left(s)  # a decision concerns only pools in which something happens later
        if count[PHASE] == RATES:
            count[PHASE] = DIVISION
            if count[UNRATED] > 0:
                return ASK_RATES
        if count[PHASE] == DIVISION:
            count[PHASE] = WATCH
            count[UNRATED] = 0
            if rules.divides and decided and clock[DECIDED] == clock[NOW]:
                list_served(s, rules)
                return ASK_DIVISION
        if count[PHASE] == WATCH:
            count[PHASE] = CLOSING
            if rules.watches and clock[PROMISED] < INFINITY and clock[DECIDED] == clock[NOW]:
                return ASK_WATCH
        close_moment(s, rules)
        count[PHASE] = AHEAD
        if rules.pauses == EVERY_MOMENT or (rules.pauses > EVERY_MOMENT and count[NEWCOMERS] > 0):
            return PAUSED


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
    known = known and kind == MILESTONE and not rules.learns
    if known and (not rules.notes or s.learn(s, row) == 1):
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
    """Jobs are submitted; a job that cannot run here is rejected."""
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
    if s.count[JOBS] > 0 or rules.grouped or rules.names_nodes:
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
    if s.jobs.gpus[row] < 1.0:
        s.slots.free_at[first] = max(s.slots.free_at[first], time)
        return
    for i in range(first, first + int(s.jobs.held[row])):
        s.slots.free_at[s.slots.old[i]] = time
