"""What the experiments after Chronus (SoCC'21) share: its workloads of Philly's jobs, its simulator's costs.

The authors' file of Philly's jobs (``trace_job_Philly_MIX2.csv``) is named on the command line. As in its
section 4.1 classes and deadlines are drawn anew: the first deadline 1.2 to 2 durations, more at 1.1, 1.2, 1.5
times it. SLO has strict deadlines only, MIX1 30 % best effort, MIX2 30 % strict, 60 % soft, 10 % best effort.
The Helios trace of the paper is not here, nor are the numbers in its figures: only what its text says.

The jobs are thinned at random: of all 30,746, for 960 GPUs, one in ``thin``, for as many times fewer GPUs.
A density of 1.2 takes a fifth of the jobs twice, one of 0.8 leaves a fifth out. GPUs are counted; every
policy knows durations exactly and pays what the simulator charges, 30 s x (1 + log2 GPUs) for each start.

Every experiment is one command, ``python experiments/chronus/NAME.py TRACE``.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.metrics import deadlines, promises
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Profiling, parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.generators.declarations import DeadlineShares
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from chronus_jobs import START, mix2_jobs
from findings import Claim as Claim  # what all experiments share
from findings import Report as Report

RESULTS = Path(__file__).parent / "results"
MIXES = {
    "SLO": DeadlineShares(strict_share=1.0),
    "MIX1": DeadlineShares(strict_share=0.7),
    "MIX2": DeadlineShares(strict_share=0.3, soft_share=0.6),
}
"""Table 1 of the paper."""

_GPUS = 960
_MOST_REWARD = 100.0


@dataclass(frozen=True)
class Options:
    """What the command line said. ``thin``: one job in so many. ``seeds``: draws, from ``seed`` on."""

    trace: Path
    thin: int
    seed: int
    out: Path
    seeds: int = 1

    @property
    def draws(self) -> list["Options"]:
        """The same for each seed."""
        return [replace(self, seed=self.seed + more, seeds=1) for more in range(self.seeds)]

    @property
    def whole(self) -> "Options":
        """The same for all jobs."""
        return replace(self, thin=1)

    @property
    def gpus(self) -> int:
        """Of the cluster."""
        return max(_GPUS // self.thin // 8, 1) * 8

    @property
    def setting(self) -> str:
        """In words, for the results."""
        last = self.seed + self.seeds - 1
        seeds = f"seed {last}" if self.seeds == 1 else f"seeds {self.seed} to {last}"
        jobs = "all" if self.thin == 1 else f"one in {self.thin}"
        return f"{jobs} of Philly's jobs, {self.gpus} GPUs, {seeds}"


def options(doc: str | None, thin: int, seed: int = 11, seeds: int = 1) -> Options:
    """The options of the command line; ``doc`` is the experiment's docstring."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path, metavar="TRACE", help="the authors' file of MIX2")
    parser.add_argument("--thin", type=int, default=thin, help="one job in so many")
    parser.add_argument("--seed", type=int, default=seed, help="of jobs and deadlines")
    parser.add_argument("--seeds", type=int, default=seeds, help="draws, from --seed on")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    given = parser.parse_args()
    if given.thin < 1:
        parser.error("--thin is at least 1")
    if given.seeds < 1:
        parser.error("--seeds is at least 1")
    return Options(given.trace, given.thin, given.seed, given.out, given.seeds)


def workload(given: Options, mix: str | None, density: float = 1.0) -> Workload:
    """Jobs of this density with the deadlines of a mix; None: those of the file."""
    rng = np.random.default_rng([given.seed, 1])
    jobs = mix2_jobs(given.trace)
    copies = np.floor(density / given.thin + rng.random(len(jobs))).astype(int).tolist()
    chosen = [job for job, count in zip(jobs, copies, strict=True) for _ in range(count)]
    named = [_with(job, id=str(number)) for number, job in enumerate(chosen)]
    thinned = Workload.of(named, mix or "MIX2").rebased()
    if mix is None:
        return thinned
    drawn = MIXES[mix].draw(np.random.default_rng([given.seed, 2]), thinned.durations)
    dated = [
        _with(job, job_class=job_class, rewards=rewards)
        for job, job_class, rewards in zip(thinned.jobs, *drawn, strict=True)
    ]
    return Workload(dated, thinned.name, thinned.report)


def at_load(jobs: Workload, load: float, gpus: float) -> Workload:
    """The same jobs, submitted faster or slower: GPU-seconds over capacity until the last submission."""
    factor = float((jobs.gpus * jobs.durations).sum()) / gpus / jobs.submit_times[-1] / load
    return Workload(
        [_with(job, submit_time=job.spec.submit_time * factor) for job in jobs], jobs.name
    )


def _with(job: Job, **changes: object) -> Job:
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, **changes))


class Figures(NamedTuple):
    """Of one run. ``missed``: share of the rewards not earned (wDMR); ``best_effort``: mean JCT, hours."""

    missed: float
    best_effort: float
    promised: int
    broken: int
    jobs: int

    @classmethod
    def of(cls, outcomes: Outcomes, most: float = _MOST_REWARD) -> "Figures":
        """``most``: what a job earns at best."""
        slo = np.array([bool(spec.rewards) for spec in outcomes.specs])
        earned, jct = deadlines.earned_value(outcomes)[slo], outcomes.jct[~slo]
        return cls(
            float(1.0 - earned.mean() / most),
            float(jct.mean() / 3600.0) if len(jct) else 0.0,
            int(np.nansum(promises.promised(outcomes))),
            int(np.nansum(promises.broken(outcomes))),
            len(outcomes),
        )

    @classmethod
    def mean(cls, draws: Sequence["Figures"]) -> "Figures":
        """Means over draws of what is missed and waits; sums of what is counted."""
        missed, best_effort, *counted = zip(*draws, strict=True)
        sums = [sum(map(int, column)) for column in counted]
        return cls(float(np.mean(missed)), float(np.mean(best_effort)), *sums)


def outcomes_of(
    jobs: Workload,
    gpus: int,
    policy: str,
    *,
    estimator: str = "oracle",
    placement: str = "none",
    admission: str = "accept-all",
    profiling: Profiling | None = None,
) -> Outcomes:
    """What becomes of the jobs on nodes of 8 GPUs."""
    cluster = parse_cluster(f"{gpus // 8}x8")
    setting = Setting(
        cluster=msgspec.structs.replace(cluster, profiling=profiling),
        composition=WrittenComposition(
            policy, placement=placement, admission=admission, estimator=estimator
        ),
        overheads=Overheads(start=START, restore=START),
    )
    return simulate(jobs, setting).outcomes


def percent(share: float) -> str:
    """For a table."""
    return f"{100 * share:.2f} %"
