"""Nodes that are Ray's: on each an agent as a detached actor, which has all GPUs of its node.

The scheduler says which GPUs a job gets, so Ray is not asked for them job by job: an actor with all of a
node's GPUs keeps others from them as long as Volvelle is there, and the agent in it gives them out. Gangs are
all or nothing already where they are decided. (A placement group for each gang would let Ray choose the GPUs
anew and would cost a round trip to its controller at every start.)

Nodes come and go with Ray's: what joins or is scaled up joins us, what Ray says is dead is lost once it is
certain that nothing runs there: jobs end with their raylet, within a second; a raylet that is cut off ends
itself within a minute. With Ray's autoscaler (`ray_scaling`) a node that has no job for long is given up: it
is lost to us and its agent is ended, so that Ray may take it away.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import Field

from volvelle.live.agent.folders import KEEP_SECONDS, Settings, umask
from volvelle.live.messages import Report
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.executor import Executor, OpenExecutor, Site, executors
from volvelle.live.nodes.executors.agent_watcher import Watching
from volvelle.live.nodes.executors.ray_autoscaling import Scaling
from volvelle.live.nodes.executors.ray_nodes import RayNode, Roll, named, nodes_alive
from volvelle.model.cluster import Cluster
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds
from volvelle.ray_cluster import NAMESPACE, connected

_NOTICED_SECONDS = 30.0
"""Ray notices the death of a node sooner."""


@executors.register
class OnRay(Executor):
    """The nodes of a Ray cluster, as they join and leave it."""

    name: ClassVar[str] = "ray"

    address: str = Field("auto", description="of the Ray cluster, as for ray.init")
    host: str = Field(
        "", description="where nodes reach us; default: this machine's address in Ray"
    )
    settle_seconds: float = Field(
        75.0,
        ge=0,
        description="from Ray's word that a node is dead until nothing runs there for sure",
    )
    look_seconds: float = Field(1.0, gt=0, description="how often Ray's nodes are looked at")
    progress_seconds: float = Field(1.0, gt=0, description="how often jobs' progress is told")
    keep: Annotated[Seconds, Field(ge=1)] = Field(
        KEEP_SECONDS, description="how long the logs of a run are kept after its end"
    )
    linger_seconds: float = Field(
        600.0, ge=0, description="how long an agent stays without a job and without a controller"
    )

    autoscale: bool = Field(
        False, description="have Ray's autoscaler add nodes for jobs that wait, up to --cluster"
    )
    idle_seconds: float = Field(
        60.0, ge=0, description="with autoscale: from a node's last job until Ray may take it away"
    )

    def found(self) -> Cluster:
        """The nodes of the Ray cluster now; others may join later. Raises `Problem`."""
        if self.autoscale:
            raise Problem(
                "executor 'ray' with autoscale: nobody said how far the cluster may grow",
                mend="say it with --cluster, as in --cluster 16x4",
                usage=True,
            )
        alive = nodes_alive(connected(self.address))
        nodes = sorted(named(alive, {}, (), {one.identity for one in alive}, ()).items())
        if not nodes:
            raise Problem(
                f"no node of the Ray cluster at {self.address!r} has GPUs yet",
                mend="wait for one, or say which there will be with --cluster",
            )
        return Cluster(tuple(one.node for _, one in nodes))

    def open(self, site: Site, report: Callable[[Report], None]) -> OpenExecutor:
        """Begin (or take over) at ``site``. Raises `Problem` where there is no such Ray cluster."""
        return _Open(self, site, report)


@dataclass(frozen=True)
class _Agent:
    """``told``: whether it heard where we are, as Ray keeps such answers."""

    actor: Any
    told: Any


class _Open(Watching):
    """Connected to Ray."""

    def __init__(self, executor: OnRay, site: Site, report: Callable[[Report], None]) -> None:
        self._executor, self._site = executor, site
        self._ray = connected(executor.address)
        places = site.cluster.nodes if executor.autoscale else ()
        self._roll = Roll(site.folder / "ray-nodes.json", places)
        self._scaling = Scaling(site.cluster, executor.idle_seconds) if executor.autoscale else None
        self._agents: dict[str, _Agent] = {}
        self._seen: dict[str, float] = {}
        """Since when nodes are there, by their identities and our clock."""
        self._missed: dict[str, float] = {}
        """Since when nodes are missed, by our clock."""
        self._free: set[str] = set()
        """Names of nodes that were lost, or given up."""
        self._given_up: set[str] = set()
        """Identities of nodes that are there and Ray's again."""
        here = self._ray.util.get_node_ip_address()
        server = AgentsServer((), site.token, report, host=executor.host or here)
        self._address = f"{executor.host or here}:{server.port}"
        super().__init__(server, executor.look_seconds)

    def look(self) -> None:
        """Have an agent on every node of Ray's, report those that are gone for good, and scale."""
        errors = self._ray.exceptions.RayError, ConnectionError, TimeoutError, OSError
        with contextlib.suppress(*errors):  # tried again
            alive, now = nodes_alive(self._ray), time.monotonic()
            living = {one.identity for one in alive}
            self._bury(living, now)
            if self._scaling is not None:
                self._scale(self._scaling, now)
            wanted = living - self._given_up
            settled = self._settled(living, now)
            self._roll.enter([one for one in alive if one.identity in wanted], self._free, settled)
            for name, one in self._roll.bearers.items():
                if one.identity in wanted and self._lacks_agent(name):
                    self._free.discard(name)
                    self._agents[name] = self._host(one)

    def _settled(self, living: set[str], now: float) -> set[str]:
        """Identities of the nodes that have been there for so long that others would be known to be dead."""
        self._seen = {identity: self._seen.get(identity, now) for identity in living}
        patience = self._executor.settle_seconds + _NOTICED_SECONDS
        return {identity for identity, since in self._seen.items() if now - since >= patience}

    def _bury(self, living: set[str], now: float) -> None:
        """Report the nodes that Ray has not had for so long that nothing runs there any more."""
        self._given_up &= living
        for name, one in self._roll.bearers.items():
            if one.identity in living or name in self._free:
                self._missed.pop(name, None)
            elif now - self._missed.setdefault(name, now) >= self._executor.settle_seconds:
                self.server.know(one.node)
                self.server.lost(name, "Ray says that it is dead", for_good=True)
                self._let_go(name)

    def _scale(self, scaling: Scaling, now: float) -> None:
        """Tell Ray what is wanted, and let it have the nodes that are not."""
        demand = self._site.demand()
        scaling.request(demand)
        if demand.waiting:
            self._given_up.clear()
        for name in scaling.idle(self._agents, demand, now):
            if self.server.release(name, "it had no job, and Ray may take it away"):
                self._given_up.add(self._roll.bearers[name].identity)
                self._ray.kill(self._agents[name].actor, no_restart=True)
                self._let_go(name)

    def _let_go(self, name: str) -> None:
        self._agents.pop(name, None)
        self._missed.pop(name, None)
        self._free.add(name)

    def _lacks_agent(self, name: str) -> bool:
        """Whether no agent of ours is there, or none that knows where we are and none that is being told."""
        known = self._agents.get(name)
        if known is None:
            return True
        told = bool(self._ray.wait([known.told], timeout=0)[0])
        return told and not self.server.hears(name)

    def _host(self, one: RayNode) -> "_Agent":
        """The agent of a Ray node: the one that is there, told where we are now, or a new one."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        from volvelle.live.nodes.executors.ray_agent import RayAgent  # noqa: PLC0415 - with Ray only

        node = one.node
        self.server.know(node)
        folder = (self._site.folder / "nodes" / node.name).absolute()
        settings = Settings(
            node=node,
            connect=str(folder / "controller.address"),
            token=self._site.token,
            work=str((self._site.folder / "work").absolute()),
            progress_seconds=self._executor.progress_seconds,
            linger_seconds=self._executor.linger_seconds,
            keep_seconds=self._executor.keep,
            umask=umask(),
        )
        site = hashlib.sha256(f"{self._site.token} {folder}".encode()).hexdigest()[:12]
        actor = (
            self._ray.remote(RayAgent)
            .options(
                name=f"{site}-{one.identity}",
                namespace=NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
                max_restarts=-1,
                num_cpus=0,
                num_gpus=node.gpus,
                scheduling_strategy=NodeAffinitySchedulingStrategy(one.identity, soft=False),
            )
            .remote(str(folder), msgspec.json.encode(settings))
        )
        return _Agent(actor, actor.redirect.remote(self._address))
