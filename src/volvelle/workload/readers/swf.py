"""The Standard Workload Format 2.2 (Feitelson et al.): 18 numbers a line, -1 for n/a.

The format counts processors and knows no GPUs, so an option says what a processor is:
``--format swf:procs_as=gpu``, or ``--format swf:procs_as=cpu,node_size=64,gpus_per_node=8`` for CPUs:
then a job gets the GPUs of its share of nodes, at least one.

Sites add fields behind the 18. Frontier's are ``used_gpus``, ``soft_walltime`` and a descriptor as in
``frontier:excl:2500x112``, whose number of nodes is the one to trust; a node has ``gpus_per_node`` GPUs, 8
unless said (what Slurm counts as a GPU there is half an MI250X).
"""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from volvelle.model.job import Dependency, Job, JobSpec
from volvelle.model.problems import Problem
from volvelle.workload.readers.base import ReaderOptions, TraceFormat, formats, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import MOST_GPUS, MOST_SECONDS, ColumnNames, Row
from volvelle.workload.readers.text import Sample, is_number, text_lines

FIELDS = (
    "job",
    "submit",
    "wait",
    "run",
    "alloc_procs",
    "avg_cpu",
    "used_mem_kb",
    "req_procs",
    "req_time",
    "req_mem_kb",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time",
)
SITE_FIELDS = ("used_gpus", "soft_walltime", "descriptor")
_DESCRIPTOR = re.compile(r"[\w.-]+:[\w.-]+:(\d+)x\d+")
_SITE_NODE_GPUS = 8
_KB_PER_GB = 1024.0**2


class SwfOptions(ReaderOptions):
    """The meaning of a processor, and the shape of a node."""

    procs_as: Literal["gpu", "cpu"] | None = Field(None, description="what a processor is")
    node_size: Annotated[int, Field(gt=0)] | None = Field(None, description="CPUs of a node")
    gpus_per_node: Annotated[int, Field(gt=0)] | None = Field(None, description="GPUs of a node")


@formats.register
class Swf(TraceFormat):
    """One line a rigid job; the queue becomes the pool, the requested time the estimate.

    A job comes when the preceding job has ended and its think time has passed, not before its submission.
    """

    name = "swf"
    title = "Standard Workload Format 2.2 (Feitelson et al.)"
    options_type = SwfOptions

    def matches(self, sample: Sample) -> float:
        """Sure where the lines that are no comments are 18 numbers."""
        lines = [line for line in sample.lines if not line.startswith(";")]
        if not lines:
            return 0.5 if sample.path.name.removesuffix(".gz").endswith(".swf") else 0.0
        fields = lines[0].split()
        known = len(fields) == len(FIELDS) or _has_site_fields(fields)
        return 0.9 if known and all(map(is_number, fields[: len(FIELDS)])) else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each line; processors as the options say."""
        lines = [line for line in Sample.of(path).lines if not line.startswith(";")]
        site = bool(lines) and _has_site_fields(lines[0].split())
        if not site:
            _check(path, options)
        names = (*FIELDS, *SITE_FIELDS) if site else FIELDS
        return each_job(_rows(path, ledger, names), lambda row: _job(row, options), ledger)


def _check(path: Path, options: SwfOptions) -> None:
    cpus = options.procs_as == "cpu"
    if options.procs_as is None or (cpus and not (options.node_size and options.gpus_per_node)):
        raise Problem(
            f"{path.name}: the Standard Workload Format counts processors, not GPUs",
            mend="say --format swf:procs_as=gpu where a processor is a GPU, or swf:procs_as=cpu with "
            "the CPUs and GPUs of a node, as in swf:procs_as=cpu,node_size=64,gpus_per_node=8",
        )


def _has_site_fields(fields: Sequence[str]) -> bool:
    width = len(FIELDS) + len(SITE_FIELDS)
    return len(fields) == width and _DESCRIPTOR.fullmatch(fields[-1]) is not None


def _rows(path: Path, ledger: Ledger, names: Sequence[str]) -> Iterator[Row]:
    ledger.file = path.name
    header = ColumnNames(names, path.name)
    for number, line in enumerate(text_lines(path, ledger), 1):
        cells = line.split()
        if not cells or line.startswith(";"):
            continue
        ledger.row()
        if len(cells) == len(names):
            yield Row(header, cells, number)
        else:
            kind = "too few cells" if len(cells) < len(names) else "too many cells"
            ledger.broken(Broken(kind, value=line.strip()), number)


def _job(row: Row, options: SwfOptions) -> Job:
    run = _known(row, "run", MOST_SECONDS)
    if "descriptor" in row.header:
        return _site_job(row, run, options)
    procs = _known(row, "req_procs", MOST_GPUS) or _known(row, "alloc_procs", MOST_GPUS)
    if not run:
        raise Unfit("never ran", "run", row.text("run"))
    if not procs:
        raise Unfit("no processors", "req_procs", row.text("req_procs"))
    memory_kb = _known(row, "req_mem_kb") or _known(row, "used_mem_kb") or 0.0
    spec = JobSpec(
        id=row.text("job"),
        submit_time=row.seconds("submit"),
        gpus=_gpus(procs, options),
        cpus=procs if options.procs_as == "cpu" else 0.0,
        memory_gb=memory_kb * procs / _KB_PER_GB,
        user=_label(row, "user"),
        pool=_label(row, "queue"),
        estimate_seconds=_known(row, "req_time", MOST_SECONDS),
        after=_after(row),
    )
    return rigid_job(spec, run, _start(row))


def _after(row: Row) -> tuple[Dependency, ...]:
    """The preceding job, whose end this one waits for and then its think time."""
    before = row.text("preceding_job")
    if before in ("-1", "0"):
        return ()
    return (Dependency(before, any_end=True, think_seconds=_known(row, "think_time") or 0.0),)


def _site_job(row: Row, run: float | None, options: SwfOptions) -> Job:
    """A job whose descriptor says how many nodes it had."""
    if not run:
        raise Unfit("never ran", "run", row.text("run"))
    match = _DESCRIPTOR.fullmatch(row.text("descriptor"))
    if match is None:
        raise Broken("unreadable descriptor", "descriptor", row.text("descriptor"))
    spec = JobSpec(
        id=row.text("job"),
        submit_time=row.seconds("submit"),
        gpus=float(match[1][:9]) * (options.gpus_per_node or _SITE_NODE_GPUS),
        user=_label(row, "user"),
        pool=_label(row, "queue"),
        estimate_seconds=_known(row, "req_time", MOST_SECONDS),
        after=_after(row),
    )
    return rigid_job(spec, run, _start(row))


def _start(row: Row) -> float | None:
    wait = _known(row, "wait", MOST_SECONDS)
    return None if wait is None else row.seconds("submit") + wait


def _gpus(procs: float, options: SwfOptions) -> float:
    if options.procs_as == "gpu":
        return procs
    assert options.node_size is not None and options.gpus_per_node is not None
    return float(max(1, math.ceil(procs * options.gpus_per_node / options.node_size)))


def _known(row: Row, field: str, most: float = 1e15) -> float | None:
    """The field, or None where it is -1."""
    return None if row.text(field) in ("-1", "-1.0") else row.number(field, most=most)


def _label(row: Row, field: str) -> str:
    text = row.text(field)
    return "" if text == "-1" else text
