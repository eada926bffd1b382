"""Results of simulations in Python: a run, and a comparison of several, which show themselves."""

import io
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from volvelle.metrics import per_job, series
from volvelle.metrics.catalogue import read_objective
from volvelle.metrics.jobs_table import jobs_table
from volvelle.metrics.outcomes import RECORDED, Outcomes
from volvelle.metrics.summary import Summary, figure, summarise
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem, nearest
from volvelle.notebook.arguments import python_of
from volvelle.notebook.arrow import Columnar, axes_of, columns_of
from volvelle.notebook.facts import facts_of
from volvelle.report import run_charts
from volvelle.report.charts import Drawing, cdf
from volvelle.report.charts.png import image
from volvelle.report.compare_report import write_compare_report
from volvelle.report.compositions import baseline_of
from volvelle.report.grid import Grid, GridRun
from volvelle.report.owner import in_short
from volvelle.report.run_report import write_run_report
from volvelle.report.sentences import Sentence
from volvelle.report.table import Table, as_columns, comparison, to_html
from volvelle.report.verdict import verdict
from volvelle.report.whole import whole_report
from volvelle.simulate.compare import ComparedRun
from volvelle.simulate.run import Simulation
from volvelle.simulate.run_directory import RunRecord, RunStatus

COLUMNS = (
    "jct:mean",
    "jct:p99",
    "responsiveness:p50",
    "rho:max",
    "unfair",
    "eta_error:p90",
    "deadline_miss",
    "utilisation",
)
"""Measures that are shown by default; columns without a number are left out."""


@dataclass(frozen=True, repr=False)
class JobsOfRun(Columnar):
    """The jobs of a run and their outcomes: the columns of jobs.csv."""

    outcomes: Outcomes

    def __len__(self) -> int:
        return len(self.outcomes)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """A row for each job."""
        return columns_of(jobs_table(self.outcomes))

    def __repr__(self) -> str:
        return f"<{len(self):,} jobs with the columns {', '.join(self.columns())}; to_pandas() has them>"


@dataclass(frozen=True, repr=False)
class Run(Columnar):
    """Outcomes of jobs under one composition; as columns, a row for each job.

    simulation: what gave it, None where it was read from its directory. metrics: columns of its table, where
    some were asked for.
    """

    record: RunRecord
    outcomes: Outcomes
    simulation: Simulation | None = None
    metrics: tuple[str, ...] = ()

    @property
    def summary(self) -> Summary:
        """The aggregates, whole and by pool, user, class and width."""
        return summarise(self.outcomes)

    def figure(self, measure: str) -> float:
        """One number, as in ``jct:p99`` (see ``volvelle list metrics``). Raises `Problem`."""
        return figure(self.outcomes, read_objective(measure))

    @property
    def jobs(self) -> JobsOfRun:
        """The jobs, for pandas, Polars and DuckDB."""
        return JobsOfRun(self.outcomes)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """The columns of `jobs`."""
        return self.jobs.columns()

    def table(self, *measures: str) -> Table:
        """The figures of the run in one row."""
        runs = {self.record.name: self.outcomes}
        return comparison(runs, measures or self.metrics or COLUMNS).without_empty_columns()

    def picture(self) -> Drawing:
        """The cluster over time."""
        return run_charts.utilisations({self.record.name: self.outcomes})

    def report(self, directory: Path | str, *, png: bool = False) -> Path:
        """Write ``report.html`` into ``directory``, with ``png`` also the charts. Raises `Problem`.

        The path of the page is returned.
        """
        state = "" if self.record.status is RunStatus.FINISHED else f" ({self.record.status.value})"
        title, facts = f"{self.record.name}{state}", facts_of([self.record])
        with whole_report(Path(directory)):
            return write_run_report(
                self.outcomes, Path(directory), title=title, facts=facts, png=png
            )

    def plot(self, ax: Any = None) -> Any:
        """Draw GPUs held over time with Matplotlib; returns the axes. Raises `Problem` without it."""
        ax = axes_of(ax)
        held = series.busy_gpus(self.outcomes)
        ax.step(held.times / 3600.0, held.values, where="post", label=self.record.name)
        ax.set(xlabel="hours", ylabel="GPUs held")
        return ax

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return to_html(self.table()) + _embedded(self.picture())


