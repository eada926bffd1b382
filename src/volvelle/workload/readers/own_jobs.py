"""The jobs in rows of our own table, read under the names of its columns."""

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from volvelle.model.job import Job, JobClass, JobSpec, Reward, Truth
from volvelle.model.job_schema import fields_of
from volvelle.model.problems import Problem
from volvelle.model.units import parse_duration
from volvelle.workload.readers.base import rigid_jobs
from volvelle.workload.readers.cells import codec_of, read_column
from volvelle.workload.readers.columns import Columns, rows_of
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.rows import ABSENT, MOST_SECONDS, in_range, parse_timestamp

Made = TypeVar("Made", bound=msgspec.Struct)


_SPEC = {one.name: one for one in fields_of(JobSpec)}


def own_jobs(ledger: Ledger, columns: Columns) -> Sequence[Job | None]:
    """The jobs in rows of our own table; those that start before they are submitted are counted."""
    if not len(columns):
        return []
    specs = _specs(columns)
    works = columns.optional_numbers("work")
    jobs = rigid_jobs(columns, specs, _run_seconds(columns, specs, works), "start_time", "end_time")
    for row, job in enumerate(jobs):
        early = job and job.recorded and job.recorded.start < job.spec.submit_time
        if early and (line := columns.lines[row]) not in columns.wrong:
            start = columns.written(line, ledger.headings["start_time"])
            ledger.odd("start before they were submitted", line, "start_time", start)
    if not any(one.column in columns.header for one in fields_of(Truth)):
        return jobs
    truths = _truths(columns, jobs, works)
    _check_truths(columns, specs, works, truths)
    return [
        None if job is None else Job(job.spec, truth, None, job.recorded)
        for job, truth in zip(jobs, truths, strict=True)
    ]


def _specs(columns: Columns) -> list[JobSpec]:
    """The declaration in each row."""
    gpus, submitted = columns.gpus("gpus"), columns.timestamps("submit_time")
    rewards = _rewards(columns, submitted)
    names = zip(columns.lines, columns.texts("id"), strict=True)
    specs = _structs(
        columns,
        JobSpec,
        id=[name or str(line - 1) for line, name in names],
        submit_time=submitted,
        gpus=gpus,
        rewards=rewards,
        job_class=_classes(columns, rewards),
    )
    elastic = "min_gpus" in columns.header or "max_gpus" in columns.header
    for row, spec in enumerate(specs if elastic else ()):
        if not spec.least_gpus <= spec.gpus <= spec.most_gpus:
            columns.note(row, Broken("gpus outside min_gpus to max_gpus", "gpus", spec.gpus))
    return specs


def _structs(columns: Columns, struct: type[Made], **values: Sequence[Any]) -> list[Made]:
    """A ``struct`` for each row: with ``values``, and with those of its fields that the table has."""
    for field in fields_of(struct):
        if field.name not in values and field.column in columns.header:
            cells = read_column(columns, field)
            if cells.count(field.default) < len(cells):
                values[field.name] = cells
    return rows_of(struct, **values)


def _run_seconds(
    columns: Columns, specs: Sequence[JobSpec], works: Sequence[float | None]
) -> list[float]:
    """How long each job runs on its GPUs: by its work, its duration, or its start and end."""
    seconds = [
        0.0 if work is None else work / spec.gpus if spec.gpus else work
        for spec, work in zip(specs, works, strict=True)
    ]
    spans = [False] * len(columns)
    if "end_time" in columns.header:
        spans = columns.absent("duration")
    by_time = [row for row, work in enumerate(works) if work is None]
    told = [row for row in by_time if not spans[row]]
    for row, length in zip(told, columns.part(told).durations("duration"), strict=True):
        seconds[row] = length
    found = [row for row in by_time if spans[row]]
    for row, length in zip(found, columns.part(found).spans("start_time", "end_time"), strict=True):
        seconds[row] = length
    return seconds


def _truths(
    columns: Columns, jobs: Sequence[Job | None], works: Sequence[float | None]
) -> list[Truth]:
    """The truth of each job, with all else that its row says."""
    rigid = [0.0 if job is None else job.truth.work for job in jobs]
    amounts = [
        by_time if work is None else work for by_time, work in zip(rigid, works, strict=True)
    ]
    return _structs(columns, Truth, work=amounts)


def _check_truths(
    columns: Columns,
    specs: Sequence[JobSpec],
    works: Sequence[float | None],
    truths: Sequence[Truth],
) -> None:
    """Note the rows whose columns do not go together."""
    if not {"loss_curve", "throughput", "regimes"} & columns.header.index.keys():
        return
    curves, regimes = columns.texts("loss_curve"), columns.texts("regimes")
    rates, without = columns.texts("throughput"), columns.absent("throughput")
    for row, truth in enumerate(truths):
        if any(one.work >= other.work for one, other in itertools.pairwise(truth.loss_curve)):
            what = "a loss curve's work does not ascend"
            columns.note(row, Broken(what, "loss_curve", curves[row]))
        if works[row] is None and not without[row]:
            columns.note(row, Broken("throughput without work", "throughput", rates[row]))
        try:
            for regime in truth.regimes:
                for kind in specs[row].gpu_types or ("",):
                    truth.throughput.rate(1.0, kind, 1, regime.batch_size)
        except Problem:
            columns.note(row, Broken("no throughput for a batch size", "regimes", regimes[row]))


def _classes(columns: Columns, rewards: Sequence[tuple[Reward, ...]]) -> list[JobClass]:
    """The class of each job; without one, strict where it has rewards."""
    given = columns.optional("class", codec_of(_SPEC["job_class"]).read, None)
    return [
        kind or (JobClass.STRICT if steps else JobClass.BEST_EFFORT)
        for kind, steps in zip(given, rewards, strict=True)
    ]


def _rewards(columns: Columns, submitted: Sequence[float]) -> list[tuple[Reward, ...]]:
    """The reward steps of each job; one of worth 1 where the row has a deadline instead."""
    rewards = list(read_column(columns, _SPEC["rewards"]))
    if "deadline" in columns.header:
        without = columns.absent("rewards")
        for row, text in enumerate(columns.texts("deadline")):
            if without[row] and text.lower() not in ABSENT:
                try:
                    rewards[row] = (Reward(_deadline(text, submitted[row]), 1.0),)
                except Broken as what:
                    columns.note(row, what)
    return rewards


def _deadline(text: str, submitted: float) -> float:
    """Seconds since submission of a deadline written as such, or as a point in time."""
    try:
        return in_range(parse_duration(text), "deadline", text, MOST_SECONDS)
    except ValueError:
        pass
    try:
        since = parse_timestamp(text) - submitted
    except ValueError:
        raise Broken("unreadable deadline", "deadline", text) from None
    if since <= 0.0:
        raise Broken("deadline in the past", "deadline", text)
    return in_range(since, "deadline", text, MOST_SECONDS)
