"""`volvelle.simulate` and `volvelle.compare`: runs and comparisons, as the commands make them."""

import io
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from volvelle.metrics import per_job, series
from volvelle.metrics.catalogue import read_objective
from volvelle.metrics.jobs_table import jobs_table
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.summary import Summary, figure, hand_on, summarise
from volvelle.model.cluster import Cluster
from volvelle.model.overheads import Overheads
from volvelle.notebook.arrow import Columnar, HasArrow, axes_of, columns_of
from volvelle.notebook.chosen import chosen_policies
from volvelle.notebook.facts import facts_of
from volvelle.notebook.jobs import Jobs, cluster_of, jobs_of
from volvelle.report import run_charts
from volvelle.report.charts import Drawing, cdf
from volvelle.report.charts.png import image
from volvelle.report.compare_report import write_compare_report
from volvelle.report.compositions import baseline_of
from volvelle.report.grid import Grid, GridRun
from volvelle.report.owner import in_short
from volvelle.report.run_report import write_run_report
from volvelle.report.sentences import Sentence
from volvelle.report.table import Table, as_columns, comparison, to_html, to_text
from volvelle.report.verdict import verdict
from volvelle.report.whole import whole_report
from volvelle.simulate import run_directory
from volvelle.simulate.compare import ComparedRun
from volvelle.simulate.compare import compare as compare_runs
from volvelle.simulate.experiment import Experiment, PlannedRun, WorkloadKey
from volvelle.simulate.experiment_file import SINGULAR
from volvelle.simulate.run import Progress, Simulation, check
from volvelle.simulate.run import simulate as simulate_run
from volvelle.simulate.run_directory import RunRecord, RunStatus
from volvelle.simulate.sources import Source
from volvelle.simulate.workers import usable_cpus

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
"""What is shown of runs unless told; columns without a number are left out."""

_WIDTH = 120
Part = Any
"""A policy, placement ...: as it is written, ``las:round=5m``, or an object of its class."""


