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
from pathlib import Path
from typing import Any, TextIO

import msgspec

from volvelle.model.job import Dependency, Job, JobClass, Reward
from volvelle.model.problems import Problem, nearest
from volvelle.model.throughput import LINEAR
from volvelle.workload.readers.parquet import import_parquet
from volvelle.workload.workload import Workload

Cell = str | float | bool | None
"""What stands in a cell; None and "" are written as nothing."""

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
    columns = {name: [cell(job) for job in jobs] for name, cell in _CELLS.items()}
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
            table.writerow([_text(cell) for cell in cells])


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
        _text(spec.submit_time),
        -1 if job.recorded is None else _text(max(job.recorded.start - spec.submit_time, 0.0)),
        _text(run) if math.isfinite(run) else -1,
        gpus,
        -1,
        -1,
        gpus,
        -1 if spec.estimate_seconds is None else _text(spec.estimate_seconds),
        memory,
        1,
        users.setdefault(spec.user, len(users) + 1) if spec.user else -1,
        -1,
        -1,
        pools.setdefault(spec.pool, len(pools) + 1) if spec.pool else -1,
        -1,
        numbers.get(spec.after[0].job, -1) if spec.after else -1,
        _text(spec.after[0].think_seconds) if spec.after else -1,
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


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        whole = cell.is_integer() and abs(cell) < 1e15
        return str(int(cell)) if whole else repr(cell)
    return cell


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _unless(value: float, default: float) -> float | None:
    return None if value == default else float(value)


def _duration(job: Job) -> float | None:
    """Seconds on the GPUs asked for; None where no rate is known there."""
    seconds = job.seconds_on(job.spec.gpus, job.spec.gpu_types[0] if job.spec.gpu_types else "")
    return seconds if math.isfinite(seconds) else None


def _rewards(rewards: tuple[Reward, ...]) -> str:
    return ";".join(f"{_text(step.deadline_seconds)}:{_text(step.value)}" for step in rewards)


def _dependency(one: Dependency) -> str:
    end = "any" if one.any_end else "success"
    if one.think_seconds:
        return f"{one.job}:{end}:{_text(one.think_seconds)}"
    return f"{one.job}:any" if one.any_end else one.job


def _json(value: Any, default: Any) -> str | None:
    return None if value == default else msgspec.json.encode(value).decode()


_ALWAYS = ("id", "submit_time", "gpus", "duration", "work")

_CELLS: dict[str, Callable[[Job], Cell]] = {
    "id": lambda job: job.spec.id,
    "submit_time": lambda job: float(job.spec.submit_time),
    "gpus": lambda job: float(job.spec.gpus),
    "duration": _duration,
    "start_time": lambda job: None if job.recorded is None else float(job.recorded.start),
    "end_time": lambda job: None if job.recorded is None else float(job.recorded.end),
    "work": lambda job: float(job.truth.work),
    "min_gpus": lambda job: _number(job.spec.min_gpus),
    "max_gpus": lambda job: _number(job.spec.max_gpus),
    "gpu_type": lambda job: "|".join(job.spec.gpu_types),
    "constraint": lambda job: ",".join(job.spec.constraints),
    "exclusive": lambda job: True if job.spec.exclusive else None,
    "cpus": lambda job: _unless(job.spec.cpus, 0.0),
    "memory_gb": lambda job: _unless(job.spec.memory_gb, 0.0),
    "user": lambda job: job.spec.user,
    "pool": lambda job: job.spec.pool,
    "name": lambda job: job.spec.name,
    "class": lambda job: (
        None
        if job.spec.job_class is JobClass.BEST_EFFORT and not job.spec.rewards
        else job.spec.job_class.value
    ),
    "rewards": lambda job: _rewards(job.spec.rewards),
    "estimate": lambda job: _number(job.spec.estimate_seconds),
    "weight": lambda job: _unless(job.spec.weight, 1.0),
    "priority": lambda job: _unless(job.spec.priority, 0.0),
    "time_limit": lambda job: _number(job.spec.time_limit_seconds),
    "after": lambda job: ";".join(map(_dependency, job.spec.after)),
    "preemptible": lambda job: None if job.spec.preemptible else False,
    "checkpoint": lambda job: _number(job.spec.checkpoint_seconds),
    "restore": lambda job: _number(job.spec.restore_seconds),
    "max_retries": lambda job: _unless(job.spec.max_retries, 3),
    "failures": lambda job: ";".join(map(_text, job.truth.failures)),
    "skew": lambda job: _unless(job.spec.skew, 0.0),
    "lowest_loss": lambda job: _number(job.spec.lowest_loss),
    "spread_slowdown": lambda job: _unless(job.truth.spread_slowdown, 0.0),
    "sensitivity": lambda job: _json(job.truth.sensitivity, None),
    "throughput": lambda job: _json(job.truth.throughput, LINEAR),
    "beside": lambda job: _json(job.truth.beside, {}),
    "declared_throughput": lambda job: _json(job.spec.throughput, None),
    "declared_spread_slowdown": lambda job: _unless(job.spec.spread_slowdown, 0.0),
    "declared_sensitivity": lambda job: _json(job.spec.sensitivity, None),
    "regimes": lambda job: _json(job.truth.regimes, ()),
    "adaptation": lambda job: _json(job.spec.adaptation, None),
    "loss_curve": lambda job: _json(job.truth.loss_curve, ()),
}

WRITERS: dict[str, Callable[[Workload, Path], None]] = {
    "volvelle": _write_csv,
    "parquet": _write_parquet,
    "swf": _write_swf,
}
"""Every format that can be written, by name."""
