"""Elastic policies on 64 GPUs: python benchmarks/elastic_policies.py [TRACE SPEEDUPS] [--times 3]

Prints CPU seconds of the simulation proper on one core for srsf and afs-l on 16,000 jobs of pcs-gavel,
at a load that leaves GPUs over and at the one PCS takes; and, where they are named, for these and themis on
a trace of PCS with its speed-up tables. The baseline is `naive_shares.py` on the first jobs of the same
workloads, measured in the same run; its completion times must be ours.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from measure import Figure, best_of, warm_up
from naive_shares import simulate_naively

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting
from volvelle.workload.generators import make_generator
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

GPUS = 64
JOBS = 16_000
LOADS = (0.8, 1.2)


def against_naive(workload: Workload, jobs: int) -> str:
    """Our time of an event and the naive simulator's, under afs-l on the first ``jobs`` jobs."""
    prefix = Workload(workload.jobs[:jobs], workload.name)
    began = time.process_time()
    finish, events = simulate_naively(prefix, GPUS)
    naive = time.process_time() - began
    warm_up(prefix, setting("afs-l"))
    ours = best_of(3, prefix, setting("afs-l"), compiled=True)
    np.testing.assert_allclose(ours.outcomes.finish, finish, rtol=1e-6)
    return (
        f"afs-l    first {jobs:,} jobs: {1e6 * ours.cpu_seconds / events:.1f} us/event, "
        f"naive {1e6 * naive / events:.1f}: {naive / ours.cpu_seconds:.1f} times as fast"
    )


def setting(policy: str) -> Setting:
    """``policy`` on the GPUs of the benchmark, which are only counted."""
    return Setting(
        cluster=parse_cluster(f"1x{GPUS}"), composition=WrittenComposition(policy, "none")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("speedups", nargs="?", type=Path)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--naive-jobs", type=int, default=1_000)
    options = parser.parse_args()
    workloads: list[tuple[str, Workload, tuple[str, ...]]] = []
    for load in LOADS:
        generator = make_generator("pcs-gavel", {"jobs": JOBS, "gpus": GPUS, "load": load})
        drawn = generator.generate(np.random.default_rng(0))
        workloads.append((f"pcs-gavel, load {load:g}", drawn, ("srsf", "afs-l")))
    if options.trace:
        read = read_trace(options.trace, options={"speedups": options.speedups})
        workloads.append((read.name, read, ("srsf", "afs-l", "themis")))
    for name, workload, policies in workloads:
        print(f"{name}: {len(workload):,} jobs, {GPUS} GPUs")
        for policy in policies:
            warm_up(workload, setting(policy))
            run = best_of(options.times, workload, setting(policy))
            print(Figure(policy, len(workload), run))
        print(against_naive(workload, options.naive_jobs))


if __name__ == "__main__":
    main()
