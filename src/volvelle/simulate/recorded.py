"""The run that a trace recorded: its starts and ends as outcomes, to stand beside simulated ones.

A job held the GPUs that it asked for from its start to its end. Jobs that could never run on the cluster
at hand are rejected, as a simulation rejects them, so that both are of the same jobs.
"""

import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import FINISHED, SUBMITTED
from volvelle.metrics.outcomes import JobStatus, Outcomes, Segments, Steps
from volvelle.metrics.recorder import contention
from volvelle.model.cluster import Cluster
from volvelle.simulate.run import Simulation
from volvelle.workload.proposing import most_recorded_gpus
from volvelle.workload.workload import Workload

_SLACK = 1.02
"""Records of seconds overlap a little where a job follows another."""


def recorded_jobs(workload: Workload) -> int:
    """Of how many jobs the trace says when they started."""
    return sum(job.recorded is not None for job in workload.jobs)


def fits_record(workload: Workload, cluster: Cluster) -> bool:
    """Whether the GPUs that jobs held at once, by the trace's account, are no more than ``cluster`` has."""
    return most_recorded_gpus(workload.jobs) <= _SLACK * cluster.gpus


def as_recorded(workload: Workload, cluster: Cluster) -> Simulation:
    """`recorded_outcomes` as a run, whose scheduler never had a job."""
    idle = Scheduler(cluster, WrittenComposition().build())
    reasons = [idle.obstacle(spec) for spec in workload.specs]
    return Simulation(recorded_outcomes(workload, reasons, cluster), idle, None, 0.0, 0, 0)


def recorded_outcomes(workload: Workload, reason: list[str], cluster: Cluster) -> Outcomes:
    """Outcomes of the jobs by the trace's own account, which it must give of each.

    A start before the submission counts as one at it. ``reason``: why a job could never run on ``cluster``,
    empty for a job that could. Capacity is the cluster's.
    """
    ran = [job.recorded for job in workload.jobs if job.recorded is not None]
    assert len(ran) == len(workload)
    submitted, gpus = workload.submit_times, workload.gpus
    start = np.maximum([each.start for each in ran], submitted)
    end = np.maximum([each.end for each in ran], start)
    fits = np.array([not why for why in reason], dtype=np.bool_)
    held = np.where(fits, end - start, 0.0)
    rows = np.flatnonzero(fits)
    rows = rows[np.argsort(start[rows], kind="stable")]
    none = np.zeros(len(workload), dtype=np.int64)
    status = np.where(fits, JobStatus.FINISHED.value, JobStatus.REJECTED.value)
    times = np.concatenate([submitted, np.where(fits, end, submitted)])
    order = np.argsort(times, kind="stable")
    turns = np.repeat(np.array([SUBMITTED, FINISHED], dtype=np.int8), len(workload))
    numbers = np.tile(np.arange(len(workload), dtype=np.int32), 2)
    return Outcomes(
        specs=workload.specs,
        submit_time=submitted,
        gpus=gpus,
        exclusive_seconds=workload.durations,
        first_start=np.where(fits, start, np.nan),
        finish=np.where(fits, end, np.nan),
        gpu_seconds=held * gpus,
        run_seconds=held,
        preemptions=none,
        restarts=none,
        lost_gpu_seconds=np.zeros(len(workload)),
        contention=contention(turns[order], numbers[order], len(workload)),
        tracked=np.ones(len(workload), dtype=np.bool_),
        status=status,
        reason=reason,
        segments=Segments(
            rows,
            start[rows],
            end[rows],
            gpus[rows],
            np.zeros(len(rows) + 1, dtype=np.int64),
            np.empty(0, dtype=np.int64),
        ),
        capacity=Steps(np.zeros(1), np.array([float(cluster.gpus)])),
        end_time=float(end[rows].max(initial=submitted[-1])),
        single_gpu_seconds=workload.single_gpu_seconds,
    )
