"""Shockwave, whole runs: python benchmarks/shockwave.py [--trace FILE --throughputs FILE --gpus N]

120 jobs on 32 GPUs and 900 on 256, drawn as in section 8.1 of the paper, or a Shockwave trace. Rounds of
120 s, 20 s for a start or restore, predicted batch sizes. Prints CPU seconds, makespan, mean completion
time, the worst rho (completion time over the time on an n-th of the cluster for n jobs in all), how many
plans were made and their largest gap. ``--policies`` names others to stand beside it. (Single windows:
window_programs.py.)
"""

import argparse
import time
from pathlib import Path

import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.generators import make_generator
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

SIZES = ((120, 32), (900, 256))


def drawn(jobs: int, seed: int) -> Workload:
    """Jobs that come within about 80 minutes, as in the published traces."""
    generator = make_generator("shockwave", {"jobs": jobs, "jobs_per_hour": jobs / 1.35})
    return generator.generate(np.random.default_rng(seed))


def run(workload: Workload, gpus: int, policy: str, estimator: str) -> str:
    """One line."""
    setting = Setting(
        cluster=parse_cluster(f"{gpus}x1"),
        composition=WrittenComposition(policy, estimator=estimator),
        overheads=Overheads(start=20.0, restore=20.0),
    )
    began = time.process_time()
    simulation = simulate(workload, setting)
    cpu = time.process_time() - began
    outcomes = simulation.outcomes
    alone = np.array([job.seconds_on(job.spec.gpus) for job in workload.jobs])
    rho = outcomes.jct / (alone * max(1.0, len(alone) / gpus))
    gap = outcomes.solver_gap
    plans = "" if gap is None else f"largest gap {100 * gap:.3g} %"
    return (
        f"{len(alone):5} jobs {gpus:4} GPUs  {policy:32} {cpu:7.1f} s CPU  "
        f"makespan {outcomes.finish.max():9,.0f} s  mean JCT {outcomes.jct.mean():8,.0f} s  "
        f"worst rho {rho.max():5.2f}  {plans}"
    )


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--throughputs", type=Path)
    parser.add_argument("--gpus", type=int, default=32)
    parser.add_argument("--policies", nargs="+", default=["shockwave"])
    parser.add_argument("--estimator", default="regimes")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.trace is not None:
        options = {"throughputs": arguments.throughputs, "gpu_type": "v100"}
        cases = [(read_trace(arguments.trace, options=options), arguments.gpus)]
    else:
        cases = [(drawn(jobs, arguments.seed), gpus) for jobs, gpus in SIZES]
    for workload, gpus in cases:
        for policy in arguments.policies:
            print(run(workload, gpus, policy, arguments.estimator), flush=True)


if __name__ == "__main__":
    main()
