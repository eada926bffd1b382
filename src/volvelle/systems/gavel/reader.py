"""Gavel's and Shockwave's ``.trace`` (OSDI'20, NSDI'23): tab separated, one job a line.

Gavel has 10 columns; Shockwave adds the mode (``static``, ``accordion``, ``gns``: how the batch
size changes) and the duration. Work is in steps of the first batch size, at the rates of the throughput
file the option ``throughputs`` names (Gavel's JSON, steps/s by GPU type); ``gpu_type`` takes the rates
of one type for every GPU. Without a throughput file Shockwave's duration column is believed.

With a throughput file ``accordion`` and ``gns`` jobs change their batch size as Shockwave's simulator
executes it (`volvelle.workload.batch_sizes`), as far as the file has rates for the new sizes, and their
estimate is the run time of Shockwave's profile. Where that is not known (no throughput file, another
model) they keep their first size, and are counted. The mode is the last word of the job's name.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from volvelle.model.job import Job, JobClass, JobSpec, Regime, Reward, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import (
    AnyThroughput,
    PerBatchSize,
    PerType,
    gavel_pairs,
    gavel_throughputs,
)
from volvelle.workload.batch_sizes import DATASET_SAMPLES, Mode, Phase, executed, profiled
from volvelle.workload.readers.base import ReaderOptions, TraceFormat, formats, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import Row
from volvelle.workload.readers.text import Sample, csv_rows

GAVEL = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "slo",
    "arrival_time",
)
SHOCKWAVE = (*GAVEL[:7], "mode", "priority_weight", "slo", "duration", "arrival_time")

_JOB_TYPE = re.compile(r"(?P<model>.+?)(?: \(batch size (?P<batch>\d+)\))?")


class GavelOptions(ReaderOptions):
    """``throughputs``: Gavel's JSON; ``gpu_type``: the one type of it that every GPU is.

    ``sharing``: read too how fast jobs are that share their GPUs.
    """

    throughputs: Path | None = None
    gpu_type: str | None = None
    sharing: bool = False


class Rates(NamedTuple):
    """The contents of a throughput file: rates by job type, and beside other job types on the same GPUs."""

    alone: dict[str, PerType]
    beside: dict[str, dict[str, PerType]]


class TraceLine(NamedTuple):
    """A line of a trace, read; ``batch_size`` is the first one, None where the type names none."""

    line: int
    job_type: str
    model: str
    batch_size: int | None
    total_steps: float
    gpus: float
    mode: Mode
    weight: float
    slo: float | None
    duration_seconds: float | None
    arrival_seconds: float


@formats.register
class GavelTrace(TraceFormat):
    """One line a job; its id is the number of the line, from 0."""

    name = "gavel"
    title = "Gavel and Shockwave .trace (Narayanan et al., OSDI'20; Zheng et al., NSDI'23)"
    options_type = GavelOptions

    def matches(self, sample: Sample) -> float:
        """Sure of 10 or 12 tab-separated cells (7: the old ones), the steps in their place."""
        cells = sample.lines[0].split("\t")
        if len(cells) not in (7, len(GAVEL), len(SHOCKWAVE)):
            return 0.0
        return 0.9 if cells[5 if len(cells) > 7 else 4].strip().isdecimal() else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each line."""
        rates = None
        if options.throughputs:
            rates = read_throughputs(options.throughputs, sharing=options.sharing)
        return each_job(
            _rows(path, ledger),
            lambda row: _job(read_line(row), rates, ledger, options),
            ledger,
        )


def read_throughputs(path: Path, *, sharing: bool = False) -> Rates:
    """The rates of Gavel's JSON, without its unconsolidated twins. Raises `Problem`."""
    try:
        document = json.loads(path.read_bytes())
        plain = {kind: jobs for kind, jobs in document.items() if "unconsolidated" not in kind}
        return Rates(gavel_throughputs(plain), gavel_pairs(plain) if sharing else {})
    except OSError as error:
        raise Problem(f"cannot read the throughputs {path}: {error.strerror}") from None
    except (ValueError, AttributeError) as error:
        raise Problem(f"{path} is no Gavel throughput file: {error}") from None


def read_line(row: Row) -> TraceLine:
    """The columns of a line as what they are. Raises `Broken`."""
    job_type = row.text("job_type")
    match = _JOB_TYPE.fullmatch(job_type)
    if match is None:
        raise Broken("missing job_type", "job_type", job_type)
    return TraceLine(
        line=row.line,
        job_type=job_type,
        model=match["model"],
        batch_size=int(match["batch"]) if match["batch"] else None,
        total_steps=row.number("total_steps"),
        gpus=row.gpus("scale_factor"),
        mode=_mode(row),
        weight=row.number("priority_weight"),
        slo=None if row.text("slo").startswith("-") else row.number("slo", 0.0) or None,
        duration_seconds=row.seconds("duration") if "duration" in row.header else None,
        arrival_seconds=row.seconds("arrival_time"),
    )


def _rows(path: Path, ledger: Ledger) -> Iterator[Row]:
    width = Sample.of(path).lines[0].count("\t") + 1
    names = {len(GAVEL): GAVEL, len(SHOCKWAVE): SHOCKWAVE}.get(width)
    if names is None:
        raise Problem(
            f"{path.name} line 1: {width} tab-separated columns; a Gavel trace has {len(GAVEL)}, "
            f"a Shockwave trace {len(SHOCKWAVE)}",
            mend="the older 7-column MSR files of Gavel are not read; regenerate them with Gavel",
        )
    return csv_rows(path, ledger, names=names, delimiter="\t", quoted=False)


