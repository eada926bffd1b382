"""jobs.csv: one line for each submitted job, written block by block and read back as columns.

Floats are written as the shortest text that reads back to the same bits, so that two equal runs give
equal files; what a job has not is empty.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from volvelle.metrics import labels, per_job
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.problems import Problem

COLUMNS = (
    "job_id",
    "pool",
    "user",
    "gpus",
    "submit_time",
    "first_start_time",
    "finish_time",
    "jct",
    "queueing_delay",
    "gpu_seconds",
    "preemptions",
    "restarts",
    "status",
    "predicted_finish_time",
    "p50_finish_time",
    "p90_finish_time",
)
"""The header of jobs.csv. Times are seconds on the workload's clock, durations seconds."""

_BLOCK = 65_536  # rows turned into text at a time


@dataclass(frozen=True)
class JobsTable:
    """jobs.csv as columns, one row for each line."""

    job_id: list[str]
    pool: list[str]
    user: list[str]
    gpus: FloatColumn
    submit_time: FloatColumn
    first_start_time: FloatColumn
    finish_time: FloatColumn
    jct: FloatColumn
    queueing_delay: FloatColumn
    gpu_seconds: FloatColumn
    preemptions: IntColumn
    restarts: IntColumn
    status: list[str]
    predicted_finish_time: FloatColumn
    p50_finish_time: FloatColumn
    p90_finish_time: FloatColumn

    def __len__(self) -> int:
        return len(self.job_id)


def jobs_table(outcomes: Outcomes) -> JobsTable:
    """The columns that `write_jobs` writes."""
    unknown = np.full(len(outcomes), np.nan)
    predicted, p50, p90 = (
        unknown if each is None else each
        for each in (outcomes.predicted_finish, outcomes.predicted_p50, outcomes.predicted_p90)
    )
    return JobsTable(
        job_id=[spec.id for spec in outcomes.specs],
        pool=[spec.pool for spec in outcomes.specs],
        user=[spec.user for spec in outcomes.specs],
        gpus=outcomes.gpus,
        submit_time=outcomes.submit_time,
        first_start_time=outcomes.first_start,
        finish_time=outcomes.finish,
        jct=per_job.jct(outcomes),
        queueing_delay=per_job.queueing_delay(outcomes),
        gpu_seconds=outcomes.gpu_seconds,
        preemptions=outcomes.preemptions,
        restarts=outcomes.restarts,
        status=outcomes.status.tolist(),
        predicted_finish_time=predicted,
        p50_finish_time=p50,
        p90_finish_time=p90,
    )


def write_jobs(outcomes: Outcomes, path: Path) -> None:
    """Write jobs.csv; jobs stand in order of submission, tracked or not."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(COLUMNS) + "\n")
        for cells in _blocks(outcomes):
            file.write("\n".join(map(",".join, cells)) + "\n")


def read_jobs(path: Path) -> JobsTable:
    """Read what `write_jobs` wrote. Raises `Problem` naming the file, the line and the column."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
    except FileNotFoundError:
        raise Problem(f"there is no file {path}", mend="check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise Problem(f"{path} is not a CSV file: {error}") from None
    if not lines or tuple(lines[0]) != COLUMNS:
        raise Problem(
            f"{path} line 1 is not the header of a jobs.csv",
            mend=f"expected {','.join(COLUMNS)}",
        )
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(COLUMNS):
            raise Problem(f"{path} line {number} has {len(line)} fields, not {len(COLUMNS)}")
    return _parse(path, [[line[i] for line in lines[1:]] for i in range(len(COLUMNS))])


def _blocks(outcomes: Outcomes) -> Iterator[Iterator[tuple[str, ...]]]:
    floats: list[NDArray[np.float64]] = [
        outcomes.submit_time,
        outcomes.first_start,
        outcomes.finish,
        per_job.jct(outcomes),
        per_job.queueing_delay(outcomes),
        outcomes.gpu_seconds,
    ]
    given = (outcomes.predicted_finish, outcomes.predicted_p50, outcomes.predicted_p90)
    predicted = [np.full(len(outcomes), np.nan) if each is None else each for each in given]
    named = (labels.pools(outcomes), labels.users(outcomes), labels.widths(outcomes))
    for first in range(0, len(outcomes), _BLOCK):
        part = slice(first, first + _BLOCK)
        yield zip(
            _quoted([spec.id for spec in outcomes.specs[part]]),
            *(_names(each, part) for each in named),
            *(_texts(column[part]) for column in floats),
            map(str, outcomes.preemptions[part].tolist()),
            map(str, outcomes.restarts[part].tolist()),
            outcomes.status[part].tolist(),
            *(_texts(column[part]) for column in predicted),
            strict=True,
        )


_SPECIAL = re.compile(r'[",\r\n]')


def _quoted(texts: list[str]) -> list[str]:
    """The texts as cells: in quotes where they would break the line up."""
    if not _SPECIAL.search("\0".join(texts)):
        return texts
    return [
        '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text for text in texts
    ]


def _names(labelled: Labels, part: slice) -> list[str]:
    names = _quoted(labelled.names)
    return [names[number] for number in labelled.of[part].tolist()]


def _texts(column: FloatColumn) -> list[str]:
    if np.isfinite(column).all():
        return msgspec.json.encode(column.tolist()).decode()[1:-1].split(",")
    return [repr(value) if value == value else "" for value in column.tolist()]  # noqa: PLR0124 - NaN


def _parse(path: Path, fields: list[list[str]]) -> JobsTable:
    named = dict(zip(COLUMNS, fields, strict=True))

    def floats(name: str) -> FloatColumn:
        return np.array(_numbers(path, name, named[name]), dtype=np.float64)

    def counts(name: str) -> IntColumn:
        column = floats(name)
        if np.isnan(column).any():
            line = int(np.flatnonzero(np.isnan(column))[0]) + 2
            raise Problem(f"{path} line {line}, column {name}: a count is missing")
        return column.astype(np.int64)

    return JobsTable(
        job_id=named["job_id"],
        pool=named["pool"],
        user=named["user"],
        gpus=floats("gpus"),
        submit_time=floats("submit_time"),
        first_start_time=floats("first_start_time"),
        finish_time=floats("finish_time"),
        jct=floats("jct"),
        queueing_delay=floats("queueing_delay"),
        gpu_seconds=floats("gpu_seconds"),
        preemptions=counts("preemptions"),
        restarts=counts("restarts"),
        status=named["status"],
        predicted_finish_time=floats("predicted_finish_time"),
        p50_finish_time=floats("p50_finish_time"),
        p90_finish_time=floats("p90_finish_time"),
    )


def _numbers(path: Path, name: str, texts: list[str]) -> list[float]:
    numbers: list[float] = []
    for number, text in enumerate(texts, start=2):
        try:
            numbers.append(float(text) if text else float("nan"))
        except ValueError:
            raise Problem(f"{path} line {number}, column {name}: cannot read {text!r}") from None
    return numbers