@dataclass(frozen=True, repr=False)
class Comparison(Columnar):
    """Several runs on the same jobs, by name; as columns, a row for each run.

    ``reference``: the policy they are judged against; ``price``: of a GPU-hour, for the verdict.
    ``made``: how each ended, of runs that were made now. ``metrics``: columns that were asked for.
    """

    records: dict[str, RunRecord]
    outcomes: dict[str, Outcomes]
    reference: str | None = None
    price: float | None = None
    made: tuple[ComparedRun, ...] = ()
    metrics: tuple[str, ...] = ()

    @cached_property
    def grid(self) -> Grid:
        """The runs with what sets each apart: parts, rate of submission, seed."""
        return Grid.of(
            GridRun(
                name,
                record.composition_parts,
                record.workload.get("jobs_per_hour"),
                record.seed,
                self.outcomes[name],
                Overheads.model_validate(record.overheads),
                record.cluster,
            )
            for name, record in self.records.items()
        )

    @cached_property
    def in_short(self) -> "Sentences":
        """The owner's summary: idle GPUs, waits and their cost, and the best change."""
        return Sentences(in_short(self.grid, self.reference, self.price))

    @cached_property
    def verdict(self) -> "Sentences":
        """The best policy for each measure, and the jobs that lose by it: as sentences."""
        return Sentences(verdict(self.grid, self.reference, self.price))

    @cached_property
    def baseline(self) -> str:
        """The baseline of the runs; "" where there is only one."""
        return baseline_of(self.grid, self.reference) if len(self.grid.labels) > 1 else ""

    def __getitem__(self, name: str) -> Run:
        if name not in self.records:
            raise KeyError(f"no run is called {name!r}; there are {', '.join(self.records)}")
        return Run(self.records[name], self.outcomes[name], metrics=self.metrics)

    def __iter__(self) -> Iterator[str]:
        """The names of the runs, as of a mapping."""
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def figure(self, name: str, measure: str) -> float:
        """One number of one run, as in ``jct:p99``. Raises `Problem`."""
        if name not in self.records:
            raise Problem(
                f"no run is called {name!r}{nearest(name, self.records)}",
                mend=f"name one of: {', '.join(self.records)}",
            )
        return self[name].figure(measure)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Columns of runs.csv: all that sets runs apart, and every metric under its standard measures."""
        return as_columns(self.grid.tidy())

    def tables(self, *measures: str) -> list[Table]:
        """The command's output: of several rates of submission, a table for each measure."""
        tables = self.grid.tables(measures or self.metrics, COLUMNS)
        return [each.against(self.baseline) for each in tables]

    def picture(self) -> Drawing:
        """The distributions of completion times."""
        return run_charts.completion_cdf(self.outcomes)

    def report(
        self, directory: Path | str, *, columns: Sequence[str] = (), png: bool = False
    ) -> Path:
        """Write ``report.html`` and ``runs.csv`` into ``directory``, with ``png`` also the charts.

        columns: measures as in ``jct:p99``. The path of the page is returned. Raises `Problem`.
        """
        workloads = {str(record.workload.get("name")) for record in self.records.values()}
        runs = f"{len(self) - (RECORDED in self)} runs" + " and the record" * (RECORDED in self)
        with whole_report(Path(directory)):
            return write_compare_report(
                self.outcomes,
                Path(directory),
                title=f"{runs} on {', '.join(sorted(workloads))}",
                facts=facts_of(self.records.values()),
                columns=columns or self.metrics,
                grid=self.grid,
                reference=self.reference,
                price=self.price,
                png=png,
            )

    def plot(self, ax: Any = None) -> Any:
        """Draw the distributions with Matplotlib; returns the axes. Raises `Problem` without it."""
        ax = axes_of(ax)
        for name, outcomes in self.outcomes.items():
            times = per_job.jct(outcomes)[outcomes.tracked]
            x, share = cdf(np.maximum(times, 1.0), of=len(times))
            ax.plot(x / 3600.0, share, label=name)
        ax.set(xlabel="completion time (hours)", ylabel="share of jobs", xscale="log")
        ax.legend()
        return ax

    def __repr__(self) -> str:
        shown = map(str, (self.in_short, self.verdict, *self.tables()))
        return "\n\n".join(filter(None, shown))

    def _repr_html_(self) -> str:
        said = Sentences((*self.in_short, *self.verdict))._repr_html_()
        return f"{said}{''.join(map(to_html, self.tables()))}{_embedded(self.picture())}"


class Sentences(tuple[Sentence, ...]):
    """Sentences, each a record of the figures that it speaks of; shown as a list of them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(f"- {python_of(str(each))}" for each in self)

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{escape(python_of(str(each)))}</li>' for each in self)}</ul>"


def _embedded(drawing: Drawing) -> str:
    packed = io.BytesIO()
    image(drawing).save(packed, "PNG")
    text = b64encode(packed.getvalue()).decode()
    return f'<img alt="{escape(drawing.title)}" src="data:image/png;base64,{text}">'