def _mode(row: Row) -> Mode:
    written = row.text("mode", Mode.STATIC)
    if written not in list(Mode):
        raise Broken("unknown mode", "mode", written)
    return Mode(written)


def _job(
    line: TraceLine,
    rates: Rates | None,
    ledger: Ledger,
    options: GavelOptions,
) -> Job:
    static = line.mode is Mode.STATIC
    spec = JobSpec(
        id=str(line.line - 1),
        submit_time=line.arrival_seconds,
        gpus=line.gpus,
        name=line.job_type if static else f"{line.job_type} {line.mode}",
        weight=line.weight,
    )
    if rates is not None:
        job = _job_in_steps(spec, line, rates, options.gpu_type)
    elif line.duration_seconds is not None:
        job = rigid_job(spec, line.duration_seconds)
    else:
        raise Problem(
            f"{ledger.file}: a Gavel trace gives steps, not durations",
            mend="name the throughput file with the option throughputs=simulation_throughputs.json",
        )
    if not static and job.spec.estimate_seconds is None:
        ledger.assumed(
            "batch-size changes unknown: first batch size kept", line.line, "mode", line.mode
        )
    return _with_deadline(job, line)


def _job_in_steps(spec: JobSpec, line: TraceLine, rates: Rates, gpu_type: str | None) -> Job:
    by_type = rates.alone.get(line.job_type)
    if by_type is None:
        raise Broken("no throughput for the job type", "job_type", line.job_type)
    if line.gpus <= 0 or line.total_steps <= 0:
        raise Unfit("never ran", "total_steps", line.total_steps)
    running = {
        kind: rate
        for kind in by_type.types
        if (rate := by_type.rate(line.gpus, kind)) > 0 and gpu_type in (None, kind)
    }
    if not running:
        raise Broken("no throughput for the job type", "job_type", line.job_type)
    fastest_first = tuple(sorted(running, key=lambda kind: -running[kind]))
    if gpu_type is None:
        spec = msgspec.structs.replace(spec, gpu_types=fastest_first)
    if line.mode is not Mode.STATIC and line.batch_size and line.model in DATASET_SAMPLES:
        return _adapting_job(spec, line, rates.alone, fastest_first, one_type=gpu_type is not None)
    pairs = rates.beside.get(line.job_type, {})
    if gpu_type is None:
        beside: dict[str, AnyThroughput] = dict(pairs)
        return Job(spec, Truth(work=line.total_steps, throughput=by_type, beside=beside))
    beside = {name: one.types[gpu_type] for name, one in pairs.items() if gpu_type in one.types}
    return Job(
        spec, Truth(work=line.total_steps, throughput=by_type.types[gpu_type], beside=beside)
    )


def _adapting_job(
    spec: JobSpec,
    line: TraceLine,
    rates: dict[str, PerType],
    gpu_types: tuple[str, ...],
    *,
    one_type: bool,
) -> Job:
    """A job with the regimes that Shockwave's simulator executes; its estimate is the profile's.

    A change to a size without a rate is refused, as in the artifact, and with it all that follow.
    """
    first, gpus, samples = line.batch_size or 0, int(line.gpus), DATASET_SAMPLES[line.model]
    epochs = math.ceil(line.total_steps / math.ceil(samples / first))
    models: dict[int, PerType] = {}

    def possible(phases: list[Phase]) -> list[Phase]:
        for index, (_, size) in enumerate(phases):
            model = rates.get(f"{line.model} (batch size {size})")
            if model is None or min(model.rate(gpus, kind) for kind in gpu_types) <= 0:
                return phases[:index]
            models[size] = model
        return phases

    phases = possible(executed(line.model, first, line.mode, gpus, epochs))
    profile = possible(profiled(line.model, first, line.mode, gpus, epochs))
    ends = [*(phase.epoch for phase in profile[1:]), epochs]
    estimate = sum(
        (end - phase.epoch)
        * (samples / phase.batch_size)
        / models[phase.batch_size].rate(gpus, gpu_types[0])
        for phase, end in zip(profile, ends, strict=True)
    )
    sizes: dict[int, AnyThroughput] = {}
    for phase in phases:
        model = models[phase.batch_size]
        sizes[phase.batch_size] = model.types[gpu_types[0]] if one_type else model
    steps = math.ceil(samples / first)
    regimes = tuple(
        Regime(epoch * steps, size, steps / math.ceil(samples / size)) for epoch, size in phases
    )
    return Job(
        msgspec.structs.replace(spec, estimate_seconds=estimate),
        Truth(work=line.total_steps, throughput=PerBatchSize(sizes, first), regimes=regimes),
    )


def _with_deadline(job: Job, line: TraceLine) -> Job:
    """Gavel's SLO is a multiple of the job's duration on its own GPUs."""
    if line.slo is None:
        return job
    kind = job.spec.gpu_types[0] if job.spec.gpu_types else ""
    reward = Reward(line.slo * job.seconds_on(line.gpus, kind), 1.0)
    strict = msgspec.structs.replace(job.spec, job_class=JobClass.STRICT, rewards=(reward,))
    return msgspec.structs.replace(job, spec=strict)
