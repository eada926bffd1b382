"""Moments: when the next one is, whether a decision is due in it, and when the scheduler is to be woken."""

import math

from volvelle.core.compiled import kernel
from volvelle.core.forward.expected import drop_outdated, next_expected
from volvelle.core.forward.log import log_moment
from volvelle.core.state import *

_SUBMIT = PLACE["submit"]
PATIENCE = 1000
"""Wake-ups to no effect, while nothing runs, after which nothing is expected of them any more."""


@kernel
def nothing_is_left(s: State) -> bool:
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
        if now < INFINITY and clock[SWITCH_AT] > clock[NOW]:
            now = min(now, clock[SWITCH_AT])
    return float(max(now, clock[NOW]))


@kernel
def room(s: State, rules: Rules, now: float) -> int:
    """AHEAD where there is room for all that may happen at ``now``, else what is full."""
    count = s.count
    arrived, last = count[COME], len(s.verdict)
    while arrived < last and s.arrivals[_SUBMIT][arrived] <= now:
        arrived += 1
    entering = arrived - count[QUEUED] + count[RETURNED]
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
        or count[LOGGED_SLOTS] + 2 * (len(s.slots.owner) + concerned) > len(s.slots_log)
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


@kernel
def boundary(now: float, period: float, after: bool) -> float:
    """The first multiple of ``period`` at or, where it says so, after ``now``."""
    index = math.floor(now / period)
    while index * period < now or (after and index * period <= now):
        index += 1
    return float(index * period)


@kernel
def _time_matters(s: State, rules: Rules) -> bool:
    """Whether the decision may change though nothing happens: some job runs and some job has too little."""
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
def close_moment(s: State, rules: Rules) -> None:
    """Close the moment: set the next wake-up. Late starts are logged in a moment of their own."""
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
