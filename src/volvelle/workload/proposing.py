"""The cluster that a trace ran on, or could: GPU types and widths seen, as a line for ``--cluster``.

Where the trace recorded starts, a type's GPUs are the most that its jobs held at once; otherwise as many as
its work needs at `TYPICAL_LOAD`, and no more than are enough for all jobs to run at once. Nodes are as
large as the trace says, or else as the widest job that a node of `MOST_OF_A_NODE` takes.
"""

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import distinct
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.job import Job
from volvelle.model.units import MINUTE
from volvelle.workload.workload import Workload

TYPICAL_LOAD = 0.8
OVERLOAD, MANY = 1.5, 100
"""Work submitted over what a cluster can do, and jobs, from which on a cluster is said to be too small."""
TO_THE_MINUTE = 1.5 * MINUTE
"""The most that rounding alone lets two jobs overlap: starts by a minute, a length by half of one."""
MOST_OF_A_NODE = 8
"""GPUs of a node, in nearly every cluster there is."""

_PLAIN = re.compile(r"[\w.-]+(?: [\w.-]+)*")


@dataclass(frozen=True)
class SeenType:
    """A GPU type by the jobs of a trace, "" for jobs that name none.

    widths: GPUs that jobs request, ascending. gpus: the least that the trace needs, or a proposal. load: work
    submitted over the time of submission, in GPUs, but no more than all jobs would hold without a queue.
    most_on_node: GPUs that a job had on each of its nodes, 0 where the trace does not say on how many it ran.
    """

    gpu_type: str
    jobs: int
    widths: tuple[float, ...]
    gpus: float
    load: float
    most_on_node: float = 0.0

    @property
    def node_gpus(self) -> int:
        """GPUs of a node: the least power of two that holds what a job had of one, or could have."""
        within = [width for width in self.widths if width <= MOST_OF_A_NODE]
        widest = MOST_OF_A_NODE if len(within) < len(self.widths) else max(within)
        if self.most_on_node:
            widest = self.most_on_node
        return 1 << max(math.ceil(math.log2(max(widest, 1.0))), 0)

    @property
    def nodes(self) -> int:
        """As many as hold the GPUs, and the widest job."""
        return math.ceil(max(self.gpus, self.widths[-1]) / self.node_gpus)


def seen_types(workload: Workload) -> tuple[SeenType, ...]:
    """The GPU types of the jobs, each job's first, with the most wanted before the others."""
    by_type: dict[str, list[int]] = {}
    for row, job in enumerate(workload.jobs):
        wished = job.spec.gpu_types
        by_type.setdefault(wished[0] if wished else "", []).append(row)
    span = float(workload.submit_times[-1] - workload.submit_times[0])
    lasts = np.where(np.isfinite(workload.durations), workload.durations, 0.0)
    work = workload.gpus * lasts
    found = []
    for kind, rows in by_type.items():
        jobs = [workload.jobs[row] for row in rows]
        starts = workload.submit_times[rows]
        unqueued = _most_at_once(starts, starts + lasts[rows], workload.gpus[rows])
        load = min(float(work[rows].sum()) / span, unqueued) if span > 0.0 else 0.0
        if all(job.recorded is not None for job in jobs):
            gpus = most_recorded_gpus(jobs)
        else:
            gpus = min(load / TYPICAL_LOAD, unqueued)
        widths = tuple(distinct(workload.gpus[rows]).tolist())
        most_on_node = workload.report.node_gpus.get(kind, 0.0) if workload.report else 0.0
        found.append(SeenType(kind, len(jobs), widths, gpus, load, most_on_node))
    return tuple(sorted(found, key=lambda one: -one.gpus))


def most_recorded_gpus(jobs: Sequence[Job]) -> float:
    """GPUs that jobs held at once at most, by the trace's own account.

    Where all starts are on whole minutes, a job whose last `TO_THE_MINUTE` overlaps the next one follows it.
    """
    ran = [(job.recorded, job.spec.gpus) for job in jobs if job.recorded is not None]
    if not ran:
        return 0.0
    starts, ends = np.array([each.start for each, _ in ran]), np.array([one.end for one, _ in ran])
    if not np.count_nonzero((starts - starts[0]) % MINUTE):
        ends = np.maximum(ends - TO_THE_MINUTE, starts)
    return _most_at_once(starts, ends, np.array([gpus for _, gpus in ran]))


