"""Executors: how orders become processes.

An executor is a part like any other: found through the registry ``executors`` (entry points
``volvelle.executors``), its parameters are fields. Its life: `open`, any number of `send`, `close`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from volvelle.core.registry import Part, Registry
from volvelle.live.messages import Order, Report
from volvelle.live.nodes.gpu_demand import Demand
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.model.cluster import Cluster
from volvelle.model.node import Node


@dataclass(frozen=True)
class Site:
    """Where an executor works: the cluster it is to provide and a folder that outlives the controller.

    token: with which agents and controller prove themselves to each other. awaited: the nodes on which
    something may run from before. Those that never come are reported as lost like all others, once it is
    certain that nothing runs there. demand: for executors that can add nodes, what is wanted now; asked at
    any time, from any thread.
    """

    cluster: Cluster
    folder: Path
    token: str
    awaited: tuple[Node, ...] = ()
    demand: Callable[[], Demand] = field(default=Demand, repr=False)

    @property
    def leaving(self) -> tuple[Node, ...]:
        """The nodes from before that are not of the cluster any more: what runs there runs to its end."""
        names = {node.name for node in self.cluster.nodes}
        return tuple(node for node in self.awaited if node.name not in names)


class OpenExecutor(Protocol):
    """An executor at work."""

    @property
    def logs(self) -> NodeLogs:
        """What jobs wrote on its nodes."""
        ...

    def send(self, order: Order) -> None:
        """Carry ``order`` out, sooner or later; returns at once, from any thread.

        An order to a node that is away is kept until it is back or lost.
        """
        ...

    def close(self) -> None:
        """Let go of everything; jobs run on, and the next to `Executor.open` here finds them."""
        ...


class Executor(Part):
    """Runs jobs on nodes."""

    def found(self) -> Cluster | None:
        """The nodes it finds by itself, where nobody says which there are; None: it finds none."""
        return None

    def open(self, site: Site, report: Callable[[Report], None]) -> OpenExecutor:
        """Begin (or take over) at ``site``. ``report`` may be called from any thread, at once.

        Every node is reported with `NodeJoined` when it is there and whenever it is back, with all that is
        alive on it. Raises `Problem` where it cannot begin.
        """
        raise NotImplementedError


executors: Registry[Executor] = Registry("executor", "executors", "volvelle.live.nodes.executors")
