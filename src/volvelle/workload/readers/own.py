"""Our own table of jobs, as CSV: what `volvelle.workload.writing` writes and a newcomer brings.

Needed are ``submit_time``, ``gpus`` and one of ``duration``, ``work``, or ``start_time`` with
``end_time``; `COLUMNS` lists the rest. Other column names are mapped (``--map``):
``gpus=num_gpu``, and with a unit ``duration=runtime:min``, ``gpus=gpu_milli:milli``. Durations
may be written ``4h30m``; times are seconds or ISO (UTC where they name no zone). ``duration`` is
at ``gpus`` GPUs; where ``work`` is given too, ``work`` counts. Lists are joined by ``;``, a
reward step is ``4h:10`` (deadline since submission, value), GPU types are joined by ``|``.
"""

import itertools
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.job_schema import SECONDS, fields_of
from volvelle.model.problems import Problem
from volvelle.model.units import format_duration, parse_duration
from volvelle.workload.readers.base import ReaderOptions, TraceFormat, formats
from volvelle.workload.readers.cells import meaning_of
from volvelle.workload.readers.columns import Columns, jobs_of
from volvelle.workload.readers.dates import DateForm, in_zones, zone_named
from volvelle.workload.readers.json_lines import flat_object, json_cells, json_columns
from volvelle.workload.readers.ledger import Ledger
from volvelle.workload.readers.mapping import DATED, TIMES, TWO_PARTS, mapped_header
from volvelle.workload.readers.own_jobs import own_jobs
from volvelle.workload.readers.rows import ABSENT, ColumnNames, names_zone
from volvelle.workload.readers.states import ChosenStates, states_of
from volvelle.workload.readers.suggesting import (
    UNIT_WORDS,
    count_and_type,
    line_hint,
    suggested_dates,
    suggested_names,
    unit_of,
    written_map,
)
from volvelle.workload.readers.text import Sample, csv_columns
from volvelle.workload.readers.words import words_of

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_LOCAL = frozenset(("local", "lokal", "ortszeit", "cet", "cest", "est", "edt", "cst", "pst", "pdt"))
"""Words in the names of columns whose times are not UTC."""
_NUMBER = re.compile(r"-?\d+([.,]\d+)?")

_MORE = {
    "start_time": "when it really started; with end_time, instead of a duration",
    "end_time": "when it really ended; with start_time, instead of a duration",
    "duration": "how long it runs on its GPUs",
    "state": "what became of it; jobs are counted by it, and chosen as in state=Status:completed+failed",
    "deadline": "the one deadline, since submission or as an ISO time; strict by default",
}
_LENGTHS = ("duration", *(one.column for one in fields_of(JobSpec) if one.about.unit == SECONDS))
_FIRST = ("id", "submit_time", "start_time", "end_time", "gpus", "duration", "work")
_MEANINGS = _MORE | {one.column: meaning_of(one) for one in fields_of(JobSpec) + fields_of(Truth)}
COLUMNS = {name: _MEANINGS[name] for name in dict.fromkeys([*_FIRST, *_MEANINGS])}
"""The columns of our own table, and what they mean."""


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
                raise Problem(
                    f"dates cannot be written {dates!r}: {error}",
                    mend="say their form as in --dates '%d.%m.%Y %H:%M'",
                    usage=True,
                ) from None
        return dates


