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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import Field, field_validator

from volvelle.model.job import Job, JobClass, JobSpec, Reward, Truth
from volvelle.model.job_schema import SECONDS, fields_of
from volvelle.model.problems import Problem
from volvelle.model.units import format_duration, parse_duration
from volvelle.workload.readers.base import ReaderOptions, TraceFormat, formats, rigid_jobs
from volvelle.workload.readers.cells import codec_of, meaning_of, read_column
from volvelle.workload.readers.columns import Columns, jobs_of
from volvelle.workload.readers.dates import DateForm, in_zones, zone_named
from volvelle.workload.readers.json_lines import flat_object, json_cells, json_columns
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.mapping import TIMES, TWO_PARTS, mapped_header
from volvelle.workload.readers.rows import (
    ABSENT,
    MOST_SECONDS,
    ColumnNames,
    in_range,
    parse_timestamp,
)
from volvelle.workload.readers.spreadsheets import note_days, plain_numbers
from volvelle.workload.readers.states import ChosenStates, states_of
from volvelle.workload.readers.suggesting import (
    UNIT_WORDS,
    count_and_type,
    suggested_dates,
    suggested_names,
    unit_of,
    written_map,
)
from volvelle.workload.readers.text import Sample, csv_columns
from volvelle.workload.readers.words import words_of

Made = TypeVar("Made", bound=msgspec.Struct)

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
_SPEC = {one.name: one for one in fields_of(JobSpec)}
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
    named = {ours: zone_named(columns.get(ours, "").rpartition(":")[2]) for ours in TIMES}
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
            _note_local(block, of_times.keys(), ledger)
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
        zones.add(text[-1:] in "Zz" or "+" in text or "-" in text[10:])
        if len(zones) > 1:
            reason = "times with and without a time zone: those without are UTC, unless you write their zone"
            ledger.taken(reason, line, "submit_time", text)
            return


def _note_local(block: Columns, zoned: Collection[str], ledger: Ledger) -> None:
    """Say of a column whose name says that its times are local that they are read as UTC."""
    for ours in TIMES:
        theirs = ledger.headings.get(ours, ours)
        if theirs in block.header and ours not in zoned and _LOCAL & {*words_of(theirs)}:
            mapped = shlex.quote(f"{ours}={theirs}:Europe/Berlin")
            reason = (
                f"local times are read as UTC; if clocks change, say their zone: --map {mapped}"
            )
            ledger.taken(reason, block.lines[0], ours, block.texts(theirs)[0])
            return


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
    return Problem(
        f"{'; '.join(wrong)}. The columns of {block.header.file} are {', '.join(cells)}",
        mend="; ".join(filter(None, (f"perhaps they are {line}" if line else "", more))),
    )


def own_jobs(ledger: Ledger, columns: Columns) -> Sequence[Job | None]:
    """The jobs in rows of our own table; those that start before they are submitted are counted."""
    if not len(columns):
        return []
    specs = _specs(columns)
    works = columns.optional_numbers("work")
    jobs = rigid_jobs(columns, specs, _run_seconds(columns, specs, works), "start_time", "end_time")
    for row, job in enumerate(jobs):
        early = job and job.recorded and job.recorded.start < job.spec.submit_time
        if early and (line := columns.lines[row]) not in columns.wrong:
            start = columns.written(line, ledger.headings["start_time"])
            ledger.odd("start before they were submitted", line, "start_time", start)
    if not any(one.column in columns.header for one in fields_of(Truth)):
        return jobs
    truths = _truths(columns, jobs, works)
    _check_truths(columns, specs, works, truths)
    return [
        None if job is None else Job(job.spec, truth, None, job.recorded)
        for job, truth in zip(jobs, truths, strict=True)
    ]


def _specs(columns: Columns) -> list[JobSpec]:
    """The declaration in each row."""
    gpus, submitted = columns.gpus("gpus"), columns.timestamps("submit_time")
    rewards = _rewards(columns, submitted)
    names = zip(columns.lines, columns.texts("id"), strict=True)
    specs = _structs(
        columns,
        JobSpec,
        id=[name or str(line - 1) for line, name in names],
        submit_time=submitted,
        gpus=gpus,
        rewards=rewards,
        job_class=_classes(columns, rewards),
    )
    elastic = "min_gpus" in columns.header or "max_gpus" in columns.header
    for row, spec in enumerate(specs if elastic else ()):
        if not spec.least_gpus <= spec.gpus <= spec.most_gpus:
            columns.note(row, Broken("gpus outside min_gpus to max_gpus", "gpus", spec.gpus))
    return specs


