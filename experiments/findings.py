"""The page of an experiment: what a paper says beside what is seen, tables, pictures, a CSV of all runs.

What all experiments share. A page is ``results/NAME.md`` beside the experiment, its runs ``NAME.csv``.
"""

import argparse
import csv
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from volvelle.report.charts import Drawing, write_png
from volvelle.studies.inputs import VARIABLE

SHARED = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / "shared")
"""Artifacts' files and reference results: ``data`` and ``golden`` (``volvelle reproduce --data``)."""


def command_line(
    doc: str | None, results: Path, options: Mapping[str, tuple[str | float, str]]
) -> argparse.Namespace:
    """What the command line says of ``options``: defaults, of which each has the type, and what they are.

    There is ``out`` as well, by default ``results``.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, (default, meaning) in options.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=meaning)
    parser.add_argument("--out", type=Path, default=results, help="folder of the results")
    return parser.parse_args()


class Given(Protocol):
    """What a page wants to know of the options: where it is written, and what was measured, in words."""

    @property
    def out(self) -> Path:
        """The folder of the results."""
        ...

    @property
    def setting(self) -> str:
        """For the head of the page."""
        ...


@dataclass(frozen=True)
class Claim:
    """What the paper says, what we see, and whether that is so here."""

    paper: str
    seen: str
    holds: bool


class Report:
    """Results of an experiment: a page, a table of all runs and pictures, written as they come."""

    def __init__(self, name: str, title: str, given: Given) -> None:
        self._name = name
        self._out = given.out
        self._began = time.monotonic()
        self._lines = [f"# {title}", "", f"Measured: {given.setting}.", ""]
        given.out.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """A paragraph."""
        self._lines += [text, ""]

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table."""
        self._lines.append(f"| {' | '.join(heads)} |")
        self._lines.append(f"|{'|'.join('---' for _ in heads)}|")
        self._lines += [f"| {' | '.join(row)} |" for row in rows]
        self._lines.append("")

    def claims(self, claims: Sequence[Claim]) -> None:
        """What the paper says beside what we see."""
        rows = [(c.paper, c.seen, "yes" if c.holds else "**no**") for c in claims]
        self.table(("the paper", "here", "agrees"), rows)

    def picture(self, drawing: Drawing, name: str = "") -> None:
        """A picture in the page."""
        file = f"{self._name}{'-' + name if name else ''}.png"
        write_png(drawing, self._out / file)
        self._lines += [f"![{drawing.title}]({file})", ""]

    def runs(self, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """The CSV with a row for each run."""
        with (self._out / f"{self._name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(heads)
            writer.writerows(rows)

    def close(self) -> None:
        """Write the page, and print it."""
        text = "\n".join(self._lines).rstrip() + "\n"
        (self._out / f"{self._name}.md").write_text(text, encoding="utf-8")
        print(text)
        print(f"{time.monotonic() - self._began:.0f} s; written to {self._out}/{self._name}.md")
