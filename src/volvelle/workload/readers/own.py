"""Our own table of jobs, as CSV: what `volvelle.workload.writing` writes and a newcomer brings.

Needed are ``submit_time``, ``gpus`` and one of ``duration``, ``work``, or ``start_time`` with
``end_time``; `COLUMNS` lists the rest. Other column names are mapped (``--map``):
``gpus=num_gpu``, and with a unit ``duration=runtime:min``, ``gpus=gpu_milli:milli``. Durations
may be written ``4h30m``; times are seconds or ISO (UTC where they name no zone). ``duration`` is
at ``gpus`` GPUs; where ``work`` is given too, ``work`` counts. Lists are joined by ``;``, a
reward step is ``4h:10`` (deadline since submission, value), GPU types are joined by ``|``.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import Field

from volvelle.model.job import Job, JobClass, JobSpec, LossPoint, Regime, Reward, Truth
from volvelle.model.problems import Problem, nearest
from volvelle.model.sensitivity import Sensitivity
from volvelle.model.throughput import LINEAR, AnyThroughput
from volvelle.model.units import parse_duration
from volvelle.workload.readers.base import ReaderOptions, TraceFormat, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, each_job
from volvelle.workload.readers.mapping import mapped_header
from volvelle.workload.readers.rows import (
    MOST_GPUS,
    MOST_SECONDS,
    Row,
    in_range,
    parse_timestamp,
)
from volvelle.workload.readers.text import Sample, csv_rows

COLUMNS: dict[str, str] = {
    "id": "the job's name in all output; the row's number where missing",
    "submit_time": "seconds, or an ISO time",
    "start_time": "with end_time, instead of a duration",
    "end_time": "with start_time, instead of a duration",
    "gpus": "GPUs of the gang; fractions are GPU shares",
    "duration": "how long it runs on its GPUs",
    "work": "units of work; 1-GPU seconds unless a throughput is given",
    "min_gpus": "fewest GPUs of an elastic job",
    "max_gpus": "most GPUs of an elastic job",
    "gpu_type": "GPU types it may run on, joined by |; empty: any",
    "cpus": "CPUs of the whole job",
    "memory_gb": "memory of the whole job",
    "user": "who submitted it",
    "pool": "the queue, account or virtual cluster it counts against",
    "name": "what it is",
    "class": "best-effort, soft or strict",
    "deadline": "the one deadline, since submission or as an ISO time; strict by default",
    "rewards": "reward steps, deadline:value joined by ;",
    "estimate": "the run time its user expects",
    "weight": "its weight in weighted shares",
    "preemptible": "whether it may be stopped at a checkpoint (yes or no)",
    "checkpoint": "how long a checkpoint takes",
    "restore": "how long a restart takes",
    "max_retries": "restarts after failures",
    "failures": "amounts of work after which it crashes, joined by ;",
    "skew": "share of its model that lies in the largest tensor",
    "lowest_loss": "the training loss its user expects to reach",
    "spread_slowdown": "longer iterations for each node beyond the fewest, as a share",
    "sensitivity": "its profile over CPUs and memory per GPU, JSON",
    "throughput": "its true throughput model, JSON",
    "beside": "its throughput models while it shares its GPUs, by the other job's name, JSON",
    "declared_throughput": "the throughput model its user declares, JSON",
    "regimes": "batch-size regimes, JSON",
    "loss_curve": "training loss by work, JSON",
}
"""The columns of our own table, and what they mean."""

_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}

Decoded = TypeVar("Decoded")


class OwnOptions(ReaderOptions):
    """``columns``: our column name -> the file's, with a unit after a colon where it needs one."""

    columns: dict[str, str] = Field(default_factory=dict)


