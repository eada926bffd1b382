"""Pollux on its own workload: python benchmarks/pollux.py TRACE --applications FOLDER [--seeds 3]

TRACE is a workload of Pollux' simulator (160 jobs), FOLDER its measured applications; 16 nodes of 4 GPUs,
30 s for every change of GPUs, an interval of 60 s. Prints CPU seconds of the simulation proper on one core,
the agents inside the jobs included, and the mean completion time, for each seed. Its authors' simulator
takes 1,300 s and more for such a workload.
"""

import argparse

import numpy as np
from measure import Figure, warm_up

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.reading import read_trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--applications", required=True)
    parser.add_argument("--cluster", default="16x4")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    workload = read_trace(
        options.trace, "pollux", options={"applications": options.applications, "elastic": True}
    )
    print(workload.report)
    for seed in range(options.seeds):
        setting = Setting(
            cluster=parse_cluster(options.cluster),
            composition=WrittenComposition(f"pollux:seed={seed}", "first-free"),
            overheads=Overheads(start=30, restore=30),
        )
        if seed == 0:
            warm_up(workload, setting)
        run = simulate(workload, setting)
        mean = float(np.mean(run.outcomes.jct))
        print(Figure(f"pollux, seed {seed}: mean JCT {mean:.0f} s", len(workload), run))


if __name__ == "__main__":
    main()
