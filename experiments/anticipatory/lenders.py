"""Schedulers on draws of pools: how each is written, what it learned, and what it did to every job."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from philly import DAY, RESULTS, TRACES, Draw, Jobs, command_line

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import ArrivalsAnnounced, JobSubmitted
from volvelle.core.facets import ForeseesArrivals
from volvelle.core.parts import Belief, Estimator, estimators
from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.estimate.basic import lasting
from volvelle.metrics.baseline import against, by_pool
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.job import Job, JobSpec
from volvelle.simulate.run import Setting, Simulation, simulate
from volvelle.systems.anticipatory.arrivals import QUANTA, ArrivalModel, record
from volvelle.systems.anticipatory.bins import RunTimes
from volvelle.systems.anticipatory.coarse import Anticipatory
from volvelle.workload.workload import Workload

Floats = NDArray[np.float64]


COMPILED_FROM = 200
"""Jobs of a draw from which on machine code is worth loading: it serves all draws."""


@policies.register
class RandomArrivals(Anticipatory):
    """Figure 15a: whether jobs come is a toss-up."""

    name: ClassVar[str] = "anticipatory-random"

    def expected(self, view: View) -> Floats:
        """Half of the time the load, else nothing, drawn anew at each decision."""
        found = super().expected(view)
        tossed = np.random.default_rng(int(view.now * 1000.0)).random(found.shape) < 0.5
        return np.where(tossed, self._known.predictions.load, 0.0)


@policies.register
class PerfectCoarse(Anticipatory, ForeseesArrivals):
    """Figure 15a: the load of each quantum is known."""

    name: ClassVar[str] = "anticipatory-perfect"
    _told: ArrivalsAnnounced | None = None

    def expect(self, arrivals: ArrivalsAnnounced) -> None:
        """Keep what is foretold."""
        self._told = arrivals

    def expected(self, view: View) -> Floats:
        """What comes within each quantum."""
        found = np.zeros_like(super().expected(view))
        assert self._told is not None
        submit, gpus = np.array(self._told.submit), np.array(self._told.gpus)
        pool = np.array(self._told.pools)
        for at, quantum in enumerate(QUANTA):
            soon = (submit > view.now) & (submit <= view.now + quantum) & (pool >= 0)
            found[at] = np.bincount(pool[soon], gpus[soon], found.shape[1])
        return found


@estimators.register
class RandomBins(Estimator):
    """Figure 15a: how long a job takes is one of the four bins, drawn."""

    name: ClassVar[str] = "random-bins"

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The upper end of a bin."""
        edges = (*QUANTA, 2 * QUANTA[-1])
        drawn = np.random.default_rng((seed, job.number)).integers(len(edges))
        return Belief(lasting(job.spec, edges[int(drawn)]))


@dataclass(frozen=True)
class Given:
    """What the command line said."""

    draws: int
    days: float
    warm_up: float
    trace: str
    keep: str
    out: Path

    @property
    def seeds(self) -> range:
        """Of the draws. On those before 2000 settings were chosen and mistakes found."""
        return range(2000, 2000 + self.draws)

    @cached_property
    def jobs(self) -> Jobs:
        """Of the trace."""
        return TRACES[self.trace]()

    @property
    def setting(self) -> str:
        """In words, for the results."""
        return (
            f"{self.draws} draws of four of {self.jobs.title} (the paper: 100 of its "
            f"provider's pools), {self.days:g} days each of which the first {self.warm_up:g} are warm-up "
            "(the paper: weeks and two days), loads 0.6 to 1.1, all jobs after the days "
            f"({self.jobs.split / DAY:g} of them) that trained the "
            "predictors, durations cut at three days; exact durations unless said otherwise"
        )


@dataclass(frozen=True)
class Case:
    """A scheduler: how it is written, what it believes of durations, where it puts jobs.

    limit: the time limit of each job, as a multiple of its run time; 0: jobs have none.
    """

    policy: str
    estimator: str = "oracle"
    placement: str = "none"
    limit: float = 0.0


@dataclass(frozen=True)
class Learned:
    """What was learned from the past; ``model`` and ``bins`` are parameters of policy and estimator."""

    trained: ArrivalModel
    folder: Path

    @property
    def model(self) -> str:
        """Of the draw that `remember` was called with last."""
        return f"model={self.folder / 'model.json'}"

    @property
    def bins(self) -> str:
        """Of the days before the split."""
        return f"bins:past={self.folder / 'run-times.json'}"

    def remember(self, one: Draw) -> None:
        """Let the model's file have what came to the pools before the draw."""
        self.trained._replace(earlier=one.earlier).save(self.folder / "model.json")


class Run(NamedTuple):
    """What a scheduler did in one draw.

    speed_up, delay: of each job, times and seconds. late: the share of late jobs of each pool. promised: how
    many more were late than `harm` allows, by pool, where it is set.
    """

    speed_up: Floats
    delay: Floats
    late: Floats
    promised: Floats


