"""Events and decisions as rows of numbers, of which Python makes objects.

The log is written where the rules say so, and drained when `advance` returns LOG_FULL.
"""

from volvelle.core.compiled import kernel
from volvelle.core.state import *


@kernel
def log_event(
    s: State, rules: Rules, kind: int, number: float, attempt: float, value: float
) -> None:
    """Note that something happened at this moment."""
    if rules.logs:
        i = s.count[LOGGED_EVENTS]
        s.events.kind[i] = kind
        s.events.number[i] = number
        s.events.attempt[i] = attempt
        s.events.value[i] = value
        s.count[LOGGED_EVENTS] = i + 1


@kernel
def log_decision(s: State, rules: Rules, row: int) -> None:
    """Note what the job in ``row`` holds from now on."""
    if not rules.logs:
        return
    jobs, log, i = s.jobs, s.decisions, s.count[LOGGED_DECISIONS]
    log.job[i] = jobs.number[row]
    log.gpus[i] = jobs.held[row]
    log.type[i] = jobs.type[row]
    log.starts[i] = jobs.attempt[row]
    log.partner[i] = jobs.partner[row]
    slot, at = s.jobs.slot[row], s.count[LOGGED_SLOTS]
    while slot >= 0:
        s.slots_log[at] = slot
        at += 1
        slot = s.slots.next[slot]
    s.count[LOGGED_SLOTS] = at
    log.slots_end[i] = at
    s.count[LOGGED_DECISIONS] = i + 1


@kernel
def log_moment(s: State, rules: Rules, events_end: int) -> None:
    """Note that a moment is over."""
    s.count[MOMENTS] += 1
    if rules.logs:
        i = s.count[LOGGED_MOMENTS]
        s.moments.time[i] = s.clock[NOW]
        s.moments.events_end[i] = events_end
        s.moments.decisions_end[i] = s.count[LOGGED_DECISIONS]
        s.moments.wake[i] = s.clock[WAKE]
        s.count[LOGGED_MOMENTS] = i + 1
