"""The preference solver: a policy's Pareto front over the objectives asked for (PCS, OSDI'24, 3.2, 3.3).

An evolutionary search (SPEA2 as in the paper, or NSGA-II; both pymoo's, seeded) proposes points of the
policy's own space; every candidate is simulated on the same random samples of the history's earlier
part, in parallel (`volvelle.tune.evaluators`), and the means are its objectives. A third of the proposals
is put into the widest gaps of the front instead, between the parameters of the points beside them (ours). The
search begins with the points the policy names, and random ones. Where that is asked for it then refines the
front (ours): it varies the points in the finer space that the policy has around each. At the end the front is
simulated on samples of the later part (`volvelle.tune.proposals`).

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
from volvelle.model.arrays import FloatColumn
from volvelle.model.problems import Problem, nearest
from volvelle.simulate.run import Setting, check
from volvelle.tune.evaluate import evaluate
from volvelle.tune.evaluators import EvaluatorStage, Figures, Submit, processes
from volvelle.tune.front import Candidate, Front, costs_of, front_of
from volvelle.tune.on_ray import ray_cluster
from volvelle.tune.proposals import evolution, into_gaps, variations
from volvelle.tune.samples import Samples, draw, fingerprint, split
from volvelle.workload.workload import Workload

Algorithm = Literal["spea2", "nsga2"]

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
    """The scope of a search.

    candidates: configurations to simulate, each on ``samples`` workloads of ``jobs`` jobs (0: on the history
    itself). refine: so many more after them, beside unbeaten ones, each of their numbers on its
    own. test: share of the history, its latest jobs, that is kept to test the front. population:
    candidates that the algorithm keeps, and that are proposed at a time.
    """

    objectives: tuple[Objective, ...]
    candidates: int = 320
    refine: int = 0
    samples: int = 4
    jobs: int = 1000
    test: float = 0.25
    population: int = 32
    algorithm: Algorithm = "spea2"
    seed: int = 0

    def check(self) -> None:
        """Raise `Problem` for what cannot be searched."""
        at_least = {"candidates": 1, "refine": 0, "samples": 0, "jobs": 1, "population": 1}
        for name, least in at_least.items():
            if getattr(self, name) < least:
                raise Problem(
                    f"{name} is {getattr(self, name)}", mend=f"give {least} or more", usage=True
                )
        if len(set(map(str, self.objectives))) < 2:
            raise Problem(
                f"a trade-off needs two objectives, {len(set(map(str, self.objectives)))} given",
                mend="give another objective, as in jct:avg and pred_error:p99",
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
class SearchProgress:
    """Progress of a search: candidates simulated, of how many, and the front so far."""

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
    progress: Callable[[SearchProgress], None] | None = None,
    counted: Callable[[int, int], None] | None = None,
    present: str | None = None,
) -> Front:
    """The front of the policy in ``setting`` for workloads like ``history``.

    The policy's own parameters in ``setting`` stay unless they are searched. workers: processes
    (default: one for each CPU we may use). ray: the address of a Ray cluster to evaluate on instead.
    known: from the inputs of the search to the candidates of an earlier one
    (`volvelle.tune.front.read_evaluated`).
    progress: called after every generation. counted: called with candidates simulated and in all, after each.
    present: the policy that is in place, as it is written, simulated on the same samples to compare with.
    Ctrl-C ends the search with the points found, untested. Raises `Problem` before anything is simulated, and
    where an objective has no figure on these workloads.
    """
    search.check()
    if workers is not None and ray is not None:
        raise Problem(
            f"{workers} workers are asked for, and a Ray cluster has its own",
            mend="leave one of workers and ray out",
            usage=True,
        )
    run = _Run.of(history, setting, search, counted)
    for candidate in known(run.described) if known else ():
        run.tried[candidate.parameters] = candidate
    stage = EvaluatorStage(run.samples.all, setting, run.policy, search.objectives)
    try:
        if present is not None:
            run.present = run.figures_of(present, setting)
        with processes(stage, workers) if ray is None else ray_cluster(stage, ray) as submit:
            run.explore(submit, progress)
            run.refine(submit, progress)
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
    counted: Callable[[int, int], None] | None
    present: Candidate | None = None

    @classmethod
    def of(
        cls,
        history: Workload,
        setting: Setting,
        search: Search,
        counted: Callable[[int, int], None] | None,
    ) -> "_Run":
        check(history, setting)
        if setting.tracked is not None:
            raise Problem(
                "a search measures all jobs of its samples, and cannot track some",
                mend="leave track out",
                usage=True,
            )
        made = policies.make(setting.composition.policy)
        kept = made.label.partition(":")[2]
        policy = WrittenPart.read(setting.composition.policy).part
        if made.search_space(history.jobs) is None:
            one = history.jobs[:1]  # which policies can does not depend on the jobs
            can = [name for name, part in policies.all().items() if part.search_space(one)]
            raise Problem(
                f"policy {policy!r} does not say what a search may vary",
                mend=f"choose one that does, such as {', '.join(can)}",
                usage=True,
            )
        parts = split(history, search.test)
        space = made.search_space(parts[0].jobs)
        assert space is not None
        if search.refine and space.finer is None:
            raise Problem(
                f"policy {policy!r} does not say how what is found can be refined",
                mend="leave refine out",
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
        return cls(search, policy, kept, space, samples, described, {}, {}, counted)

    def figures_of(self, policy: str, setting: Setting) -> Candidate:
        """Figures of a policy, as it is written, on the samples; it is no candidate."""
        composition = msgspec.structs.replace(setting.composition, policy=policy)
        there = replace(setting, composition=composition)
        figures = [evaluate(one, there, self.search.objectives) for one in self.samples.all]
        known = len(self.samples.train)
        return Candidate((), policy, tuple(figures[:known]), tuple(figures[known:]))

    def explore(self, submit: Submit, progress: Callable[[SearchProgress], None] | None) -> None:
        """Let the algorithm propose and learn until the budget is used up."""
        algorithm = evolution(
            self.search.algorithm,
            self.space,
            population=self._population,
            objectives=len(self.search.objectives),
            seed=self.search.seed,
        )
        rng = np.random.default_rng([self.search.seed, 0x6A9])
        idle = 0
        while len(self.order) < self.search.candidates and idle < _PATIENCE:
            proposed = algorithm.ask()
            front, costs = self._found()
            places = np.array([self.space.shares(one.point) for one in front])
            proposed.set("X", into_gaps(proposed.get("X"), costs, places, rng))
            points = [self.space.point(shares) for shares in proposed.get("X").tolist()]
            written = [self._write(self.space, point) for point in points]
            before = len(self.order)
            wanted = dict(zip(written, points, strict=True))
            new = [parameters for parameters in wanted if parameters not in self.order]
            within = new[: self.search.candidates - before]
            self._try({parameters: wanted[parameters] for parameters in within}, submit)
            self._tell(progress)
            if len(within) < len(new):
                break
            idle = 0 if within else idle + 1
            means = [self.tried[parameters].mean for parameters in written]
            proposed.set("F", costs_of(means, self.search.objectives))
            with np.errstate(invalid="ignore"):  # pymoo scales costs by their span, which may be 0
                algorithm.tell(infills=proposed)

    def refine(self, submit: Submit, progress: Callable[[SearchProgress], None] | None) -> None:
        """Vary the points of the front in their finer spaces until that budget is used up."""
        rng = np.random.default_rng([self.search.seed, 0xF1E])
        last = len(self.order) + self.search.refine
        idle = 0
        while len(self.order) < last and idle < _PATIENCE:
            front, costs = self._found()
            around = [self._finer(one.parameters) for one in front]
            varied = variations(costs, around, self._population, rng)
            written = dict.fromkeys(self._write(space, point) for space, point in varied)
            new = [parameters for parameters in written if parameters not in self.order]
            within = new[: last - len(self.order)]
            starts = {parameters: self._finer(parameters).starts[0] for parameters in within}
            self._try(starts, submit, refined=True)
            idle = 0 if within else idle + 1
            self._tell(progress)

    @property
    def _aim(self) -> int:
        return self.search.candidates + self.search.refine

    def _tell(self, progress: Callable[[SearchProgress], None] | None) -> None:
        if progress is not None:
            progress(SearchProgress(len(self.order), self._aim, self.front()))

    def _found(self) -> tuple[list[Candidate], FloatColumn]:
        """The front of what this search tried, without what else an earlier one knew; its costs."""
        front = front_of([self.tried[one] for one in self.order], self.search.objectives)
        return front, costs_of([one.mean for one in front], self.search.objectives)

    @property
    def _population(self) -> int:
        return min(self.search.population, self.search.candidates)

    def _finer(self, parameters: str) -> Space:
        """The finer space around them."""
        assert self.space.finer is not None
        return self.space.finer(parameters)

    def _write(self, space: Space, point: Point) -> str:
        """The parameters at ``point``, after those that stay."""
        searched = space.write(point)
        names = {pair.partition("=")[0] for pair in searched.split(",")}
        stay = [p for p in self.kept.split(",") if p and p.partition("=")[0] not in names]
        return ",".join([*stay, searched])

    def _try(self, wanted: Mapping[str, Point], submit: Submit, *, refined: bool = False) -> None:
        """Simulate those that are not known yet; the others only count."""
        new = [parameters for parameters in wanted if parameters not in self.tried]
        done = len(self.order) + len(wanted) - len(new)
        for parameters, figures in self._simulated(new, range(len(self.samples.train)), submit):
            point = wanted[parameters]
            self._refuse_nothing(figures)
            self.tried[parameters] = Candidate(point, parameters, figures, refined=refined)
            done += 1
            if self.counted is not None:
                self.counted(done, self._aim)
        for parameters, point in wanted.items():  # an earlier search may have met it elsewhere
            self.tried[parameters] = replace(self.tried[parameters], point=point, refined=refined)
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
        """The candidates of this search in order, also where it was stopped."""
        order = [*self.order, *(one for one in self.tried if one not in self.order)]
        return [self.tried[parameters] for parameters in order]

    def front(
        self,
        *,
        tested: Mapping[str, tuple[Figures, ...]] | None = None,
        complete: bool = True,
    ) -> Front:
        """The front so far."""
        tried = self._own
        points = [
            self._told(one, (tested or {}).get(one.parameters, ()))
            for one in front_of(tried, self.search.objectives)
        ]
        return Front(
            self.policy,
            self.search.objectives,
            tuple(points),
            tuple(tried),
            self.described,
            complete and tested is not None,
            self.present,
        )

    def _told(self, one: Candidate, test: tuple[Figures, ...]) -> Candidate:
        """``one`` with all that a point of a front knows."""
        space = self._finer(one.parameters) if one.refined else self.space
        names = (dimension.name for dimension in space.dimensions)
        searched = dict(zip(names, one.point, strict=True))
        return replace(one, test=test, searched=searched, facts=space.facts(one.point))
