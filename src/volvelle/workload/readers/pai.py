"""Alibaba PAI 2020 (Weng et al., NSDI'22): job, task and instance tables, without header rows.

Read the folder, or its ``pai_job_table.csv``; the others are found beside it. A job's demand is
the sum over its tasks of ``inst_num`` instances of ``plan_gpu`` percent of a GPU, ``plan_cpu``
percent of a core and ``plan_mem`` GB. The job table's ``start_time`` is the submission. The job
ran from the first start to the last end of its instances, or of its tasks where there is no
instance table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from volvelle.model.job import Job, JobSpec
from volvelle.model.problems import Problem
from volvelle.workload.readers.base import TraceFormat, formats, required_text, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import ABSENT, Row
from volvelle.workload.readers.text import Sample, csv_rows

JOB = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
INSTANCE = (
    "job_name",
    "task_name",
    "inst_name",
    "worker_name",
    "inst_id",
    "status",
    "start_time",
    "end_time",
    "machine",
)
_STATES = frozenset(("Terminated", "Failed", "Running", "Waiting"))
_PERCENT = 100.0


@dataclass(slots=True)
class Requested:
    """Resources that the tasks of one job request together, and their times."""

    gpus: float = 0.0
    cpus: float = 0.0
    memory_gb: float = 0.0
    gpu_types: list[str] = field(default_factory=list)
    span: "Span | None" = None


@dataclass(slots=True)
class Span:
    """From the first start to the last end; ``open`` where something has started but not ended."""

    start: float
    end: float
    open: bool

    def joined(self, other: "Span") -> "Span":
        """The span of both."""
        start, end = min(self.start, other.start), max(self.end, other.end)
        return Span(start, end, self.open or other.open)


@formats.register
class Pai(TraceFormat):
    """One row of the job table a rigid job of fractional GPUs."""

    name = "pai"
    title = "Alibaba PAI 2020 job, task and instance tables (Weng et al., NSDI'22)"
    main_table = ("pai_job_table.csv*",)

    def matches(self, sample: Sample) -> float:
        """Sure of the job table by its name, or its six cells with a state as the fourth."""
        cells = sample.lines[0].split(",")
        if len(cells) != len(JOB):
            return 0.0
        return 0.95 if cells[3].strip() in _STATES or tuple(cells) == JOB else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row of the job table that has tasks with GPUs."""
        demands = _demands(_beside(path, "task"), ledger)
        if (instances := _beside(path, "instance")).is_file():
            _take_spans(instances, demands, ledger)
        rows = _table(path, ledger, JOB, counted=True)
        yield from each_job(rows, lambda row: _job(row, demands), ledger)


def _beside(path: Path, table: str) -> Path:
    """The other table of the same folder, packed or not; the plain name where there is neither."""
    plain = path.name.removesuffix(".gz").replace("job", table)
    found = [path.with_name(name) for name in (plain, f"{plain}.gz")]
    return next((candidate for candidate in found if candidate.is_file()), found[0])


def _table(path: Path, ledger: Ledger, names: Sequence[str], *, counted: bool) -> Iterator[Row]:
    """The rows of a table, with or without a header row."""
    if path.is_file() and Sample.of(path).lines[0].startswith(names[0]):
        return csv_rows(path, ledger, required=names, counted=counted)
    return csv_rows(path, ledger, names=names, counted=counted)


def _demands(path: Path, ledger: Ledger) -> dict[str, Requested]:
    if not path.is_file():
        raise Problem(
            f"PAI's task table {path.name} is not beside the job table",
            mend="put pai_job_table.csv and pai_task_table.csv into one folder and name the folder",
        )
    demands: dict[str, Requested] = {}
    for row in _table(path, ledger, TASK, counted=False):
        demand = demands.setdefault(row.text("job_name"), Requested())
        try:
            _add_task(row, demand)
        except Broken as bad:
            ledger.mended(Broken(f"task left out: {bad.reason}", bad.column, bad.value), row.line)
    return demands


def _add_task(row: Row, demand: Requested) -> None:
    instances = row.number("inst_num", 1.0)
    gpus, kind = row.number("plan_gpu", 0.0) / _PERCENT, row.text("gpu_type")
    span = _span(row)
    demand.gpus += instances * gpus
    demand.cpus += instances * row.number("plan_cpu", 0.0) / _PERCENT
    demand.memory_gb += instances * row.number("plan_mem", 0.0)
    if gpus and kind.lower() not in ABSENT and kind not in demand.gpu_types:
        demand.gpu_types.append(kind)
    if span is not None:
        demand.span = span if demand.span is None else demand.span.joined(span)


def _take_spans(path: Path, demands: dict[str, Requested], ledger: Ledger) -> None:
    """Let the instances say when each job ran, where any of them does."""
    spans: dict[str, Span] = {}
    for row in _table(path, ledger, INSTANCE, counted=False):
        name = row.text("job_name")
        try:
            span = _span(row)
        except Broken as bad:
            ledger.mended(
                Broken(f"instance left out: {bad.reason}", bad.column, bad.value), row.line
            )
            continue
        if span is not None:
            spans[name] = spans[name].joined(span) if name in spans else span
    for name, span in spans.items():
        if name in demands:
            demands[name].span = span


def _span(row: Row) -> Span | None:
    """When a task or an instance ran; None where it did not start."""
    if row.absent("start_time"):
        return None
    started = row.seconds("start_time")
    if row.absent("end_time"):
        return Span(started, started, open=True)
    ended = row.seconds("end_time")
    if ended < started:
        raise Broken("ends before it starts", "end_time", row.text("end_time"))
    return Span(started, ended, open=False)


def _job(row: Row, demands: dict[str, Requested]) -> Job:
    number = required_text(row, "job_name")
    demand = demands.get(number)
    if demand is None:
        raise Unfit("no tasks", "job_name", number)
    if demand.gpus == 0:
        raise Unfit("no GPUs", "plan_gpu", 0)
    if demand.span is None:
        raise Unfit("never ran", "status", row.text("status"))
    if demand.span.open:
        raise Unfit("still running at the end of the trace", "status", row.text("status"))
    spec = JobSpec(
        id=number,
        submit_time=row.seconds("start_time"),
        gpus=demand.gpus,
        gpu_types=tuple(demand.gpu_types),
        cpus=demand.cpus,
        memory_gb=demand.memory_gb,
        user=row.label("user"),
    )
    return rigid_job(spec, demand.span.end - demand.span.start)
