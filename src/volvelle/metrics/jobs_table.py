"""jobs.csv: one line for each submitted job, written block by block.

Floats are written as the shortest text that reads back to the same bits, so that two equal runs give
equal files; what a job has not is empty.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from volvelle.metrics import labels, per_job
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import FloatColumn, IntColumn

_BLOCK = 65_536  # rows turned into text at a time


@dataclass(frozen=True)
class JobsTable:
    """jobs.csv as columns. Times are seconds on the workload's clock, durations seconds."""

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
    reason: list[str]


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
        reason=outcomes.reason,
    )


def write_jobs(outcomes: Outcomes, path: Path) -> None:
    """Write jobs.csv; jobs stand in order of submission, tracked or not."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(field.name for field in fields(JobsTable)) + "\n")
        for cells in _blocks(outcomes):
            file.write("\n".join(map(",".join, cells)) + "\n")


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
            _quoted(outcomes.reason[part]),
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