class Own(TraceFormat):
    """One row a job; the only format that takes ``--map``."""

    name = "volvelle"
    title = "Volvelle's own CSV, and any CSV whose columns are mapped onto it"
    options_type = OwnOptions

    def matches(self, sample: Sample) -> float:
        """Fairly sure of a header with the needed columns; formats with more of their own win."""
        lengths = ({"duration"}, {"work"}, {"start_time", "end_time"})
        if not sample.header >= {"submit_time", "gpus"}:
            return 0.0
        return 0.4 if any(sample.header >= length for length in lengths) else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row."""
        rows = csv_rows(path, ledger, delimiter=Sample.of(path).delimiter)
        return each_job(mapped_rows(rows, options.columns), own_job, ledger)


def mapped_rows(rows: Iterator[Row], columns: Mapping[str, str]) -> Iterator[Row]:
    """``rows`` under our column names, with mapped units applied. Raises `Problem`."""
    first = next(rows, None)
    if first is None:
        return
    header, scaled = mapped_header(first.header, columns, COLUMNS)
    header.require(("submit_time", "gpus"))
    if not (
        "duration" in header
        or "work" in header
        or {"start_time", "end_time"} <= header.index.keys()
    ):
        raise Problem(
            f"{header.file} line 1: nothing says how long a job runs"
            f"{nearest('duration', header.names)}",
            mend="map a column to duration, to work, or two to start_time and end_time",
        )
    yield scaled(first)
    yield from map(scaled, rows)


def own_job(row: Row) -> Job:
    """The job in a row of our own table. Raises `Broken` or `Unfit`."""
    gpus, submitted = row.gpus("gpus"), row.timestamp("submit_time")
    kinds = row.text("gpu_type").replace(";", "|").replace(",", "|").split("|")
    rewards = _rewards(row, submitted)
    spec = JobSpec(
        id=row.text("id") or str(row.line - 1),
        submit_time=submitted,
        gpus=gpus,
        min_gpus=_optional(row, "min_gpus", row.gpus),
        max_gpus=_optional(row, "max_gpus", row.gpus),
        gpu_types=tuple(kind.strip() for kind in kinds if kind.strip()),
        cpus=row.number("cpus", 0.0),
        memory_gb=row.number("memory_gb", 0.0),
        user=row.label("user"),
        pool=row.label("pool"),
        name=row.label("name"),
        job_class=_job_class(row, rewards),
        rewards=rewards,
        weight=row.number("weight", 1.0),
        preemptible=_yes(row, "preemptible", True),
        checkpoint_seconds=_optional(row, "checkpoint", row.duration),
        restore_seconds=_optional(row, "restore", row.duration),
        max_retries=int(row.number("max_retries", 3, MOST_GPUS)),
        estimate_seconds=_optional(row, "estimate", row.duration),
        throughput=_decoded(row, "declared_throughput", AnyThroughput, None),
        skew=row.number("skew", 0.0),
        lowest_loss=_optional(row, "lowest_loss", row.number),
    )
    if not spec.least_gpus <= gpus <= spec.most_gpus:
        raise Broken("gpus outside min_gpus to max_gpus", "gpus", gpus)
    if row.absent("work"):
        return _with_truth(rigid_job(spec, _run_seconds(row)), row)
    work = row.number("work")
    return _with_truth(rigid_job(spec, work / gpus if gpus else work), row, work)


def _with_truth(job: Job, row: Row, work: float | None = None) -> Job:
    """The job with what else the row says is true of it."""
    truth = Truth(
        work=job.truth.work if work is None else work,
        throughput=_decoded(row, "throughput", AnyThroughput, LINEAR),
        regimes=_decoded(row, "regimes", tuple[Regime, ...], ()),
        failures=_numbers(row, "failures"),
        loss_curve=_decoded(row, "loss_curve", tuple[LossPoint, ...], ()),
        spread_slowdown=row.number("spread_slowdown", 0.0),
        sensitivity=_decoded(row, "sensitivity", Sensitivity, None),
        beside=_decoded(row, "beside", dict[str, AnyThroughput], {}),
    )
    if any(one.work >= other.work for one, other in itertools.pairwise(truth.loss_curve)):
        raise Broken("a loss curve's work does not ascend", "loss_curve", row.text("loss_curve"))
    if work is None and not row.absent("throughput"):
        raise Broken("throughput without work", "throughput", row.text("throughput"))
    try:
        for regime in truth.regimes:
            for kind in job.spec.gpu_types or ("",):
                truth.throughput.rate(1.0, kind, 1, regime.batch_size)
    except KeyError:
        raise Broken("no throughput for a batch size", "regimes", row.text("regimes")) from None
    return Job(job.spec, truth)


def _run_seconds(row: Row) -> float:
    if not row.absent("duration") or "end_time" not in row.header:
        return row.duration("duration")
    started, ended = row.timestamp("start_time"), row.timestamp("end_time")
    if ended < started:
        raise Broken("ends before it starts", "end_time", row.text("end_time"))
    return ended - started


def _optional(row: Row, column: str, read: Callable[[str], float]) -> float | None:
    return None if row.absent(column) else read(column)


def _job_class(row: Row, rewards: tuple[Reward, ...]) -> JobClass:
    if row.absent("class"):
        return JobClass.STRICT if rewards else JobClass.BEST_EFFORT
    try:
        return JobClass(row.text("class").lower())
    except ValueError:
        raise Broken("unreadable class", "class", row.text("class")) from None


def _rewards(row: Row, submitted: float) -> tuple[Reward, ...]:
    if not row.absent("rewards"):
        return tuple(_reward(row, step) for step in row.text("rewards").split(";"))
    if row.absent("deadline"):
        return ()
    text = row.text("deadline")
    try:
        return (Reward(in_range(parse_duration(text), "deadline", text, MOST_SECONDS), 1.0),)
    except ValueError:
        pass
    try:
        since = parse_timestamp(text) - submitted
    except ValueError:
        raise Broken("unreadable deadline", "deadline", text) from None
    return (Reward(in_range(since, "deadline", text, MOST_SECONDS), 1.0),)


def _reward(row: Row, step: str) -> Reward:
    deadline, _, value = step.rpartition(":")
    try:
        seconds = in_range(parse_duration(deadline), "rewards", step, MOST_SECONDS)
        return Reward(seconds, float(value))
    except ValueError:
        raise Broken("unreadable rewards", "rewards", step) from None


def _yes(row: Row, column: str, default: bool) -> bool:
    if row.absent(column):
        return default
    answer = _YES.get(row.text(column).lower())
    if answer is None:
        raise Broken(f"unreadable {column}", column, row.text(column))
    return answer


def _numbers(row: Row, column: str) -> tuple[float, ...]:
    if row.absent(column):
        return ()
    text = row.text(column)
    try:
        return tuple(in_range(float(part), column, text, 1e15) for part in text.split(";"))
    except ValueError:
        raise Broken(f"unreadable {column}", column, text) from None


def _decoded(row: Row, column: str, kind: Any, default: Decoded) -> Decoded:
    if row.absent(column):
        return default
    text = row.text(column)
    try:
        return msgspec.json.decode(text, type=kind)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, ValueError):
        raise Broken(f"unreadable {column}", column, text) from None
