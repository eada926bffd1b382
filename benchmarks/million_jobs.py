"""A million generated jobs on 10,000 GPUs: python benchmarks/million_jobs.py [--jobs N] [--policy P]

Prints CPU seconds of the simulation proper, jobs and events a second and peak memory; the ratio is to the
same run of a hundredth of the jobs, per event: how well the engine scales.
"""

import argparse

import numpy as np
from measure import Figure, warm_up

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.generators import make_generator
from volvelle.workload.workload import Workload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--policy", default="srsf")
    parser.add_argument("--load", type=float, default=0.9)
    options = parser.parse_args()
    generator = make_generator(
        "gavel", {"jobs": options.jobs, "gpus": 10_000, "load": options.load}
    )
    workload = generator.generate(np.random.default_rng(1))
    setting = Setting(
        cluster=parse_cluster("1250x8"), composition=WrittenComposition(options.policy)
    )
    warm_up(workload, setting)
    small = simulate(Workload(workload.jobs[: options.jobs // 100], workload.name), setting)
    print(Figure(f"{options.policy}, {options.jobs // 100:,} jobs", options.jobs // 100, small))
    whole = simulate(workload, setting)
    print(Figure(f"{options.policy}, {options.jobs:,} jobs", options.jobs, whole))
    per_event = [run.cpu_seconds / run.events for run in (small, whole)]
    print(f"an event of the whole costs {per_event[1] / per_event[0]:.2f} times one of the part")


if __name__ == "__main__":
    main()
