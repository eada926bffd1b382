"""The interface of executors, which turn orders into processes.

An executor is a part like any other: found through the registry ``executors`` (entry points
``volvelle.executors``), its parameters are fields. Its life cycle: `open`, any number of `send`, `close`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from volvelle.core.mistakes import check_given, mistakes_of
from volvelle.core.registry import Part, Registry
from volvelle.live.agent.files import current_umask
from volvelle.live.messages import AttemptKey, JournalPosition, Order, Report
from volvelle.live.nodes.gpu_demand import GpuDemand
from volvelle.live.nodes.node_keys import GivenKeys, NodeKeys
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.live.uploads import UPLOADS, Uploads
from volvelle.model.cluster import Cluster
from volvelle.model.node import Node


@dataclass(frozen=True)
class ExecutorContext:
    """The environment of an executor: the cluster it provides, and a folder that outlives the controller.

    token: of which the keys of agents are made that the executor starts. joined: the keys of nodes whose
    agents come by themselves; None: they too are made of the token. expected: nodes on which attempts may run
    from before. The executor reports each of them as joined, or as lost once it is certain that nothing runs
    there. placed: the nodes of attempts from before. umask: of jobs; what executors write themselves is
    private. run_as: as whom jobs run of agents that the executor starts (see `job_users`). demand: the
    present GPU demand, for executors that can add nodes. position: how far the journal is written, for agents
    to remember. is_down: whether a node is down by the journal, so that nothing is there. All three may be
    called at any time, from any thread.
    """

    cluster: Cluster
    folder: Path
    token: str
    joined: NodeKeys | None = field(default=None, repr=False)
    expected: tuple[Node, ...] = ()
    placed: Mapping[AttemptKey, tuple[str, ...]] = field(default_factory=dict)
    umask: int = field(default_factory=current_umask)
    run_as: Mapping[str, str] = field(default_factory=dict)
    demand: Callable[[], GpuDemand] = field(default=GpuDemand, repr=False)
    position: Callable[[], JournalPosition | None] = field(default=lambda: None, repr=False)
    is_down: Callable[[str], bool] = field(default=lambda name: True, repr=False)

    @property
    def given_keys(self) -> GivenKeys:
        """The keys of agents that the executor starts."""
        return GivenKeys(self.token)

    @property
    def uploads(self) -> Uploads:
        """Working directories of jobs."""
        return Uploads(self.folder / UPLOADS)

    @property
    def leaving(self) -> tuple[Node, ...]:
        """Expected nodes that the cluster no longer has: attempts run to their end, nothing new starts."""
        names = {node.name for node in self.cluster.nodes}
        return tuple(node for node in self.expected if node.name not in names)


class OpenExecutor(Protocol):
    """An executor in operation."""

    @property
    def logs(self) -> NodeLogs:
        """Job logs on its nodes."""
        ...

    def send(self, order: Order) -> None:
        """Carry ``order`` out, sooner or later. Returns at once, from any thread.

        An order to a disconnected node is kept until the node is back or lost.
        """
        ...

    def close(self) -> None:
        """Release everything. Jobs run on, and the next `Executor.open` with the same folder finds them."""
        ...


class Executor(Part):
    """Runs jobs on nodes."""

    one_of: ClassVar[tuple[str, ...]] = ("open",)

    starts_agents: ClassVar[bool] = False
    """Whether it starts the nodes' agents itself, so that they connect at once."""

    heeds_run_as: ClassVar[bool] = False
    """Whether the agents that it starts run jobs as `ExecutorContext.run_as` says."""

    trust: ClassVar[str] = ""
    """The trust in users with the right to submit, in a sentence that the server says at its start."""

    joining: ClassVar[str] = ""
    """An instruction to an operator that lets nodes join which do not by themselves."""

    def joining_command(self, cluster: Cluster, token: Path) -> str:
        """The command that lets the first node of ``cluster`` join; empty: none. ``token``: of agents."""
        return ""

    def discover_cluster(self) -> Cluster | None:
        """The nodes that it finds by itself if the configuration names none; None: it finds none."""
        return None

    def warning(self, cluster: Cluster) -> str:
        """A surprise that running ``cluster`` here holds for its operator, in a sentence; empty: none."""
        return ""

    def open(self, context: ExecutorContext, report: Callable[[Report], None]) -> OpenExecutor:
        """Begin, or take over. ``report`` may be called from any thread, at once.

        Every node is reported with `NodeJoined` when it connects, with all active attempts on it. Raises
        `Problem` if it cannot begin.
        """
        raise NotImplementedError


def open_executor(
    executor: Executor, context: ExecutorContext, report: Callable[[Report], None]
) -> OpenExecutor:
    """The ``executor``, opened. Raises `Problem` where a user's own fails, or gives what lacks a method."""
    with mistakes_of(f"executor {executor.label!r}", "it was asked to open"):
        opened = executor.open(context, report)
    check_given(f"executor {executor.label!r}", opened, OpenExecutor)
    return opened


executors: Registry[Executor] = Registry(
    "executor", "executors", "volvelle.live.nodes.executors", "volvelle.executors"
)
