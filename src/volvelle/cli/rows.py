"""Rows of a server's answer: a table for people, what the server said for programs."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from volvelle.cli.options import Form

WATCH_SECONDS = 2.0

_GAP = "  "
_WIDEST = 24
"""Characters of a cell on a terminal, but for the last column."""

Row = dict[str, Any]


class Head(NamedTuple):
    """A column: its title, what stands in a row, and whether it is a number."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False


def show_rows(
    rows: Sequence[Row], heads: Sequence[Head], keys: Sequence[str], form: Form, empty: str
) -> None:
    """Print rows in the form asked for. ``keys``: the columns of CSV; ``empty``: said of no rows."""
    if form is Form.JSON:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif form is Form.CSV:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(keys)
        writer.writerows([_plain(row.get(key)) for key in keys] for row in rows)
    elif not rows:
        print(empty)
    else:
        print(table(rows, heads, _terminal()))


def warn(problems: Iterable[str]) -> None:
    """Print problems of a server, beside its answer."""
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)


def watch_rows(
    read: Callable[[], list[Row]], heads: Callable[[list[Row]], Sequence[Head]], empty: str
) -> None:
    """Show rows, and again whenever some time has passed, until Ctrl-C."""
    from rich.live import Live
    from rich.text import Text

    from volvelle.cli.output import console

    with Live(console=console(), auto_refresh=False, screen=sys.stdout.isatty()) as live:
        while True:
            rows = read()
            live.update(
                Text(table(rows, heads(rows), _terminal()) if rows else empty), refresh=True
            )
            time.sleep(WATCH_SECONDS)


def table(rows: Iterable[Row], heads: Sequence[Head], width: int | None = None) -> str:
    """Aligned columns; made by hand, as a queue may have thousands of rows.

    width: of the terminal, over which no line goes. Where that is too narrow the last column, which may be
    long, stands on a line of its own under each row.
    """
    rows = list(rows)
    columns = [[head.title, *map(head.cell, rows)] for head in heads]
    if width is not None:
        cut = ([_cut(cell, _WIDEST) for cell in column] for column in columns[:-1])
        columns = [*cut, columns[-1]]
    widths = [max(map(len, column)) for column in columns]
    forms = [
        f"%{'' if head.right else '-'}{wide}s" for head, wide in zip(heads, widths, strict=True)
    ]
    if width is None or sum(widths) + len(_GAP) * (len(heads) - 1) <= width:
        return "\n".join(map(str.rstrip, map(_GAP.join(forms).__mod__, zip(*columns, strict=True))))
    upper, under = _GAP.join(forms[:-1]), " " * (widths[0] + len(_GAP))
    narrow = (
        said
        for line in zip(*columns, strict=True)
        for said in (upper % line[:-1], f"{under}{line[-1].strip()}")
        if said.strip()
    )
    return "\n".join(_cut(said.rstrip(), width) for said in narrow)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _terminal() -> int | None:
    """Columns of the terminal; None where what is printed goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _plain(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value
