"""``volvelle simulate``: one composition on one workload, into a run directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volvelle.metrics.summary import Summary
    from volvelle.simulate.experiment import Experiment
    from volvelle.simulate.run import Simulation
    from volvelle.simulate.run_directory import RunRecord

DEFAULT_OUT = Path("volvelle-run")
_PARTS_OF_SNAPSHOT = {
    "policy": "policies",
    "placement": "placements",
    "admission": "admissions",
    "estimator": "estimators",
}


@options.besides(
    options.of_experiment(
        *("trace", "from_journal", "generate", "format", "map", "dates", "strict", "ignore_types"),
        *("track", "cluster", "policies", "placements", "admissions", "estimators", "terminations"),
        *("synthesize", "synthesize_every", "overheads", "users", "tick", "until", "predict"),
        *("refresh", "power", "carbon", "seeds", "metrics", "out"),
    )
)
def simulate(
    from_snapshot: Annotated[
        Path | None,
        options.jobs(
            metavar="FILE",
            help="The jobs that are on a live cluster now (/v1/snapshot), on to their believed ends.",
        ),
    ] = None,
    force: options.Force = False,
    png: options.Png = False,
    output: options.Output = Form.TABLE,
    journal: Annotated[
        bool, options.results(help="Keep the journal of every event and decision.")
    ] = True,
    **given: Any,
) -> None:
    """Simulate one scheduler on a trace, and write a run directory with a report.

    volvelle simulate october.csv --cluster 120x8 --policy srsf --out october-srsf
    """
    from volvelle.cli.results import OF_RUN, free_folder, own_folder

    own = own_folder(DEFAULT_OUT, *OF_RUN, force=force)
    if from_snapshot is not None:
        chosen = {
            one: given[several][0] if given[several] else None
            for one, several in _PARTS_OF_SNAPSHOT.items()
        }
        directory = free_folder(given["out"] or own, *OF_RUN, force=force)
        _go_on(from_snapshot, chosen, directory, output, given["metrics"] or (), png=png)
        return
    experiment = options.experiment(given)
    directory = free_folder(experiment.out or own, *OF_RUN, force=force)
    _simulate(experiment, directory, output, keep_journal=journal, png=png)


def _simulate(
    experiment: "Experiment", directory: Path, output: Form, *, keep_journal: bool, png: bool
) -> None:
    from volvelle.cli.output import (
        progress,
        refuse_all_rejected,
        remark_on_failures,
        remark_on_idle_policies,
        remark_on_passed_over,
        remark_on_placements,
        remark_on_rejections,
        remark_on_slow_policies,
    )
    from volvelle.cli.reading import read_workloads
    from volvelle.notebook.runs import make_run
    from volvelle.simulate import run_directory
    from volvelle.simulate.run import Progress
    from volvelle.simulate.run_directory import RunStatus

    cluster = experiment.checked_cluster()
    composition = experiment.only_run(cluster).setting.composition
    sources = read_workloads(experiment, cluster)
    remark_on_placements([composition])
    with progress(f"simulating {composition.policy}") as update:

        def note(now: Progress) -> None:
            update(now.submitted - now.in_system, now.jobs)

        run = make_run(
            experiment, cluster, sources, directory, keep_journal=keep_journal, progress=note
        )
    simulation, record = run.simulation, run.record
    assert simulation is not None
    try:
        page = run.report(directory, png=png)
    except BaseException:
        run_directory.mark(directory, record, RunStatus.FAILED)
        raise
    refuse_all_rejected(next(iter(sources.values())).workload.name, [simulation.outcomes])
    _print(run.summary, simulation, record, directory, output, experiment.metrics)
    remark_on_rejections("", simulation.outcomes)
    remark_on_failures(simulation.outcomes)
    remark_on_passed_over([(record, simulation.outcomes)])
    remark_on_idle_policies([(composition, simulation.outcomes)])
    remark_on_slow_policies([record.ended(simulation)])
    if output is Form.TABLE:
        print(f"Report: {page}")
    if simulation.interrupted:
        raise typer.Exit(130)


def _go_on(
    snapshot: Path,
    chosen: dict[str, str | None],
    directory: Path,
    output: Form,
    metrics: "Sequence[str]",
    *,
    png: bool,
) -> None:
    import msgspec

    from volvelle.core.fronts import resolved
    from volvelle.core.snapshot import read_snapshot
    from volvelle.metrics.catalogue import read_objective
    from volvelle.notebook.results import Run
    from volvelle.simulate import run_directory
    from volvelle.simulate.resumed import resumed, setting_of
    from volvelle.simulate.run_directory import RunRecord

    for column in metrics:
        read_objective(column)
    taken = read_snapshot(snapshot)
    given = {part: resolved(written) for part, written in chosen.items() if written is not None}
    setting = setting_of(taken, msgspec.structs.replace(taken.header.composition, **given))
    simulation = resumed(taken, setting)
    run_directory.prepare(directory)
    jobs = len(simulation.outcomes)
    origin = {"name": snapshot.name, "jobs": jobs, "snapshot": str(snapshot), "now": taken.now}
    record = RunRecord.of(setting.composition.policy, origin, setting)
    run_directory.begin(directory, record)
    summary = run_directory.finish(directory, record, simulation)
    page = Run(record.ended(simulation), simulation.outcomes).report(directory, png=png)
    _print(summary, simulation, record, directory, output, metrics)
    if output is Form.TABLE:
        print(f"Report: {page}")


def _print(
    summary: "Summary",
    simulation: "Simulation",
    record: "RunRecord",
    directory: Path,
    output: Form,
    metrics: "Sequence[str]",
) -> None:
    """Show the figures of a run: all metrics, or the columns that are asked for."""
    import json

    from volvelle.cli.figures import run_figures
    from volvelle.cli.output import remark, show
    from volvelle.metrics.told import Told, told_sentence
    from volvelle.notebook.facts import cluster_line, workload_line
    from volvelle.report.table import comparison

    if output is Form.JSON and not metrics:
        document = {
            "directory": str(directory),
            "status": record.ended(simulation).status.value,
            **summary.as_json(),
        }
        print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
        return
    if output is Form.TABLE:
        print(f"{workload_line(record.workload)}; {cluster_line(record.cluster)}")
        done = ", ".join(f"{n:,} {status}" for status, n in summary.total.statuses.items() if n)
        print(f"{record.name}: {done}, simulated in {simulation.cpu_seconds:.1f} s")
    columns = comparison({record.name: simulation.outcomes}, metrics) if metrics else None
    show(columns or run_figures(summary, output), output)
    if output is Form.TABLE and (said := told_sentence(Told.of(simulation.outcomes))):
        print(said)
    if simulation.interrupted:
        remark("interrupted: these are the figures of what was done so far")
