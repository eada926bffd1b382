"""Changes by users to jobs that they have submitted: hold, release, change, requeue."""

from collections import deque

import msgspec

from volvelle.core.admissions import HeldJob
from volvelle.core.beliefs import DECLARED_COLUMNS
from volvelle.core.entry import enter, take_out
from volvelle.core.events import JobChanged, JobHeld, JobReleased, JobRequeued, JobSubmitted
from volvelle.core.forward.jobs import stop
from volvelle.core.parts import KnownJob
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import DIRTY


def held(scheduler: SchedulerState, event: JobHeld) -> None:
    """Take a job out of the system until it is released; its GPUs are free after its checkpoint."""
    number = event.number
    row = scheduler.row_of(number)
    if row is None:
        if (dependent := scheduler.admissions.dependents.blocked.get(number)) is not None:
            scheduler.admissions.dependents.blocked[number] = dependent._replace(held=True)
        elif number in scheduler.admissions.recalled:
            scheduler.admissions.forget(number)
        elif (submission := scheduler.admissions.withdraw(number)) is not None:
            scheduler.admissions.held[number] = submission
        return
    preemptions = float(scheduler.state.jobs.preemptions[row])
    job = take_out(scheduler, number)
    scheduler.admissions.held[number] = job.having({"preemptions": preemptions})


def released(scheduler: SchedulerState, event: JobReleased) -> None:
    """Let a held job be where it would be had it not been held."""
    if (dependent := scheduler.admissions.dependents.blocked.get(event.number)) is not None:
        scheduler.admissions.dependents.blocked[event.number] = dependent._replace(held=False)
        return
    job = scheduler.admissions.take(event.number)
    if isinstance(job, JobSubmitted):
        scheduler.admissions.submit(job)
    elif job is not None:
        enter(scheduler, job.values, job.known)


def changed(scheduler: SchedulerState, event: JobChanged) -> None:
    """Let another declaration hold of a job that waits, wherever it does.

    A job in the system leaves it and comes back, so that no part goes by what it knew of the job. Of one that
    runs only whether it starts over may change, as its reports show.
    """
    number, blocked, out = (
        event.number,
        scheduler.admissions.dependents.blocked,
        scheduler.admissions.held,
    )
    row = scheduler.row_of(number)
    if row is not None:
        if scheduler.state.jobs.held[row] == 0.0:
            job = _redeclared(scheduler, take_out(scheduler, number), event)
            enter(scheduler, job.values, job.known)
        elif (over := event.changes.get("starts_over")) is not None:
            known = scheduler.known[number]
            spec = msgspec.structs.replace(known.spec, starts_over=bool(over))
            scheduler.known[number] = known._replace(spec=spec)
            scheduler.state.jobs.starts_over[row] = float(over)
    elif (dependent := blocked.get(number)) is not None:
        blocked[number] = dependent._replace(event=resubmitted(dependent.event, event))
    elif isinstance(waits := out.get(number), JobSubmitted):
        out[number] = resubmitted(waits, event)
    elif waits is not None:
        out[number] = _redeclared(scheduler, waits, event)
    else:
        scheduler.admissions.queue = deque(
            resubmitted(one, event) if one.number == number else one
            for one in scheduler.admissions.queue
        )


def requeued(scheduler: SchedulerState, event: JobRequeued) -> None:
    """Stop a running job, and let it wait where its policy serves it next."""
    s, row = scheduler.state, scheduler.row_of(event.number)
    if row is None or s.jobs.held[row] == 0.0:
        return
    stop(s, scheduler.rules, row, scheduler.now)
    s.jobs.preemptions[row] -= 1.0  # its user did, not the scheduler
    s.count[DIRTY] = 1
    if s.jobs.pinned[row] == 1.0:
        scheduler.count_capacity()


def resubmitted(submission: JobSubmitted, event: JobChanged) -> JobSubmitted:
    """The submission as if its user had declared so at once."""
    spec = msgspec.structs.replace(submission.spec, **event.changes)
    return msgspec.structs.replace(submission, spec=spec)


def _redeclared(scheduler: SchedulerState, job: HeldJob, event: JobChanged) -> HeldJob:
    """The job with what its new declaration says, and what is believed of it where that changes."""
    before, believed = job.known
    spec = msgspec.structs.replace(before, **event.changes)
    columns = {name: float(getattr(spec, field) or 0.0) for name, field in DECLARED_COLUMNS}
    if spec.estimate_seconds != before.estimate_seconds:
        submission = JobSubmitted(spec.submit_time, event.number, spec)
        belief = scheduler.composition.estimator.believe(submission, scheduler.seed)
        believed = belief.truth
        columns |= {"total": believed.work, "scale": belief.scale}
    return job.having(columns)._replace(known=KnownJob(spec, believed))