def _most_at_once(
    starts: NDArray[np.float64], ends: NDArray[np.float64], gpus: NDArray[np.float64]
) -> float:
    times, changes = np.concatenate([ends, starts]), np.concatenate([-gpus, gpus])
    return float(np.cumsum(changes[np.argsort(times, kind="stable")]).max())  # ends come first


def proposed_cluster(types: Sequence[SeenType], cluster: Cluster | None = None) -> str:
    """As in ``--cluster 6x8:a100,2x8:h100``; jobs of any type go to the type that others want most.

    cluster: its nodes are shared among the types, where all are alike and enough. Nothing where a type's name
    does not go into such a line.
    """
    named = [one for one in types if one.gpu_type]
    if not all(_PLAIN.fullmatch(one.gpu_type) for one in named):
        return ""
    of_any = [one for one in types if not one.gpu_type]
    if named and of_any:
        named[0] = _together(named[0], of_any[0])
    there = cluster.nodes if cluster else ()
    if len(there) >= len(named) > 0 and len({node.gpus for node in there}) == 1:
        shares = _shared(len(there), [one.gpus for one in named])
        groups = [
            f"{nodes}x{there[0].gpus:g}:{one.gpu_type}"
            for one, nodes in zip(named, shares, strict=True)
        ]
    else:
        groups = [f"{one.nodes}x{one.node_gpus}:{one.gpu_type}" for one in named]
    if not named:
        [one] = types
        groups = [f"{one.nodes}x{one.node_gpus}"]
    return f"--cluster {shlex.quote(','.join(groups))}"


def fewer_nodes(cluster: Cluster, gpus: float) -> str:
    """As in ``--cluster 6x8:a100``: ``gpus`` GPUs of nodes as ``cluster`` has, of all types in proportion.

    Nothing where that is not smaller, or where such a line does not say all of the cluster.
    """
    text, share = str(cluster), gpus / cluster.gpus
    named = filter(None, cluster.gpu_types)
    if share >= 1.0 or not all(map(_PLAIN.fullmatch, named)) or parse_cluster(text) != cluster:
        return ""
    groups = [group.partition("x") for group in text.split(",")]
    fewer = [f"{math.ceil(int(nodes) * share)}x{of}" for nodes, _, of in groups]
    line = ",".join(fewer)
    return "" if line == text else f"--cluster {shlex.quote(line)}"


def _shared(nodes: int, gpus: Sequence[float]) -> list[int]:
    """At least one node for each type, the others where most GPUs are wanted of each that is there."""
    shares = [1] * len(gpus)
    for _ in range(nodes - len(gpus)):
        wanting = max(range(len(gpus)), key=lambda one: gpus[one] / shares[one])
        shares[wanting] += 1
    return shares


def _together(one: SeenType, other: SeenType) -> SeenType:
    """The jobs of both on GPUs of the first one's type."""
    return replace(
        one,
        jobs=one.jobs + other.jobs,
        widths=tuple(sorted({*one.widths, *other.widths})),
        gpus=one.gpus + other.gpus,
        load=one.load + other.load,
        most_on_node=max(one.most_on_node, other.most_on_node),
    )


def too_much_wanted(types: Sequence[SeenType], cluster: Cluster) -> list[tuple[SeenType, int]]:
    """The types that jobs name of which more is submitted than the cluster has, and what it has."""
    there = {
        kind: sum(node.gpus for node in cluster.nodes if node.gpu_type == kind)
        for kind in cluster.gpu_types
    }
    wanted = [one for one in types if one.gpu_type in there and one.gpu_type]
    return [(one, there[one.gpu_type]) for one in wanted if one.load > there[one.gpu_type]]
