"""Tables: headers with units, cells, and which cells are the best of their column.

One `Table` is shown in four ways: `to_text` for the terminal, `to_json` and `to_csv` for other
programs (raw numbers, times in seconds, shares in percent), `to_html` for the page. For people,
durations have two units (``4h 12m``) and other numbers three significant digits.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal, NamedTuple

from volvelle.metrics.catalogue import Objective, read_objective
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.metrics.per_job import has_status
from volvelle.metrics.summary import figure
from volvelle.model.units import HOUR, format_duration
from volvelle.report.text import Styled, aligned

Better = Literal["lower", "higher", "neither"]


class Amount(NamedTuple):
    """A number with a unit of its own, for tables whose rows differ in it."""

    value: float
    unit: str


class Spread(NamedTuple):
    """The mean of several numbers and how far they lie apart, in the unit of the column."""

    mean: float
    deviation: float


Cell = str | float | int | Amount | Spread | None

_GAP, _EDGE = 2, 1  # blanks between the columns of a table on the terminal, and at its sides
_HEADER_UNITS = {"s": "", "%": "", "1": "", "GPU s": "GPU h"}


@dataclass(frozen=True)
class Column:
    """A column: ``key`` names it for programs, ``title`` for people.

    Units are those of `volvelle.metrics.catalogue.Metric`; text has none.
    """

    key: str
    title: str
    unit: str = ""
    better: Better = "neither"
    description: str = ""

    @property
    def heading(self) -> str:
        """The title, with the unit where the cells do not show it."""
        unit = _HEADER_UNITS.get(self.unit, self.unit)
        return f"{self.title} ({unit})" if unit else self.title


_SAME = 0.005
"""Share by which figures differ at most that are as good as each other."""
BEST = f"the best of its column, or within {100.0 * _SAME:g} % of it"
"""A cell that a star marks (`Table.best`), in words."""
_PAGE = 120
"""Characters of a line where no terminal says how many fit."""


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of cells under columns; a missing or NaN number is shown as ``-``.

    baseline: the row against which the page holds the figures of the others (None: there is none).
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    baseline: int | None = None

    def __repr__(self) -> str:
        return to_text(self, width=_PAGE)

    def text(self, row: int, column: int) -> str:
        """The cell as a person reads it."""
        return format_cell(self.rows[row][column], self.columns[column].unit)

    def best(self) -> frozenset[tuple[int, int]]:
        """(row, column) of the best cells; cells that are as good (`same`) are best too.

        A column in which all cells are as good as each other has no best one.
        """
        return frozenset(
            (row, at)
            for at, column in enumerate(self.columns)
            if column.better != "neither"
            for row in self._best_rows(at, column.better)
        )

    def _best_rows(self, column: int, better: Better) -> list[int]:
        numbers = [(_number(row[column]), at) for at, row in enumerate(self.rows)]
        known = [(number, at) for number, at in numbers if not math.isnan(number)]
        if not known:
            return []
        most, _ = min(known) if better == "lower" else max(known)
        found = [at for number, at in known if same(number, most)]
        return found if len(found) < len(known) else []

    def against(self, name: str) -> "Table":
        """The table with the row called ``name`` as its baseline, if there is one."""
        rows = [at for at, row in enumerate(self.rows) if row[0] == name]
        return replace(self, baseline=rows[0] if rows else None)

    def delta(self, row: int, column: int) -> float:
        """How a figure differs from the baseline's, in percent of that; of shares, in points.

        NaN where there is nothing to hold against each other.
        """
        if self.baseline in (None, row) or self.columns[column].better == "neither":
            return math.nan
        assert self.baseline is not None
        figure, before = (_number(self.rows[at][column]) for at in (row, self.baseline))
        if self.columns[column].unit == "%":
            return figure - before
        return 100.0 * (figure / before - 1.0) if before else math.nan

    def delta_text(self, row: int, column: int) -> str:
        """The delta for people, as in ``-79 %`` or ``+3.2 pt``; empty where there is none."""
        delta = self.delta(row, column)
        if not math.isfinite(delta):
            return ""
        unit = "pt" if self.columns[column].unit == "%" else "%"
        size = round(abs(delta), 0 if abs(delta) >= 9.95 else 1)
        return f"{'' if not size else '-' if delta < 0 else '+'}{size:,.{0 if size >= 10 else 1}f} {unit}"

    def _repr_html_(self) -> str:
        return to_html(self)

    def without_empty_columns(self) -> "Table":
        """The table without the columns in which there is nothing to read."""
        kept = [
            at
            for at in range(len(self.columns))
            if any(self.text(row, at) not in ("", "-") for row in range(len(self.rows)))
        ]
        rows = tuple(tuple(row[at] for at in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[at] for at in kept), rows=rows)


def comparison(runs: Mapping[str, Outcomes], columns: Sequence[str], title: str = "") -> Table:
    """One row for each run, one column for each measure, written as in ``jct:p99``.

    Where a run left jobs unfinished, a column says how many each finished: times are of those only.

    Raises `Problem` for a measure that does not exist.
    """
    objectives = [read_objective(text) for text in columns]
    heads = [measure_column(objective) for objective in objectives]
    rows: list[tuple[Cell, ...]] = [
        (name, finished_jobs(outcomes), *(figure(outcomes, objective) for objective in objectives))
        for name, outcomes in runs.items()
    ]
    if all(finished_jobs(outcomes) == outcomes.tracked.sum() for outcomes in runs.values()):
        rows = [(name, *figures) for name, _, *figures in rows]
    else:
        heads.insert(0, Column("finished", "jobs finished"))
    return Table(title, (Column("run", "policy"), *heads), tuple(rows))


def measure_column(objective: Objective) -> Column:
    """The column of a measure, without its values."""
    metric = objective.metric
    title = _measured(metric.title, metric.unit, objective.measure)
    return Column(str(objective), title, metric.unit, metric.better, metric.description)


def finished_jobs(outcomes: Outcomes) -> int:
    """How many of the tracked jobs finished."""
    return int(has_status(outcomes, JobStatus.FINISHED)[outcomes.tracked].sum())


def _measured(title: str, unit: str, measure: str) -> str:
    plain = not measure or (measure == "mean" and unit == "%")
    return title if plain else f"{measure} {title}"


def same(a: float, b: float) -> bool:
    """Whether two figures are as good as each other: they differ by at most half a percent."""
    return abs(a - b) <= _SAME * max(abs(a), abs(b))


def format_cell(cell: Cell, unit: str = "") -> str:
    """A cell for people."""
    if isinstance(cell, Amount):
        return _with_unit(cell.value, cell.unit)
    if isinstance(cell, Spread):
        return f"{format_cell(cell.mean, unit)} \u00b1 {format_cell(cell.deviation, unit)}"
    if cell is None:
        return "-"
    return cell if isinstance(cell, str) else _plain(cell, unit)


def _plain(number: float, unit: str) -> str:
    """A number in the unit of its column."""
    if unit == "s":
        return format_duration(float(number))
    if unit == "%":
        return _with_unit(number, unit)
    return format_number(number / HOUR if unit == "GPU s" else number)


def _with_unit(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return format_number(value)
    if unit == "s":
        return format_duration(value)
    if unit == "GPU s":
        return f"{format_number(value / HOUR)} GPU h"
    return format_number(value) if unit in ("", "1") else f"{format_number(value)} {unit}"


def format_number(value: float) -> str:
    """Three significant digits, all digits before the point, thousands apart."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int) or abs(value) >= 99.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else "<0.001" if value > 0 else "~0"


