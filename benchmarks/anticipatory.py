"""Anticipatory scheduling by predictions: decisions and predictions for 1,000 pools, Philly as a whole.

``python benchmarks/anticipatory.py`` prints CPU seconds with their limits, and peak memory: a decision with
10,000 jobs that wait within 50 ms (p99), predictions for 1,000 pools within 20 ms, all of Philly (where its
trace is beside the repository) within 10 s, once machine code is in its cache.
"""

import csv
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measure import limited, peak_megabytes

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobFinished, JobSubmitted
from volvelle.core.scheduler import Scheduler
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.simulate.run import Setting, simulate
from volvelle.systems.anticipatory.arrivals import QUANTA, ArrivalModel, Trees
from volvelle.systems.anticipatory.past import FEATURES, Past, arrive, end
from volvelle.workload.workload import Workload

POOLS, WAITING, MOMENTS = 1000, 10_000, 300
PHILLY = Path(__file__).parents[2] / "shared" / "data" / "philly-pcs"


def forest(rng: np.random.Generator) -> Trees:
    """Sixty trees of depth 6, as large as trained ones are at most."""
    inner, leaves = 63, 64
    size = inner + leaves
    one = np.arange(inner)
    left = np.concatenate([2 * one + 1, np.full(leaves, -1)])
    right = np.concatenate([2 * one + 2, np.full(leaves, -1)])
    shift = np.repeat(size * np.arange(60), size)
    split = np.tile(np.arange(size) < inner, 60)
    feature = np.where(split, rng.integers(0, len(FEATURES), 60 * size), -1)
    value = np.where(split, rng.integers(0, 9, 60 * size), rng.normal(0, 0.1, 60 * size))
    ways = [np.where(split, np.tile(way, 60) + shift, -1) for way in (left, right)]
    return Trees(size * np.arange(60), feature, value.astype(np.float64), *ways)


def predictions() -> float:
    """CPU seconds to predict for all pools and quanta: the least of several."""
    rng, past = np.random.default_rng(0), Past.of(POOLS, 0.0, 300)
    model = ArrivalModel(QUANTA, FEATURES, (forest(rng), forest(rng), forest(rng)))
    for pool in range(POOLS):
        for at in np.sort(rng.uniform(0.0, 30 * 86400.0, 300)):
            arrive(past, pool, float(at), 1.0)
            end(past, pool, float(at), 1)
    running, left = rng.integers(0, POOLS, 5000), rng.uniform(0.0, 1e5, 5000)
    found = []
    for _ in range(10):
        began = time.process_time()
        model.chances(past.features(30 * 86400.0, np.array(QUANTA), running, left))
        past.recent(30 * 86400.0, np.array(QUANTA), 24)
        found.append(time.process_time() - began)
    return min(found)


def decisions() -> float:
    """The 99th percentile of CPU seconds that a decision takes while `WAITING` jobs wait."""
    rng = np.random.default_rng(0)
    pools = tuple(Pool(f"pool-{at}", 8.0, lends=True) for at in range(POOLS))
    cluster = Cluster((Node("gpus", 8 * POOLS),), pools)
    composition = WrittenComposition("anticipatory", placement="none", estimator="declared")
    scheduler, taken = Scheduler(cluster, composition.build()), []
    scheduler.compile()

    def submit(number: int, at: float) -> JobSubmitted:
        spec = JobSpec(
            id=str(number),
            submit_time=at,
            gpus=float(rng.choice([1, 2, 4, 8])),
            pool=f"pool-{number % POOLS}",
            estimate_seconds=float(rng.choice([200.0, 3000.0, 40_000.0, 90_000.0])),
        )
        return JobSubmitted(at, number, spec)

    number = 8 * POOLS + WAITING
    held: dict[int, int] = {}

    def follow(now: float, events: Sequence[JobSubmitted | JobFinished]) -> None:
        decision = scheduler.handle(now, events)
        for job, gpus, attempt in zip(
            decision.job.tolist(), decision.gpus.tolist(), decision.attempt.tolist(), strict=True
        ):
            if gpus:
                held[job] = attempt

    follow(0.0, [submit(at, 0.0) for at in range(number)])
    for moment in range(MOMENTS):
        now = 60.0 * (moment + 1)
        ended = int(rng.choice(list(held)))
        events: list[JobSubmitted | JobFinished] = [
            JobFinished(now, ended, held.pop(ended)),
            submit(number, now),
        ]
        number += 1
        began = time.process_time()
        follow(now, events)
        taken.append(time.process_time() - began)
    return float(np.percentile(taken[10:], 99))


def whole_philly() -> float | None:
    """CPU seconds to simulate all pools of Philly; None where there is no trace."""
    rows = []
    for path in sorted(PHILLY.glob("trace_??????.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                gpus = float(row["num_jobs"])
                seconds = max(float(row["service"]) / gpus, 1.0)
                rows.append((float(row["submit_time"]), gpus, seconds, path.stem))
    if not rows:
        return None
    rows.sort(key=lambda row: row[0])
    last, pools = rows[-1][0], []
    for name in sorted({row[3] for row in rows}):
        mine = [row for row in rows if row[3] == name]
        need = sum(row[1] * row[2] for row in mine) / last / 0.8
        pools.append(Pool(name, max(round(need), *(row[1] for row in mine)), lends=True))
    jobs = tuple(
        Job(
            JobSpec(id=str(at), submit_time=submit, gpus=gpus, pool=name),
            Truth(work=gpus * seconds),
        )
        for at, (submit, gpus, seconds, name) in enumerate(rows)
    )
    gpus = int(sum(pool.quota or 0.0 for pool in pools))
    composition = WrittenComposition("anticipatory", placement="none")
    setting = Setting(cluster=Cluster((Node("gpus", gpus),), tuple(pools)), composition=composition)
    return simulate(Workload(jobs), setting).cpu_seconds


def main() -> None:
    """Print the figures."""
    print(
        f"predictions for {POOLS:,} pools: {limited(1000 * predictions(), 20.0, 'ms')}", flush=True
    )
    waiting = f"a decision, {WAITING:,} jobs wait, p99"
    print(f"{waiting}: {limited(1000 * decisions(), 50.0, 'ms')}", flush=True)
    philly = whole_philly()
    if philly is None:
        print("Philly: skipped, its trace is not beside the repository")
    else:
        print(f"Philly whole: {limited(philly, 10.0, 's CPU')}")
    print(f"{peak_megabytes():.0f} MB at most")


if __name__ == "__main__":
    main()
