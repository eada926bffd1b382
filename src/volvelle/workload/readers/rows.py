"""Rows of a table and the values in them: checked when they are asked for, by the column's name."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from volvelle.model.problems import Problem, nearest
from volvelle.model.units import parse_duration
from volvelle.workload.readers.ledger import Broken

MOST_SECONDS = 1e11
"""Three thousand years: a time beyond it is a mistake, whatever the epoch."""

MOST_GPUS = 1e6
"""More GPUs than any one job has had."""

MOST = 1e15
"""The bound of every other number."""

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)

ABSENT = frozenset(("", "none", "null", "nan", "na", "n/a", "unknown", "-"))
"""How traces write that there is no value, in lower case."""


def parse_timestamp(text: str) -> float:
    """Seconds in ``text``: a number, or an ISO date and time (UTC where no zone is given).

    Raises ValueError.
    """
    try:
        return float(text)
    except ValueError:
        return epoch_seconds(datetime.fromisoformat(text))


def names_zone(text: str) -> bool:
    """Whether an ISO time names its zone."""
    return text[-1:] in "Zz" or "+" in text or "-" in text[10:]


def epoch_seconds(moment: datetime) -> float:
    """Seconds since 1970 (UTC where no zone is given)."""
    since = moment - (_EPOCH if moment.tzinfo is None else _EPOCH_UTC)
    return since.total_seconds()


class ColumnNames:
    """The column names of a table, looked up without regard to case."""

    __slots__ = ("file", "index", "names", "width")

    def __init__(self, names: Sequence[str], file: str) -> None:
        self.file = file
        self.names = tuple(names)
        self.width = len(self.names)
        self.index: dict[str, int] = {}
        for position, name in enumerate(self.names):
            self.index[name] = position
            self.index.setdefault(name.lower(), position)

    def __contains__(self, column: str) -> bool:
        return column in self.index

    def require(self, columns: Sequence[str]) -> None:
        """Raise `Problem` naming the first of ``columns`` that is missing, and the nearest."""
        for column in columns:
            if column not in self.index:
                raise Problem(
                    f"{self.file} line 1: there is no column {column!r}"
                    f"{nearest(column, self.names)}; the columns are {', '.join(self.names)}"
                )
        self.refuse_twice(columns)

    def refuse_twice(self, columns: Iterable[str]) -> None:
        """Raise `Problem` naming the first of ``columns`` that several columns are called."""
        for column in columns:
            at = self.index.get(column)
            if at is not None and self.names.count(name := self.names[at]) > 1:
                raise Problem(
                    f"{self.file} line 1: {self.names.count(name)} columns are called {name!r}",
                    mend="rename all but the one that counts",
                )


class Row:
    """One row: its cells by column name, and where it stands."""

    __slots__ = ("cells", "header", "line")

    def __init__(self, header: ColumnNames, cells: Sequence[str], line: int) -> None:
        self.header = header
        self.cells = cells
        self.line = line

    @classmethod
    def of(cls, values: Mapping[str, object], line: int) -> "Row":
        """A row that is no table's, such as a JSON object: ``values`` by name; None is absent."""
        cells = ["" if value is None else str(value) for value in values.values()]
        return cls(ColumnNames([*values], ""), cells, line)

    def text(self, column: str, default: str = "") -> str:
        """The cell without surrounding blanks; ``default`` where the table lacks the column."""
        position = self.header.index.get(column)
        return default if position is None else self.cells[position].strip()

    def label(self, column: str) -> str:
        """The cell as one of few names, held once however many jobs bear it."""
        return sys.intern(self.text(column))

    def absent(self, column: str) -> bool:
        """Whether the table lacks the column or the cell says that there is no value."""
        return self.text(column).lower() in ABSENT

    def number(self, column: str, default: float | None = None, most: float = MOST) -> float:
        """The cell as a number from 0 to ``most``; ``default`` where it is absent.

        Raises `Broken`.
        """
        position = self.header.index.get(column)
        return read_number("" if position is None else self.cells[position], column, default, most)

    def gpus(self, column: str) -> float:
        """The cell as a number of GPUs, whole or not. Raises `Broken`."""
        return self.number(column, most=MOST_GPUS)

    def seconds(self, column: str, unit: float = 1.0) -> float:
        """The cell, counted in ``unit`` seconds, as seconds. Raises `Broken`."""
        return self.number(column, most=MOST_SECONDS / unit) * unit

    def duration(self, column: str) -> float:
        """The cell as a duration in any form `parse_duration` reads. Raises `Broken`."""
        return read_duration(self.text(column), column)

    def timestamp(self, column: str) -> float:
        """The cell as a point in time, a number of seconds or an ISO time. Raises `Broken`."""
        return read_timestamp(self.text(column), column)


def read_number(text: str, column: str, default: float | None = None, most: float = MOST) -> float:
    """A cell as a number from 0 to ``most``; ``default`` where it is absent. Raises `Broken`."""
    try:
        return in_range(float(text), column, text, most)
    except ValueError:
        if text.strip().lower() not in ABSENT:
            raise Broken(f"unreadable {column}", column, text) from None
    if default is None:
        raise Broken(f"missing {column}", column, text)
    return default


def read_numbers(text: str, column: str, separator: str, most: float = MOST) -> tuple[float, ...]:
    """A cell as numbers from 0 to ``most``, joined by ``separator``. Raises `Broken`."""
    try:
        return tuple(in_range(float(part), column, text, most) for part in text.split(separator))
    except ValueError:
        raise Broken(f"unreadable {column}", column, text) from None


def read_duration(text: str, column: str) -> float:
    """A cell as a duration in any form `parse_duration` reads. Raises `Broken`."""
    return _read_seconds(text, column, parse_duration)


def read_timestamp(text: str, column: str) -> float:
    """A cell as a point in time, a number of seconds or an ISO time. Raises `Broken`."""
    return _read_seconds(text, column, parse_timestamp)


def known_timestamp(text: str) -> float | None:
    """A cell as a point in time; None where there is none that can be read."""
    try:
        return read_timestamp(text, "")
    except Broken:
        return None


def _read_seconds(text: str, column: str, parse: Callable[[str], float]) -> float:
    if text.lower() in ABSENT:
        raise Broken(f"missing {column}", column, text)
    try:
        return in_range(parse(text), column, text, MOST_SECONDS)
    except (ValueError, OverflowError):
        raise Broken(f"unreadable {column}", column, text) from None


def in_range(value: float, column: str, text: str, most: float) -> float:
    """``value`` where it is from 0 to ``most``. Raises `Broken`, ValueError for NaN."""
    if 0.0 <= value <= most:
        return value
    if math.isnan(value):
        raise ValueError(text)
    kind = "negative" if value < 0 else "impossibly large"
    raise Broken(f"{kind} {column}", column, text)
