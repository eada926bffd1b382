"""Guarantees broken, on one to three GPU types, with pools, and for jobs that change their batch size.

Jobs are drawn: log-normal durations, gangs of 1 to 8 GPUs, two in three with deadlines of 1.2 to 5 durations,
a speed of its own for each job on each GPU type, and in the cases that say so up to four batch sizes. With
errors an estimate is off by a log-normal factor (``noisy``). Policy ``chronus`` guarantees by reservations,
admission ``deadlines`` by a look ahead, here in front of srsf. No trace is needed.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.metrics import promises
from volvelle.model.cluster import Pool, parse_cluster
from volvelle.model.job import Job, JobSpec, Regime, Reward, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import AnyThroughput, Linear, PerType
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import Claim, Report

RESULTS = Path(__file__).parent / "results"
BY = {"chronus": ("chronus", "accept-all"), "srsf + deadlines": ("srsf", "deadlines")}
"""Policy and admission of each way to guarantee."""
ERRORS = (0.0, 0.1, 0.2, 0.4)
CHOSEN = 0.01
COSTS = Overheads(start=30.0, restore=30.0, checkpoint=20.0)
LOADS = (0.3, 0.8, 1.2)


class Case(NamedTuple):
    """A kind of cluster and of jobs. types: GPU types, with two nodes of four GPUs each."""

    name: str
    types: tuple[str, ...] = ()
    pools: bool = False
    batch_sizes: bool = False

    @property
    def cluster(self) -> str:
        """As for the command line."""
        return ",".join(f"2x4:{kind}" for kind in self.types) if self.types else "4x4"


CASES = (
    Case("one type"),
    Case("two types", ("a", "b")),
    Case("three types", ("a", "b", "c")),
    Case("two types, pools", ("a", "b"), pools=True),
    Case("batch sizes", batch_sizes=True),
    Case("batch sizes, two types", ("a", "b"), batch_sizes=True),
)


class Draw(NamedTuple):
    """One run: its case, how the guarantees are made, the error of estimates, jobs and seed."""

    case: Case
    by: str
    error: float
    load: float
    jobs: int
    seed: int


def workload(draw: Draw) -> Workload:
    """The jobs of a run, submitted at the rate that makes the load."""
    rng = np.random.default_rng([draw.seed, CASES.index(draw.case)])
    gpus = rng.choice([1, 1, 1, 2, 2, 4, 8], draw.jobs)
    seconds = np.clip(rng.lognormal(6.5, 1.2, draw.jobs), 60.0, 40_000.0)
    capacity = sum(node.gpus for node in parse_cluster(draw.case.cluster).nodes)
    mean_gap = float((gpus * seconds).mean()) / capacity / draw.load
    times = np.cumsum(rng.exponential(mean_gap, draw.jobs))
    return Workload(
        [_job(rng, draw.case, *each) for each in zip(times, gpus, seconds, strict=True)]
    )


def _job(rng: np.random.Generator, case: Case, submit: float, gpus: int, seconds: float) -> Job:
    speeds = rng.choice([0.5, 1.0, 1.5, 2.0, 4.0], len(case.types)).tolist()
    linear: dict[str, AnyThroughput] = {
        kind: Linear(speed) for kind, speed in zip(case.types, speeds, strict=True)
    }
    only = (str(rng.choice(case.types)),) if case.types and rng.random() < 0.2 else ()
    work = float(gpus * seconds)
    regimes: tuple[Regime, ...] = ()
    if case.batch_sizes:
        starts = np.sort(rng.uniform(0.1, 0.9, rng.integers(0, 4)))
        regimes = tuple(
            Regime(share * work, 32 << step, float(rng.choice([0.5, 1.0, 2.0])))
            for step, share in enumerate([0.0, *starts.tolist()])
        )
    truth = Truth(work=work, throughput=PerType(linear) if linear else Linear(), regimes=regimes)
    due = np.sort(rng.uniform(1.2, 5.0, rng.integers(1, 3)) * seconds + 60.0).tolist()
    rewards = tuple(Reward(each, 100.0 - step) for step, each in enumerate(due))
    spec = JobSpec(
        id="",
        submit_time=float(submit),
        gpus=float(gpus),
        gpu_types=only,
        pool=str(rng.choice(["", "red", "blue"])) if case.pools else "",
        rewards=rewards if rng.random() < 0.67 else (),
        accept_later=bool(rng.random() < 0.2),
        preemptible=bool(rng.random() < 0.95),
    )
    return Job(spec, truth)


def run(draw: Draw) -> tuple[int, int, int]:
    """Guarantees made and broken, and jobs with deadlines."""
    cluster = parse_cluster(draw.case.cluster)
    if draw.case.pools:
        pools = (Pool("red", 6.0), Pool("blue", 8.0))
        cluster = msgspec.structs.replace(cluster, pools=pools)
    policy, admission = BY[draw.by]
    estimator = f"noisy:error={draw.error}" if draw.error else "oracle"
    composition = WrittenComposition(policy, "none", admission, estimator)
    setting = Setting(cluster=cluster, composition=composition, overheads=COSTS)
    outcomes = simulate(workload(draw), setting).outcomes
    due = sum(bool(spec.rewards) for spec in outcomes.specs)
    made, broken = promises.promised(outcomes), promises.broken(outcomes)
    return int(np.nansum(made)), int(np.nansum(broken)), due


class Given(NamedTuple):
    """What the command line said."""

    out: Path
    setting: str
    jobs: int
    seeds: int
    wrong_jobs: int


def draws(given: Given) -> Iterator[Draw]:
    """The runs: with errors fewer and longer ones, since margins learn from what happened."""
    for case in CASES:
        for by in BY:
            for seed in range(given.seeds):
                load = LOADS[seed % len(LOADS)]
                yield Draw(case, by, 0.0, load, given.jobs, seed)
            for error in ERRORS[1:]:
                yield Draw(case, by, error, 0.8, given.wrong_jobs, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100, help="of a run with true estimates")
    parser.add_argument("--seeds", type=int, default=33, help="such runs of each case")
    parser.add_argument("--wrong-jobs", type=int, default=1200, help="of one with wrong estimates")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    read = parser.parse_args()
    said = (
        f"for each case {read.seeds} runs of {read.jobs} jobs with true estimates, at loads of "
        f"{', '.join(map(str, LOADS))}, and one of {read.wrong_jobs} jobs for each error at 0.8"
    )
    given = Given(read.out, said, read.jobs, read.seeds, read.wrong_jobs)
    chosen = list(draws(given))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(run, chosen))
    write(given, chosen, found)


def write(given: Given, chosen: list[Draw], found: list[tuple[int, int, int]]) -> None:
    """The page and its runs."""
    report = Report("guarantees", "Guarantees on several GPU types, and batch sizes", given)
    sums: dict[tuple[str, float, str], np.ndarray] = {}
    for draw, counted in zip(chosen, found, strict=True):
        key = draw.by, draw.error, draw.case.name
        sums[key] = sums.get(key, np.zeros(3, dtype=np.int64)) + counted
    report.table(
        ("guaranteed by", "estimates off by", "jobs", "with deadlines", "guaranteed", "broken"),
        [
            (by, f"{error:.0%}", case, f"{due:,}", f"{made:,}", f"{broken:,}")
            for (by, error, case), (made, broken, due) in sorted(sums.items())
        ],
    )
    claims = []
    for by in BY:
        for error in ERRORS:
            of = [counts for key, counts in sums.items() if key[:2] == (by, error)]
            made, broken, _ = np.sum(of, axis=0)
            most, asked = (CHOSEN, "at most 1 % are broken") if error else (0.0, "none is broken")
            seen = f"{broken:,} of {made:,} ({broken / max(made, 1):.2%})"
            said = f"{by}, estimates off by {error:.0%}: {asked} (ours)"
            claims.append(Claim(said, seen, broken <= most * made))
    report.claims(claims)
    heads = ("case", "by", "error", "load", "jobs", "seed", "made", "broken", "with_deadlines")
    report.runs(heads, [(d.case.name, *d[1:], *f) for d, f in zip(chosen, found, strict=True)])
    report.close()


if __name__ == "__main__":
    main()
