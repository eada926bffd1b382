"""Queries of the live world to a scheduler's state: its jobs, and jobs that wait or are held."""

from collections.abc import Iterable

import msgspec

from volvelle.core.admissions import HeldJob
from volvelle.core.decision import Decision
from volvelle.core.scheduler_state import SchedulerState
from volvelle.live.job_request import JobRequest
from volvelle.live.measured_rates import MeasuredRates
from volvelle.model.job import JobSpec


def job_numbers(scheduler: SchedulerState) -> list[int]:
    """Numbers of all jobs: admitted, held, and waiting for admission or for other jobs."""
    aside = (number for number, one in scheduler.admissions.dependents.blocked.items() if one.held)
    held = scheduler.admissions.held.keys() - scheduler.admissions.recalled
    return [*unheld_job_numbers(scheduler), *sorted(held), *aside]


def unheld_job_numbers(scheduler: SchedulerState) -> list[int]:
    """Numbers of all jobs that are not held."""
    return [*scheduler.known, *(event.number for event in scheduler.admissions.submissions)]


def declarations(scheduler: SchedulerState) -> dict[int, JobSpec]:
    """Declarations of the jobs that wait for admission or for other jobs, and are not held."""
    return {event.number: event.spec for event in scheduler.admissions.submissions}


def waits_for_jobs(scheduler: SchedulerState, number: int) -> bool:
    """Whether a job waits for other jobs."""
    return number in scheduler.admissions.dependents.blocked


def is_held(scheduler: SchedulerState, number: int) -> bool:
    """Whether a job is held."""
    aside = scheduler.admissions.dependents.blocked.get(number)
    admissions = scheduler.admissions
    held = number in admissions.held and number not in admissions.recalled
    return held or (aside is not None and aside.held)


def holds_gpus(scheduler: SchedulerState, number: int) -> bool:
    """Whether a job holds GPUs, by the latest decision."""
    row = scheduler.row_of(number)
    return row is not None and bool(scheduler.state.jobs.held[row] > 0.0)


def seconds_with_gpus(scheduler: SchedulerState, number: int) -> float:
    """Seconds for which a job that has no GPUs now has had some."""
    if isinstance(held := scheduler.admissions.held.get(number), HeldJob):
        return held.value("attained")
    row = scheduler.row_of(number)
    return 0.0 if row is None else float(scheduler.state.jobs.attained[row])


def gpus_held(scheduler: SchedulerState) -> dict[int, float]:
    """GPUs of the jobs that hold some, by the latest decision."""
    jobs = scheduler.view().jobs
    running = jobs.running
    return dict(
        zip(jobs.number[running].astype(int).tolist(), jobs.held[running].tolist(), strict=True)
    )


def gpus_decided(decision: Decision) -> dict[int, float]:
    """GPUs of the jobs that ``decision`` changes."""
    return dict(zip(decision.job.tolist(), decision.gpus.tolist(), strict=True))


def preemptions(scheduler: SchedulerState, number: int) -> int:
    """How often a job was preempted; 0 if it is over."""
    if isinstance(held := scheduler.admissions.held.get(number), HeldJob):
        return int(held.value("preemptions"))
    row = scheduler.row_of(number)
    return 0 if row is None else int(scheduler.state.jobs.preemptions[row])


def attempt_number(scheduler: SchedulerState, number: int) -> int | None:
    """The attempt of a job as the scheduler counts; None if it is held or over."""
    row = scheduler.row_of(number)
    return None if row is None else int(scheduler.state.jobs.attempt[row])


def estimated_work(scheduler: SchedulerState, number: int, now: float) -> float:
    """Units of work that a job has done by estimate; 0 if it is over."""
    if isinstance(held := scheduler.admissions.held.get(number), HeldJob):
        return held.value("done")
    if (row := scheduler.row_of(number)) is None:
        return 0.0
    jobs = scheduler.state.jobs
    done = float(jobs.done[row])
    if not jobs.held[row]:
        return done
    return done + max(now - float(jobs.progress_from[row]), 0.0) * float(jobs.rate[row])


def believed_end(scheduler: SchedulerState, number: int) -> float | None:
    """When a job is through if what is believed of it is true, also if that has passed; None without GPUs."""
    if not holds_gpus(scheduler, number):
        return None
    jobs, row = scheduler.state.jobs, scheduler.row_of(number)
    rate = float(jobs.rate[row])
    if rate <= 0.0:
        return None
    left = float(jobs.total[row] - jobs.done[row]) * float(jobs.scale[row])
    return float(jobs.progress_from[row]) + left / rate


def starts_over(scheduler: SchedulerState, number: int) -> bool:
    """Whether the scheduler holds that a stop loses all that a job has done; not of one that is not there."""
    if isinstance(held := scheduler.admissions.held.get(number), HeldJob):
        return held.value("starts_over") > 0.0
    if (row := scheduler.row_of(number)) is not None:
        return bool(scheduler.state.jobs.starts_over[row] > 0.0)
    waits = declarations(scheduler).get(number)
    return waits is not None and waits.starts_over


def declared_spec(
    scheduler: SchedulerState,
    measured: MeasuredRates,
    request: JobRequest,
    number: int,
    user: str,
    time: float,
) -> JobSpec:
    """The scheduler's view of a job that is submitted at ``time``, with what was measured of its like.

    Where finishes are guaranteed, a script that is not known to save starts over: its stops would break
    guarantees otherwise, which nothing had foreseen.
    """
    spec = measured.declare(request.spec(number, user, time), scheduler.resources.types)
    saves = request.declares_checkpoints or (request.name and measured.of(user, request.name))
    guarantees = scheduler.rules.watches or scheduler.composition.policy.guarantees
    over = guarantees and not saves
    return msgspec.structs.replace(spec, starts_over=True) if over else spec


def believed_work(scheduler: SchedulerState, number: int) -> float | None:
    """Units of work that a job is believed to be in all; None if it is held or over."""
    row = scheduler.row_of(number)
    return None if row is None else float(scheduler.state.jobs.total[row])


def guessed_jobs(scheduler: SchedulerState) -> set[int]:
    """Numbers of the jobs that are not held of which the estimator does not know how long such ones take."""
    guesses = scheduler.composition.estimator.guesses
    here = {number for number in scheduler.known if guesses(scheduler.spec(number))}
    return here | {
        event.number for event in scheduler.admissions.submissions if guesses(event.spec)
    }


def submit_times(scheduler: SchedulerState) -> Iterable[tuple[int, float]]:
    """Number and submission time of every job that is not held."""
    jobs = scheduler.view().jobs
    yield from zip(jobs.number.astype(int).tolist(), jobs.submit_time.tolist(), strict=True)
    yield from ((event.number, event.time) for event in scheduler.admissions.submissions)