@dataclass
class Found:
    """What a scheduler did in all draws."""

    runs: list[Run]

    @property
    def late(self) -> list[float]:
        """The share of late jobs of each pool and draw."""
        return [float(share) for one in self.runs for share in one.late]

    @property
    def promised(self) -> list[float]:
        """How many more were late than `harm` allows, by pool and draw."""
        return [float(more) for one in self.runs for more in one.promised]

    @property
    def speed_up(self) -> float:
        """The geometric mean over all jobs."""
        return float(np.exp(np.nanmean(np.log(self._speed_ups))))

    @property
    def tail(self) -> float:
        """The 95th percentile."""
        return float(self.percentiles(95.0)[0])

    def percentiles(self, *at: float) -> Floats:
        """Of the speed-ups of all jobs."""
        found: Floats = np.nanpercentile(self._speed_ups, at)
        return found

    @property
    def slowed(self) -> float:
        """The share of jobs."""
        return float((self.delays > 0.0).mean())

    @property
    def total(self) -> float:
        """Hours, of all draws together."""
        return float(self.delays.sum()) / 3600.0

    @property
    def worst(self) -> float:
        """Hours."""
        return float(self.delays.max()) / 3600.0

    @property
    def delays(self) -> Floats:
        """By how much each job is later than alone, seconds."""
        delays: Floats = np.nan_to_num(np.concatenate([one.delay for one in self.runs]))
        return delays

    @property
    def _speed_ups(self) -> Floats:
        return np.concatenate([one.speed_up for one in self.runs])


def run(
    doc: str | None,
    what: Callable[[Jobs, Given, Learned], None],
    *,
    draws: int = 74,
    days: float = 4.0,
    warm_up: float = 2.0,
) -> None:
    """Read the command line, train predictors on the past, and do a study with them."""
    options: dict[str, tuple[str | float, str]] = {
        "draws": (draws, "how many"),
        "days": (days, "of each draw"),
        "warm-up": (warm_up, "days that are not measured"),
        "trace": ("philly", f"one of {', '.join(TRACES)}"),
        "keep": ("", "folder where what is measured is kept, from which another run goes on"),
    }
    given = Given(**vars(command_line(doc, RESULTS, options)))
    with tempfile.TemporaryDirectory() as folder:
        what(given.jobs, given, learn(given.jobs, Path(folder)))


def learn(jobs: Jobs, folder: Path) -> Learned:
    """Train predictors on the days before the split, and keep them in a folder."""
    past = jobs.between(0.0, jobs.split)
    seen = RunTimes(QUANTA)
    for submit, gpus, seconds, pool in zip(*(each.tolist() for each in past[:4]), strict=True):
        seen.add(JobSpec(id="past", submit_time=submit, gpus=gpus, pool=jobs.names[pool]), seconds)
    seen.save(folder / "run-times.json")
    return Learned(ArrivalModel.train(record(*past[:4]), QUANTA), folder)


def measure(
    draws: Iterable[Draw],
    cases: Mapping[str, Case],
    learned: Learned,
    alone: Case = Case("fcfs-pools"),
    kept: str = "",
) -> dict[str, Found]:
    """Every case on every draw, against every pool ``alone``. kept: a folder where each is kept, if any."""
    found = {name: Found([]) for name in cases}
    for one in draws:
        tracked = one.first, len(one.workload.jobs) - 1
        reference: Outcomes | None = None
        for name, case in cases.items():
            file = Path(kept) / f"{one.seed}-{name}.npz"
            if kept and file.is_file():
                with np.load(file) as saved:
                    found[name].runs.append(Run(**saved))
                continue
            if reference is None:
                reference = _run(one, alone, tracked).outcomes
                learned.remember(one)
            began = time.process_time()
            ran = _compared(_run(one, case, tracked), reference)
            found[name].runs.append(ran)
            if kept:
                seconds = time.process_time() - began
                print(f"{one.seed} {name}: {seconds:.1f} CPU s", file=sys.stderr, flush=True)
                file.parent.mkdir(parents=True, exist_ok=True)
                unfinished = file.with_suffix(".part.npz")
                np.savez(unfinished, **ran._asdict())
                unfinished.replace(file)
    return found


def _compared(ran: Simulation, reference: Outcomes) -> Run:
    compared = against(ran.outcomes, reference)
    pools = by_pool(ran.outcomes, compared)
    late = np.array([each.slowed / max(each.compared, 1) for each in pools.values()])
    policy, over = ran.scheduler.composition.policy, np.zeros(0)
    if isinstance(policy, Anticipatory) and policy.harm:
        behind, known = policy.harmed
        over = behind - np.ceil(policy.harm * known)
    mine = compared.of(ran.outcomes.tracked)
    return Run(mine.speed_up, mine.slowdown_seconds, late, over)


def _limited(job: Job, times: float) -> Job:
    seconds = times * job.truth.work / job.spec.gpus
    return Job(msgspec.structs.replace(job.spec, time_limit_seconds=seconds), job.truth)


def _run(one: Draw, case: Case, tracked: tuple[int, int]) -> Simulation:
    setting = Setting(
        cluster=one.cluster,
        composition=WrittenComposition(case.policy, case.placement, estimator=case.estimator),
        tracked=tracked,
    )
    jobs, compiled = one.workload, len(one.workload) >= COMPILED_FROM
    if case.limit:
        jobs = Workload(tuple(_limited(job, case.limit) for job in jobs.jobs))
    return simulate(jobs, setting, compiled=compiled)
