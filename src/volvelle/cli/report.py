"""``volvelle report``: reports made again from run directories; also what simulate and compare use."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from volvelle.notebook.results import Comparison
    from volvelle.report.table import Cell, Table

DEFAULT_OUT = Path("volvelle-report")


@options.besides(options.of_keys("reference", "metrics", "out"))
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run directories, or the folder of a comparison."),
    ],
    price: options.Price = None,
    force: options.Force = False,
    png: options.Png = False,
    output: options.Output = Form.TABLE,
    **given: Any,
) -> None:
    """Report runs again, or runs of several commands side by side.

    One run gets its own report; several are compared.
    """
    from volvelle.cli.figures import run_figures
    from volvelle.cli.output import show_all
    from volvelle.cli.results import REPORT, free_folder
    from volvelle.metrics.catalogue import read_objective
    from volvelle.metrics.summary import summarise
    from volvelle.report.table import comparison

    reference, metrics, out = given["reference"], given["metrics"], given["out"]
    for column in metrics or ():
        read_objective(column)
    directories = _expanded(runs)
    if out is None and len(runs) == 1:  # in its own folder a report is made again
        directory = directories[0] if len(directories) == 1 else runs[0]
    else:
        directory = free_folder(out or DEFAULT_OUT, REPORT, force=force)
    read = replace(read_runs(directories), reference=reference, price=price)
    if len(directories) == 1:
        [(name, outcomes)] = read.outcomes.items()
        page = read[name].report(directory, png=png)
        tables = [
            comparison(read.outcomes, metrics)
            if metrics
            else run_figures(summarise(outcomes), output)
        ]
    else:
        page = read.report(directory, columns=metrics or (), png=png)
        tables = shown_tables(read, output, metrics or ())
        _remark_on_workloads(read)
        if output is Form.TABLE:
            show_verdict(read)
    show_all(tables, output)
    if output is Form.TABLE:
        print(f"\nReport: {page}")


def shown_tables(runs: "Comparison", output: Form, metrics: Sequence[str]) -> "list[Table]":
    """The tables of several runs: for programs a row for each run, for people seeds drawn together.

    Several rates of submission make a table for each metric, with a column for each rate.
    """
    from volvelle.notebook.results import COLUMNS
    from volvelle.report import against, reproduction
    from volvelle.report.table import comparison
    from volvelle.report.told import told_side_by_side

    judged: list[Table] = []
    if runs.reference is not None:
        grid = runs.grid
        judged = against.tables(against.judge(grid, runs.reference), runs.reference)
    if output is not Form.TABLE:
        return judged[:1] or [comparison(runs.outcomes, metrics or COLUMNS).without_empty_columns()]
    told = told_side_by_side(runs.outcomes)
    tables = runs.tables(*metrics) + judged + reproduction.tables(runs.grid) + told
    return [
        replace(each, rows=tuple((in_short(name), *cells) for name, *cells in each.rows))
        for each in tables
    ]


def in_short(row: "Cell") -> "Cell":
    """The name of a row that more than three runs share, as ``fifo, srsf and 8 more``."""
    names = row.split(", ") if isinstance(row, str) else []
    return f"{names[0]}, {names[1]} and {len(names) - 2} more" if len(names) > 3 else row


def show_verdict(runs: "Comparison") -> None:
    """Print what the runs come to, in sentences."""
    from volvelle.cli.output import show_sentences

    show_sentences(map(str, runs.in_short))
    show_sentences(map(str, runs.verdict))


def _remark_on_workloads(runs: "Comparison") -> None:
    from volvelle.cli.output import remark

    keys = ["trace", "sha256", "generator", "jobs"]
    origins = [record.workload for record in runs.records.values()]
    if not any("jobs_per_hour" in origin for origin in origins):
        keys.append("parameters")
    if any([o.get(key) for key in keys] != [origins[0].get(key) for key in keys] for o in origins):
        remark("note: these runs are not of the same jobs")


def _expanded(paths: Sequence[Path]) -> list[Path]:
    """The run directories in ``paths``; of a comparison, those that have results."""
    from volvelle.simulate.compare import COMPARISON, comparison_runs
    from volvelle.simulate.run_directory import OUTCOMES

    found: list[Path] = []
    for path in paths:
        if (path / COMPARISON).is_file():
            found += [run for run in comparison_runs(path) if (run / OUTCOMES).is_file()]
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def read_runs(directories: Sequence[Path]) -> "Comparison":
    """The runs in ``directories``; equal names are told apart by their folders. Raises `Problem`."""
    from volvelle.model.problems import Problem
    from volvelle.notebook.results import Comparison
    from volvelle.simulate.run_directory import read_outcomes, read_record

    read = Comparison({}, {})
    if not directories:
        raise Problem("there is no run with results", mend="run volvelle compare again")
    for directory in directories:
        record = read_record(directory)
        name = record.name if record.name not in read.records else f"{record.name} ({directory})"
        if record.status.value != "finished":
            name += f" ({record.status.value})"
        read.records[name] = record
        read.outcomes[name] = read_outcomes(directory, record)
    return read
