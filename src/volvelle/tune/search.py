"""The preference solver: a policy's Pareto front over the objectives asked for (PCS, OSDI'24, 3.2, 3.3).

An evolutionary search (SPEA2 as in the paper, or NSGA-II; both pymoo's, seeded) proposes points of the
policy's own space; every candidate is simulated on the same random samples of the history's earlier
part, in parallel (`volvelle.tune.evaluators`), and the means are its objectives. A third of the proposals
is put into the widest gaps of the front instead, between the parameters of the points beside them (ours). At
the end the front is simulated on samples of the later part. The search begins with the points the policy
names, and random ones.

A search is repeatable: with the figures of what an earlier one tried it takes the same way without
simulating again, and that is how it is resumed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import msgspec
import numpy as np

from volvelle.core.policy import policies
from volvelle.core.space import Point, Space
from volvelle.core.written import WrittenPart
from volvelle.metrics.catalogue import Objective
from volvelle.metrics.outcomes import FloatColumn
from volvelle.model.problems import Problem, nearest
from volvelle.simulate.run import Setting, check
from volvelle.tune.evaluators import Figures, Stage, Submit, processes
from volvelle.tune.front import Candidate, Front, costs_of, front_of
from volvelle.tune.on_ray import ray_cluster
from volvelle.tune.samples import Samples, draw, fingerprint, split
from volvelle.workload.workload import Workload

Algorithm = Literal["spea2", "nsga2"]

_JITTER = 0.03
"""How far a point that is put between two others lies from their line, of each dimension."""

_PATIENCE = 20
"""Generations without a candidate that is new, after which a search ends before its budget."""


def algorithm_named(name: str) -> Algorithm:
    """The algorithm of that name. Raises `Problem`."""
    for known in get_args(Algorithm):
        if name == known:
            return cast(Algorithm, known)
    known_ones = get_args(Algorithm)
    raise Problem(
        f"unknown algorithm {name!r}{nearest(name, known_ones)}",
        mend=f"algorithms are {', '.join(known_ones)}",
        usage=True,
    )


@dataclass(frozen=True, kw_only=True)
class Search:
    """What to look for, and how long.

    candidates: configurations to simulate, each on ``samples`` workloads of ``jobs`` jobs (0: on the history
    itself). test: share of the history, its latest jobs, that is kept to tell how good the front is.
    population: candidates that the algorithm keeps and proposes at a time.
    """

    objectives: tuple[Objective, ...]
    candidates: int = 320
    samples: int = 4
    jobs: int = 1000
    test: float = 0.25
    population: int = 32
    algorithm: Algorithm = "spea2"
    seed: int = 0

    def check(self) -> None:
        """Raise `Problem` for what cannot be searched."""
        for name, least in (("candidates", 1), ("samples", 0), ("jobs", 1), ("population", 1)):
            if getattr(self, name) < least:
                raise Problem(
                    f"{name} is {getattr(self, name)}", mend=f"give {least} or more", usage=True
                )
        if len(set(map(str, self.objectives))) < 2:
            raise Problem(
                f"a trade-off needs two objectives, {len(set(map(str, self.objectives)))} given",
                mend="say --objective twice, as in --objective jct:avg --objective pred_error:p99",
                usage=True,
            )
        for objective in self.objectives:
            if objective.metric.better == "neither":
                raise Problem(
                    f"metric {objective.metric.name!r} is neither better high nor low",
                    mend="choose another objective; see: volvelle list metrics",
                    usage=True,
                )


@dataclass(frozen=True)
class Progress:
    """How far a search is: candidates simulated, of how many, and the front so far."""

    done: int
    candidates: int
    front: Front


def tune(
    history: Workload,
    setting: Setting,
    search: Search,
    *,
    workers: int | None = None,
    ray: str | None = None,
    known: Callable[[Mapping[str, Any]], Iterable[Candidate]] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Front:
    """The front of the policy in ``setting`` for workloads like ``history``.

    The policy's own parameters in ``setting`` stay unless they are searched. workers: processes
    (default: one for each CPU we may use). ray: the address of a Ray cluster to evaluate on instead.
    known: given what decides the search, what an earlier one tried (`volvelle.tune.front.read_evaluated`).
    progress: told after every generation. Ctrl-C ends the search with what is found, untested. Raises
    `Problem` before anything is simulated, and where an objective has no figure on these workloads.
    """
    search.check()
    if workers is not None and ray is not None:
        raise Problem(
            f"{workers} workers are asked for, and a Ray cluster has its own",
            mend="leave one of workers and ray out",
            usage=True,
        )
    run = _Run.of(history, setting, search)
    for candidate in known(run.described) if known else ():
        run.tried[candidate.parameters] = candidate
    stage = Stage(run.samples.all, setting, run.policy, search.objectives)
    try:
        with processes(stage, workers) if ray is None else ray_cluster(stage, ray) as submit:
            run.explore(submit, progress)
            return run.front(tested=run.tested(submit))
    except KeyboardInterrupt:
        return run.front(complete=False)


@dataclass
class _Run:
    """A search under way."""

    search: Search
    policy: str
    kept: str
    space: Space
    samples: Samples
    described: Mapping[str, Any]
    tried: dict[str, Candidate]
    """By parameters, what is known; ``order`` are those of this search, as they came."""
    order: dict[str, Point]

    @classmethod
    def of(cls, history: Workload, setting: Setting, search: Search) -> "_Run":
        check(history, setting)
        if setting.tracked is not None:
            raise Problem(
                "a search measures all jobs of its samples, and cannot track some",
                mend="leave track out",
                usage=True,
            )
        parts = split(history, search.test)
        made = policies.make(setting.composition.policy)
        kept = made.label.partition(":")[2]
        policy = WrittenPart.read(setting.composition.policy).part
        space = made.search_space(parts[0].jobs)
        if space is None:
            can = [
                name for name, part in policies.all().items() if part.search_space(parts[0].jobs)
            ]
            raise Problem(
                f"policy {policy!r} does not say what a search may vary",
                mend=f"choose one that does, such as {', '.join(can)}",
                usage=True,
            )
        samples = draw(
            parts,
            samples=search.samples,
            jobs=search.jobs,
            gpus=setting.cluster.gpus,
            seed=search.seed,
        )
        described = {
            "history": fingerprint(history),
            "jobs_in_history": len(history),
            "cluster": str(setting.cluster),
            "composition": msgspec.to_builtins(setting.composition),
            "overheads": setting.overheads.model_dump(),
            "tick": setting.tick,
            "until": setting.until,
            "objectives": [str(objective) for objective in search.objectives],
            "samples": search.samples,
            "jobs": search.jobs,
            "test": search.test,
            "population": min(search.population, search.candidates),
            "algorithm": search.algorithm,
            "seed": search.seed,
        }
        return cls(search, policy, kept, space, samples, described, {}, {})

    def explore(self, submit: Submit, progress: Callable[[Progress], None] | None) -> None:
        """Let the algorithm propose and learn until the budget is used up."""
        algorithm = _algorithm(self.search, self.space)
        rng = np.random.default_rng([self.search.seed, 0x6A9])
        idle = 0
        while len(self.order) < self.search.candidates and idle < _PATIENCE:
            proposed = algorithm.ask()
            proposed.set("X", self._into_gaps(proposed.get("X"), rng))
            points = [self._point(shares) for shares in proposed.get("X")]
            written = [self._write(point) for point in points]
            before = len(self.order)
            wanted = dict(zip(written, points, strict=True))
            new = [parameters for parameters in wanted if parameters not in self.order]
            within = new[: self.search.candidates - before]
            self._try({parameters: wanted[parameters] for parameters in within}, submit)
            if progress is not None:
                progress(Progress(len(self.order), self.search.candidates, self.front()))
            if len(within) < len(new):
                break
            idle = 0 if within else idle + 1
            means = [self.tried[parameters].mean for parameters in written]
            proposed.set("F", costs_of(means, self.search.objectives))
            algorithm.tell(infills=proposed)

    def _into_gaps(self, proposed: FloatColumn, rng: np.random.Generator) -> FloatColumn:
        """``proposed``, the last third of it put between neighbours on the front, the farthest first."""
        known = [self.tried[one] for one in self.order]  # of an earlier search no more than that
        front = front_of(known, self.search.objectives)
        if len(front) < 2:
            return proposed
        costs = costs_of([one.mean for one in front], self.search.objectives)
        span = np.ptp(costs, axis=0)
        gaps = np.linalg.norm(np.diff(costs, axis=0) / np.where(span > 0.0, span, 1.0), axis=1)
        dimensions = self.space.dimensions
        places = np.array(
            [[d.share(x) for d, x in zip(dimensions, one.point, strict=True)] for one in front]
        )
        moved = proposed.copy()
        widest = np.argsort(-gaps, kind="stable")[: len(moved) // 3]
        for row, gap in enumerate(widest.tolist(), start=len(moved) - len(widest)):
            between = places[gap] + rng.random() * (places[gap + 1] - places[gap])
            moved[row] = np.clip(between + rng.normal(0.0, _JITTER, len(dimensions)), 0.0, 1.0)
        return moved

    def _point(self, shares: FloatColumn) -> Point:
        return tuple(
            dimension.at(share)
            for dimension, share in zip(self.space.dimensions, shares.tolist(), strict=True)
        )

    def _write(self, point: Point) -> str:
        """The parameters at ``point``, after those that stay."""
        searched = self.space.write(point)
        names = {pair.partition("=")[0] for pair in searched.split(",")}
        stay = [p for p in self.kept.split(",") if p and p.partition("=")[0] not in names]
        return ",".join([*stay, searched])

    def _try(self, wanted: Mapping[str, Point], submit: Submit) -> None:
        """Simulate those that are not known yet; the others only count."""
        new = [parameters for parameters in wanted if parameters not in self.tried]
        for parameters, figures in self._simulated(new, range(len(self.samples.train)), submit):
            point = wanted[parameters]
            self._refuse_nothing(figures)
            self.tried[parameters] = Candidate(point, parameters, figures)
        self.order |= wanted

    def _simulated(
        self, parameters: Sequence[str], samples: Sequence[int], submit: Submit
    ) -> Iterable[tuple[str, tuple[Figures, ...]]]:
        """The figures of each on all ``samples``, as they become known."""
        of: dict[Future[Figures], tuple[str, int]] = {
            submit(one, sample): (one, sample) for one in parameters for sample in samples
        }
        figures: dict[str, dict[int, Figures]] = {one: {} for one in parameters}
        pending = set(of)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                one, sample = of[future]
                figures[one][sample] = future.result()
                if len(figures[one]) == len(samples):
                    yield one, tuple(figures[one][number] for number in samples)

    def _refuse_nothing(self, figures: Sequence[Figures]) -> None:
        for objective, column in zip(
            self.search.objectives, zip(*figures, strict=True), strict=True
        ):
            if np.isnan(column).all():
                raise Problem(
                    f"objective {objective} has no figure on this workload",
                    mend="choose one that its jobs have: deadlines, for example, are not in every trace",
                )

    def tested(self, submit: Submit) -> Mapping[str, tuple[Figures, ...]]:
        """The figures of the front on the samples that it was not chosen by."""
        on_front = [one.parameters for one in front_of(self._own, self.search.objectives)]
        first = len(self.samples.train)
        return dict(self._simulated(on_front, range(first, len(self.samples.all)), submit))

    @property
    def _own(self) -> list[Candidate]:
        """What this search tried, in order; what was found when it was stopped, too."""
        order = [*self.order, *(one for one in self.tried if one not in self.order)]
        return [self.tried[parameters] for parameters in order]

    def front(
        self,
        *,
        tested: Mapping[str, tuple[Figures, ...]] | None = None,
        complete: bool = True,
    ) -> Front:
        """What is found so far."""
        tried = self._own
        points = [
            replace(
                one, test=(tested or {}).get(one.parameters, ()), facts=self.space.facts(one.point)
            )
            for one in front_of(tried, self.search.objectives)
        ]
        return Front(
            self.policy,
            self.search.objectives,
            tuple(dimension.name for dimension in self.space.dimensions),
            tuple(points),
            tuple(tried),
            self.described,
            complete and tested is not None,
        )


def _algorithm(search: Search, space: Space) -> Any:
    """pymoo's algorithm over the unit cube, its first population chosen."""
    try:
        from pymoo.algorithms.moo.nsga2 import NSGA2  # noqa: PLC0415 - an extra
        from pymoo.algorithms.moo.spea2 import SPEA2, SPEA2Survival  # noqa: PLC0415
        from pymoo.core.problem import Problem as Searched  # noqa: PLC0415
        from pymoo.core.termination import NoTermination  # noqa: PLC0415
    except ImportError:
        raise Problem(
            "tune needs the package pymoo", mend="install it: pip install volvelle[tune]"
        ) from None
    size, width = min(search.population, search.candidates), len(space.dimensions)
    first = np.random.default_rng([search.seed, 0x7E]).random((size, width))
    for row, start in enumerate(space.starts[:size]):
        first[row] = [d.share(value) for d, value in zip(space.dimensions, start, strict=True)]
    chosen = {"pop_size": size, "sampling": np.clip(first, 0.0, 1.0)}
    algorithm = (
        SPEA2(**chosen, survival=SPEA2Survival(normalize=True))  # pymoo's is shared by all searches
        if search.algorithm == "spea2"
        else NSGA2(**chosen)
    )
    problem = Searched(
        n_var=width, n_obj=len(search.objectives), xl=np.zeros(width), xu=np.ones(width)
    )
    algorithm.setup(problem, termination=NoTermination(), seed=search.seed, verbose=False)
    return algorithm
