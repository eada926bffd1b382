"""Replay a whole trace: python benchmarks/trace_replay.py TRACE [--cluster 120x8] [--times 3]

Prints CPU seconds of the simulation proper on one core for each policy, counting GPUs only, by machine code
and interpreted with a journal kept in memory, whose completion times must be the same; for srsf with
consolidated placement without a journal and with one that is written; then, on the first jobs of the trace,
the ratio to the naive simulator of `naive.py`, whose completion times must be the same too.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import Figure, best_of, warm_up
from naive import simulate_naively

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.simulate.run import Setting, Simulation
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

COUNTED = ("fifo", "srtf", "srsf", "las")


def against_naive(workload: Workload, cluster: Cluster, policy: str, jobs: int) -> str:
    """Our time and the naive simulator's on the first ``jobs`` jobs."""
    prefix = Workload(workload.jobs[:jobs], workload.name)
    began = time.process_time()
    finish, _ = simulate_naively(prefix, cluster.gpus, policy)
    naive_seconds = time.process_time() - began
    ours = best_of(3, prefix, Setting(cluster=cluster, composition=WrittenComposition(policy)))
    np.testing.assert_allclose(ours.outcomes.finish, finish, rtol=1e-9)
    return (
        f"{policy:8} first {jobs:,} jobs: {ours.cpu_seconds:.3f} s, naive {naive_seconds:.3f} s: "
        f"{naive_seconds / ours.cpu_seconds:.1f} times as fast"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--cluster", default="120x8")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--naive-jobs", type=int, default=10_000)
    options = parser.parse_args()
    cluster = parse_cluster(options.cluster)
    workload = read_trace(options.trace)
    print(f"{workload.report}; {cluster} ({cluster.gpus} GPUs)")
    counted: dict[str, Simulation] = {}
    for policy in COUNTED:
        setting = Setting(cluster=cluster, composition=WrittenComposition(policy))
        warm_up(workload, setting)
        counted[policy] = best_of(options.times, workload, setting)
        print(Figure(f"{policy}, counted", len(workload), counted[policy]))
    for policy, run in counted.items():
        setting = Setting(cluster=cluster, composition=WrittenComposition(policy))
        plain = best_of(1, workload, setting, journal=True, compiled=False)
        np.testing.assert_array_equal(run.outcomes.finish, plain.outcomes.finish)
        print(Figure(f"{policy}, interpreted, journal", len(workload), plain))
    placed = Setting(cluster=cluster, composition=WrittenComposition("srsf", "consolidated"))
    warm_up(workload, placed)
    print(Figure("srsf, consolidated", len(workload), best_of(options.times, workload, placed)))
    with tempfile.TemporaryDirectory() as folder:
        run = best_of(options.times, workload, placed, Path(folder) / "journal.jsonl")
        print(Figure("srsf, consolidated, journal", len(workload), run))
    for policy in ("fifo", "srsf"):
        print(against_naive(workload, cluster, policy, options.naive_jobs))


if __name__ == "__main__":
    main()
