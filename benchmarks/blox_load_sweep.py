"""Blox' load sweep at the paper's scale: python benchmarks/blox_load_sweep.py [--workers 2] [--jobs 4000]

FIFO, LAS and SRTF in rounds of 300 s on 128 GPUs, 1 to 9 jobs an hour: 27 runs, in which jobs 3000 to 4000
are measured (EuroSys'24, section 4.2; its authors: eight hours). Others keep coming, 12,000 jobs in all.
Prints seconds on the wall for all runs, workloads included; then, on the first jobs of one stream, the
ratio to a simulator that steps from round to round as Blox' does, whose finish times must be the same.
"""

import argparse
import math
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from measure import warm_up
from numpy.typing import NDArray

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated
from volvelle.workload.workload import Workload

ROUND = 300.0
CLUSTER = parse_cluster("32x4")
POLICIES = ("fifo:round=300", "las:round=300,service=seconds", "srtf:round=300")
RATES = range(1, 10)
SEED = 1


def workload_at(rate: float, jobs: int) -> Workload:
    """The stream of Blox' simulator: Gavel's durations, one GPU, Poisson."""
    return generated(f"gavel:jobs={jobs},multi_gpu=false", SEED, None, rate).workload


def sweep_one(task: tuple[str, float, int]) -> tuple[float, int]:
    """CPU seconds and events of one run."""
    policy, rate, jobs = task
    setting = Setting(
        cluster=CLUSTER,
        composition=WrittenComposition(policy),
        tracked=(jobs * 3 // 4, jobs),
    )
    run = simulate(workload_at(rate, 3 * jobs), setting)
    return run.cpu_seconds, run.events


def step_rounds(workload: Workload, policy: str) -> NDArray[np.float64]:
    """Finish times of jobs on one GPU each, stepping from round to round as Blox' simulator does."""
    submitted = [job.spec.submit_time for job in workload.jobs]
    total = [job.truth.work for job in workload.jobs]
    attained = [0.0] * len(total)
    finish = np.full(len(total), np.nan)
    waiting: list[int] = []
    running: list[int] = []
    arrived = 0
    now = 0.0
    while arrived < len(total) or waiting:
        for number in running:
            attained[number] += ROUND
            if attained[number] >= total[number]:
                finish[number] = now
        waiting = [number for number in waiting if math.isnan(finish[number])]
        while arrived < len(total) and submitted[arrived] <= now:
            waiting.append(arrived)
            arrived += 1
        if policy.startswith("las"):
            waiting.sort(key=lambda number: (attained[number], number))
        elif policy.startswith("srtf"):
            waiting.sort(key=lambda number: (total[number] - attained[number], number))
        running = waiting[: CLUSTER.gpus]
        now += ROUND
    return finish


def against_rounds(policy: str, rate: float, jobs: int) -> str:
    """Our time and that of stepping, on the first ``jobs`` jobs."""
    workload = workload_at(rate, jobs)
    began = time.process_time()
    theirs = step_rounds(workload, policy)
    stepping = time.process_time() - began
    setting = Setting(cluster=CLUSTER, composition=WrittenComposition(policy))
    run = simulate(workload, setting)
    ours = np.ceil(run.outcomes.finish / ROUND - 1e-9) * ROUND
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    return (
        f"{policy:30} {rate:g} jobs/h, {jobs:,} jobs: {run.cpu_seconds:.3f} s, stepping "
        f"{stepping:.3f} s: {stepping / run.cpu_seconds:.1f} times as fast"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=4000, help="the last that is measured")
    options = parser.parse_args()
    for policy in POLICIES:
        warm_up(
            workload_at(9.0, 200),
            Setting(cluster=CLUSTER, composition=WrittenComposition(policy)),
        )
    tasks = [(p, float(rate), options.jobs) for rate in reversed(RATES) for p in POLICIES]
    began = time.monotonic()
    with ProcessPoolExecutor(options.workers) as pool:
        done = list(pool.map(sweep_one, tasks))
    wall = time.monotonic() - began
    cpu, events = sum(seconds for seconds, _ in done), sum(count for _, count in done)
    slowest = max(zip(done, tasks, strict=True))
    print(
        f"{len(tasks)} runs, {options.workers} processes: {wall:.1f} s on the wall, {cpu:.1f} s CPU "
        f"simulating, {events:,} events; the longest {slowest[0][0]:.1f} s ({slowest[1][0]} at "
        f"{slowest[1][1]:g} jobs/h)"
    )
    for policy in POLICIES:
        print(against_rounds(policy, 9.0, options.jobs))


if __name__ == "__main__":
    main()
