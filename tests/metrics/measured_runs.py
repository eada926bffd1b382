"""Outcomes written by hand: jobs with the segments they held, and random ones that make sense."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from volvelle.metrics.outcomes import JobStatus, Outcomes, Segments, Steps
from volvelle.model.job import JobClass, JobSpec, Reward

NAN = float("nan")


@dataclass
class Ran:
    """One job of a run: ``held`` are (start, end, GPUs)."""

    submit: float
    held: list[tuple[float, float, float]] = field(default_factory=list)
    gpus: float = 1.0
    status: JobStatus = JobStatus.FINISHED
    exclusive: float = NAN
    contention: float = NAN
    tracked: bool = True
    id: str = ""
    pool: str = ""
    user: str = ""
    job_class: JobClass = JobClass.BEST_EFFORT
    rewards: tuple[Reward, ...] = ()
    min_gpus: float | None = None
    predicted_finish: float = NAN


def outcomes_of(
    jobs: list[Ran],
    capacity: float | list[tuple[float, float]] = 8.0,
    end: float | None = None,
    single_gpu_seconds: list[float] | None = None,
) -> Outcomes:
    """The outcomes of ``jobs``; a job finishes with its last segment if its status says so."""
    rows = sorted((s, e, g, i) for i, job in enumerate(jobs) for s, e, g in job.held)
    changes = capacity if isinstance(capacity, list) else [(0.0, capacity)]
    if end is None:
        end = max([row[1] for row in rows] + [job.submit for job in jobs])
    finished = [job.status == JobStatus.FINISHED for job in jobs]
    none = np.zeros(0, dtype=np.int64)
    return Outcomes(
        specs=[_spec(i, job) for i, job in enumerate(jobs)],
        submit_time=_floats([job.submit for job in jobs]),
        gpus=_floats([job.gpus for job in jobs]),
        exclusive_seconds=_floats([job.exclusive for job in jobs]),
        first_start=_floats([job.held[0][0] if job.held else NAN for job in jobs]),
        finish=_floats(
            [job.held[-1][1] if done else NAN for job, done in zip(jobs, finished, strict=True)]
        ),
        gpu_seconds=_floats([sum((e - s) * g for s, e, g in job.held) for job in jobs]),
        run_seconds=_floats([sum(e - s for s, e, _ in job.held) for job in jobs]),
        preemptions=np.array([max(len(job.held) - 1, 0) for job in jobs], dtype=np.int64),
        restarts=np.array([max(len(job.held) - 1, 0) for job in jobs], dtype=np.int64),
        lost_gpu_seconds=np.zeros(len(jobs)),
        contention=_floats([job.contention for job in jobs]),
        tracked=np.array([job.tracked for job in jobs], dtype=np.bool_),
        status=np.array([job.status.value for job in jobs], dtype=np.str_),
        reason=[""] * len(jobs),
        segments=Segments(
            job=np.array([row[3] for row in rows], dtype=np.int64),
            start=_floats([row[0] for row in rows]),
            end=_floats([row[1] for row in rows]),
            gpus=_floats([row[2] for row in rows]),
            slot_offsets=np.zeros(len(rows) + 1, dtype=np.int64),
            slots=none,
        ),
        capacity=Steps(_floats([c[0] for c in changes]), _floats([c[1] for c in changes])),
        end_time=end,
        single_gpu_seconds=None if single_gpu_seconds is None else _floats(single_gpu_seconds),
        predicted_finish=_floats([job.predicted_finish for job in jobs]),
    )


def read_columns(path: Path, *names: str) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Columns of numbers of a CSV file of reference results."""
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return [np.array([float(line[name]) for line in lines]) for name in names]


def _spec(index: int, job: Ran) -> JobSpec:
    return JobSpec(
        id=job.id or f"job-{index}",
        submit_time=job.submit,
        gpus=job.gpus,
        min_gpus=job.min_gpus,
        pool=job.pool,
        user=job.user,
        job_class=job.job_class,
        rewards=job.rewards,
    )


def _floats(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


@st.composite
def runs(draw: st.DrawFn) -> Outcomes:
    """Random outcomes on a cluster that is just large enough; times on a quarter-second grid."""
    quarters = st.integers(0, 40).map(lambda count: count / 4)
    jobs = []
    submit = 0.0
    for _ in range(draw(st.integers(1, 12))):
        submit += draw(quarters)
        gpus = draw(st.sampled_from([0.5, 1.0, 2.0, 3.0, 8.0]))
        status = draw(st.sampled_from(JobStatus))
        held, now = [], submit
        most = 0 if status in {JobStatus.REJECTED, JobStatus.WAITING} else 4
        for _ in range(draw(st.integers(1 if status == JobStatus.FINISHED else 0, max(most, 0)))):
            start = now + draw(quarters)
            now = start + draw(quarters) + 0.25
            held.append((start, now, gpus))
        jobs.append(Ran(submit, held, gpus, status, exclusive=draw(quarters), contention=2.0))
    most_held = sum(job.gpus for job in jobs)
    return outcomes_of(jobs, capacity=most_held + draw(st.sampled_from([0.0, 1.0, 4.0])))
