"""Machine code that the package brings: python -m volvelle.simulate.machine_code [FOLDER]

It is written when a wheel is built (`setup.py`). Small simulations under every policy and every placement
compile the loops that simulations with parts of the package call, interpreted ones too; their object files go
to the folder, by default to that of the user's cache.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.core.machine import PREDICTING_LOOP
from volvelle.core.machine_code import arrays, files
from volvelle.core.machine_code.loading import loaded
from volvelle.core.parts import placements
from volvelle.core.policy import policies
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import Table
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.generators import make_generator
from volvelle.workload.workload import Workload

_NODES = tuple(Node(f"node-{number}", 4, cpus=12.0, memory_gb=80.0) for number in range(2))
_POOLS = tuple(Pool(f"pool-{number}", 2.0) for number in range(4))


def _elastic(job: Job) -> Job:
    """The job, on as many GPUs as it gets, with rates that are no proportion."""
    spec = msgspec.structs.replace(job.spec, min_gpus=1.0, max_gpus=4.0)
    return Job(spec, Truth(work=job.truth.work, throughput=Table((1.0, 1.8, 2.5, 3.0))))


def workload() -> Workload:
    """Jobs of 1 to 4 GPUs in four pools, which last a few rounds and wait; every third is elastic."""
    generator = make_generator(
        "demo", {"jobs": 24, "gpus": 8, "median": 300.0, "longest": 7200.0, "load": 2.0}
    )
    jobs = [
        each for each in generator.generate(np.random.default_rng(0)).jobs if each.spec.gpus <= 4
    ]
    return Workload([_elastic(job) if number % 3 == 0 else job for number, job in enumerate(jobs)])


def settings() -> Iterator[Setting]:
    """Every policy where GPUs have names, in pools and without, and where they are counted; placements."""
    free, divided = Cluster(_NODES), Cluster(_NODES, _POOLS)
    for policy in policies.all():
        for placement, cluster in (
            ("consolidated", free),
            ("consolidated", divided),
            ("none", free),
        ):
            yield Setting(cluster=cluster, composition=WrittenComposition(policy, placement))
    for placement in placements.all():
        composition = WrittenComposition("srtf", placement)
        yield Setting(cluster=free, composition=composition, predict=True)


def compile_all() -> None:
    """Have every loop of the package in the user's cache folder."""
    jobs = workload()
    arrays.INTERPRETED_SECONDS = 0.0
    for setting in settings():
        with suppress(Problem):  # what it needs is not there: a solver, or another cluster
            for compiled in (True, False):
                simulate(jobs, setting, compiled=compiled)
    loaded(*PREDICTING_LOOP)  # called where figures are searched for


def main() -> None:
    """Compile everything, and write it to the folder that is named."""
    if not sys.argv[1:]:
        compile_all()
        return
    with TemporaryDirectory() as scratch:
        os.environ[files.FOLDER] = scratch
        compile_all()
        files.bring(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
