"""The nodes of a Ray cluster: on each an agent in a detached actor, which has all GPUs of its node.

The scheduler chooses the GPUs of a job, so Ray is not asked for them job by job: an actor with all of a
node's GPUs keeps other Ray users from them while Volvelle is there, and the agent in it assigns them. Gang
scheduling is done by the decision itself. (A placement group for each gang would let Ray choose the GPUs
again, and would cost a round trip to Ray's controller at every start.)

Nodes join and leave with Ray's. A node that Ray reports dead is lost once it is certain that nothing runs
there: jobs end with their raylet, within a second; a raylet that is cut off ends itself within a minute. With
Ray's autoscaler (`ray_autoscaling`) a node that has had no job for long is given up: it is lost to the
scheduler and its agent is ended, so that Ray may remove it.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import Field

from volvelle.live.agent.folders import LOG_RETENTION_SECONDS, AgentSettings
from volvelle.live.messages import Report
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.current_agents import CurrentAgents
from volvelle.live.nodes.executor import Executor, ExecutorContext, OpenExecutor, executors
from volvelle.live.nodes.executors.managed_agents import ManagedAgents
from volvelle.live.nodes.executors.ray_autoscaling import Autoscaling
from volvelle.live.nodes.executors.ray_nodes import (
    NodeNames,
    RayNode,
    assign_names,
    list_alive_nodes,
)
from volvelle.model.cluster import Cluster
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds
from volvelle.ray_cluster import NAMESPACE, connected

_DETECTION_SECONDS = 30.0
"""Ray detects the death of a node within this time."""


@executors.register
class OnRay(Executor):
    """The nodes of a Ray cluster, as they join and leave it."""

    name: ClassVar[str] = "ray"
    joining: ClassVar[str] = "see `ray status`"
    trust: ClassVar[str] = (
        "Jobs run as Ray's user, and agents talk without TLS, as Ray does: "
        "whoever may submit, or is on Ray's network, is an operator."
    )

    address: str = Field("auto", description="of the Ray cluster, as for ray.init")
    host: str = Field(
        "", description="where nodes reach us; default: this machine's address in Ray"
    )
    settle_seconds: float = Field(
        75.0,
        ge=0,
        description="from Ray's report that a node is dead until nothing runs there for sure",
    )
    poll_seconds: float = Field(1.0, gt=0, description="how often Ray is asked for its nodes")
    progress_seconds: float = Field(1.0, gt=0, description="how often jobs' progress is reported")
    keep: Annotated[Seconds, Field(ge=1)] = Field(
        LOG_RETENTION_SECONDS, description="how long the logs of a run are kept after its end"
    )
    linger_seconds: float = Field(
        600.0, ge=0, description="how long an agent stays without a job and without a controller"
    )

    autoscale: bool = Field(
        False, description="have Ray's autoscaler add nodes for jobs that wait, up to --cluster"
    )
    idle_seconds: float = Field(
        60.0, ge=0, description="with autoscale: from a node's last job until Ray may remove it"
    )

    def discover_cluster(self) -> Cluster:
        """The nodes of the Ray cluster now; others may join later. Raises `Problem`."""
        if self.autoscale:
            raise Problem(
                "executor 'ray' with autoscale: the largest size of the cluster is not set",
                mend="say it with --cluster, as in --cluster 16x4",
                usage=True,
            )
        alive = list_alive_nodes(connected(self.address))
        nodes = sorted(assign_names(alive, {}, (), {one.id for one in alive}, ()).items())
        if not nodes:
            raise Problem(
                f"no node of the Ray cluster at {self.address!r} has GPUs yet",
                mend="wait for one, or say which there will be with --cluster",
            )
        return Cluster(tuple(one.node for _, one in nodes))

    def open(self, context: ExecutorContext, report: Callable[[Report], None]) -> OpenExecutor:
        """Connect to Ray, or take over. Raises `Problem` if there is no such Ray cluster."""
        return _RayAgents(self, context, report)


@dataclass(frozen=True)
class _AgentActor:
    """The actor of an agent. ``redirected``: Ray's reference to the answer of its last `redirect`."""

    actor: Any
    redirected: Any


