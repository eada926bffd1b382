"""How jobs come into the system and leave it: admission, entering, being turned away."""

import math
from collections.abc import Sequence

from volvelle.core.admissions import HeldJob
from volvelle.core.events import JobSubmitted
from volvelle.core.forecast import LookAhead
from volvelle.core.forward.jobs import enter as enter_arrival
from volvelle.core.forward.jobs import join, leave, note_through, part, stop, take_row
from volvelle.core.forward.log import log_decision, log_event
from volvelle.core.mistakes import mistakes_of
from volvelle.core.parts import Fate, KnownJob, Verdict
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import *
from volvelle.model.job import JobSpec
from volvelle.model.tolerances import SAME_AMOUNT


def admit_all(scheduler: SchedulerState) -> None:
    """Let the admission judge waiting jobs in order, as far as it looks past jobs that wait on."""
    looks_past, waits = scheduler.composition.admission.looks_past, 0
    ahead = scheduler.ahead
    if scheduler.admissions.arrival is not None:
        scheduler.admissions.pass_over()
    for place, event in scheduler.admissions.in_queue():
        if waits > looks_past and event.time < scheduler.now:
            continue
        recalled = event.number in scheduler.admissions.recalled
        if recalled and scheduler.admissions.stopped_now(event.number):
            continue
        verdict = _judge(scheduler, event, ahead)
        if recalled and verdict.fate is not Fate.WAIT:
            verdict = Verdict(Fate.ADMIT)  # what it is guaranteed still holds
        if verdict.fate is not Fate.WAIT:
            scheduler.admissions.leave(event, place)
            _let_in(scheduler, event, place, verdict)
            ahead = scheduler.ahead
            continue
        if verdict.promise is not None and not recalled:
            scheduler.promises.give(verdict.promise, scheduler.notes)
        if not looks_past:
            return
        waits += 1


def _let_in(
    scheduler: SchedulerState, event: JobSubmitted, place: int | None, verdict: Verdict
) -> None:
    """Let a job enter or turn it away for good; ``place``: in the table of arrivals."""
    s, admission = scheduler.state, scheduler.composition.admission
    if verdict.fate is Fate.REJECT:
        reason = verdict.reason or f"turned away by admission {admission.name}"
        reject(scheduler, event, reason)
    elif not scheduler.admissions.prepared or place is None:
        admit(scheduler, event, place)
    elif event.number in scheduler.admissions.refused:
        reject(scheduler, event, scheduler.admissions.refused[event.number])
    else:
        enter_arrival(s, scheduler.rules, place, scheduler.now)
    if verdict.promise is not None and event.number in scheduler.known:
        scheduler.promises.give(verdict.promise, scheduler.notes)


def _judge(scheduler: SchedulerState, event: JobSubmitted, ahead: LookAhead) -> Verdict:
    """The admission's judgement of a job in the queue; ``ahead`` is of this moment."""
    s, admission = scheduler.state, scheduler.composition.admission
    if admission.limit(sum(s.types.capacity)) is None:
        asked = f"it was asked at {scheduler.now:g} s about job {event.spec.id!r}"
        with mistakes_of(f"admission {admission.name!r}", asked):
            return admission.judge(event, scheduler.view(), ahead)
    demand = float(s.clock[DEMAND])
    fits = demand + event.spec.gpus <= s.clock[LIMIT] or demand <= SAME_AMOUNT
    return Verdict(Fate.ADMIT if fits else Fate.WAIT)


def admit(scheduler: SchedulerState, event: JobSubmitted, place: int | None = None) -> None:
    """Let a job enter, or turn it away where it makes no progress here.

    place: in the table of arrivals, in a world that knows what comes.
    """
    if isinstance(job := scheduler.admissions.take(event.number), HeldJob):
        enter(scheduler, job.values, job.known)
        return
    belief = scheduler.composition.estimator.believe(event, scheduler.seed)
    values = scheduler.beliefs.newcomer(event.number, event.spec, belief)
    if isinstance(values, str):
        reject(scheduler, event, values)
    else:
        if event.profile is not None:
            values[PLACE["submit"]] = event.profile.ended
        if event.spec.after:
            values[PLACE["submit"]] = event.time if place is None else _submitted(scheduler, place)
        if place is not None:
            for column in TRUTH:
                values[column] = float(scheduler.state.arrivals[column][place])
        enter(scheduler, values, KnownJob(event.spec, belief.truth))


def _submitted(scheduler: SchedulerState, place: int) -> float:
    return float(scheduler.state.arrivals[PLACE["submit"]][place])


# ---------------------------------------------------------------------- coming and going


def reject(scheduler: SchedulerState, event: JobSubmitted, reason: str) -> None:
    """Turn away for good a job that was submitted."""
    give_up_on(scheduler, event.number, event.spec, reason)
    note_through(scheduler.state, event.number)


def give_up_on(scheduler: SchedulerState, number: int, spec: JobSpec, reason: str) -> None:
    """Say that a job will not be served any more."""
    scheduler.notes.reasons[number] = reason
    log_event(scheduler.state, scheduler.rules, REJECTED, number, 0.0, 0.0)
    scheduler.admissions.note_end(spec.id, ok=False)


def enter(scheduler: SchedulerState, values: Sequence[float], known: KnownJob) -> None:
    """Let a job be in the system; ``values`` are the first columns of `volvelle.core.state.Jobs`."""
    s = scheduler.state
    row = take_row(s)
    jobs = s.jobs
    jobs.type[row] = jobs.partner[row] = -1.0
    jobs.first_start[row] = jobs.cpus[row] = jobs.memory[row] = math.nan
    jobs.started[row] = scheduler.now
    jobs.reason[row] = float(Reason.ROUND)
    for place, value in enumerate(values):
        jobs.floats[place][row] = value
    join(s, scheduler.rules, row, scheduler.now)
    scheduler.known.entered(int(values[0]), row, known)
    rules = scheduler.rules
    if rules.decides == KERNEL and not rules.yields and jobs.table[row] < 0.0:
        scheduler.apply_rules()  # machine code may not know how fast it is


def take_out(scheduler: SchedulerState, number: int) -> HeldJob:
    """The job of this number, which leaves the system for a while; its GPUs are free after its checkpoint."""
    s, row = scheduler.state, scheduler.known.rows[number]
    if s.jobs.held[row] > 0.0:
        stop(s, scheduler.rules, row, scheduler.now)
        log_decision(s, scheduler.rules, row)
    columns = PLACE["token"] if scheduler.rules.simulated else KNOWN_COLUMNS
    values = tuple(float(column[row]) for column in s.jobs.floats[:columns])
    job = HeldJob(values, scheduler.known[number])
    drop(scheduler, row, through=False)
    return job


def drop(scheduler: SchedulerState, row: int, *, through: bool = True) -> None:
    """Take the job in ``row`` out of the system; ``through``: it does not come back."""
    s, number = scheduler.state, int(scheduler.state.jobs.number[row])
    pinned = s.jobs.pinned[row] == 1.0
    (leave if through else part)(s, scheduler.rules, row)
    scheduler.known.left(number)
    if pinned:
        scheduler.count_capacity()
