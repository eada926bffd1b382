"""Many rows of a table as columns, each read and checked at once.

A fault of a row is noted under its line. Of several faults the first that is met counts, as if the row
had been read alone; other values of such a row are without meaning.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import Any, TypeVar

from volvelle.model.job import Job
from volvelle.model.units import HOUR
from volvelle.workload.readers.ledger import Broken, Ledger, Unfit
from volvelle.workload.readers.rows import (
    ABSENT,
    MOST,
    MOST_GPUS,
    MOST_SECONDS,
    ColumnNames,
    known_timestamp,
    names_zone,
    read_duration,
    read_number,
    read_numbers,
    read_timestamp,
)

Made = TypeVar("Made")
Value = TypeVar("Value")

_CLOCKS_SET_BACK = ", by an hour at most (clocks set back? --map end_time=COLUMN:Europe/Berlin)"


class Columns:
    """Rows with as many cells as the header, in ``lines`` of the file; ``wrong`` says of which and why."""

    __slots__ = ("_as_written", "_cells", "header", "lines", "wrong")

    def __init__(
        self,
        header: ColumnNames,
        lines: Sequence[int],
        cells: Sequence[Sequence[str]],
        wrong: dict[int, Broken | Unfit],
        as_written: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self.header = header
        self.lines = lines
        self.wrong = wrong
        self._cells = cells
        self._as_written = cells if as_written is None else as_written

    @classmethod
    def of_rows(cls, header: ColumnNames, rows: Sequence[tuple[int, Sequence[str]]]) -> "Columns":
        """The columns of ``rows``: lines and cells."""
        cells = list(zip(*(cells for _, cells in rows), strict=True))
        return cls(header, [line for line, _ in rows], cells or [()] * header.width, {})

    def __len__(self) -> int:
        return len(self.lines)

    def under(
        self, header: ColumnNames, more: Iterable[tuple[int, Callable[[str], str]]]
    ) -> "Columns":
        """The same rows under another header, with a column for each of ``more``.

        That is made of the cells of the column at a position.
        """
        made = [[make(cell) for cell in self._cells[at]] for at, make in more]
        return Columns(header, self.lines, [*self._cells, *made], self.wrong, self._as_written)

    def with_made(self, column: str, makes: Mapping[str, Callable[[str], str]]) -> "Columns":
        """The same rows with columns of these names, made of the cells of one."""
        cells = self._column(column)
        return self.with_columns({name: [*map(make, cells)] for name, make in makes.items()})

    def with_columns(self, more: Mapping[str, Sequence[str]]) -> "Columns":
        """The same rows with columns of these names and cells, instead of any of the same name."""
        header = ColumnNames(self.header.names, self.header.file)
        header.index |= self.header.index
        header.index |= {name: len(self._cells) + at for at, name in enumerate(more)}
        cells = [*self._cells, *more.values()]
        return Columns(header, self.lines, cells, self.wrong, self._as_written)

    def remade(self, make: Callable[[str], str]) -> "Columns":
        """The same rows with ``make`` of every cell."""
        cells = [[*map(make, one)] for one in self._cells]
        return Columns(self.header, self.lines, cells, self.wrong, self._as_written)

    def written(self, line: int, name: str) -> str:
        """The cell of the file's column ``name``, as it stands there; "" where there is none."""
        at = ColumnNames(self.header.names, "").index.get(name)
        return "" if at is None else self._as_written[at][self.lines.index(line)].strip()

    def part(self, rows: Sequence[int]) -> "Columns":
        """Some of the rows, by their place here."""
        if len(rows) == len(self):
            return self
        return _Part(self, rows)

    def note(self, row: int, what: Broken | Unfit) -> None:
        """This is wrong with a row, unless something was before."""
        self.wrong.setdefault(self.lines[row], what)

    def texts(self, column: str) -> list[str]:
        """The cells without surrounding blanks; empty where the table lacks the column."""
        return [cell.strip() for cell in self._column(column)]

    def labels(self, column: str) -> list[str]:
        """The cells as few names, each held once however many jobs bear it."""
        return self.each(column, sys.intern, "")

    def absent(self, column: str) -> list[bool]:
        """Whether each cell says that there is no value."""
        return self.each(column, lambda text: text.lower() in ABSENT, True)

    def required(self, column: str) -> list[str]:
        """The cells, which must not be empty."""
        texts = self.texts(column)
        if not all(texts):
            for row, text in enumerate(texts):
                if not text:
                    self.note(row, Broken(f"missing {column}", column))
        return texts

    def each(self, column: str, read: Callable[[str], Value], instead: Value) -> list[Value]:
        """Results of ``read`` for each cell; it is called once for each different text.

        ``instead`` stands where it raises `Broken` or `Unfit`, which is noted.
        """
        return self._made(self._column(column), lambda cell: read(cell.strip()), instead)

    def optional(self, column: str, read: Callable[[str], Value], absent: Value) -> list[Value]:
        """Results of ``read`` for each cell, ``absent`` for a cell without a value."""
        if column not in self.header:
            return [absent] * len(self)
        return self.each(
            column, lambda text: absent if text.lower() in ABSENT else read(text), absent
        )

    def optional_numbers(self, column: str) -> list[float | None]:
        """The cells as numbers from 0 on; None where they are absent."""

        def read(cell: str) -> float | None:
            absent = cell.strip().lower() in ABSENT
            return None if absent else read_number(cell, column, most=MOST)

        return self._made(self._column(column), read, None)

    def numbers(self, column: str, default: float | None = None, most: float = MOST) -> list[float]:
        """The cells as numbers from 0 to ``most``; ``default`` where they are absent."""
        if default is not None and column not in self.header:
            return [default] * len(self)
        return self._floats(column, lambda cell: read_number(cell, column, default, most), most)

    def gpus(self, column: str) -> list[float]:
        """The cells as numbers of GPUs, whole or not."""
        return self.numbers(column, most=MOST_GPUS)

    def seconds(self, column: str, unit: float = 1.0) -> list[float]:
        """The cells, counted in ``unit`` seconds, as seconds."""
        return [number * unit for number in self.numbers(column, most=MOST_SECONDS / unit)]

    def durations(self, column: str) -> list[float]:
        """The cells as durations in any form `parse_duration` reads."""
        return self._floats(column, lambda cell: read_duration(cell.strip(), column), MOST_SECONDS)

    def timestamps(self, column: str) -> list[float]:
        """The cells as points in time, numbers of seconds or ISO times."""
        return self._floats(column, lambda cell: read_timestamp(cell.strip(), column), MOST_SECONDS)

    def known_timestamps(self, column: str) -> list[float | None]:
        """The cells as points in time; None where there is none that can be read."""
        if column not in self.header:
            return [None] * len(self)
        return self._made(self._column(column), lambda cell: known_timestamp(cell.strip()), None)

    def seconds_lists(self, column: str, separator: str, unit: float) -> list[tuple[float, ...]]:
        """The cells as times joined by ``separator`` and counted in ``unit`` seconds, as seconds."""
        texts = self.texts(column)
        try:
            numbers = list(map(float, separator.join(texts).split(separator)))
            one_by_one = iter([number * unit for number in numbers])
            if _within(numbers, MOST_SECONDS):
                return [tuple(islice(one_by_one, text.count(separator) + 1)) for text in texts]
        except ValueError:
            pass

        def read(text: str) -> tuple[float, ...]:
            numbers = read_numbers(text, column, separator, MOST_SECONDS)
            return tuple(number * unit for number in numbers)

        return self.each(column, read, ())

    def spans(self, start: str, end: str) -> list[float]:
        """Seconds from the times in column ``start`` to those in ``end``, which are not before them."""
        started, ended = self.timestamps(start), self.timestamps(end)
        for row, (earlier, later) in enumerate(zip(started, ended, strict=True)):
            if later < earlier:
                text = self._column(end)[row].strip()
                back = ":" in text and not names_zone(text) and earlier - later <= HOUR
                reason = f"ends before it starts{_CLOCKS_SET_BACK if back else ''}"
                self.note(row, Broken(reason, end, text))
        return [later - earlier for earlier, later in zip(started, ended, strict=True)]

    def _column(self, column: str) -> Sequence[str]:
        position = self.header.index.get(column)
        return [""] * len(self) if position is None else self._cells[position]

    def _floats(self, column: str, read: Callable[[str], float], most: float) -> list[float]:
        """Plain numbers from 0 to ``most`` all at once; where one is not, each by ``read``."""
        cells = self._column(column)
        try:
            numbers = list(map(float, cells))
        except ValueError:
            return self._made(cells, read, 0.0)
        return numbers if _within(numbers, most) else self._made(cells, read, 0.0)

    def _made(
        self, cells: Sequence[str], read: Callable[[str], Value], instead: Value
    ) -> list[Value]:
        """Results of ``read`` for each different cell, ``instead`` where that is noted as wrong."""
        made: dict[str, Value] = {}
        wrong: dict[str, Broken | Unfit] = {}
        for cell in set(cells):
            try:
                made[cell] = read(cell)
            except (Broken, Unfit) as what:
                made[cell], wrong[cell] = instead, what
        if wrong:
            for row, cell in enumerate(cells):
                if cell in wrong:
                    self.note(row, wrong[cell])
        return [made[cell] for cell in cells]


