"""The Standard Workload Format 2.2 (Feitelson et al.): 18 numbers a line, -1 for n/a.

The format counts processors and knows no GPUs, so the reader must be told what a processor is:
``procs_as=gpu``, or ``procs_as=cpu`` with ``node_size`` (CPUs of a node) and ``gpus_per_node``;
then a job gets the GPUs of its share of nodes, at least one.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from volvelle.model.job import Job, JobSpec
from volvelle.model.problems import Problem
from volvelle.workload.readers.base import ReaderOptions, TraceFormat, rigid_job
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import MOST_GPUS, MOST_SECONDS, ColumnNames, Row
from volvelle.workload.readers.text import Sample, text_lines

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
_KB_PER_GB = 1024.0**2


class SwfOptions(ReaderOptions):
    """What a processor is, and the shape of a node."""

    procs_as: Literal["gpu", "cpu"] | None = None
    node_size: Annotated[int, Field(gt=0)] | None = None
    gpus_per_node: Annotated[int, Field(gt=0)] | None = None


class Swf(TraceFormat):
    """One line a rigid job; the queue becomes the pool, the requested time the estimate."""

    name = "swf"
    title = "Standard Workload Format 2.2 (Feitelson et al.)"
    options_type = SwfOptions

    def matches(self, sample: Sample) -> float:
        """Sure where the lines that are no comments are 18 numbers."""
        lines = [line for line in sample.lines if not line.startswith(";")]
        if not lines:
            return 0.5 if sample.path.name.removesuffix(".gz").endswith(".swf") else 0.0
        fields = lines[0].split()
        return 0.9 if len(fields) == len(FIELDS) and all(map(_is_number, fields)) else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each line; processors as the options say."""
        _check(path, options)
        return each_job(_rows(path, ledger), lambda row: _job(row, options), ledger)


def _check(path: Path, options: SwfOptions) -> None:
    cpus = options.procs_as == "cpu"
    if options.procs_as is None or (cpus and not (options.node_size and options.gpus_per_node)):
        raise Problem(
            f"{path.name}: the Standard Workload Format counts processors, not GPUs",
            mend="give the option procs_as=gpu where a processor is a GPU, or procs_as=cpu with "
            "node_size=CPUS-OF-A-NODE and gpus_per_node=GPUS-OF-A-NODE",
        )


def _rows(path: Path, ledger: Ledger) -> Iterator[Row]:
    ledger.file = path.name
    header = ColumnNames(FIELDS, path.name)
    for number, line in enumerate(text_lines(path, ledger), 1):
        cells = line.split()
        if not cells or line.startswith(";"):
            continue
        ledger.row()
        if len(cells) == len(FIELDS):
            yield Row(header, cells, number)
        else:
            kind = "too few cells" if len(cells) < len(FIELDS) else "too many cells"
            ledger.broken(Broken(kind, value=line.strip()), number)


def _job(row: Row, options: SwfOptions) -> Job:
    run = _known(row, "run", MOST_SECONDS)
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
    )
    wait = _known(row, "wait", MOST_SECONDS)
    return rigid_job(spec, run, None if wait is None else spec.submit_time + wait)


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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
