"""What an event costs where there is much of everything: python benchmarks/scale.py [LINE ...]

Every line is measured at its size and at a tenth of it, in one run: nodes, GPU types, pools with quotas (in
which jobs seldom or always wait), users, an array of jobs that come together, a chain of jobs each of which
is after the one before. It prints the figure, its limit, and the ratio of costs. ``--millions 10`` adds ten
million jobs on 100,000 GPUs, with time and peak memory. CPU seconds.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from measure import best_of, peak_megabytes, warm_up
from msgspec import structs

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Dependency, Job, JobSpec, Truth
from volvelle.simulate.run import Setting, Simulation
from volvelle.workload.generators.base import JobColumns, workload_of
from volvelle.workload.workload import Workload

JOBS = 60_000
NODE_GPUS = 8
RATIO = 2.0
"""The most that an event may cost at ten times the size."""


class Line(NamedTuple):
    """What is measured at ``size`` and a tenth. seconds: limit of the whole, None where the ratio decides."""

    size: int
    make: Callable[[int], tuple[Workload, Setting]]
    seconds: float | None = None


def _cluster(nodes: int, types: int = 1, pools: int = 0) -> Cluster:
    kinds = [f"type-{kind}" if types > 1 else "" for kind in range(types)]
    quota = float(max(nodes * NODE_GPUS // max(pools, 1), NODE_GPUS))
    return Cluster(
        tuple(Node(f"node-{i}", NODE_GPUS, kinds[i * types // nodes]) for i in range(nodes)),
        pools=tuple(Pool(f"pool-{i}", quota) for i in range(pools)),
    )


def _jobs(
    cluster: Cluster,
    load: float,
    jobs: int = JOBS,
    users: int = 10,
    each: Callable[[int], dict[str, object]] | None = None,
) -> Workload:
    """Gangs that come one after another. each: more attributes of a job, by its number."""
    rng = np.random.default_rng(1)
    gpus = float(cluster.gpus)
    widths = np.array([1.0, 2.0, 4.0, 8.0])[rng.choice(4, size=jobs, p=[0.6, 0.2, 0.1, 0.1])]
    work = widths * rng.lognormal(7.0, 1.0, size=jobs)
    submit = np.cumsum(work) / (gpus * load)
    names = [f"user-{user}" for user in range(users)]
    owners = [names[owner] for owner in rng.integers(users, size=jobs).tolist()]
    workload = workload_of(JobColumns(submit, widths, work, users=owners), "gangs")
    if each is None:
        return workload
    replace = structs.replace
    return Workload(
        [replace(job, spec=replace(job.spec, **each(i))) for i, job in enumerate(workload)]
    )


def _nodes(policy: str, placement: str, load: float) -> Callable[[int], tuple[Workload, Setting]]:
    def make(size: int) -> tuple[Workload, Setting]:
        cluster = _cluster(size)
        return _jobs(cluster, load, jobs=4 * JOBS), Setting(
            cluster=cluster, composition=WrittenComposition(policy, placement)
        )

    return make


def _types(load: float, placement: str) -> Callable[[int], tuple[Workload, Setting]]:
    def make(size: int) -> tuple[Workload, Setting]:
        cluster = _cluster(640, size)
        wishes = np.random.default_rng(2).integers(size, size=JOBS).tolist()
        workload = _jobs(cluster, load, each=lambda i: {"gpu_types": (f"type-{wishes[i]}",)})
        return workload, Setting(cluster=cluster, composition=WrittenComposition("srsf", placement))

    return make


def _pools(load: float, policy: str = "srsf") -> Callable[[int], tuple[Workload, Setting]]:
    def make(size: int) -> tuple[Workload, Setting]:
        cluster = _cluster(1000, pools=size)
        owners = np.random.default_rng(2).integers(size, size=JOBS).tolist()
        workload = _jobs(cluster, load, each=lambda i: {"pool": f"pool-{owners[i]}"})
        return workload, Setting(cluster=cluster, composition=WrittenComposition(policy))

    return make


def _users(size: int) -> tuple[Workload, Setting]:
    cluster = _cluster(125)
    workload = _jobs(cluster, 1.1, jobs=size * 10, users=size)
    return workload, Setting(cluster=cluster, composition=WrittenComposition("srsf"))


def _array(size: int) -> tuple[Workload, Setting]:
    cluster = _cluster(125)
    work = np.random.default_rng(1).lognormal(7.0, 1.0, size=size).tolist()
    jobs = [
        Job(JobSpec(id=f"array-{i}", submit_time=0.0, gpus=1.0), Truth(work=work[i]))
        for i in range(size)
    ]
    setting = Setting(cluster=cluster, composition=WrittenComposition("fifo", "consolidated"))
    return Workload(jobs), setting


def _chain(size: int) -> tuple[Workload, Setting]:
    jobs = [
        Job(
            JobSpec(
                id=f"job-{i}",
                submit_time=0.0,
                gpus=1.0,
                after=(Dependency(f"job-{i - 1}"),) if i else (),
            ),
            Truth(work=10.0),
        )
        for i in range(size)
    ]
    return Workload(jobs), Setting(cluster=_cluster(1), composition=WrittenComposition("fifo"))


LINES = {
    "nodes, first-free": Line(12_500, _nodes("srsf", "first-free", 0.9)),
    "nodes, consolidated": Line(12_500, _nodes("srsf", "consolidated", 0.9)),
    "nodes, consolidated, overloaded": Line(12_500, _nodes("srsf", "consolidated", 1.2)),
    "nodes, fifo, consolidated": Line(12_500, _nodes("fifo", "consolidated", 0.9)),
    "nodes, counted": Line(12_500, _nodes("srsf", "none", 0.9)),
    "GPU types": Line(64, _types(0.7, "none")),
    "GPU types, consolidated": Line(64, _types(0.7, "consolidated")),
    "GPU types, overloaded": Line(64, _types(1.2, "none")),
    "pools": Line(1_000, _pools(0.7)),
    "pools, overloaded": Line(1_000, _pools(1.2)),
    "pools, fifo, overloaded": Line(1_000, _pools(1.2, "fifo")),
    "users": Line(10_000, _users),
    "an array": Line(100_000, _array),
    "a chain": Line(100_000, _chain, 10.0),
}
MILLIONS_SECONDS, MILLIONS_MEGABYTES = 120.0, 8_000.0


def measured(line: Line, times: int) -> Iterator[tuple[int, Simulation]]:
    """Runs at a tenth of the size and at the size."""
    for size in (line.size // 10, line.size):
        workload, setting = line.make(size)
        warm_up(workload, setting)
        yield size, best_of(times, workload, setting)


def verdict(holds: bool) -> str:
    """How a figure compares with its limit."""
    return "" if holds else "  MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", nargs="*", help="only lines that begin so")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--millions", type=float, default=0.0, help="of jobs on 100,000 GPUs, too")
    options = parser.parse_args()
    for name, line in LINES.items():
        if options.lines and not any(name.startswith(each) for each in options.lines):
            continue
        (small, tenth), (size, whole) = measured(line, options.times)
        cost = [1e6 * run.cpu_seconds / run.events for run in (tenth, whole)]
        ratio = cost[1] / cost[0]
        label, limit = f"{name}, {size:,}", f"{ratio:5.2f} times (at most {RATIO:.0f})"
        figures = f"{cost[1]:7.1f} us/event ({cost[0]:.1f} with {small:,}) {limit}"
        holds = ratio <= RATIO
        if line.seconds is not None:
            holds = holds and whole.cpu_seconds <= line.seconds
            figures += f", {whole.cpu_seconds:.1f} s (at most {line.seconds:.0f})"
        memory = f", {peak_megabytes():,.0f} MB at most so far"
        print(f"{label:40}{figures}{memory}{verdict(holds)}", flush=True)
    if options.millions:
        cluster = _cluster(12_500)
        setting = Setting(cluster=cluster, composition=WrittenComposition("srsf"))
        run = best_of(1, _jobs(cluster, 0.9, jobs=int(options.millions * 1e6)), setting)
        holds = run.cpu_seconds <= MILLIONS_SECONDS and peak_megabytes() <= MILLIONS_MEGABYTES
        print(
            f"{options.millions:g} million jobs on {cluster.gpus:,} GPUs: "
            f"{run.cpu_seconds:.1f} s (at most {MILLIONS_SECONDS:.0f}), {peak_megabytes():,.0f} MB "
            f"(at most {MILLIONS_MEGABYTES:,.0f}){verdict(holds)}"
        )


if __name__ == "__main__":
    main()
