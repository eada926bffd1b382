"""Outcomes of every job of a run, as columns: the one input of metrics, tables and pictures.

Outcomes are folded from the journal's events and decisions (`volvelle.metrics.recorder`), so that a
simulated run, a live run and a replayed journal are measured by the same code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property, wraps
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from volvelle.core.decision import Promise
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.job import JobSpec

RECORDED = "recorded"
"""The name in place of a policy where outcomes are not simulated, but recorded by a trace."""

Quantity = TypeVar("Quantity")


class JobStatus(StrEnum):
    """How a job stood when the run ended."""

    FINISHED = "finished"
    FAILED = "failed"  # out of retries
    CANCELLED = "cancelled"
    REJECTED = "rejected"  # never admitted; its reason says why
    RUNNING = "running"  # the run ended first
    WAITING = "waiting"


@dataclass(frozen=True)
class Segments:
    """Holdings of GPUs over time, one row for each unbroken holding, by start.

    ``job`` indexes the rows of `Outcomes`. ``slots`` are the cluster-wide numbers of the GPUs held in
    segment ``i``, at ``slots[slot_offsets[i]:slot_offsets[i + 1]]``; empty where the placement only counts.
    """

    job: IntColumn
    start: FloatColumn
    end: FloatColumn
    gpus: FloatColumn
    slot_offsets: IntColumn
    slots: IntColumn


@dataclass(frozen=True)
class Steps:
    """A quantity that is constant between changes: ``values[i]`` holds from ``times[i]`` on."""

    times: FloatColumn
    values: FloatColumn


class Choice(msgspec.Struct, frozen=True):
    """From ``time`` on this policy and this admission ruled, as they are written."""

    time: float
    policy: str
    admission: str


class Promised(msgspec.Struct, frozen=True):
    """The finish that was predicted for a job at ``time``."""

    time: float
    promise: Promise


@dataclass(frozen=True)
class ProfiledJobs:
    """Runs on a profiling partition, a row for each job; times are seconds.

    start, end: of the profile. ended_there: jobs that never reached the scheduler, done or crashed.
    seconds: that the job was measured to take on the GPUs it requests, NaN where it was not. run_seconds,
    gpu_seconds: what it held there. The partition has ``partition_gpus[i]`` GPUs from
    ``partition_times[i]`` on.
    """

    start: FloatColumn
    end: FloatColumn
    ended_there: BoolColumn
    seconds: FloatColumn
    run_seconds: FloatColumn
    gpu_seconds: FloatColumn
    partition_times: FloatColumn
    partition_gpus: FloatColumn

    def first(self, jobs: int) -> "ProfiledJobs":
        """The same of the first ``jobs``."""
        columns = ("start", "end", "ended_there", "seconds", "run_seconds", "gpu_seconds")
        return replace(self, **{name: getattr(self, name)[:jobs] for name in columns})


@dataclass(frozen=True)
class Outcomes:
    """Columns with one row for each submitted job, in order of submission. Times are seconds.

    specs: declarations (ids, users, pools, classes, rewards, GPUs).
    submit_time: submission. gpus: GPUs requested.
    exclusive_seconds: time the job needs alone on the GPUs it requested; NaN where unknown.
    first_start, finish: NaN where it never started or finished.
    gpu_seconds: GPUs held integrated over time, overheads included.
    run_seconds: time with any GPU held.
    preemptions: times the scheduler took its GPUs away; restarts: times it started again after a
    preemption or a failure. lost_gpu_seconds: GPU time whose work was lost in failures.
    contention: jobs in the system averaged over the events of the job's stay (PCS' N, section 5.1).
    tracked: the jobs that are measured (the others are warm-up or keep the load going).
    status: JobStatus values; reason: why a job was rejected or failed, or ended before its work was
    done, else "".
    choices: the compositions chosen while it ran, by time. promises: guarantees made or changed, by time.
    single_gpu_seconds: the job's work as seconds on one GPU (PCS' service); where it is None,
    ``gpus * exclusive_seconds`` stands in for it, which is the same for linear jobs.
    predicted_finish: the finish predicted at submission, NaN without one; None if none were made.
    predicted_p50, predicted_p90: by when the job is through with these chances, as predicted then.
    solver_gap: of the programs that the policy solved, how much better, relative to it, an answer could at
    most be, at worst; None if it solved none or where that is not known (a journal does not say).
    energy_kwh, carbon_kg: of all GPUs from the first submission to the end; None where no power is said.
    segments: holdings of GPUs. capacity: GPUs of nodes that are up. end_time: end of the run.
    profiled: runs on the profiling partition, None without one (a journal does not say). Capacity,
    segments and first starts are the scheduler's; jobs that ended in the partition started there.
    """

    specs: Sequence[JobSpec]
    submit_time: FloatColumn
    gpus: FloatColumn
    exclusive_seconds: FloatColumn
    first_start: FloatColumn
    finish: FloatColumn
    gpu_seconds: FloatColumn
    run_seconds: FloatColumn
    preemptions: IntColumn
    restarts: IntColumn
    lost_gpu_seconds: FloatColumn
    contention: FloatColumn
    tracked: BoolColumn
    status: NDArray[np.str_]
    reason: list[str]
    segments: Segments
    capacity: Steps
    end_time: float
    choices: tuple[Choice, ...] = ()
    promises: tuple[Promised, ...] = ()
    single_gpu_seconds: FloatColumn | None = None
    predicted_finish: FloatColumn | None = None
    predicted_p50: FloatColumn | None = None
    predicted_p90: FloatColumn | None = None
    solver_gap: float | None = None
    energy_kwh: float | None = None
    carbon_kg: float | None = None
    profiled: ProfiledJobs | None = None

    def __len__(self) -> int:
        return len(self.specs)

    @property
    def jct(self) -> FloatColumn:
        """Job completion time: finish minus submission; NaN for unfinished jobs."""
        return self.finish - self.submit_time

    @property
    def responsiveness(self) -> FloatColumn:
        """Submission to first GPU (Blox, EuroSys'24, section 4); NaN if it never had one."""
        return self.first_start - self.submit_time

    @property
    def queueing_delay(self) -> FloatColumn:
        """All time in the system without a GPU: completion time minus time with GPUs held."""
        return self.jct - self.run_seconds

    def tracking(self, tracked: BoolColumn) -> "Outcomes":
        """The same outcomes with another set of measured jobs."""
        return replace(self, tracked=tracked)

    @cached_property
    def derived(self) -> dict[Callable[["Outcomes"], Any], Any]:
        """Results of functions of these outcomes that are worked out only `once`."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """The columns alone, without derived results."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def once(quantity: Callable[[Outcomes], Quantity]) -> Callable[[Outcomes], Quantity]:
    """``quantity``, worked out once for each `Outcomes`; its result must not be changed."""

    @wraps(quantity)
    def remembered(outcomes: Outcomes) -> Quantity:
        if remembered not in outcomes.derived:
            outcomes.derived[remembered] = quantity(outcomes)
        found: Quantity = outcomes.derived[remembered]
        return found

    return remembered
