"""Shockwave: python benchmarks/shockwave.py [--windows] [--trace FILE --throughputs FILE --gpus N]

120 jobs on 32 GPUs and 900 on 256, drawn as in section 8.1 of the paper, or a Shockwave trace. Rounds of
120 s, 20 s for a start or restore, predicted batch sizes. Prints CPU seconds, makespan, mean completion
time, the worst rho (completion time over the time on an n-th of the cluster for n jobs in all), how many
plans were made and their largest gap. ``--policies`` names others to stand beside it.

``--windows``: single windows instead, and how their cost grows with jobs and rounds. Jobs are somewhere on
their way, a third of what they request is there; gains are those of the policy at its defaults, and without
pieces of the logarithm. Prints CPU seconds (the least of three) and the gap.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.plan.plan import Window
from volvelle.simulate.run import Setting, simulate
from volvelle.systems.shockwave.policy import Shockwave
from volvelle.systems.shockwave.rounds import RoundJobs, share_rounds
from volvelle.systems.shockwave.welfare import gains
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


def window(jobs: int, rounds: int, pieces: int, seed: int) -> str:
    """One line of a window."""
    rng = np.random.default_rng(seed)
    gang = rng.choice([1.0, 2.0, 4.0, 8.0], jobs, p=[0.6, 0.2, 0.15, 0.05])
    gpus = float(np.ceil(gang.sum() / 3.0))
    whole = rng.lognormal(8.5, 1.2, jobs)
    done = rng.uniform(0.0, 0.8, jobs) * whole
    progress = np.minimum((done[:, None] + 120.0 * np.arange(rounds + 1)) / whole[:, None], 1.0)
    gained = gains(progress, rng.lognormal(0.0, 0.15, jobs) ** Shockwave().power, pieces)
    shared = RoundJobs(np.arange(jobs), gang, gained, whole - done, running=rng.random(jobs) < 0.3)
    weight = Shockwave().makespan * jobs * gpus / float(3.0 * whole.sum())
    taken = []
    for _ in range(3):
        began = time.process_time()
        share = share_rounds(
            shared, Window(0.0, 120.0, rounds), gpus, makespan_weight=weight, seconds=60.0
        )
        taken.append(time.process_time() - began)
    return (
        f"{jobs:6,} jobs {gpus:6,.0f} GPUs {rounds:3} rounds {pieces or 'no':>3} pieces  "
        f"{min(taken):6.2f} s CPU  gap {100 * share.gap:.3g} %"
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
    parser.add_argument("--windows", action="store_true")
    arguments = parser.parse_args()
    if arguments.windows:
        window(20, 20, 5, 0)  # compiles or loads the inner loops
        for jobs in (100, 1_000, 10_000):
            for rounds in (10, 20, 40, 80):
                for pieces in (Shockwave().pieces, 0):
                    print(window(jobs, rounds, pieces, arguments.seed), flush=True)
        return
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
