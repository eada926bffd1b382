"""The base of trace formats: a name, typed options, a guess, and a stream of jobs.

A new format is one module with one subclass. `read` is given the ledger and yields jobs; it need
not sort, rebase or deduplicate. Most formats are a table with a job in each row: subclass
`RowFormat` to turn a row into a job, or `ColumnFormat` to turn many rows into jobs at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from volvelle.core.registry import Catalogue
from volvelle.model.job import Job, JobSpec, Recorded, Truth
from volvelle.model.problems import Problem
from volvelle.model.units import MINUTE
from volvelle.model.validation import describe_validation
from volvelle.workload.readers.columns import Columns, jobs_of
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit, each_job
from volvelle.workload.readers.rows import MOST_GPUS, Row
from volvelle.workload.readers.states import state_of
from volvelle.workload.readers.text import Sample, csv_columns, csv_rows

_AT_ONCE = "started and ended at the same time"
_WITHIN_A_MINUTE = (
    "started and ended in the same minute; times with seconds, or a duration, keep them"
)


class ReaderOptions(BaseModel):
    """Options of a format; an unknown key is an error that names the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TraceFormat(ABC):
    """One format of traces.

    ``title`` says what it is and whose; ``main_table`` are patterns of the file to read where a
    directory is given. ``headings``: id, gpus and duration, as notes call them,
    and the file's names of these columns, in pairs.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    options_type: ClassVar[type[ReaderOptions]] = ReaderOptions
    main_table: ClassVar[tuple[str, ...]] = ()
    headings: ClassVar[tuple[tuple[str, str], ...]] = ()

    @abstractmethod
    def matches(self, sample: Sample) -> float:
        """How sure the format is that ``sample`` is its own, from 0 to 1."""

    @abstractmethod
    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """The jobs of ``path``; ``options`` is an ``options_type``. Raises `Problem`."""

    def options(self, given: dict[str, Any]) -> ReaderOptions:
        """``given`` checked. Raises `Problem` naming the key and the mend."""
        try:
            return self.options_type.model_validate(given)
        except ValidationError as error:
            described = describe_validation(error, self.options_type)
            known = ", ".join(self.options_type.model_fields) or "none"
            raise Problem(
                f"option of trace format {self.name!r}: {described}",
                mend=f"its options: {known}",
                usage=True,
            ) from None


formats: Catalogue[type[TraceFormat]] = Catalogue(
    "trace format", "formats", "volvelle.workload.readers", "volvelle.traces"
)


class TableFormat(TraceFormat):
    """A delimited table with one job in each row and at least the columns ``required``."""

    required: ClassVar[tuple[str, ...]]

    def matches(self, sample: Sample) -> float:
        """Sure where all required columns are there; the more there are, the surer."""
        if sample.delimiter != "," or not sample.header.issuperset(self.required):
            return 0.0
        return 0.5 + 0.02 * len(self.required)


class RowFormat(TableFormat):
    """A table that is read row by row: the simplest way to say what a row means."""

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row."""
        rows = self.rows(path, ledger)
        return each_job(rows, lambda row: self.job(row, ledger, options), ledger)

    def rows(self, path: Path, ledger: Ledger) -> Iterator[Row]:
        """The rows of a table with a header, cells between commas. Raises `Problem`."""
        return csv_rows(path, ledger, required=self.required)

    @abstractmethod
    def job(self, row: Row, ledger: Ledger, options: Any) -> Job:
        """The job in ``row``. Raises `Broken` or `Unfit`."""


class ColumnFormat(TableFormat):
    """A table that is read column by column, for traces of many rows; ``state``: the column with states."""

    state: ClassVar[str] = "state"

    def read(self, path: Path, ledger: Ledger, options: Any) -> Iterator[Job]:
        """A job for each row."""
        blocks = csv_columns(path, ledger, required=self.required)
        return jobs_of(blocks, self.jobs, ledger, self.states)

    def states(self, columns: Columns) -> Sequence[str]:
        """The state of the job in each row."""
        return columns.optional(self.state, state_of, "")

    @abstractmethod
    def jobs(self, columns: Columns) -> Sequence[Job | None]:
        """The job in each row; of rows that are noted as wrong anything."""


def rigid_job(
    spec: JobSpec, duration: float, start: float | None = None, end: float | None = None
) -> Job:
    """``spec`` with the work of ``duration`` seconds on its GPUs, in 1-GPU seconds.

    start, end: when it really ran, if the trace says so; without an end it ran at a stretch.
    Raises `Unfit` where it has no GPUs or took no time.
    """
    if (what := _unsuited(spec.gpus, duration)) is not None:
        raise what
    return Job(spec, Truth(work=duration * spec.gpus), None, _recorded(duration, start, end))


def rigid_jobs(
    columns: Columns,
    specs: Iterable[JobSpec],
    durations: Iterable[float],
    start: str = "",
    end: str = "",
) -> list[Job | None]:
    """`rigid_job` of each row; what it would raise is noted.

    start, end: the columns that say when it really ran.
    """
    jobs: list[Job | None] = []
    ran = zip(columns.known_timestamps(start), columns.known_timestamps(end), strict=True)
    for row, (spec, duration, span) in enumerate(zip(specs, durations, ran, strict=True)):
        if (what := _unsuited(spec.gpus, duration)) is not None:
            without_length = what.column == "duration" and "duration" not in columns.header
            if without_length and span[0] is not None and span[0] == span[1]:
                text = columns.texts(end)[row]
                to_the_minute = ":" in text and not span[0] % MINUTE
                what = Unfit(_WITHIN_A_MINUTE if to_the_minute else _AT_ONCE, end, text)
            columns.note(row, what)
            jobs.append(None)
        else:
            truth = Truth(work=duration * spec.gpus)
            jobs.append(Job(spec, truth, None, _recorded(duration, *span)))
    return jobs


def _recorded(duration: float, start: float | None, end: float | None) -> Recorded | None:
    """Nothing where no start is known, or the end is before it."""
    if start is None:
        return None
    ended = start + duration if end is None else end
    return Recorded(start, ended) if ended >= start else None


def _unsuited(gpus: float, duration: float) -> Broken | Unfit | None:
    if gpus <= 0:
        return Unfit("no GPUs", "gpus", f"{gpus:g}")
    if gpus > MOST_GPUS:
        return Broken("impossibly large gpus", "gpus", gpus)
    if duration < 0:
        return Unfit("never ran", "duration", f"{duration:g}")
    return None if duration else Unfit("took 0 s", "duration", f"{duration:g}")


def required_text(row: Row, column: str) -> str:
    """The cell, which must not be empty. Raises `Broken`."""
    text = row.text(column)
    if not text:
        raise Broken(f"missing {column}", column)
    return text
