"""Nodes that are Ray's: on each an agent as a detached actor, which has all GPUs of its node.

The scheduler says which GPUs a job gets, so Ray is not asked for them job by job: an actor with all of a
node's GPUs keeps others from them as long as Volvelle is there, and the agent in it gives them out. Gangs are
all or nothing already where they are decided. (A placement group for each gang would let Ray choose the GPUs
anew and would cost a round trip to its controller at every start.)

Nodes come and go with Ray's: what joins or is scaled up joins us, what Ray says is dead is lost once it is
certain that nothing runs there: jobs end with their raylet, within a second; a raylet that is cut off ends
itself within a minute.
"""

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
from pydantic import Field

from volvelle.live.agent.folder import Settings, umask
from volvelle.live.agents_server import AgentsServer
from volvelle.live.executor import Executor, OpenExecutor, Site, executors
from volvelle.live.messages import Order, Report
from volvelle.model.cluster import Cluster
from volvelle.model.node import Node
from volvelle.model.problems import Problem
from volvelle.ray_cluster import NAMESPACE, connected

LABEL = "volvelle-node"
"""The label of a Ray node that says what we call it; default: its node name, else its host's."""
_ACCELERATOR = "accelerator_type:"


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
    linger_seconds: float = Field(
        600.0, ge=0, description="how long an agent stays without a job and without a controller"
    )

    def found(self) -> Cluster:
        """The nodes of the Ray cluster now; others may join later. Raises `Problem`."""
        nodes = sorted(_nodes(connected(self.address)).items())
        if not nodes:
            raise Problem(
                f"no node of the Ray cluster at {self.address!r} has GPUs yet",
                mend="wait for one, or say which there will be with --cluster",
            )
        return Cluster(tuple(node for _, (_, node) in nodes))

    def open(self, site: Site, report: Callable[[Report], None]) -> OpenExecutor:
        """Begin (or take over) at ``site``. Raises `Problem` where there is no such Ray cluster."""
        return _Open(self, site, report)


@dataclass
class _Hosted:
    """A Ray node with our agent. ``dead_since``: when it was first missed, by our clock."""

    identity: str
    node: Node
    actor: Any = field(repr=False)
    dead_since: float | None = None


class _Open:
    """Connected to Ray; a thread looks after its nodes."""

    def __init__(self, executor: OnRay, site: Site, report: Callable[[Report], None]) -> None:
        self._executor, self._site = executor, site
        self._ray = connected(executor.address)
        here = self._ray.util.get_node_ip_address()
        self._server = AgentsServer((), site.token, report, host=executor.host or here)
        self._address = f"{executor.host or here}:{self._server.port}"
        self._hosted: dict[str, _Hosted] = {}
        self._closing = threading.Event()
        self._looking = threading.Thread(target=self._look, name="ray nodes", daemon=True)
        self._looking.start()

    def send(self, order: Order) -> None:
        """Carry ``order`` out."""
        self._server.send(order)

    def close(self) -> None:
        """Let go; agents and jobs go on."""
        self._closing.set()
        self._looking.join()
        self._server.close()

    # ------------------------------------------------------------------ the thread

    def _look(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(self._ray.exceptions.RayError, ConnectionError, TimeoutError):
                self._compare(_nodes(self._ray), time.monotonic())
            self._closing.wait(self._executor.look_seconds)

    def _compare(self, alive: dict[str, tuple[str, Node]], now: float) -> None:
        """Have an agent on every node of Ray's, and report those that are gone for good."""
        for name, hosted in list(self._hosted.items()):
            if alive.get(name, ("",))[0] == hosted.identity:
                hosted.dead_since = None
                continue
            if hosted.dead_since is None:
                hosted.dead_since = now
            if now - hosted.dead_since >= self._executor.settle_seconds:
                del self._hosted[name]
                self._server.lost(name, "Ray says that it is dead", for_good=True)
        for name, (identity, node) in alive.items():
            if name not in self._hosted:
                self._hosted[name] = self._host(identity, node)

    def _host(self, identity: str, node: Node) -> _Hosted:
        """A Ray node with our agent: the one that is there, told where we are now, or a new one."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        from volvelle.live.executors.ray_agent import RayAgent  # noqa: PLC0415 - with Ray only

        self._server.know(node)
        folder = (self._site.folder / "nodes" / node.name).absolute()
        settings = Settings(
            node=node,
            connect=str(folder / "controller.address"),
            token=self._site.token,
            work=str((self._site.folder / "work").absolute()),
            progress_seconds=self._executor.progress_seconds,
            linger_seconds=self._executor.linger_seconds,
            umask=umask(),
        )
        site = hashlib.sha256(f"{self._site.token} {folder}".encode()).hexdigest()[:12]
        actor = (
            self._ray.remote(RayAgent)
            .options(
                name=f"{site}-{identity}",
                namespace=NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
                max_restarts=-1,
                num_cpus=0,
                num_gpus=node.gpus,
                scheduling_strategy=NodeAffinitySchedulingStrategy(identity, soft=False),
            )
            .remote(str(folder), msgspec.json.encode(settings))
        )
        actor.redirect.remote(self._address)
        return _Hosted(identity, node, actor)


def _nodes(ray: Any) -> dict[str, tuple[str, Node]]:
    """The nodes that are alive and have GPUs, by our names for them: Ray's identity, and what they have."""
    found: dict[str, tuple[str, Node]] = {}
    for one in ray.nodes():
        has = one["Resources"]
        gpus = int(has.get("GPU", 0))
        if not one["Alive"] or not gpus:
            continue
        types = [r.removeprefix(_ACCELERATOR) for r in has if r.startswith(_ACCELERATOR)]
        node = Node(
            name=_name(one, found),
            gpus=gpus,
            gpu_type=types[0].lower() if types else "",
            cpus=float(has.get("CPU", 0.0)),
            memory_gb=float(has.get("memory", 0.0)) / (1 << 30),
        )
        found[node.name] = one["NodeID"], node
    return found


def _name(one: dict[str, Any], taken: dict[str, Any]) -> str:
    labelled = one.get("Labels", {}).get(LABEL)
    name = one.get("NodeName") or ""
    plain = labelled or (name if name != one["NodeManagerAddress"] else one["NodeManagerHostname"])
    return str(plain) if plain not in taken else f"{plain}-{one['NodeID'][:8]}"