def _within(numbers: Sequence[float], most: float) -> bool:
    """Whether all are from 0 to ``most``, and none is NaN."""
    if not numbers:
        return True
    return min(numbers) >= 0.0 and max(numbers) <= most and not math.isnan(sum(numbers))


class _Part(Columns):
    """Some rows of others; their cells are looked up when a column is asked for."""

    __slots__ = ("_rows", "_whole")

    def __init__(self, whole: Columns, rows: Sequence[int]) -> None:
        super().__init__(whole.header, [whole.lines[row] for row in rows], (), whole.wrong)
        self._whole = whole
        self._rows = rows

    def _column(self, column: str) -> Sequence[str]:
        cells = self._whole._column(column)
        return [cells[row] for row in self._rows]


def rows_of(struct: Callable[..., Made], **fields: Sequence[Any]) -> list[Made]:
    """A ``struct`` for each row, of columns with the values of its fields."""
    names = tuple(fields)
    return [
        struct(**dict(zip(names, row, strict=True))) for row in zip(*fields.values(), strict=True)
    ]


def jobs_of(
    blocks: Iterable[Columns],
    make: Callable[[Columns], Sequence[Job | None]],
    ledger: Ledger,
    states_of: Callable[[Columns], Sequence[str]],
) -> Iterator[Job]:
    """The jobs ``make`` finds, one in each row; wrong rows, and repeated ids, go to the ledger.

    states_of: the state of each row's job, "" for none; those of the jobs are counted.
    """
    seen: set[str] = set()
    counts = ledger.report.states
    for block in blocks:
        made = make(block)
        states = states_of(block)
        if not block.wrong:
            sound = [job for job in made if job is not None]
            names = {job.spec.id for job in sound}
            if len(names) == len(sound) and seen.isdisjoint(names):
                seen |= names
                ledger.report.kept += len(sound)
                counts.update(compress(states, made))
                yield from sound
                continue
        jobs = dict(zip(block.lines, made, strict=True))
        state_at = dict(zip(block.lines, states, strict=True))
        for line in sorted(jobs.keys() | block.wrong.keys()):
            what = block.wrong.get(line)
            job = jobs.get(line)
            if what is not None and (name := ledger.headings.get(what.column)):
                what.value = block.written(line, name) or what.value
            if what is None and job is not None and job.spec.id in seen:
                what = Broken("duplicate id", "id", job.spec.id)
            if isinstance(what, Broken):
                ledger.broken(what, line)
            elif what is not None:
                ledger.unfit(what, line)
            elif job is not None:
                seen.add(job.spec.id)
                ledger.report.kept += 1
                counts[state_at[line]] += 1
                yield job
