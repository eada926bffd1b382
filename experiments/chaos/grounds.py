"""The nodes of a run, by executor: agents behind a proxy, agents of the server's own, raylets."""

import random
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from clients import Counted
from commands import Command, holder_of, kill
from fault_proxy import FaultProxy, Happened, Weather

from volvelle.live.agent.launch import free_port
from volvelle.model.cluster import parse_cluster

sys.path.append(str(Path(__file__).parents[2] / "tests"))

_LEASE_SECONDS = 10.0
_AWAY_SECONDS = 4.0

Keep = Callable[..., Command]
"""Have a command run: its name, its words."""


class Ground(ABC):
    """What an executor works on.

    executor: for the server's configuration. preloaded: modules that its process is to find imported.
    frames: messages between agents and controller, where somebody counts them. injected: what befell these.
    severs, takes_away: how often that is chosen among other faults; 0: it cannot be done. taken: what it is
    to take a node away, in words.
    """

    executor: str
    preloaded: tuple[str, ...] = ()
    frames: Counted | None = None
    severs = takes_away = 0
    taken = ""

    def __init__(self, cluster: str, seed: int) -> None:
        self._nodes = parse_cluster(cluster).nodes
        self.nodes = [node.name for node in self._nodes]
        self.injected: Counter[str] = Counter()

    def begin(self, keep: Keep, folder: Path, token_file: Path) -> None:
        """Be there; the server is. ``folder``: for all that is written."""
        self._folder = folder

    def be(self, weather: Weather) -> None:  # noqa: B027 - there may be nothing between agents and controller
        """Let messages suffer so from now on."""

    def kill_agent(self, rng: random.Random) -> Happened:
        """Kill -9 one of the agents; somebody starts it again."""
        lock = f"{self._folder}/serve/jobs/.*/nodes/{rng.choice(self.nodes)}/lock"
        pid = holder_of(lock)
        return "agent killed" if pid is not None and kill(pid) else None

    def sever(self, node: str) -> Happened:
        """Cut the present connection of a node."""
        raise NotImplementedError

    def take_away(self, node: str) -> None:
        """Have a node be gone."""
        raise NotImplementedError

    def bring_back(self, node: str) -> None:
        """Have it be there again."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """End what it began."""


class DialIn(Ground):
    """Agents that are commands of their own, each behind a link of the proxy."""

    severs, takes_away = 3, 2
    taken = "node cut off"

    def __init__(self, cluster: str, seed: int) -> None:
        super().__init__(cluster, seed)
        self._port = free_port()
        self.frames = Counted()
        weather = random.Random(f"{seed} weather")
        self._proxy = FaultProxy(self.nodes, self._port, weather, self.frames.add)
        self.injected = self._proxy.injected
        self.executor = f"dial-in:port={self._port},lease_seconds={_LEASE_SECONDS}"

    def begin(self, keep: Keep, folder: Path, token_file: Path) -> None:
        """Start the agents."""
        self._agents = [
            keep(
                node.name, "agent", "--node", node.name, "--gpus", str(node.gpus), "--pretend",
                "--connect", f"127.0.0.1:{self._proxy.links[node.name].port}",
                "--token-file", str(token_file), "--folder", str(folder / node.name),
                "--work", str(folder / "work"),
            )
            for node in self._nodes
        ]  # fmt: skip

    def be(self, weather: Weather) -> None:
        """Let messages suffer so from now on."""
        self._proxy.weather = weather

    def kill_agent(self, rng: random.Random) -> Happened:
        """Kill -9 one, which is started again after a while."""
        agent = rng.choice(self._agents)
        return "agent killed" if agent.kill(rng.uniform(0.0, _AWAY_SECONDS)) else None

    def sever(self, node: str) -> Happened:
        """End its connection; it may dial again."""
        self._proxy.sever(node)
        return "connection of an agent cut"

    def take_away(self, node: str) -> None:
        """Let nothing through."""
        self._proxy.shut(node)

    def bring_back(self, node: str) -> None:
        """Let everything through again."""
        self._proxy.reopen(node)

    def close(self) -> None:
        """Close the proxy; agents are ended with all commands."""
        self._proxy.close()


class Local(Ground):
    """Agents that the server starts, and again when they are gone."""

    executor = "local:pretend=true"

    def close(self) -> None:
        """Its agents are ended with all other processes of the site."""


class OnRay(Ground):
    """Agents that are actors on raylets, in a cluster of its own. Raises LookupError where Ray is missing."""

    preloaded = ("ray",)
    takes_away = 6
    taken = "raylet killed"

    def __init__(self, cluster: str, seed: int) -> None:
        super().__init__(cluster, seed)
        import pytest  # noqa: PLC0415 - the tests' cluster skips tests
        from ray_cluster import RayTestCluster  # noqa: PLC0415 - as above

        try:
            self._gpus = {node.name: node.gpus for node in self._nodes}
            self._ray = RayTestCluster(self._gpus, fate_shared=False)
        except pytest.skip.Exception as skipped:
            raise LookupError(str(skipped)) from None
        self.executor = f"ray:address={self._ray.address},settle_seconds=3,poll_seconds=0.2"

    def take_away(self, node: str) -> None:
        """Kill -9 its raylet; its jobs end with that."""
        self._ray.kill(node)

    def bring_back(self, node: str) -> None:
        """Add a raylet of the same name."""
        self._ray.add(node, self._gpus[node])

    def close(self) -> None:
        """End the cluster."""
        self._ray.end()


GROUNDS: dict[str, type[Ground]] = {"dial-in": DialIn, "local": Local, "ray": OnRay}
"""By the names of executors."""