@formats.register
class Own(TraceFormat):
    """One row a job; the only format that takes ``--map``."""

    name = "volvelle"
    title = "Volvelle's own CSV, and any CSV whose columns are mapped onto it"
    options_type = OwnOptions

    def matches(self, sample: Sample) -> float:
        """Fairly sure of a header with the needed columns; formats with more of their own win."""
        header = frozenset(map(str.lower, flat_object(sample.lines[0]) or sample.header))
        lengths = ({"duration"}, {"work"}, {"start_time", "end_time"})
        if not header >= {"submit_time", "gpus"}:
            return 0.0
        return 0.4 if any(header >= length for length in lengths) else 0.0

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row, of a CSV or of JSON lines."""
        sample = Sample.of(path)
        names, delimiter = list(json_cells(sample)), sample.delimiter
        blocks = csv_columns(path, ledger, delimiter=delimiter)
        if names:
            blocks = json_columns(path, ledger, names)
        elif make := plain_numbers(sample, ledger):
            blocks = (block.remade(make) for block in blocks)
        return jobs_of(
            mapped(blocks, options, ledger), partial(own_jobs, ledger), ledger, states_of
        )


def mapped(blocks: Iterable[Columns], options: OwnOptions, ledger: Ledger) -> Iterator[Columns]:
    """``blocks`` under our column names, with units and dates applied, by state. Raises `Problem`."""
    zones: set[bool] = set()
    under: Callable[[Columns], Columns] | None = None
    dates = DateForm(options.dates) if options.dates else None
    columns, states = _chosen_states(options.columns)
    named = {ours: zone_named(columns.get(ours, "").rpartition(":")[2]) for ours in DATED}
    of_times = {ours: zone for ours, zone in named.items() if zone is not None}
    for block in blocks:
        if under is None and len(block):
            columns = _with_units(columns, block, ledger)
            header, under, wrong = mapped_header(block.header, columns, COLUMNS, dates)
            if wrong := wrong + _dates_as_lengths(columns, block) + _lacking(header, columns):
                raise _wrong_map(wrong, block, options)
            if "status" in header:
                header.index.setdefault("state", header.index["status"])
            ledger.headings = {ours: ours for ours in COLUMNS} | {
                ours: theirs if theirs in block.header else theirs.rpartition(":")[0]
                for ours, theirs in columns.items()
            }
            block.header.refuse_twice(filter(None, ledger.headings.values()))
            note_days(under(block), columns, ledger)
            _note_local(under(block), of_times.keys(), ledger)
        ours = block if under is None else _with_types(under(block))
        if of_times:
            ours = in_zones(ours, of_times)
        states.note(ours)
        if len(zones) < 2:
            _note_zones(ours, zones, ledger)
        yield ours
    states.check(ledger.file)
    if dates is not None:
        dates.check(ledger)


def _dates_as_lengths(columns: Mapping[str, str], block: Columns) -> list[str]:
    """Clauses on columns of dates that are taken for lengths of time."""
    wrong = []
    for ours in (one for one in _LENGTHS if one not in TIMES):
        theirs = columns.get(ours, ours)
        name = theirs if theirs in block.header else theirs.rpartition(":")[0]
        cells = block.texts(name) if name in block.header else []
        first = next((cell for cell in cells if cell.lower() not in ABSENT), "")
        if _ISO_DATE.match(first) or suggested_dates([first]):
            mend = f": say end_time={name}, and which is start_time" if ours == "duration" else ""
            wrong.append(f"{name!r} holds dates, as {first!r}, which are no {ours}{mend}")
    return wrong


def _with_units(columns: Mapping[str, str], block: Columns, ledger: Ledger) -> dict[str, str]:
    """The map with the units that columns of lengths of time have in their own names; each is noted."""
    found = dict(columns)
    for ours in _LENGTHS:
        theirs = columns.get(ours, ours)
        if theirs not in block.header:
            continue
        cells, unit = block.texts(theirs), unit_of(theirs)
        filled = [row for row, cell in enumerate(cells) if cell.lower() not in ABSENT]
        two_parts = (row for row in filled if TWO_PARTS.fullmatch(cells[row]))
        clock = next(two_parts, None) if unit in ("", "h", "min") else None
        if clock is None and not (unit and filled and _NUMBER.fullmatch(cells[filled[0]])):
            continue
        if unit:
            found[ours] = f"{theirs}:{unit}"
        row = filled[0] if clock is None else clock
        said = _unit_taken(ours, theirs, unit, None if clock is None else cells[row])
        ledger.headings[ours] = theirs
        ledger.taken(said, block.lines[row], ours, cells[row])
    return found


def _unit_taken(ours: str, theirs: str, unit: str, clock: str | None) -> str:
    """The unit of a column, and how another is said. clock: a cell like ``1:30``, where it has such."""
    called = f", as its column is called {theirs!r}"
    if clock is None:
        taken, other, name = f"{UNIT_WORDS[unit]}{called}", "seconds", "s"
    elif unit == "h":
        taken, other, name = f"hours and minutes{called}", "minutes and seconds", "s"
    else:
        read = format_duration(parse_duration(clock))
        taken, other, name = f"minutes and seconds: {clock} as {read}", "hours and minutes", "h"
    mapped = shlex.quote(f"{ours}={theirs}:{name}")
    return f"{ours} is taken in {taken}; if it is in {other}, say --map {mapped}"


def _with_types(columns: Columns) -> Columns:
    """The rows with the count and the type of GPUs apart, where a cell has both: ``4x A100``, ``a100:4``."""
    header = columns.header
    if "gpus" not in header or not any(map(count_and_type, set(columns.texts("gpus")))):
        return columns
    makes = {"gpus": lambda cell: found[1] if (found := count_and_type(cell)) else cell}
    if "gpu_type" not in header:
        makes["gpu_type"] = lambda cell: found[0] if (found := count_and_type(cell)) else ""
    return columns.with_made("gpus", makes)


def _chosen_states(columns: Mapping[str, str]) -> tuple[dict[str, str], ChosenStates]:
    """The map without the states chosen in it, and these."""
    name, _, chosen = columns.get("state", "").partition(":")
    return dict(columns) | ({"state": name} if name else {}), ChosenStates(chosen)


def _note_zones(columns: Columns, zones: set[bool], ledger: Ledger) -> None:
    """Say it once where some times have a time zone and others none; ``zones`` is what was seen."""
    for line, text in zip(columns.lines, columns.texts("submit_time"), strict=True):
        if "T" not in text and ":" not in text:  # a number, or no time of day
            continue
        zones.add(names_zone(text))
        if len(zones) > 1:
            reason = "times with and without a time zone: those without are UTC, unless you write their zone"
            ledger.taken(reason, line, "submit_time", text)
            return


def _note_local(block: Columns, zoned: Collection[str], ledger: Ledger) -> None:
    """Say it once where times that are called local, or give lengths and name no zone, are read as UTC."""
    gives_lengths = not {"duration", "work"} & block.header.index.keys()
    times = {
        ours: ledger.headings.get(ours, ours)
        for ours in DATED
        if ours in block.header and ours not in zoned
    }
    for ours, theirs in times.items():
        cells = zip(block.lines, block.texts(ours), strict=True)
        filled = ((line, cell) for line, cell in cells if cell.lower() not in ABSENT)
        line, first = next(filled, (block.lines[0], ""))
        ends = ours == "end_time" and gives_lengths and _is_zoneless(first)
        if ends or _LOCAL & {*words_of(theirs)}:
            mapped = ",".join(f"{one}={name}:Europe/Berlin" for one, name in times.items())
            what = "times without a zone" if ends else "local times"
            mend = f"say their zone: --map {shlex.quote(mapped)}"
            reason = f"{what} are read as UTC; if clocks change, {mend}"
            ledger.taken(reason, line, ours, first)
            return


def _is_zoneless(text: str) -> bool:
    """Whether it is a time of day on a date, without a time zone."""
    try:
        return ":" in text and datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


def _lacking(header: ColumnNames, columns: Mapping[str, str]) -> list[str]:
    """Clauses on needed columns of ours that the table has not, and that ``columns`` do not name."""
    there = header.index.keys() | columns.keys()
    lacking = [f"there is no column {one!r}" for one in ("submit_time", "gpus") if one not in there]
    if not there & {"duration", "work"} and not {"start_time", "end_time"} <= there:
        lacking.append(
            "nothing says how long a job runs (duration, work, or start_time and end_time)"
        )
    return lacking


def _wrong_map(wrong: list[str], block: Columns, options: OwnOptions) -> Problem:
    """All that is wrong with a table's columns, and a whole line that may be right."""
    cells = {name: block.texts(name) for name in block.header.names}
    dates = "" if options.dates else suggested_dates(itertools.chain.from_iterable(cells.values()))
    found = suggested_names(cells)
    given = options.columns.items()
    found |= {ours: one for ours, one in given if found.get(ours) == "?" and one in cells}
    left = [ours for ours, theirs in found.items() if theirs == "?"]
    line = " ".join(filter(None, (written_map({**found, **dict.fromkeys(left, "")}), dates)))
    more = f"say which column is {', which is '.join(left)}" if left else ""
    if "gpus" in left:
        more += ", or a number of GPUs for all jobs: gpus=1"
    hint = "" if left else line_hint(found)
    return Problem(
        f"{'; '.join(wrong)}. The columns of {block.header.file} are {', '.join(cells)}",
        mend="; ".join(filter(None, (f"perhaps they are {line}{hint}" if line else "", more))),
    )


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
