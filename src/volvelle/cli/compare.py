"""``volvelle compare``: several compositions on one workload, side by side."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from volvelle.model.cluster import Cluster
    from volvelle.notebook.results import Comparison
    from volvelle.simulate.compare import ComparedRun
    from volvelle.simulate.experiment import Experiment, PlannedRun, WorkloadKey
    from volvelle.simulate.sources import Source
    from volvelle.workload.workload import Workload

DEFAULT_OUT = Path("volvelle-compare")
DEMO_OUT = Path("volvelle-demo")
DEMO_CLUSTER = "8x8"
_QUICK_SECONDS = 3.0
"""So long one waits for all of it."""


@options.besides(
    options.of_experiment(
        *("trace", "from_journal", "generate", "format", "map", "dates", "strict", "ignore_types"),
        *("track", "cluster", "policies", "reference", "placements", "admissions", "estimators"),
        *("terminations", "synthesize", "synthesize_every", "overheads", "users", "tick", "until"),
        *("predict", "power", "carbon", "seeds", "jobs_per_hour", "metrics", "out"),
    )
)
def compare(
    price: options.Price = None,
    force: options.Force = False,
    png: options.Png = False,
    output: options.Output = Form.TABLE,
    demo: Annotated[
        bool, typer.Option("--demo", help="Use the built-in workload: 2,000 jobs for 64 GPUs.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Parallel processes.  [default: one for each CPU]"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished runs of an earlier, equal comparison.")
    ] = False,
    **given: Any,
) -> None:
    """Compare several schedulers on the same jobs, in parallel, and report them side by side.

    volvelle compare --demo

    volvelle compare october.csv --cluster 120x8 --policy fifo --policy srsf --policy las:round=10m

    volvelle compare --generate gavel:jobs=2000 --cluster 32x4 -p fifo -p las --jobs-per-hour 1:5
    """
    from volvelle.cli.results import OF_COMPARISON, free_folder, own_folder, unfinished

    if demo:
        given |= {key: value for key, value in _demo(given).items() if not given[key]}
    experiment = options.experiment(given)
    directory = experiment.out or own_folder(
        DEFAULT_OUT, *OF_COMPARISON, force=force, resume=resume
    )
    scratch = demo and directory == DEMO_OUT
    may_go_on = not (resume or force or scratch) and bool(unfinished(directory))
    if not (resume or may_go_on):
        free_folder(directory, *OF_COMPARISON, force=force, scratch=scratch)
    _compare(
        experiment,
        directory,
        output,
        workers=workers,
        resume=None if may_go_on else resume,
        demo=demo,
        price=price,
        png=png,
    )


def _with_chosen(experiment: "Experiment", workload: "Workload") -> "Experiment":
    """The experiment; with a choice of policies, that is remarked on, where it names none."""
    from volvelle.cli.output import remark
    from volvelle.core.policy import policies
    from volvelle.notebook.chosen import chosen_policies

    if "policies" in experiment.model_fields_set:
        return experiment
    chosen = chosen_policies(workload)
    remark(
        f"{len(chosen)} of {len(policies.names())} policies are compared: those that need nothing but what "
        "every trace tells. Others are named with --policy, see: volvelle list policies"
    )
    return experiment.model_copy(update={"policies": chosen})


def _demo(given: dict[str, Any]) -> dict[str, Any]:
    """The options of the demonstration that are not ``given``. Raises `Problem` beside other jobs."""
    from volvelle.model.problems import Problem
    from volvelle.notebook.chosen import FIRST_POLICIES
    from volvelle.workload.generators import DEMO_SEED
    from volvelle.workload.generators.lognormal import Demo

    if any(given.get(source) for source in ("trace", "generate", "from_journal")):
        raise Problem(
            "--demo is a comparison of jobs of its own, beside others that are given",
            mend="leave out one of the two",
            usage=True,
        )
    return {
        "generate": Demo.name,
        "cluster": DEMO_CLUSTER,
        "policies": FIRST_POLICIES,
        "seeds": [DEMO_SEED],
        "out": DEMO_OUT,
    }


def _compare(
    experiment: "Experiment",
    directory: Path,
    output: Form,
    *,
    workers: int | None,
    resume: bool | None,
    demo: bool,
    price: float | None,
    png: bool,
) -> None:
    from volvelle.cli.formatting import counted
    from volvelle.cli.output import progress, refuse_all_rejected, remark_on_placements
    from volvelle.cli.reading import read_workloads, remark_on_record
    from volvelle.notebook.runs import make_comparison, planned_runs

    cluster = experiment.checked_cluster()
    experiment.runs(cluster)  # mistakes are told before a long trace is read
    sources = read_workloads(experiment, cluster)
    experiment = _with_chosen(experiment, next(iter(sources.values())).workload)
    runs = planned_runs(experiment, cluster, sources)
    if resume is None:
        _check_equal(runs, sources, directory)
    remark_on_record(sources[runs[0].workload].workload, cluster)
    remark_on_placements(run.setting.composition for run in runs if not run.is_recorded)
    began = time.monotonic()
    quick = _QuickFirst([run.name for run in runs], began)
    with progress(f"simulating {counted(len(runs), 'run')}") as update:
        comparison = make_comparison(
            runs,
            sources,
            directory,
            reference=experiment.reference,
            price=price,
            workers=workers,
            resume=resume is not False,
            progress=update,
            so_far=quick.tell if output is Form.TABLE else None,
        )
    seconds = time.monotonic() - began
    finished = [result for result in comparison.made if result.status.value == "finished"]
    if finished:
        if len(finished) == len(comparison.made):
            name = next(iter(sources.values())).workload.name
            refuse_all_rejected(name, [*comparison.outcomes.values()])
        said = _headline(cluster, sources, demo)
        said += f"{_simulated(finished, experiment)} in {seconds:.1f} s"
        _print_results(comparison, directory, output, said, experiment.metrics, png=png)
        if output is Form.TABLE and demo:
            print("Next: volvelle compare your.csv --cluster 16x8", end="")
            print("      (reads Slurm sacct, SWF, Philly, Helios, PAI, plain CSV ...)")
    _print_unfinished(comparison.made, directory)


def _check_equal(
    runs: "Sequence[PlannedRun]", sources: "Mapping[WorkloadKey, Source]", directory: Path
) -> None:
    """Say that the command goes on with what failed before. Raises `Problem` where results would be lost."""
    from volvelle.cli.output import remark
    from volvelle.cli.results import OF_COMPARISON, free_folder, unfinished
    from volvelle.simulate.compare import holds_only

    if not holds_only(runs, sources, directory):
        free_folder(directory, *OF_COMPARISON, force=False)
    remark(
        f"note: makes what {directory} lacks, {', '.join(unfinished(directory))}, and keeps the rest"
    )


class _QuickFirst:
    """Shows a first table where the quick policies of a comparison are done and others take longer."""

    def __init__(self, names: "Sequence[str]", began: float) -> None:
        from volvelle.notebook.chosen import FIRST_POLICIES

        self._wanted = {name for name in names if name in FIRST_POLICIES}
        self._others = len(names) - len(self._wanted)
        self._began = began

    def tell(self, over: "Sequence[ComparedRun]", read: "Callable[[], Comparison]") -> None:
        """Print it on standard error, once, where the comparison has taken ``_QUICK_SECONDS``."""
        from volvelle.cli.formatting import counted
        from volvelle.cli.output import remark, terminal
        from volvelle.report.table import to_text

        left = self._wanted - {run.name for run in over if run.status.value == "finished"}
        if left or not self._wanted or time.monotonic() - self._began < _QUICK_SECONDS:
            return
        remark(f"\nThe quick policies first; {counted(self._others, 'other')} to follow:")
        for table in read().tables():
            remark(to_text(table, width=terminal()[0]))
        self._wanted = set()


def _headline(cluster: "Cluster", sources: "dict[WorkloadKey, Source]", demo: bool) -> str:
    from volvelle.cli.reading import remarkable
    from volvelle.notebook.facts import cluster_line, several, workload_line

    source = next(iter(sources.values()))
    origin = source.origin | {"jobs": len(source.workload)}
    if source.workload.report is not None and remarkable(source.workload.report):
        origin.pop("rows", None)  # which the note on the import says
    if demo and "generator" in origin:
        load, seed = origin["parameters"]["load"], origin["seed"]
        return (
            f"Demo workload: {origin['jobs']:,} jobs, {cluster.gpus} GPUs ({cluster}), "
            f"load {load:g}, seed {seed} \u2014 "
        )
    if len(sources) > 1:
        origin |= {"seed": several(key.seed for key in sources)}
        if any(key.rate is not None for key in sources):
            rates = several(key.rate for key in sources if key.rate is not None)
            origin |= {"jobs_per_hour": rates}
    return f"{workload_line(origin)}; {cluster_line(cluster)} \u2014 "


def _simulated(finished: "Sequence[ComparedRun]", experiment: "Experiment") -> str:
    from volvelle.cli.formatting import counted
    from volvelle.metrics.outcomes import RECORDED

    simulated = [result for result in finished if result.name != RECORDED]
    reused = sum(result.reused for result in simulated)
    varied = (
        experiment.placements,
        experiment.admissions,
        experiment.estimators,
        experiment.terminations,
        experiment.seeds,
        experiment.jobs_per_hour or (None,),
    )
    only_policies = all(len(choices) == 1 for choices in varied)
    noun = "policy" if only_policies else "run"
    kept = f", {reused} of them earlier," if reused else ""
    return f"simulated {counted(len(simulated), noun)}{kept}"


def _print_results(
    runs: "Comparison",
    directory: Path,
    output: Form,
    headline: str,
    metrics: "Sequence[str]",
    *,
    png: bool,
) -> None:
    from volvelle.cli.output import (
        rejections,
        remark_on_idle_policies,
        remark_on_passed_over,
        remark_on_rejections,
        remark_on_slow_policies,
        show_all,
        terminal,
    )
    from volvelle.cli.report import in_short, show_verdict, shown_tables
    from volvelle.report.table import BEST, has_room_for_deltas

    stopped = any(run.status.value == "interrupted" for run in runs.made)
    page: Path | None = None
    if not stopped:  # who pressed Ctrl-C does not wait for pictures
        page = runs.report(directory, columns=metrics, png=png)
    tables = shown_tables(runs, output, metrics)
    if output is Form.TABLE:
        print(f"{headline}\n")
        if not stopped:
            show_verdict(runs)
    show_all(tables, output)
    if len({rejections(outcomes) for outcomes in runs.outcomes.values()}) == 1:
        remark_on_rejections("", next(iter(runs.outcomes.values())))
    else:
        for name, outcomes in runs.outcomes.items():
            remark_on_rejections(name, outcomes)
    remark_on_passed_over((runs.records[name], runs.outcomes[name]) for name in runs)
    remark_on_idle_policies((runs.records[name].composition, runs.outcomes[name]) for name in runs)
    remark_on_slow_policies(runs.records[name] for name in runs)
    if output is Form.TABLE and page is not None:
        starred = f"*: {BEST}" if any(t.best() for t in tables) else ""
        width, _ = terminal()
        wide = any(has_room_for_deltas(table, width) for table in tables)
        where = "beside figures" if wide else "in a wider window, beside figures"
        held = f"; {where}: the difference from {in_short(runs.baseline)}" if runs.baseline else ""
        print(f"\n{starred}{held}. Pictures: {page}" if starred else f"\nPictures: {page}")


def _print_unfinished(results: "Sequence[ComparedRun]", directory: Path) -> None:
    """Say what is missing; raise what a run failed with, or end as interrupted."""
    from volvelle.cli.output import remark

    stopped = [result.name for result in results if result.status.value == "interrupted"]
    if stopped:
        remark(f"interrupted: {', '.join(stopped)}; what was done of them is in {directory}/runs")
        remark("to finish them, give the same command with --resume")
        remark(f"to draw those that are finished: volvelle report {directory}")
    failed = [result for result in results if result.error is not None]
    if failed:
        remark(f"failed: {', '.join(result.name for result in failed)}")
    for result in failed:
        assert result.error is not None
        raise result.error  # the others' reasons are mostly the same
    if stopped:
        raise typer.Exit(130)
