"""Predictions and PCS: python benchmarks/predictions.py TRACE --speedups TABLES [--gpus N]

TRACE is one of the PCS simulator's (Philly's virtual cluster 0e4a51), TABLES its speed-ups. Prints, by code
and interpreted in the same run: a complete run under PCS, the first 600 jobs with a prediction for every one,
and a forecast of 1,000 and of 10,000 jobs that are in the system. Then 600 generated jobs with P50 and P90
for every one, under SRSF, and under Themis without these. CPU seconds, with their limits, and peak memory.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from measure import least_cpu_seconds, limited, peak_megabytes

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.metrics.catalogue import read_objective
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import read_source
from volvelle.tune.evaluate import evaluate
from volvelle.workload.generators import make_generator
from volvelle.workload.workload import Workload

ERROR = read_objective("pred_error:mean")
PCS = "pcs:thresholds=1627/969473,weights=0.95/0.048/0.002,efficiency=0.598"


def main() -> None:
    """Print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("trace", type=Path)
    arguments.add_argument("--speedups", type=Path, required=True)
    arguments.add_argument("--gpus", type=int, default=64)
    given = arguments.parse_args()
    source = read_source(given.trace, f"pcs:speedups={given.speedups}", {}, strict=False)
    workload = source.workload
    setting = Setting(cluster=parse_cluster(f"1x{given.gpus}"), composition=WrittenComposition(PCS))
    first = Workload(workload.jobs[:600], workload.name)
    predicting = replace(setting, predict=True)
    simulate(Workload(workload.jobs[:50]), predicting, compiled=True)  # compile or load the loops
    evaluate(Workload(workload.jobs[:50]), setting, [ERROR])
    jobs = len(workload)
    _compared(
        f"{jobs:,} jobs under PCS",
        lambda: simulate(workload, setting, compiled=True),
        lambda: simulate(workload, setting, compiled=False),
    )
    _compared(
        "600 jobs, each predicted",
        lambda: evaluate(first, setting, [ERROR]),
        lambda: simulate(first, predicting, compiled=False),
        limit=0.1,
    )
    for count in (1_000, 10_000):
        _one_forecast(count, setting)
    _generated()
    print(f"{peak_megabytes():.0f} MB at most")


def _seconds(what: Callable[[], object]) -> float:
    began = time.process_time()
    what()
    return time.process_time() - began


def _compared(
    label: str,
    ours: Callable[[], object],
    plain: Callable[[], object],
    limit: float | None = None,
) -> None:
    fast, slow = least_cpu_seconds(3, ours), _seconds(plain)
    print(f"{label:36} {limited(fast, limit)}, interpreted {slow:8.2f} s: {slow / fast:6.0f} x")


def _generated() -> None:
    made = make_generator("demo", {"jobs": 600, "gpus": 64}).generate(np.random.default_rng(0))
    themis, srsf = (
        Setting(
            cluster=parse_cluster("8x8"),
            composition=WrittenComposition(policy, "consolidated"),
            predict=True,
        )
        for policy in ("themis", "srsf")
    )
    few = Workload(made.jobs[:50])
    simulate(few, srsf, compiled=True)
    evaluate(few, themis, [ERROR])
    p90 = least_cpu_seconds(3, lambda: simulate(made, srsf, compiled=True))
    print(f"{'600 jobs with P50 and P90, srsf':36} {limited(p90, 1.0)}")
    seconds = least_cpu_seconds(3, lambda: evaluate(made, themis, [ERROR]))
    print(f"{'600 jobs predicted, themis':36} {limited(seconds, 0.3)}")


def _one_forecast(count: int, setting: Setting, repeats: int = 100) -> None:
    """A forecast of ``count`` jobs that all have just come."""
    rng = np.random.default_rng(0)
    scheduler = setting.header.scheduler()
    sizes, widths = rng.lognormal(8.0, 2.0, count), rng.integers(1, 9, count)
    events = [
        JobSubmitted(0.0, n, spec, Truth(work=float(size)))
        for n, size in enumerate(sizes)
        for spec in [
            JobSpec(
                id=str(n), submit_time=0.0, gpus=float(widths[n]), min_gpus=1.0,
                max_gpus=float(widths[n]),
            )
        ]
    ]  # fmt: skip
    scheduler.handle(0.0, events)
    compiled = scheduler.fork()
    compiled.compile()
    fork = Fork(compiled)
    fork.until()
    taken = [_seconds(fork.until) for _ in range(repeats)]
    line = f"a forecast of {count:6,} jobs             {1e3 * np.percentile(taken, 99):8.2f} ms p99"
    if count <= 1_000:
        slow = _seconds(Fork(scheduler).until)
        line += f", interpreted {1e3 * slow:8.0f} ms: {slow / np.median(taken):6.0f} x"
    print(line)


if __name__ == "__main__":
    main()