class _RayAgents(ManagedAgents):
    """The agents of all Ray nodes, started where they do not run."""

    def __init__(
        self, executor: OnRay, context: ExecutorContext, report: Callable[[Report], None]
    ) -> None:
        self._executor, self._context = executor, context
        self._ray = connected(executor.address)
        templates = context.cluster.nodes if executor.autoscale else ()
        self._names = NodeNames(context.folder / "ray-nodes.json", templates)
        self._autoscaling = (
            Autoscaling(context.cluster, executor.idle_seconds) if executor.autoscale else None
        )
        self._agents: dict[str, _AgentActor] = {}
        self._alive_since: dict[str, float] = {}
        """Since when nodes are alive, by Ray's ids and our clock."""
        self._missing_since: dict[str, float] = {}
        """Since when nodes are missing, by name and our clock."""
        self._free_names: set[str] = set()
        """Names of nodes that were lost, or given up."""
        self._given_up: set[str] = set()
        """Ray's ids of nodes that are alive and were given up."""
        here = self._ray.util.get_node_ip_address()
        server = AgentsServer(
            (),
            context.given_keys,
            report,
            host=executor.host or here,
            position=context.position,
            placed=context.placed,
            is_down=context.is_down,
            uploads=context.uploads,
            current_agents=CurrentAgents(context.folder / "current-agents"),
        )
        self._address = f"{executor.host or here}:{server.port}"
        super().__init__(server, executor.poll_seconds)

    def poll(self) -> None:
        """Start an agent on every node of Ray's, report nodes that are lost, and autoscale."""
        errors = self._ray.exceptions.RayError, ConnectionError, TimeoutError, OSError
        with contextlib.suppress(*errors):  # tried again
            alive, now = list_alive_nodes(self._ray), time.monotonic()
            alive_ids = {one.id for one in alive}
            self._report_lost(alive_ids, now)
            if self._autoscaling is not None:
                self._autoscale(self._autoscaling, now)
            wanted = alive_ids - self._given_up
            settled = self._settled(alive_ids, now)
            self._names.assign(
                [one for one in alive if one.id in wanted], self._free_names, settled
            )
            for name, one in self._names.nodes.items():
                if one.id in wanted and self._needs_agent(name):
                    self._free_names.discard(name)
                    self._agents[name] = self._start_agent(one)

    def _settled(self, alive: set[str], now: float) -> set[str]:
        """Ids of nodes that are alive for so long that dead nodes of the same name would be known."""
        self._alive_since = {id: self._alive_since.get(id, now) for id in alive}
        settle_seconds = self._executor.settle_seconds + _DETECTION_SECONDS
        return {id for id, since in self._alive_since.items() if now - since >= settle_seconds}

    def _report_lost(self, alive: set[str], now: float) -> None:
        """Report nodes that are missing for so long that nothing runs there any more."""
        self._given_up &= alive
        for name, one in self._names.nodes.items():
            if one.id in alive or name in self._free_names:
                self._missing_since.pop(name, None)
            elif now - self._missing_since.setdefault(name, now) >= self._executor.settle_seconds:
                self.server.add_node(one.node)
                self.server.node_lost(name, "Ray says that it is dead", permanent=True)
                self._free_name(name)

    def _autoscale(self, autoscaling: Autoscaling, now: float) -> None:
        """Request the nodes that are needed, and give up those that are idle."""
        demand = self._context.demand()
        autoscaling.request(demand)
        if demand.waiting:
            self._given_up.clear()
        for name in autoscaling.idle_nodes(self._agents, demand, now):
            if self.server.release_node(name, "it had no job, and Ray may remove it"):
                self._given_up.add(self._names.nodes[name].id)
                self._ray.kill(self._agents[name].actor, no_restart=True)
                self._free_name(name)

    def _free_name(self, name: str) -> None:
        self._agents.pop(name, None)
        self._missing_since.pop(name, None)
        self._free_names.add(name)

    def _needs_agent(self, name: str) -> bool:
        """Whether no agent was started, or one that was redirected here has not connected."""
        known = self._agents.get(name)
        if known is None:
            return True
        redirected = bool(self._ray.wait([known.redirected], timeout=0)[0])
        return redirected and not self.server.is_connected(name)

    def _start_agent(self, one: RayNode) -> _AgentActor:
        """Get the agent of a Ray node, or start one, and redirect it here."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        from volvelle.live.nodes.executors.ray_agent import RayAgent  # noqa: PLC0415 - with Ray only

        node = one.node
        self.server.add_node(node)
        folder = (self._context.folder / "nodes" / node.name).absolute()
        settings = AgentSettings(
            node=node,
            connect=str(folder / "controller.address"),
            key=self._context.given_keys.key(node.name),
            work=str((self._context.folder / "work").absolute()),
            progress_seconds=self._executor.progress_seconds,
            linger_seconds=self._executor.linger_seconds,
            retention_seconds=self._executor.keep,
            umask=self._context.umask,
        )
        digest = hashlib.sha256(f"{self._context.token} {folder}".encode()).hexdigest()[:12]
        actor = (
            self._ray.remote(RayAgent)
            .options(
                name=f"{digest}-{one.id}",
                namespace=NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
                max_restarts=-1,
                num_cpus=0,
                num_gpus=node.gpus,
                scheduling_strategy=NodeAffinitySchedulingStrategy(one.id, soft=False),
            )
            .remote(str(folder), msgspec.json.encode(settings))
        )
        return _AgentActor(actor, actor.redirect.remote(self._address))
