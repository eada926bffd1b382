"""Numbers and points in time as spreadsheets write them: ``1,5``, ``33,608``, days since 1899."""

import re
import shlex
from collections.abc import Callable, Mapping

from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.ledger import Ledger
from volvelle.workload.readers.mapping import TIMES
from volvelle.workload.readers.text import Sample

_DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_QUOTED_THOUSANDS = re.compile(f'"{_THOUSANDS.pattern}"')
_SERIAL = re.compile(r"[345]\d{4}\.\d+")
"""Days since 1899, from 1982 to 2064."""


def plain_numbers(sample: Sample, ledger: Ledger) -> Callable[[str], str] | None:
    """The function of a cell that gives its number a point and no commas; None where no cell needs it.

    Semicolons between cells mean commas in numbers. Other commas stand between thousands, which is noted.
    """
    if sample.delimiter == ";":
        return _with_point
    if not any(map(_QUOTED_THOUSANDS.search, sample.lines)):
        return None
    ledger.taken("commas in numbers are taken to stand between thousands", 1)
    return _without_commas


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell


def _without_commas(cell: str) -> str:
    return cell.replace(",", "") if _THOUSANDS.fullmatch(cell) else cell


def note_days(block: Columns, columns: Mapping[str, str], ledger: Ledger) -> None:
    """Note that points in time look like the days that a spreadsheet counts, and how to say that they are."""
    cells = block.texts("submit_time")
    if all(map(_SERIAL.fullmatch, cells)):
        there = {ours: f"{columns.get(ours, ours)}:d" for ours in TIMES if ours in block.header}
        days = ",".join(f"{ours}={theirs}" for ours, theirs in (dict(columns) | there).items())
        mend = f"if they are a spreadsheet's days, say --map {shlex.quote(days)}"
        ledger.taken(f"times are taken in seconds; {mend}", block.lines[0], "submit_time", cells[0])
