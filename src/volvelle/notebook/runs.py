"""`volvelle.simulate` and `volvelle.compare`: runs and comparisons, as the commands make them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.summary import hand_on
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem, nearest
from volvelle.notebook.arguments import in_python
from volvelle.notebook.arrow import HasArrow
from volvelle.notebook.chosen import chosen_policies
from volvelle.notebook.jobs import Jobs, cluster_of, jobs_of
from volvelle.notebook.results import Comparison, Run
from volvelle.simulate import run_directory
from volvelle.simulate.compare import ComparedRun
from volvelle.simulate.compare import compare as compare_runs
from volvelle.simulate.experiment import Experiment, PlannedRun, WorkloadKey
from volvelle.simulate.experiment_file import SINGULAR
from volvelle.simulate.run import Progress, check
from volvelle.simulate.run import simulate as simulate_run
from volvelle.simulate.run_directory import RunRecord, RunStatus
from volvelle.simulate.sources import Source
from volvelle.simulate.workers import usable_cpus

OF_JOBS = ("trace", "from_journal", "format", "map", "dates", "strict", "ignore_types", "generate")
"""Keys of an experiment that say which jobs there are: in Python these are given."""

Part = Any
"""A policy, placement ...: as it is written, ``las:round=5m``, or an object of its class."""


@in_python
def simulate(
    jobs: Jobs | Path | str | HasArrow,
    cluster: Cluster | Path | str | None = None,
    policy: Part = "fifo",
    *,
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
    given = jobs_of(jobs)
    there, source = cluster_of(cluster, given), given.source
    return make_run(
        experiment,
        there,
        experiment.sources_of(source, there),
        experiment.out,
        keep_journal=journal,
        progress=progress,
    )


@in_python
def compare(
    jobs: Jobs | Path | str | HasArrow,
    cluster: Cluster | Path | str | None = None,
    policies: Sequence[Part] | Part = (),
    *,
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
    given = jobs_of(jobs)
    there, source = cluster_of(cluster, given), given.source
    several = isinstance(policies, Iterable) and not isinstance(policies, str)
    named = [*policies] if several else [policies]
    chosen = named or chosen_policies(source.workload)
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
    return replace(found, metrics=experiment.metrics)


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
        return Run(record.ended(simulation), simulation.outcomes, simulation, experiment.metrics)
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
    return Run(record.ended(simulation), simulation.outcomes, simulation, experiment.metrics)


def planned_runs(
    experiment: Experiment, cluster: Cluster, sources: Mapping[WorkloadKey, Source]
) -> list[PlannedRun]:
    """The trace's own record, if it has one, and the runs of ``experiment``. Raises `Problem`."""
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
    so_far: Callable[[Sequence[ComparedRun], Callable[[], Comparison]], None] | None = None,
) -> Comparison:
    """Make ``runs`` in ``directory``; those that finished are read again. Raises `Problem`.

    so_far: told the runs that are over while others go on, with what reads a comparison of them.
    """
    specs = {run.name: sources[run.workload].workload.specs for run in runs}

    def read(those: Sequence[ComparedRun]) -> Comparison:
        return _read_again(those, specs, reference, price)

    made = compare_runs(
        runs,
        sources,
        directory,
        workers=workers,
        resume=resume,
        progress=progress,
        made=so_far and (lambda those: so_far(those, lambda: read(those))),
    )
    return read(made)


def _read_again(
    made: Sequence[ComparedRun],
    specs: Mapping[str, Sequence[JobSpec]],
    reference: str | None,
    price: float | None,
) -> Comparison:
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
    """The experiment of a function's arguments. Raises `Problem` for a key that it does not take."""
    for key in OF_JOBS:
        if key in settings:
            raise Problem(
                f"there is no argument {key!r}: the jobs are given",
                mend="see volvelle.read and volvelle.generate",
            )
    for key in settings.keys() & {"policy", "policies"}:
        raise Problem(
            f"there is no argument {key!r} here",
            mend="simulate and tune take policy='las', compare takes policies=['las', 'srsf']",
        )
    known = {*Experiment.model_fields, *SINGULAR}
    for key in settings.keys() - known:
        raise Problem(
            f"there is no argument {key!r}{nearest(key, sorted(known))}",
            mend="see the keys of an experiment file",
        )
    given = {SINGULAR.get(key, key): _written(value) for key, value in settings.items()}
    return Experiment.of(None, {**given, "policies": _written(policies), "out": out})


def _written(value: Any) -> Any:
    """Parts as they are written, ``las:round=300`` for an object of the class; all else as it is."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_written, value))
    if isinstance(value, type):  # as @policy.order makes of a function
        return getattr(value, "name", value)
    if callable(value) and not hasattr(value, "label"):
        raise Problem(
            f"{getattr(value, '__name__', value)} is a function without a name to go by",
            mend="put @policy.order('my-order') above it (from volvelle import policy), and name it",
        )
    return getattr(value, "label", value)