@dataclass(frozen=True, repr=False)
class Run(Columnar):
    """What became of jobs under one composition; as columns, a row for each job.

    simulation: what gave it, None where it was read from its directory.
    """

    record: RunRecord
    outcomes: Outcomes
    simulation: Simulation | None = None

    @property
    def summary(self) -> Summary:
        """The aggregates, whole and by pool, user, class and width."""
        return summarise(self.outcomes)

    def figure(self, measure: str) -> float:
        """One number, as in ``jct:p99`` (see ``volvelle list metrics``). Raises `Problem`."""
        return figure(self.outcomes, read_objective(measure))

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Those of jobs.csv."""
        return columns_of(jobs_table(self.outcomes))

    def table(self, *measures: str) -> Table:
        """The figures of the run in one row."""
        runs = {self.record.name: self.outcomes}
        return comparison(runs, measures or COLUMNS).without_empty_columns()

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
        return to_text(self.table(), width=_WIDTH)

    def _repr_html_(self) -> str:
        return to_html(self.table()) + _embedded(self.picture())


@dataclass(frozen=True, repr=False)
class Comparison(Columnar):
    """Several runs on the same jobs, by name; as columns, a row for each run.

    ``reference``: the policy they are judged against; ``price``: of a GPU-hour, for the verdict.
    ``made``: how each ended, of runs that were made now.
    """

    records: dict[str, RunRecord]
    outcomes: dict[str, Outcomes]
    reference: str | None = None
    price: float | None = None
    made: tuple[ComparedRun, ...] = ()

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
            )
            for name, record in self.records.items()
        )

    @cached_property
    def in_short(self) -> tuple[Sentence, ...]:
        """What an owner asks first: idle GPUs, waits and their cost, and the best change."""
        return in_short(self.grid, self.reference, self.price)

    @cached_property
    def verdict(self) -> tuple[Sentence, ...]:
        """Who is best for what, and who loses by it: as sentences."""
        return verdict(self.grid, self.reference, self.price)

    @cached_property
    def baseline(self) -> str:
        """What the runs are held against; "" where there is only one."""
        return baseline_of(self.grid, self.reference) if len(self.grid.labels) > 1 else ""

    def __getitem__(self, name: str) -> Run:
        return Run(self.records[name], self.outcomes[name])

    def __iter__(self) -> Iterator[str]:
        """The names of the runs, as of a mapping."""
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def figure(self, name: str, measure: str) -> float:
        """One number of one run, as in ``jct:p99``. Raises `Problem`."""
        return self[name].figure(measure)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Those of runs.csv: all that sets runs apart, and every metric under its standard measures."""
        return as_columns(self.grid.tidy())

    def tables(self, *measures: str) -> list[Table]:
        """What the command shows: of several rates of submission, a table for each measure."""
        return [each.against(self.baseline) for each in self.grid.tables(measures, COLUMNS)]

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
        with whole_report(Path(directory)):
            return write_compare_report(
                self.outcomes,
                Path(directory),
                title=f"{len(self)} runs on {', '.join(sorted(workloads))}",
                facts=facts_of(self.records.values()),
                columns=columns,
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
        said = ["\n".join(f"- {each}" for each in those) for those in (self.in_short, self.verdict)]
        tables = [to_text(table, width=_WIDTH) for table in self.tables()]
        return "\n\n".join(filter(None, [*said, *tables]))

    def _repr_html_(self) -> str:
        points = "".join(
            f"<li>{escape(str(sentence))}</li>" for sentence in (*self.in_short, *self.verdict)
        )
        return f"<ul>{points}</ul>{''.join(map(to_html, self.tables()))}{_embedded(self.picture())}"


def _embedded(drawing: Drawing) -> str:
    packed = io.BytesIO()
    image(drawing).save(packed, "PNG")
    text = b64encode(packed.getvalue()).decode()
    return f'<img alt="{escape(drawing.title)}" src="data:image/png;base64,{text}">'


def simulate(
    jobs: Jobs | Path | str | HasArrow,
    *,
    cluster: Cluster | str,
    policy: Part = "fifo",
    out: Path | str | None = None,
    journal: bool = True,
    progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Run:
    """Simulate one scheduler, as ``volvelle simulate`` does.

    out: the run's directory; without one nothing is written. journal: keep one there. settings: the keys of
    an experiment file, as in ``placement="consolidated"``, ``seed=1``, ``predict=True``.
    progress: told now and then. Raises `Problem`.
    """
    experiment = experiment_of(settings, policy, out)
    there, source = cluster_of(cluster), jobs_of(jobs).source
    return make_run(
        experiment,
        there,
        experiment.sources_of(source, there),
        experiment.out,
        keep_journal=journal,
        progress=progress,
    )


def compare(
    jobs: Jobs | Path | str | HasArrow,
    *,
    cluster: Cluster | str,
    policies: Sequence[Part] = (),
    price: float | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Compare several schedulers, as ``volvelle compare`` does; without ``policies`` the same chosen ones.

    out: the comparison's directory (``volvelle report OUT`` makes its page); without one nothing is kept.
    resume: keep finished runs that are there. settings: the keys of an experiment file, lists where several
    are to be tried, as in ``seeds=[1, 2]``, ``reference="fifo"``. progress: told jobs done and in all.
    Raises `Problem`, also that with which a run failed.
    """
    there, source = cluster_of(cluster), jobs_of(jobs).source
    chosen = [*policies] or chosen_policies(len(source.workload))
    experiment = experiment_of(settings, chosen, out)
    with ExitStack() as stack:
        directory = experiment.out
        if directory is None:
            directory = Path(stack.enter_context(TemporaryDirectory())) / "comparison"
        sources = experiment.sources_of(source, there)
        found = make_comparison(
            planned_runs(experiment, there, sources),
            sources,
            directory,
            reference=experiment.reference,
            price=price,
            workers=workers,
            resume=resume,
            progress=progress,
        )
    for run in found.made:
        if run.error is not None:
            raise run.error
    return found


def make_run(
    experiment: Experiment,
    cluster: Cluster,
    sources: Mapping[WorkloadKey, Source],
    directory: Path | None,
    *,
    keep_journal: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """The one run of ``experiment``, into a run directory where there is one. Raises `Problem`."""
    planned = experiment.only_run(cluster)
    source, setting = sources[planned.workload], planned.setting
    origin = source.origin | {"jobs": len(source.workload), "name": source.workload.name}
    record = RunRecord.of(planned.name, origin, setting)
    check(source.workload, setting)
    workers = usable_cpus()
    if directory is None:
        simulation = simulate_run(source.workload, setting, progress=progress, workers=workers)
        return Run(record.ended(simulation), simulation.outcomes, simulation)
    run_directory.prepare(directory)
    run_directory.begin(directory, record)
    try:
        with ExitStack() as stack:
            path: Path | bool = False
            if keep_journal:
                path = stack.enter_context(run_directory.written(directory / run_directory.JOURNAL))
            simulation = simulate_run(
                source.workload, setting, journal=path, progress=progress, workers=workers
            )
        run_directory.finish(directory, record, simulation)
    except BaseException:
        run_directory.mark(directory, record, RunStatus.FAILED)
        raise
    return Run(record.ended(simulation), simulation.outcomes, simulation)


def planned_runs(
    experiment: Experiment, cluster: Cluster, sources: Mapping[WorkloadKey, Source]
) -> list[PlannedRun]:
    """What the trace recorded, if it did, and the runs of ``experiment``. Raises `Problem`."""
    runs = experiment.runs(cluster)
    recorded = experiment.recorded_run(runs, sources)
    return runs if recorded is None else [recorded, *runs]


def make_comparison(
    runs: Sequence[PlannedRun],
    sources: Mapping[WorkloadKey, Source],
    directory: Path,
    *,
    reference: str | None = None,
    price: float | None = None,
    workers: int | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Make ``runs`` in ``directory``; those that finished are read again. Raises `Problem`."""
    made = compare_runs(runs, sources, directory, workers=workers, resume=resume, progress=progress)
    specs = {run.name: sources[run.workload].workload.specs for run in runs}
    records: dict[str, RunRecord] = {}
    outcomes: dict[str, Outcomes] = {}
    for one in made:
        if one.status.value == "finished":
            record = run_directory.read_record(one.directory)
            found = run_directory.read_outcomes(one.directory, record, specs[one.name])
            if one.summary is not None:
                hand_on(one.summary, found)
            records[one.name], outcomes[one.name] = record, found
    return Comparison(records, outcomes, reference, price, tuple(made))


def experiment_of(
    settings: Mapping[str, Any], policies: Part | Sequence[Part], out: Path | str | None
) -> Experiment:
    """The experiment of a function's arguments. Raises `Problem` for a key that there is not."""
    given = {SINGULAR.get(key, key): _written(value) for key, value in settings.items()}
    return Experiment.of(None, {**given, "policies": _written(policies), "out": out})


def _written(value: Any) -> Any:
    """Parts as they are written, ``las:round=300`` for an object of the class; all else as it is."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_written, value))
    return getattr(value, "label", value)
