"""Our own table of jobs, as CSV: what `volvelle.workload.writing` writes and a newcomer brings.

Needed are ``submit_time``, ``gpus`` and one of ``duration``, ``work``, or ``start_time`` with
``end_time``; `COLUMNS` lists the rest. Other column names are mapped (``--map``):
``gpus=num_gpu``, and with a unit ``duration=runtime:min``, ``gpus=gpu_milli:milli``. Durations
may be written ``4h30m``; times are seconds or ISO (UTC where they name no zone). ``duration`` is
at ``gpus`` GPUs; where ``work`` is given too, ``work`` counts. Lists are joined by ``;``, a
reward step is ``4h:10`` (deadline since submission, value), GPU types are joined by ``|``.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field, field_validator

from volvelle.model.adaptation import Adaptation
from volvelle.model.job import (
    Dependency,
    Job,
    JobClass,
    JobSpec,
    LossPoint,
    Regime,
    Reward,
    Truth,
    wrong_steps,
)
from volvelle.model.node import read_labels
from volvelle.model.problems import Problem, nearest
from volvelle.model.sensitivity import Sensitivity
from volvelle.model.throughput import LINEAR, AnyThroughput
from volvelle.model.units import parse_duration
from volvelle.workload.readers.base import ReaderOptions, TraceFormat, formats, rigid_jobs
from volvelle.workload.readers.columns import Columns, jobs_of
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.mapping import mapped_header
from volvelle.workload.readers.rows import (
    ABSENT,
    MOST_GPUS,
    MOST_SECONDS,
    ColumnNames,
    in_range,
    parse_timestamp,
    read_numbers,
)
from volvelle.workload.readers.text import Sample, csv_columns

COLUMNS: dict[str, str] = {
    "id": "the job's name in all output; the row's number where missing",
    "submit_time": "seconds, or an ISO time",
    "start_time": "when it really started; with end_time, instead of a duration",
    "end_time": "when it really ended; with start_time, instead of a duration",
    "gpus": "GPUs of the gang; fractions are GPU shares",
    "duration": "how long it runs on its GPUs",
    "work": "units of work; 1-GPU seconds unless a throughput is given",
    "min_gpus": "fewest GPUs of an elastic job",
    "max_gpus": "most GPUs of an elastic job",
    "gpu_type": "GPU types it may run on, joined by |; empty: any",
    "exclusive": "whether it has whole nodes, with all of their GPUs (yes or no)",
    "constraint": "labels that its nodes have to have, joined by commas: nvlink,zone=a",
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
    "priority": "the higher the sooner, where the policy heeds it; a whole number",
    "time_limit": "it is ended when it has run for so long",
    "after": "ids of jobs that have to succeed first, joined by ;; 12:any: any end, 12:any:10m: think time",
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
    "declared_spread_slowdown": "spread_slowdown, as its user declares it",
    "declared_sensitivity": "sensitivity, as its user declares it",
    "regimes": "batch-size regimes, JSON",
    "adaptation": "how its user says that it changes its batch size, JSON",
    "loss_curve": "training loss by work, JSON",
}
"""The columns of our own table, and what they mean."""

_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class OwnOptions(ReaderOptions):
    """``columns``: our column name -> the file's, with a unit after a colon where it needs one.

    ``dates``: how points in time are written, for ``strptime``, as in ``%d.%m.%Y %H:%M``.
    """

    columns: dict[str, str] = Field(default_factory=dict)
    dates: str = ""

    @field_validator("dates")
    @classmethod
    def _readable(cls, dates: str) -> str:
        try:
            datetime.strptime("", dates)
        except ValueError as error:
            if "does not match" not in str(error):  # of the format, not of the empty text
                raise
        return dates


@formats.register
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
        blocks = csv_columns(path, ledger, delimiter=Sample.of(path).delimiter)
        return jobs_of(mapped(blocks, options, ledger), own_jobs, ledger)


def mapped(blocks: Iterable[Columns], options: OwnOptions, ledger: Ledger) -> Iterator[Columns]:
    """``blocks`` under our column names, with units and dates applied. Raises `Problem`."""
    zones: set[bool] = set()
    under: Callable[[Columns], Columns] | None = None
    for block in blocks:
        if under is None and len(block):
            header, under = mapped_header(block.header, options.columns, COLUMNS, options.dates)
            _check(header)
        ours = block if under is None else under(block)
        if len(zones) < 2:
            _note_zones(ours, zones, ledger)
        yield ours


def _note_zones(columns: Columns, zones: set[bool], ledger: Ledger) -> None:
    """Say it once where some times have a time zone and others none; ``zones`` is what was seen."""
    for line, text in zip(columns.lines, columns.texts("submit_time"), strict=True):
        if "T" not in text and ":" not in text:  # a number, or no time of day
            continue
        zones.add(text[-1:] in "Zz" or "+" in text or "-" in text[10:])
        if len(zones) > 1:
            reason = "times with and without a time zone: those without are taken for UTC"
            ledger.assumed(reason, line, "submit_time", text)
            return


def _check(header: ColumnNames) -> None:
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


def own_jobs(columns: Columns) -> Sequence[Job | None]:
    """The jobs in rows of our own table."""
    if not len(columns):
        return []
    specs = _specs(columns)
    works = columns.optional_numbers("work")
    jobs = rigid_jobs(columns, specs, _run_seconds(columns, specs, works), "start_time", "end_time")
    truths = _truths(columns, jobs, works)
    _check_truths(columns, specs, works, truths)
    return [
        None if job is None else Job(job.spec, truth, None, job.recorded)
        for job, truth in zip(jobs, truths, strict=True)
    ]


def _specs(columns: Columns) -> list[JobSpec]:
    """What is declared in each row."""
    gpus, submitted = columns.gpus("gpus"), columns.timestamps("submit_time")
    rewards = _rewards(columns, submitted)
    specs = [
        JobSpec(
            id=name or str(line - 1),
            submit_time=submit_time,
            gpus=width,
            min_gpus=least,
            max_gpus=most,
            gpu_types=kinds,
            constraints=constraints,
            exclusive=exclusive,
            cpus=cpus,
            memory_gb=memory,
            user=user,
            pool=pool,
            name=title,
            job_class=job_class,
            rewards=steps,
            weight=weight,
            preemptible=preemptible,
            checkpoint_seconds=checkpoint,
            restore_seconds=restore,
            max_retries=int(retries),
            estimate_seconds=estimate,
            throughput=throughput,
            skew=skew,
            spread_slowdown=slowdown,
            sensitivity=sensitivity,
            lowest_loss=loss,
            adaptation=adaptation,
            priority=int(priority),
            time_limit_seconds=limit,
            after=after,
        )
        for (
            line, name, submit_time, width, least, most, kinds, constraints, exclusive, cpus, memory,
            user, pool, title, job_class, steps, weight, preemptible, checkpoint, restore, retries, estimate,
            throughput, skew, slowdown, sensitivity, loss, adaptation, priority, limit, after,
        ) in zip(
            columns.lines,
            columns.texts("id"),
            submitted,
            gpus,
            columns.optional_numbers("min_gpus", MOST_GPUS),
            columns.optional_numbers("max_gpus", MOST_GPUS),
            columns.each("gpu_type", _gpu_types, tuple[str, ...]()),
            columns.optional("constraint", _constraints, tuple[str, ...]()),
            columns.optional("exclusive", partial(_yes, column="exclusive"), False),
            columns.numbers("cpus", 0.0),
            columns.numbers("memory_gb", 0.0),
            columns.labels("user"),
            columns.labels("pool"),
            columns.labels("name"),
            _classes(columns, rewards),
            rewards,
            columns.numbers("weight", 1.0),
            columns.optional("preemptible", partial(_yes, column="preemptible"), True),
            columns.optional_durations("checkpoint"),
            columns.optional_durations("restore"),
            columns.numbers("max_retries", 3, MOST_GPUS),
            columns.optional_durations("estimate"),
            columns.optional(
                "declared_throughput", _decoded("declared_throughput", AnyThroughput), None
            ),
            columns.numbers("skew", 0.0),
            columns.numbers("declared_spread_slowdown", 0.0),
            columns.optional(
                "declared_sensitivity", _decoded("declared_sensitivity", Sensitivity), None
            ),
            columns.optional_numbers("lowest_loss"),
            columns.optional("adaptation", _decoded("adaptation", Adaptation), None),
            columns.optional("priority", _whole, 0),
            columns.optional_durations("time_limit"),
            columns.optional("after", _after, tuple[Dependency, ...]()),
            strict=True,
        )
    ]  # fmt: skip
    for row, spec in enumerate(specs):
        if not spec.least_gpus <= spec.gpus <= spec.most_gpus:
            columns.note(row, Broken("gpus outside min_gpus to max_gpus", "gpus", spec.gpus))
    return specs


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
    """What is true of each job, with what else its row says."""
    rigid = [0.0 if job is None else job.truth.work for job in jobs]
    return [
        Truth(
            work=by_time if work is None else work,
            throughput=throughput,
            regimes=regimes,
            failures=failures,
            loss_curve=losses,
            spread_slowdown=slowdown,
            sensitivity=sensitivity,
            beside=beside,
        )
        for (
            by_time, work, throughput, regimes, failures, losses, slowdown, sensitivity, beside,
        ) in zip(
            rigid,
            works,
            columns.optional("throughput", _decoded("throughput", AnyThroughput), LINEAR),
            columns.optional("regimes", _decoded("regimes", tuple[Regime, ...]), ()),
            columns.optional("failures", _failures, tuple[float, ...]()),
            columns.optional("loss_curve", _decoded("loss_curve", tuple[LossPoint, ...]), ()),
            columns.numbers("spread_slowdown", 0.0),
            columns.optional("sensitivity", _decoded("sensitivity", Sensitivity), None),
            columns.optional("beside", _decoded("beside", dict[str, AnyThroughput]), {}),
            strict=True,
        )
    ]  # fmt: skip


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


def _gpu_types(text: str) -> tuple[str, ...]:
    kinds = text.replace(";", "|").replace(",", "|").split("|")
    return tuple(kind.strip() for kind in kinds if kind.strip())


def _classes(columns: Columns, rewards: Sequence[tuple[Reward, ...]]) -> list[JobClass]:
    """The class of each job; without one, strict where it has rewards."""
    given = columns.optional("class", _class, None)
    return [
        kind or (JobClass.STRICT if steps else JobClass.BEST_EFFORT)
        for kind, steps in zip(given, rewards, strict=True)
    ]


def _class(text: str) -> JobClass:
    try:
        return JobClass(text.lower())
    except ValueError:
        raise Broken("unreadable class", "class", text) from None


def _rewards(columns: Columns, submitted: Sequence[float]) -> list[tuple[Reward, ...]]:
    """The reward steps of each job; one of worth 1 where the row has a deadline instead."""
    rewards = columns.optional("rewards", _steps, tuple[Reward, ...]())
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


def _steps(text: str) -> tuple[Reward, ...]:
    rewards = tuple(map(_reward, text.split(";")))
    if wrong := wrong_steps([(one.deadline_seconds, one.value) for one in rewards]):
        raise Broken(wrong, "rewards", text)
    return rewards


def _reward(step: str) -> Reward:
    deadline, _, value = step.rpartition(":")
    try:
        seconds = in_range(parse_duration(deadline), "rewards", step, MOST_SECONDS)
        return Reward(seconds, float(value))
    except ValueError:
        raise Broken("unreadable rewards", "rewards", step) from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Broken("unreadable priority", "priority", text) from None


def _constraints(text: str) -> tuple[str, ...]:
    try:
        return read_labels([text])
    except Problem:
        raise Broken("unreadable constraint", "constraint", text) from None


def _after(text: str) -> tuple[Dependency, ...]:
    return tuple(_dependency(one.strip()) for one in text.split(";") if one.strip())


def _dependency(text: str) -> Dependency:
    """A job's id, and behind it how that has to end and the think time, where they are said."""
    name, _, last = text.rpartition(":")
    if last in ("any", "success") and name:
        return Dependency(name, any_end=last == "any")
    name, _, end = name.rpartition(":")
    if end in ("any", "success") and name:
        try:
            seconds = in_range(parse_duration(last), "after", text, MOST_SECONDS)
        except ValueError:
            raise Broken("unreadable after", "after", text) from None
        return Dependency(name, any_end=end == "any", think_seconds=seconds)
    return Dependency(text)


def _yes(text: str, column: str) -> bool:
    answer = _YES.get(text.lower())
    if answer is None:
        raise Broken(f"unreadable {column}", column, text)
    return answer


_failures = partial(read_numbers, column="failures", separator=";")


def _decoded(column: str, kind: Any) -> Callable[[str], Any]:
    """What reads a cell with JSON of this kind."""

    def read(text: str) -> Any:
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, ValueError):
            raise Broken(f"unreadable {column}", column, text) from None

    return read
