"""The ledger of an import: every row is kept, repaired or dropped, and counted by reason.

Two things can be wrong with a row. It is *broken* (a value is missing, unreadable or impossible):
``strict`` stops there with a `Problem`, otherwise the row is dropped or mended and counted. Or it
is sound but *unfit*: no job of a GPU cluster (no GPUs, never ran, a job step); that is dropped
and counted in either mode.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from volvelle.core.mistakes import mistake_in
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.workload.workload import ImportReport

EXAMPLES = 3
"""Places remembered for each reason."""

PROGRESS_ROWS = 4096
"""Rows between two calls of ``progress``."""

_SHOWN = 60


class _Wrong(Exception):  # noqa: N818 - a row is wrong; this says why
    def __init__(self, reason: str, column: str = "", value: object = "", record: str = "") -> None:
        super().__init__(reason)
        self.reason, self.column, self.value, self.record = reason, column, str(value), record


class Broken(_Wrong):
    """A value of a row is missing, unreadable or impossible."""


class Unfit(_Wrong):
    """A sound row that is no job for us."""


class Ledger:
    """Counts what becomes of rows in ``report``; ``file`` is the table being read.

    ``headings``: the file's own names of our columns.
    """

    def __init__(
        self,
        report: ImportReport,
        *,
        strict: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.report = report
        self.strict = strict
        self.file = report.source
        self.headings: dict[str, str] = {}
        self._progress = progress

    def row(self, count: int = 1) -> None:
        """One more row was read, or ``count``."""
        told = self.report.rows // PROGRESS_ROWS
        self.report.rows += count
        if self._progress is not None and self.report.rows // PROGRESS_ROWS > told:
            self._progress(self.report.rows // PROGRESS_ROWS * PROGRESS_ROWS)

    def would_tell(self, reason: str) -> bool:
        """Whether the next row with this reason would be an example of it, or stop."""
        return len(self.report.examples.get(reason, ())) < EXAMPLES

    def place(self, line: int, column: str = "", record: str = "") -> str:
        """``a.txt line 8, column ReqTRES``, or ``a.json line 1, item 31 (team/train), field end``."""
        said = f"{self.file} line {line}" + (f", {record}" if record else "")
        kind = "field" if record else "column"
        return said + (f", {kind} {self.headings.get(column, column)}" if column else "")

    def broken(self, bad: Broken, line: int) -> None:
        """Drop a broken row; raises `Problem` where strict."""
        self._count(bad, line, self.report.dropped, "such rows are dropped")

    def mended(self, bad: Broken, line: int) -> None:
        """Count a broken value that was mended; raises `Problem` where strict."""
        self._count(bad, line, self.report.repaired, "such values are repaired")

    def _count(self, bad: Broken, line: int, counts: Counter[str], otherwise: str) -> None:
        if self.strict:
            raise Problem(
                f"{self._described(bad, line)} ({bad.reason})",
                mend=f"--strict stops here; without it {otherwise} and counted",
            )
        counts[bad.reason] += 1
        self._example(bad, line)

    def unfit(self, unfit: Unfit, line: int) -> None:
        """Drop a sound row that is no job for us."""
        self.report.dropped[unfit.reason] += 1
        self._example(unfit, line)

    def assumed(self, reason: str, line: int, column: str = "", value: object = "") -> None:
        """Count a row that needed an assumption the file does not bear out; never an error."""
        self.report.repaired[reason] += 1
        self._example(Broken(reason, column, value), line)

    def odd(self, reason: str, line: int, column: str = "", value: object = "") -> None:
        """Count a row that is kept as it is, though it can hardly be true; never an error."""
        self.report.odd[reason] += 1
        self._example(Broken(reason, column, value), line)

    def taken(self, reason: str, line: int, column: str = "", value: object = "") -> None:
        """Note how a whole column is taken, with an example; rows are not counted."""
        self.report.assumed.append(reason)
        self._example(Broken(reason, column, value), line)

    def _described(self, bad: Broken | Unfit, line: int) -> str:
        place = self.place(line, bad.column, bad.record)
        if not bad.value and not bad.column:
            return place
        value = bad.value if len(bad.value) <= _SHOWN else bad.value[: _SHOWN - 3] + "..."
        return f"{place}: {value!r}"

    def _example(self, bad: Broken | Unfit, line: int) -> None:
        known = self.report.examples.setdefault(bad.reason, [])
        if len(known) < EXAMPLES:
            known.append(self._described(bad, line))


class Record(Protocol):
    """The source of a job: a row, an object, a group of rows; ``line`` is its place."""

    @property
    def line(self) -> int:
        """Line of the file, from 1."""
        ...


AnyRecord = TypeVar("AnyRecord", bound=Record)


def each_job(
    records: Iterable[AnyRecord],
    make: Callable[[AnyRecord], Job],
    ledger: Ledger,
    state_of: Callable[[AnyRecord], str] = lambda record: "",
) -> Iterator[Job]:
    """The jobs ``make`` finds in ``records``; the others, and repeated ids, go to the ledger.

    state_of: the state of a record's job, "" for none; those of the jobs are counted.
    """
    seen: set[str] = set()
    for record in records:
        try:
            job = make(record)
            if not hasattr(job, "spec"):
                raise Problem(
                    f"the trace's format gave {type(job).__name__} for line {record.line}",
                    mend="let its job return rigid_job(spec, seconds)",
                )
            if job.spec.id in seen:
                raise Broken("duplicate id", "id", job.spec.id)
        except Broken as bad:
            ledger.broken(bad, record.line)
        except Unfit as unfit:
            ledger.unfit(unfit, record.line)
        except Problem:
            raise
        except Exception as error:
            if mistake := mistake_in("the trace's format", error, f"it read line {record.line}"):
                raise mistake from error
            raise
        else:
            seen.add(job.spec.id)
            ledger.report.kept += 1
            if state := state_of(record):
                ledger.report.states[state] += 1
            yield job