def to_text(table: Table, *, width: int, colored: bool = False) -> str:
    """The table for the terminal; the best of each column is between stars.

    Differences from the baseline's figures stand beside them, if they fit into ``width``.
    """
    heads = [column.heading for column in table.columns]
    rows = _starred(table)
    with_deltas = _beside(rows, table) if has_room_for_deltas(table, width) else rows
    best = table.best()
    lines = aligned(
        heads,
        [
            [[Styled(text, "best" if (row, at) in best else "")] for at, text in enumerate(texts)]
            for row, texts in enumerate(with_deltas)
        ],
        right=[_is_right(table, at) for at in range(len(heads))],
        width=width,
        gap=_GAP,
        edge=_EDGE,
        colored=colored,
        title=table.title,
    )
    return "\n".join(lines)


def _starred(table: Table) -> list[list[str]]:
    best = table.best()
    columns = range(len(table.columns))
    return [
        [
            f"*{text}*" if (row, at) in best else text
            for at in columns
            for text in [table.text(row, at)]
        ]
        for row in range(len(table.rows))
    ]


def _beside(rows: list[list[str]], table: Table) -> list[list[str]]:
    """The texts with their deltas, each column's of one width, so that its figures stay aligned."""
    columns = []
    for at, texts in enumerate(zip(*rows, strict=True)):
        deltas = [table.delta_text(row, at) for row in range(len(rows))]
        widest = max(map(len, deltas))
        columns.append(
            [f"{t} {d:>{widest}}" if widest else t for t, d in zip(texts, deltas, strict=True)]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def has_room_for_deltas(table: Table, width: int) -> bool:
    """Whether differences from the baseline's figures fit beside them into ``width``."""
    heads = [column.heading for column in table.columns]
    rows = _beside(_starred(table), table)
    widest = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return sum(widest) + _GAP * (len(heads) - 1) + 2 * _EDGE <= width


def to_json(table: Table) -> str:
    """Columns with units, rows as objects with raw numbers, and the rows that are best."""
    keys = [column.key for column in table.columns]
    best: dict[str, list[int]] = {}
    for row, at in sorted(table.best()):
        best.setdefault(keys[at], []).append(row)
    document = {
        "title": table.title,
        "columns": [
            {"key": c.key, "title": c.title, "unit": c.unit, "better": c.better}
            for c in table.columns
        ],
        "rows": [
            {key: _raw(cell) for key, cell in zip(keys, row, strict=True)} for row in table.rows
        ],
        "best": best,
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def to_csv(table: Table) -> str:
    """A header of keys with their units, then raw numbers; what is unknown is empty."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(
        f"{c.key} [{c.unit}]" if c.unit not in ("", "1") else c.key for c in table.columns
    )
    writer.writerows([_raw(cell) for cell in row] for row in table.rows)
    return written.getvalue()


def as_columns(table: Table) -> dict[str, list[str | float | None]]:
    """Raw cells by the keys of their columns."""
    return {
        column.key: [_raw(row[at]) for row in table.rows] for at, column in enumerate(table.columns)
    }


def to_html(table: Table) -> str:
    """The table for the page, sortable by its headers."""
    best = table.best()
    heads = "".join(
        f'<th scope="col"{_side(table, at)} title="{escape(c.description)}">'
        f"{escape(c.heading)}</th>"
        for at, c in enumerate(table.columns)
    )
    body = "".join(
        "<tr>"
        + "".join(_html_cell(table, row, at, (row, at) in best) for at in range(len(table.columns)))
        + "</tr>"
        for row in range(len(table.rows))
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="table"><table class="sortable"><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>{note}"
    )


def _html_cell(table: Table, row: int, at: int, best: bool) -> str:
    text = escape(table.text(row, at))
    if at == 0:
        return f'<th scope="row">{text}</th>'
    value = _number(table.rows[row][at])
    sort_key = "" if math.isnan(value) else f' data-value="{value:.10g}"'
    if best:
        return (
            f'<td class="number best"{sort_key}><span class="star" role="img" '
            f'aria-label="best" title="{BEST}">★</span>{text}{_delta(table, row, at)}</td>'
        )
    return f"<td{_side(table, at)}{sort_key}>{text}{_delta(table, row, at)}</td>"


def _delta(table: Table, row: int, at: int) -> str:
    """The difference of a cell from the baseline's, small beside it."""
    text = table.delta_text(row, at).replace("-", "\u2212")
    return f' <span class="delta">{text}</span>' if text else ""


def _side(table: Table, column: int) -> str:
    return f' class="{"number" if _is_right(table, column) else "words"}"'


def _is_right(table: Table, column: int) -> bool:
    if table.columns[column].unit:
        return True
    return not any(isinstance(row[column], str) for row in table.rows)


def _number(cell: Cell) -> float:
    if isinstance(cell, Amount):
        return cell.value
    if isinstance(cell, Spread):
        return cell.mean
    return float("nan") if cell is None or isinstance(cell, str) else float(cell)


def _raw(cell: Cell) -> str | float | None:
    if isinstance(cell, str) or cell is None:
        return cell
    number = _number(cell) if isinstance(cell, (Amount, Spread)) else cell
    return number if math.isfinite(number) else None
