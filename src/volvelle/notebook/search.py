"""`volvelle.tune`: a search for a policy's parameters, as the command makes it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import Cluster
from volvelle.notebook.arguments import in_python
from volvelle.notebook.arrow import Columnar, HasArrow, axes_of
from volvelle.notebook.jobs import Jobs, cluster_of, jobs_of
from volvelle.notebook.runs import Part, experiment_of
from volvelle.report.table import Table, as_columns, to_html
from volvelle.simulate.experiment import Experiment
from volvelle.simulate.sources import Source
from volvelle.tune.front import FRONT, Candidate, Front, read_evaluated
from volvelle.tune.picture import table
from volvelle.tune.search import Search, SearchProgress, algorithm_named
from volvelle.tune.search import tune as search_front

OBJECTIVES = ("jct:mean", "pred_error:p99")


@dataclass(frozen=True, repr=False)
class Tuned(Columnar):
    """The result of a search; as columns, a row for each point of the front."""

    front: Front

    @property
    def picks(self) -> dict[str, str]:
        """The points with a name, as policies: ``{"balanced": "pcs:..."}``."""
        front = self.front
        return {
            name: f"{front.policy}:{front.points[at].parameters}"
            for name, at in front.picks.items()
        }

    def table(self) -> Table:
        """The points and their figures."""
        return table(self.front)

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Columns of the table."""
        return as_columns(self.table())

    def plot(self, ax: Any = None) -> Any:
        """Draw the first two objectives with Matplotlib; returns the axes. Raises `Problem` without it."""
        ax = axes_of(ax)
        x, y = (str(objective) for objective in self.front.objectives[:2])
        tried = [candidate.mean[:2] for candidate in self.front.evaluated]
        found = [point.mean[:2] for point in self.front.points]
        ax.scatter(*zip(*tried, strict=True), label="tried", s=8, alpha=0.4)
        ax.scatter(*zip(*found, strict=True), label="front")
        ax.set(xlabel=x, ylabel=y)
        ax.legend()
        return ax

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return to_html(self.table())


@in_python
def tune(
    jobs: Jobs | Path | str | HasArrow,
    cluster: Cluster | Path | str | None = None,
    *,
    policy: Part = "pcs",
    objectives: Sequence[str] | str = OBJECTIVES,
    candidates: int = 320,
    refine: int = 0,
    samples: int = 4,
    sample_jobs: int = 1000,
    test: float = 0.25,
    algorithm: str = "spea2",
    population: int = 32,
    out: Path | str | None = None,
    workers: int | None = None,
    resume: bool = False,
    callbacks: Sequence[Callable[[SearchProgress], None]] = (),
    **settings: Any,
) -> Tuned:
    """Search a policy's parameters for the best trade-offs, as ``volvelle tune`` does.

    sample_jobs: jobs in each of the ``samples`` (the command's ``--jobs``). out: folder of the front, kept up
    to date; with ``resume`` an earlier, equal search there goes on. callbacks: each is called after every
    generation with what is found so far; one that raises KeyboardInterrupt ends the search with that.
    settings: the keys of an experiment file. Raises `Problem`.
    """
    experiment = experiment_of(settings, policy, out)
    search = search_of(
        [objectives] if isinstance(objectives, str) else objectives,
        algorithm,
        candidates=candidates,
        refine=refine,
        samples=samples,
        jobs=sample_jobs,
        test=test,
        population=population,
        seed=experiment.seeds[0],
    )
    there = cluster_of(cluster)
    [source] = experiment.sources_of(jobs_of(jobs).source, there).values()
    return Tuned(
        make_front(
            experiment,
            there,
            source,
            search,
            experiment.out,
            workers=workers,
            resume=resume,
            callbacks=callbacks,
        )
    )


def search_of(objectives: Sequence[str], algorithm: str, **sizes: Any) -> Search:
    """A search as it is written; ``sizes`` are the other fields of `Search`. Raises `Problem`."""
    measured = tuple(dict.fromkeys(map(read_objective, objectives)))
    search = Search(objectives=measured, algorithm=algorithm_named(algorithm), **sizes)
    search.check()
    return search


def make_front(
    experiment: Experiment,
    cluster: Cluster,
    source: Source,
    search: Search,
    directory: Path | None,
    *,
    workers: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    callbacks: Sequence[Callable[[SearchProgress], None]] = (),
    counted: Callable[[int, int], None] | None = None,
    present: str | None = None,
) -> Front:
    """The front of the one policy of ``experiment``, kept in ``directory``. Raises `Problem`.

    present: see `volvelle.tune.search.tune`.
    """
    setting = experiment.only_run(cluster, "tune makes one search", "name one policy").setting

    def known(described: Mapping[str, Any]) -> Iterable[Candidate]:
        if not resume or directory is None:
            return ()
        return read_evaluated(directory / FRONT, described)

    def note(now: SearchProgress) -> None:
        if directory is not None:
            now.front.write(directory)
        for callback in callbacks:
            callback(now)

    front = search_front(
        source.workload,
        setting,
        search,
        workers=workers,
        ray=ray,
        known=known,
        progress=note,
        counted=counted,
        present=present,
    )
    if directory is not None and front.points:
        front.write(directory)
    return front