def _structs(columns: Columns, struct: type[Made], **values: Sequence[Any]) -> list[Made]:
    """A ``struct`` for each row: with ``values``, and with those of its fields that the table has."""
    for field in fields_of(struct):
        if field.name not in values and field.column in columns.header:
            cells = read_column(columns, field)
            if cells.count(field.default) < len(cells):
                values[field.name] = cells
    names = tuple(values)
    return [
        struct(**dict(zip(names, row, strict=True))) for row in zip(*values.values(), strict=True)
    ]


def _run_seconds(
    columns: Columns, specs: Sequence[JobSpec], works: Sequence[float | None]
) -> list[float]:
    """How long each job runs on its GPUs: by its work, its duration, or its start and end."""
    seconds = [
        0.0 if work is None else work / spec.gpus if spec.gpus else work
        for spec, work in zip(specs, works, strict=True)
    ]
    spans = [False] * len(columns)
    if "end_time" in columns.header:
        spans = columns.absent("duration")
    by_time = [row for row, work in enumerate(works) if work is None]
    told = [row for row in by_time if not spans[row]]
    for row, length in zip(told, columns.part(told).durations("duration"), strict=True):
        seconds[row] = length
    found = [row for row in by_time if spans[row]]
    for row, length in zip(found, columns.part(found).spans("start_time", "end_time"), strict=True):
        seconds[row] = length
    return seconds


def _truths(
    columns: Columns, jobs: Sequence[Job | None], works: Sequence[float | None]
) -> list[Truth]:
    """The truth of each job, with all else that its row says."""
    rigid = [0.0 if job is None else job.truth.work for job in jobs]
    amounts = [
        by_time if work is None else work for by_time, work in zip(rigid, works, strict=True)
    ]
    return _structs(columns, Truth, work=amounts)


def _check_truths(
    columns: Columns,
    specs: Sequence[JobSpec],
    works: Sequence[float | None],
    truths: Sequence[Truth],
) -> None:
    """Note the rows whose columns do not go together."""
    if not {"loss_curve", "throughput", "regimes"} & columns.header.index.keys():
        return
    curves, regimes = columns.texts("loss_curve"), columns.texts("regimes")
    rates, without = columns.texts("throughput"), columns.absent("throughput")
    for row, truth in enumerate(truths):
        if any(one.work >= other.work for one, other in itertools.pairwise(truth.loss_curve)):
            what = "a loss curve's work does not ascend"
            columns.note(row, Broken(what, "loss_curve", curves[row]))
        if works[row] is None and not without[row]:
            columns.note(row, Broken("throughput without work", "throughput", rates[row]))
        try:
            for regime in truth.regimes:
                for kind in specs[row].gpu_types or ("",):
                    truth.throughput.rate(1.0, kind, 1, regime.batch_size)
        except Problem:
            columns.note(row, Broken("no throughput for a batch size", "regimes", regimes[row]))


def _classes(columns: Columns, rewards: Sequence[tuple[Reward, ...]]) -> list[JobClass]:
    """The class of each job; without one, strict where it has rewards."""
    given = columns.optional("class", codec_of(_SPEC["job_class"]).read, None)
    return [
        kind or (JobClass.STRICT if steps else JobClass.BEST_EFFORT)
        for kind, steps in zip(given, rewards, strict=True)
    ]


def _rewards(columns: Columns, submitted: Sequence[float]) -> list[tuple[Reward, ...]]:
    """The reward steps of each job; one of worth 1 where the row has a deadline instead."""
    rewards = list(read_column(columns, _SPEC["rewards"]))
    if "deadline" in columns.header:
        without = columns.absent("rewards")
        for row, text in enumerate(columns.texts("deadline")):
            if without[row] and text.lower() not in ABSENT:
                try:
                    rewards[row] = (Reward(_deadline(text, submitted[row]), 1.0),)
                except Broken as what:
                    columns.note(row, what)
    return rewards


def _deadline(text: str, submitted: float) -> float:
    """Seconds since submission of a deadline written as such, or as a point in time."""
    try:
        return in_range(parse_duration(text), "deadline", text, MOST_SECONDS)
    except ValueError:
        pass
    try:
        since = parse_timestamp(text) - submitted
    except ValueError:
        raise Broken("unreadable deadline", "deadline", text) from None
    if since <= 0.0:
        raise Broken("deadline in the past", "deadline", text)
    return in_range(since, "deadline", text, MOST_SECONDS)
