"""Rows read as columns: the same jobs, and the same words about what is wrong, as row by row."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from volvelle.model.job import Job, JobSpec
from volvelle.model.problems import Problem
from volvelle.workload.readers import (
    Broken,
    ColumnFormat,
    Columns,
    Ledger,
    Row,
    RowFormat,
    Unfit,
)
from volvelle.workload.readers.base import rigid_job, rigid_jobs
from volvelle.workload.readers.rows import ColumnNames
from volvelle.workload.readers.text import BLOCK_LINES
from volvelle.workload.reading import read_trace

HEADER = "job,queued_min,ran_min,gpus,team"


class ByRow(RowFormat):
    """A log in minutes, row by row."""

    name = "by-row"
    title = "A log of jobs in minutes"
    required = ("job", "queued_min", "ran_min", "gpus")

    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        spec = JobSpec(
            id=row.text("job"),
            submit_time=row.seconds("queued_min", 60.0),
            gpus=row.gpus("gpus"),
            user=row.label("team"),
        )
        return rigid_job(spec, row.duration("ran_min"))


class ByColumn(ColumnFormat):
    """The same log, column by column."""

    name = "by-column"
    title = "A log of jobs in minutes"
    required = ("job", "queued_min", "ran_min", "gpus")

    def jobs(self, columns: Columns) -> Sequence[Job | None]:
        cells = zip(
            columns.texts("job"),
            columns.seconds("queued_min", 60.0),
            columns.gpus("gpus"),
            columns.labels("team"),
            strict=True,
        )
        specs = [JobSpec(id=i, submit_time=s, gpus=g, user=u) for i, s, g, u in cells]
        return rigid_jobs(columns, specs, columns.durations("ran_min"))


def told(path: Path, format: ByRow | ByColumn, *, strict: bool) -> object:
    try:
        workload = read_trace(path, format.name, formats={format.name: format}, strict=strict)
    except Problem as problem:
        return str(problem).replace("by-column", "by-row")
    assert workload.report is not None
    report = workload.report
    return workload.jobs, report.kept, report.dropped, report.repaired, report.examples


ROWS = [
    "a,1,30,4,vision",
    "b, 2 ,4h30m,1,nlp",
    "c,2,30,0,nlp",
    "d,two,30,1,nlp",
    "e,-1,soon,1,nlp",
    "f,3,,1,nlp",
    "a,4,30,1,vision",
    "g,5,0,1,nlp",
    "h,6,30,1e9,nlp",
    "i,7,30",
    "j,8,30,1,n,lp",
    'k,9,30,1,"n,lp"',
    "l,nan,30,1,nlp",
    "m,1e400,30,1,nlp",
    "n,10,30,1,Ren\udce9",
    "",
    "o,11,30,1,nlp",
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("missing", range(len(ROWS) + 1))
def test_both_ways_say_the_same(tmp_path: Path, missing: int, strict: bool) -> None:
    rows = ROWS[:missing] + ROWS[missing + 1 :] if missing < len(ROWS) else ROWS
    path = tmp_path / "log.csv"
    path.write_bytes("\n".join([HEADER, *rows]).encode("utf-8", "surrogateescape"))
    assert told(path, ByColumn(), strict=strict) == told(path, ByRow(), strict=strict)


def test_many_blocks_are_one_table(tmp_path: Path) -> None:
    rows = [f"{i % 1000},{i},30,{i % 3},team {i % 5}" for i in range(10 * BLOCK_LINES)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEADER, *rows]))
    assert told(path, ByColumn(), strict=False) == told(path, ByRow(), strict=False)


def test_of_several_wrong_things_the_first_looked_at_counts() -> None:
    rows = [(7, ["x", "-1"]), (8, ["1", "2"])]
    columns = Columns.of_rows(ColumnNames(["a", "b"], "log.csv"), rows)
    assert columns.numbers("b")[1] == 2.0
    assert columns.numbers("a")[1] == 1.0
    columns.note(1, Unfit("no job"))
    assert {line: what.reason for line, what in columns.wrong.items()} == {
        7: "negative b",
        8: "no job",
    }


def test_a_part_of_a_part_keeps_its_lines() -> None:
    rows = [(line, [str(line)]) for line in range(2, 12)]
    columns = Columns.of_rows(ColumnNames(["a"], "log.csv"), rows)
    part = columns.part([1, 3, 5, 7]).part([1, 3])
    assert part.numbers("a") == [5.0, 9.0]
    part.note(1, Broken("bad"))
    assert list(columns.wrong) == [9]
