"""Ray's autoscaler told of our queue: it adds nodes for jobs that wait, and takes away those that have none.

It adds nodes until all that was requested would fit, were the cluster empty (`request_resources`); so what
jobs hold is requested along with what others wait for. It takes away a node of which nothing is in use. Our
agent has all GPUs of its node, so that is one whose agent has left.
"""

from collections.abc import Collection, Iterable, Iterator

from volvelle.live.nodes.gpu_demand import Demand, Wish
from volvelle.model.cluster import Cluster
from volvelle.model.node import Node

Bundle = dict[str, float]
"""Amounts of Ray's resources that have to be there on one node."""
_SOME = 0.001
"""Of a resource that says of what kind a node is: what Ray itself asks for."""


class Scaling:
    """For a cluster that grows up to ``most``, and whose nodes go that had no job for ``idle_seconds``."""

    def __init__(self, most: Cluster, idle_seconds: float) -> None:
        self._most, self._idle_seconds = most, idle_seconds
        self._busy: dict[str, float] = {}
        """When each node last had a job, or was first seen."""

    def request(self, demand: Demand) -> None:
        """Tell Ray. Raises what Ray raises where it is not there."""
        from ray.autoscaler.sdk import request_resources  # noqa: PLC0415 - with Ray only

        request_resources(bundles=list(bundles(demand, self._most)))

    def idle(self, names: Collection[str], demand: Demand, now: float) -> list[str]:
        """Those of the nodes that are there which had no job for long; none while jobs wait."""
        self._busy = {name: self._busy.get(name, now) for name in names}
        for name in names:
            if demand.waiting or demand.held.get(name):
                self._busy[name] = now
        return [name for name, then in self._busy.items() if now - then >= self._idle_seconds]


def bundles(demand: Demand, most: Cluster) -> Iterator[Bundle]:
    """What Ray is to have room for, up to all GPUs of ``most``."""
    types = {node.name: node.gpu_type for node in most.nodes}
    left = most.gpus
    for name, gpus in demand.held.items():
        left -= gpus
        yield _bundle(gpus, types.get(name, ""))
    for wish in demand.waiting:
        for gpus, gpu_type in _on_nodes(wish, most.nodes):
            if gpus > left:
                return
            left -= gpus
            yield _bundle(gpus, gpu_type)


def _on_nodes(wish: Wish, nodes: Iterable[Node]) -> Iterator[tuple[int, str]]:
    """A wish cut into pieces as wide as a node of its first type, and what is left."""
    gpu_type = wish.gpu_types[0] if wish.gpu_types else ""
    width = max((node.gpus for node in nodes if gpu_type in ("", node.gpu_type)), default=0)
    left = wish.gpus if width else 0
    while left > 0:
        yield min(left, width), gpu_type
        left -= width


def _bundle(gpus: int, gpu_type: str) -> Bundle:
    from ray.util.accelerators import accelerators  # noqa: PLC0415 - with Ray only

    if not gpu_type:
        return {"GPU": gpus}
    written = {str(name).lower(): str(name) for name in vars(accelerators).values()}
    return {"GPU": gpus, f"accelerator_type:{written.get(gpu_type, gpu_type)}": _SOME}
