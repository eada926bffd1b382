"""Rows of a server's answer: a table for people, what the server said for programs."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from volvelle.cli.options import Form

WATCH_SECONDS = 2.0

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
        print(_table(rows, heads))


def watch_rows(read: Callable[[], Sequence[Row]], heads: Sequence[Head], empty: str) -> None:
    """Show rows, and again whenever some time has passed, until Ctrl-C."""
    from rich.live import Live
    from rich.text import Text

    from volvelle.cli.output import console

    with Live(console=console(), auto_refresh=False, screen=sys.stdout.isatty()) as live:
        while True:
            rows = read()
            live.update(Text(_table(rows, heads) if rows else empty), refresh=True)
            time.sleep(WATCH_SECONDS)


def _table(rows: Iterable[Row], heads: Sequence[Head]) -> str:
    """Aligned columns; made by hand, as a queue may have thousands of rows."""
    cells = [[head.title for head in heads], *([head.cell(row) for head in heads] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if head.right else cell.ljust(width)
            for cell, width, head in zip(line, widths, heads, strict=True)
        ).rstrip()
        for line in cells
    )


def _plain(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value
