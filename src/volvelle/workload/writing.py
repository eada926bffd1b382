"""Writing a workload as a trace: our own CSV and Parquet, read back as equal jobs, and SWF for others.

``trace convert`` is `read_trace` and `write_trace`. Columns in which every job has the default
are left out; numbers are written so that they are read back the same to the last bit. Measured training
(`Job.training`) is not written: such jobs are read back as ones that run as their simple account says.
"""

import csv
import gzip
import io
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TextIO

from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.job_schema import fields_of
from volvelle.model.problems import Problem, nearest
from volvelle.workload.readers.cells import Cell, text_of, written_cells
from volvelle.workload.readers.parquet import import_parquet
from volvelle.workload.workload import Workload

SUFFIXES = {".csv": "volvelle", ".parquet": "parquet", ".swf": "swf"}


def write_trace(workload: Workload, path: Path | str, format: str | None = None) -> None:
    """Write ``workload`` to ``path`` (packed where it ends in ``.gz``), by default as its suffix says.

    Raises `Problem` for a format that cannot be written and a path that cannot.
    """
    path = Path(path)
    if format is None:
        suffix = Path(path.name.removesuffix(".gz")).suffix
        format = SUFFIXES.get(suffix)
        if format is None:
            raise Problem(
                f"{path.name}: no trace format is written as {suffix or 'a file without suffix'!r}",
                mend=f"call it {' or '.join(SUFFIXES)}, or name a format: {', '.join(WRITERS)}",
            )
    writer = WRITERS.get(format)
    if writer is None:
        raise Problem(
            f"traces cannot be written as {format!r}{nearest(format, WRITERS)}",
            mend=f"formats that can be written: {', '.join(WRITERS)}",
        )
    try:
        writer(workload, path)
    except OSError as error:
        raise Problem(f"cannot write {path}: {error.strerror or error}") from None


def columns_of(jobs: Iterable[Job]) -> dict[str, list[Cell]]:
    """The jobs as columns of our own table, without those that say nothing."""
    jobs = list(jobs)
    recorded = [job.recorded for job in jobs]
    columns: dict[str, list[Cell]] = {
        "id": [job.spec.id for job in jobs],
        "submit_time": [float(job.spec.submit_time) for job in jobs],
        "gpus": [float(job.spec.gpus) for job in jobs],
        "duration": [_duration(job) for job in jobs],
        "start_time": [None if one is None else float(one.start) for one in recorded],
        "end_time": [None if one is None else float(one.end) for one in recorded],
        "work": [float(job.truth.work) for job in jobs],
    }
    for part, struct in (("spec", JobSpec), ("truth", Truth)):
        for field in fields_of(struct):
            values = list(map(attrgetter(f"{part}.{field.name}"), jobs))
            columns.setdefault(field.column, written_cells(field, values))
    columns["class"] = [
        job.spec.job_class.value if job.spec.rewards else cell
        for job, cell in zip(jobs, columns["class"], strict=True)
    ]  # with rewards, a row without a class is read as strict
    return {
        name: cells
        for name, cells in columns.items()
        if name in _ALWAYS or any(cell is not None and cell != "" for cell in cells)
    }


def _write_csv(workload: Workload, path: Path) -> None:
    columns = columns_of(workload)
    with _open(path) as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(columns)
        for cells in zip(*columns.values(), strict=True):
            table.writerow([text_of(cell) for cell in cells])


def _write_parquet(workload: Workload, path: Path) -> None:
    parquet = import_parquet()
    import pyarrow  # noqa: PLC0415 - optional and heavy

    parquet.write_table(pyarrow.table(columns_of(workload)), path)


def _write_swf(workload: Workload, path: Path) -> None:
    """One processor for each GPU; the format has no names, so users and pools are numbered."""
    users: dict[str, int] = {}
    pools: dict[str, int] = {}
    with _open(path) as stream:
        stream.write("; Version: 2.2\n; Note: a processor is a GPU (read with procs_as=gpu)\n")
        numbers = {job.spec.id: number for number, job in enumerate(workload, start=1)}
        lines = [
            _swf_line(number, job, users, pools, numbers)
            for number, job in enumerate(workload, start=1)
        ]
        for kind, numbers in (("User", users), ("Queue", pools)):
            stream.writelines(f"; {kind}: {n} {_one_line(name)}\n" for name, n in numbers.items())
        stream.writelines(lines)


def _swf_line(
    number: int,
    job: Job,
    users: dict[str, int],
    pools: dict[str, int],
    numbers: dict[str, int],
) -> str:
    """``numbers``: of all jobs by id. The format knows one preceding job, whose end in any way is enough."""
    spec = job.spec
    run = job.seconds_on(spec.gpus, spec.gpu_types[0] if spec.gpu_types else "")
    gpus = max(1, math.ceil(spec.gpus))
    memory = round(spec.memory_gb * 1024**2 / gpus) if spec.memory_gb else -1
    fields = [
        number,
        text_of(spec.submit_time),
        -1 if job.recorded is None else text_of(max(job.recorded.start - spec.submit_time, 0.0)),
        text_of(run) if math.isfinite(run) else -1,
        gpus,
        -1,
        -1,
        gpus,
        -1 if spec.estimate_seconds is None else text_of(spec.estimate_seconds),
        memory,
        1,
        users.setdefault(spec.user, len(users) + 1) if spec.user else -1,
        -1,
        -1,
        pools.setdefault(spec.pool, len(pools) + 1) if spec.pool else -1,
        -1,
        numbers.get(spec.after[0].job, -1) if spec.after else -1,
        text_of(spec.after[0].think_seconds) if spec.after else -1,
    ]
    return " ".join(map(str, fields)) + "\n"


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    with path.open("wb") as raw, ExitStack() as stack:
        # No name and no time in a gzip header: the same workload makes the same bytes.
        packed = path.suffix == ".gz"
        end = stack.enter_context(gzip.GzipFile("", "wb", 9, raw, mtime=0)) if packed else raw
        yield stack.enter_context(io.TextIOWrapper(end, encoding="utf-8", newline=""))


def _one_line(name: str) -> str:
    return " ".join(name.split())


def _duration(job: Job) -> float | None:
    """Seconds on the GPUs asked for; None where no rate is known there."""
    seconds = job.seconds_on(job.spec.gpus, job.spec.gpu_types[0] if job.spec.gpu_types else "")
    return seconds if math.isfinite(seconds) else None


_ALWAYS = ("id", "submit_time", "gpus", "duration", "work")

WRITERS: dict[str, Callable[[Workload, Path], None]] = {
    "volvelle": _write_csv,
    "parquet": _write_parquet,
    "swf": _write_swf,
}
"""Every format that can be written, by name."""
