"""Several runs as points of a grid: parts of the composition x rate of submission x seed.

Seeds are draws of the same thing, so what people are shown is their mean and how far they lie apart;
the runs themselves stay rows of one tidy table (`Grid.tidy`). Rates of submission become columns of the
tables, one table for each metric, and the horizontal axis of the pictures.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from volvelle.metrics.catalogue import Objective, read_objective
from volvelle.metrics.outcomes import RECORDED, Outcomes
from volvelle.metrics.summary import Summary, figure, summarise
from volvelle.model.cluster import Cluster
from volvelle.model.overheads import Overheads
from volvelle.report.charts import Axis, Drawing, Plot, Series, line_chart
from volvelle.report.charts.axes import Quantity
from volvelle.report.table import (
    Cell,
    Column,
    Spread,
    Table,
    comparison,
    finished_jobs,
    measure_column,
)

SWEEP_COLUMNS = ("jct:mean", "responsiveness:mean", "utilisation")
"""Default columns of a comparison over rates: a table and a row of panels for each."""

_MOST_PANELS = 12


class GridRun(NamedTuple):
    """A run and where it stands. ``parts`` are the composition's, as written, by kind.

    overheads: what starts and stops cost where a job does not say. cluster: where it ran, None if unknown.
    """

    name: str
    parts: Mapping[str, str]
    rate: float | None
    seed: int
    outcomes: Outcomes
    overheads: Overheads = Overheads()
    cluster: Cluster | None = None

    @property
    def label(self) -> str:
        """The name without rate and seed: the same for runs that differ in nothing else."""
        name = self.name.removesuffix(f", seed {self.seed}")
        return name if self.rate is None else name.removesuffix(f", {self.rate:g} jobs/h")


@dataclass(frozen=True)
class Grid:
    """Runs in the order of the comparison."""

    runs: tuple[GridRun, ...]

    @classmethod
    def of(cls, runs: Iterable[GridRun]) -> "Grid":
        """A grid of ``runs``."""
        return cls(tuple(runs))

    @property
    def labels(self) -> list[str]:
        """Compositions, as they are named in tables."""
        return list(dict.fromkeys(run.label for run in self.runs))

    @cached_property
    def alike(self) -> list[tuple[str, ...]]:
        """The labels in their order; those whose runs are the same in every job stand together."""
        groups: dict[tuple[object, ...], list[str]] = {}
        for label in self.labels:
            runs = [run for run in self.runs if run.label == label]
            groups.setdefault(tuple(map(_what_happened, runs)), []).append(label)
        return [tuple(group) for group in groups.values()]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The rows of a table: the names that share one, as in ``max-min, fifo-skip``, and the first."""
        return [(", ".join(group), group[0]) for group in self.alike]

    @property
    def rates(self) -> list[float]:
        """Jobs submitted an hour, ascending; empty where no rate was asked for."""
        return sorted({run.rate for run in self.runs if run.rate is not None})

    @property
    def seeds(self) -> int:
        """The most runs that differ in their seed alone."""
        cells: dict[tuple[str, float | None], int] = {}
        for run in self.runs:
            cells[run.label, run.rate] = cells.get((run.label, run.rate), 0) + 1
        return max(cells.values(), default=0)

    @property
    def is_plain(self) -> bool:
        """Whether each composition ran once: there is nothing to draw together."""
        return self.seeds <= 1 and len(self.rates) <= 1

    def tables(self, columns: Sequence[str], default: Sequence[str]) -> list[Table]:
        """The columns shown: ``columns``, or ``default`` where these are empty.

        Raises `Problem` for a measure that does not exist.
        """
        if self.is_plain:
            by_label = {run.label: run.outcomes for run in self.runs}
            runs = {name: by_label[label] for name, label in self.rows}
            return [comparison(runs, columns or default).without_empty_columns()]
        if len(self.rates) <= 1:
            return [self._over_seeds(columns or default)]
        return self.by_rate(columns or SWEEP_COLUMNS)

    def _over_seeds(self, columns: Sequence[str]) -> Table:
        """One row for each composition."""
        objectives = [read_objective(text) for text in columns]
        heads = [Column("run", "policy"), *map(measure_column, objectives)]
        groups = [
            (name, [run.outcomes for run in self.runs if run.label == label])
            for name, label in self.rows
        ]
        rows: list[tuple[Cell, ...]] = [
            (name, *(spread([figure(run, one) for run in group]) for one in objectives))
            for name, group in groups
        ]
        if any(_left_over(run.outcomes) for run in self.runs):
            heads.insert(1, Column("finished", "jobs finished"))
            rows = [
                (row[0], spread([float(finished_jobs(run)) for run in group]), *row[1:])
                for row, (_, group) in zip(rows, groups, strict=True)
            ]
        return Table("", tuple(heads), tuple(rows), self._note()).without_empty_columns()

    def by_rate(self, columns: Sequence[str]) -> list[Table]:
        """One table for each measure: a row for each composition, a column for each rate."""
        made = [self._rate_table(read_objective(text)) for text in columns]
        if any(_left_over(run.outcomes) for run in self.runs):
            made.insert(0, self._finished_table())
        return [replace(table, note=self._note()) if table is made[-1] else table for table in made]

    def _rate_table(self, objective: Objective) -> Table:
        head = measure_column(objective)
        heads = [replace(head, key=f"{rate:g}", title=f"{rate:g}") for rate in self.rates]
        rows: list[tuple[Cell, ...]] = [
            (name, *(self._cell(label, rate, objective) for rate in self.rates))
            for name, label in self.rows
        ]
        title = f"{head.title} by jobs/h"
        return Table(title, (Column("run", "policy"), *heads), tuple(rows))

    def _finished_table(self) -> Table:
        heads = [Column(f"{rate:g}", f"{rate:g}") for rate in self.rates]
        rows: list[tuple[Cell, ...]] = [
            (
                name,
                *(
                    spread([float(finished_jobs(run)) for run in self._at(label, rate)])
                    for rate in self.rates
                ),
            )
            for name, label in self.rows
        ]
        title = "jobs finished by jobs/h (times are of these)"
        return Table(title, (Column("run", "policy"), *heads), tuple(rows))

    def _cell(self, label: str, rate: float | None, objective: Objective) -> Cell:
        return spread([figure(run, objective) for run in self._at(label, rate)])

    def _at(self, label: str, rate: float | None) -> list[Outcomes]:
        return [run.outcomes for run in self.runs if (run.label, run.rate) == (label, rate)]

    def _note(self) -> str:
        if self.seeds <= 1:
            return ""
        return f"Means of {self.seeds} seeds \u00b1 their standard deviation."

    def tidy(self) -> Table:
        """One row for each run, one column for each thing that sets it apart or was measured.

        Measured are all metrics over the tracked jobs, each under its standard measures.
        """
        kinds = list(dict.fromkeys(kind for run in self.runs for kind in run.parts))
        heads = [Column("run", "run"), *(Column(kind, kind) for kind in kinds)]
        heads += [Column("jobs_per_hour", "jobs/h"), Column("seed", "seed")]
        heads += [Column("jobs", "jobs"), Column("finished", "jobs finished")]
        rows: list[tuple[Cell, ...]] = []
        measured: dict[str, Column] = {}
        for run in self.runs:
            summary = summarise(run.outcomes)
            total, figures = summary.total, _figures(summary)
            for key in figures:
                measured.setdefault(key, measure_column(read_objective(key)))
            parts = [run.parts.get(kind, "") for kind in kinds]
            counts = (run.rate, run.seed, total.jobs, total.statuses["finished"])
            rows.append((run.name, *parts, *counts, *(figures.get(key) for key in measured)))
        table = Table("", (*heads, *measured.values()), tuple(rows))
        return table.without_empty_columns()

    def panels(self, columns: Sequence[str]) -> Drawing:
        """Small multiples over the rates: a panel for each measure and each choice of other parts.

        In each a line for each policy, the mean of its seeds.
        """
        objectives = [read_objective(text) for text in columns or SWEEP_COLUMNS]
        policies = list(dict.fromkeys(run.parts["policy"] for run in self.runs))
        others = list(dict.fromkeys(self._others(run) for run in self.runs))
        others = others[: max(1, _MOST_PANELS // len(objectives))]
        x = np.array(self.rates)
        plots = []
        for objective, other in product(objectives, others):
            lines = []
            for index, policy in enumerate(policies):
                y = [self._mean(policy, other, rate, objective) for rate in self.rates]
                lines.append(Series.numbered(index, policy, x, np.array(y)))
            title = measure_column(objective).title
            plots.append(
                Plot(tuple(lines), _axis(objective), f"{title}, {other}" if other else title)
            )
        return line_chart(
            "Over the rate of submission",
            plots,
            Axis("Jobs submitted an hour"),
            columns=min(2, len(plots)),
            height=200,
            subtitle=f"Means of {self.seeds} seeds" if self.seeds > 1 else "",
            legend=True,
        )

    def _others(self, run: GridRun) -> str:
        varied = [
            kind
            for kind in run.parts
            if kind != "policy" and len({other.parts.get(kind) for other in self.runs}) > 1
        ]
        return " + ".join(run.parts[kind] for kind in varied)

    def _mean(self, policy: str, other: str, rate: float, objective: Objective) -> float:
        values = [
            objective.of(run.outcomes)
            for run in self.runs
            if (run.parts["policy"], self._others(run), run.rate) == (policy, other, rate)
        ]
        return (
            statistics.fmean(values) / _SCALE.get(objective.metric.unit, 1.0)
            if values
            else math.nan
        )


def _figures(summary: Summary) -> dict[str, float]:
    """Every figure by the measure that asks for it."""
    figures = dict(summary.run)
    series = {name: figure.values for name, figure in summary.total.figures.items()}
    for name, values in (series | summary.over_time).items():
        figures |= {f"{name}:{measure}": value for measure, value in values.items()}
    return figures


_SCALE = {"%": 100.0}
"""The divisor of a figure for its axis, which counts shares from 0 to 1."""

_QUANTITIES: dict[str, Quantity] = {"s": "duration", "%": "share"}


def _axis(objective: Objective) -> Axis:
    unit = objective.metric.unit
    return Axis(measure_column(objective).heading, _QUANTITIES.get(unit, "number"), low=0.0)


def _what_happened(run: GridRun) -> tuple[object, ...]:
    """A key that is equal of two runs in which the same happened to every job; a record is like no other."""
    outcomes, segments = run.outcomes, run.outcomes.segments
    columns = (
        *(outcomes.status, outcomes.first_start, outcomes.finish, outcomes.preemptions),
        *(outcomes.restarts, segments.job, segments.start, segments.end, segments.gpus),
        segments.slots,
    )
    recorded = run.parts.get("policy") == RECORDED
    return (run.rate, run.seed, recorded, *(column.tobytes() for column in columns))


def _left_over(outcomes: Outcomes) -> bool:
    return finished_jobs(outcomes) < int(outcomes.tracked.sum())


def spread(values: Sequence[float]) -> Cell:
    """The mean of ``values`` and their sample standard deviation; of one value, itself."""
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return known[0] if known else math.nan
    return Spread(statistics.fmean(known), statistics.stdev(known))
