"""What the live world reads of a scheduler's internals, in one place: its jobs, columns and waiting jobs."""

from collections.abc import Iterable

import numpy as np

from volvelle.core.columns import Column
from volvelle.core.decision import Decision
from volvelle.core.scheduler import Scheduler
from volvelle.core.standing import Aside


def job_numbers(scheduler: Scheduler) -> list[int]:
    """Numbers of all jobs: admitted, held, and waiting for admission."""
    return [*unheld_job_numbers(scheduler), *scheduler.aside]


def unheld_job_numbers(scheduler: Scheduler) -> list[int]:
    """Numbers of all jobs that are not held."""
    return [*scheduler.known, *(event.number for event in scheduler.at_the_door)]


def is_held(scheduler: Scheduler, number: int) -> bool:
    """Whether a job is held."""
    return number in scheduler.aside


def holds_gpus(scheduler: Scheduler, number: int) -> bool:
    """Whether a job holds GPUs, by the latest decision."""
    row = scheduler.jobs.row_of.get(number)
    return row is not None and bool(scheduler.jobs.matrix[Column.HELD, row] > 0.0)


def gpus_held(scheduler: Scheduler) -> dict[int, float]:
    """GPUs of the jobs that hold some, by the latest decision."""
    jobs = scheduler.jobs
    return {
        number: float(jobs.matrix[Column.HELD, row])
        for number, row in jobs.row_of.items()
        if jobs.matrix[Column.HELD, row] > 0.0
    }


def gpus_decided(decision: Decision) -> dict[int, float]:
    """GPUs of the jobs that ``decision`` changes."""
    return dict(zip(decision.job.tolist(), decision.gpus.tolist(), strict=True))


def preemptions(scheduler: Scheduler, number: int) -> int:
    """How often a job was preempted; 0 if it is held or over."""
    row = scheduler.jobs.row_of.get(number)
    return 0 if row is None else int(scheduler.jobs.matrix[Column.PREEMPTIONS, row])


def attempt_number(scheduler: Scheduler, number: int) -> int | None:
    """The attempt of a job as the scheduler counts; None if it is held or over."""
    row = scheduler.jobs.row_of.get(number)
    return None if row is None else int(scheduler.jobs.get(number, Column.ATTEMPT))


def estimated_work(scheduler: Scheduler, number: int, now: float) -> float:
    """Units of work that a job has done by estimate; 0 if it is over."""
    if isinstance(aside := scheduler.aside.get(number), Aside):
        return aside.values[Column.DONE]
    if (row := scheduler.jobs.row_of.get(number)) is None:
        return 0.0
    matrix = scheduler.jobs.matrix
    worked = max(now - float(matrix[Column.PROGRESS_FROM, row]), 0.0)
    done = float(matrix[Column.DONE, row])
    return done + worked * float(matrix[Column.RATE, row]) if matrix[Column.HELD, row] else done


def submit_times(scheduler: Scheduler) -> Iterable[tuple[int, float]]:
    """Number and submission time of every job that is not held."""
    matrix = scheduler.jobs.matrix[:, : scheduler.jobs.count]
    numbers = matrix[Column.NUMBER].astype(np.int64).tolist()
    yield from zip(numbers, matrix[Column.SUBMIT].tolist(), strict=True)
    yield from ((event.number, event.time) for event in scheduler.at_the_door)
