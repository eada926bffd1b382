"""Reports our GPU demand to Ray's autoscaler, and finds idle nodes.

The autoscaler adds nodes until all that was requested would fit on the empty cluster (`request_resources`);
so what jobs hold is requested along with what others wait for. It removes a node of which nothing is in use.
An agent has all GPUs of its node, so that is a node whose agent has ended.
"""

from collections.abc import Collection, Iterable, Iterator

from volvelle.live.nodes.gpu_demand import GpuDemand, WaitingJob
from volvelle.model.cluster import Cluster
from volvelle.model.node import Node

Bundle = dict[str, float]
"""Amounts of Ray's resources that one node must have."""
_EPSILON = 0.001
"""Amount of a resource that only names a node's type, as Ray itself requests it."""


class Autoscaling:
    """For a cluster that grows up to ``limit``; nodes without a job for ``idle_seconds`` are idle."""

    def __init__(self, limit: Cluster, idle_seconds: float) -> None:
        self._limit, self._idle_seconds = limit, idle_seconds
        self._last_busy: dict[str, float] = {}
        """When each node last had a job, or was first seen."""

    def request(self, demand: GpuDemand) -> None:
        """Send the demand to Ray. Raises Ray's errors."""
        from ray.autoscaler.sdk import request_resources  # noqa: PLC0415 - with Ray only

        request_resources(bundles=list(bundles(demand, self._limit)))

    def idle_nodes(self, names: Collection[str], demand: GpuDemand, now: float) -> list[str]:
        """The idle ones of the nodes ``names``; none while jobs wait."""
        self._last_busy = {name: self._last_busy.get(name, now) for name in names}
        for name in names:
            if demand.waiting or demand.held.get(name):
                self._last_busy[name] = now
        return [name for name, then in self._last_busy.items() if now - then >= self._idle_seconds]


def bundles(demand: GpuDemand, limit: Cluster) -> Iterator[Bundle]:
    """The request to Ray, up to all GPUs of ``limit``."""
    types = {node.name: node.gpu_type for node in limit.nodes}
    left = limit.gpus
    for name, gpus in demand.held.items():
        left -= gpus
        yield _bundle(gpus, types.get(name, ""))
    for job in demand.waiting:
        for gpus, gpu_type in _split_over_nodes(job, limit.nodes):
            if gpus > left:
                return
            left -= gpus
            yield _bundle(gpus, gpu_type)


def _split_over_nodes(job: WaitingJob, nodes: Iterable[Node]) -> Iterator[tuple[int, str]]:
    """The GPUs of a job in pieces as wide as a node of its first type, and the rest."""
    gpu_type = job.gpu_types[0] if job.gpu_types else ""
    width = max((node.gpus for node in nodes if gpu_type in ("", node.gpu_type)), default=0)
    left = job.gpus if width else 0
    while left > 0:
        yield min(left, width), gpu_type
        left -= width


def _bundle(gpus: int, gpu_type: str) -> Bundle:
    from ray.util.accelerators import accelerators  # noqa: PLC0415 - with Ray only

    if not gpu_type:
        return {"GPU": gpus}
    names = {str(name).lower(): str(name) for name in vars(accelerators).values()}
    return {"GPU": gpus, f"accelerator_type:{names.get(gpu_type, gpu_type)}": _EPSILON}
