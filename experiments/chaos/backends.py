"""Backends: what provides an executor with nodes. Agents behind a proxy, agents of the server, raylets."""

import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from address_file import replace_address
from clients import EventCounter
from commands import Command, holder_of, kill
from disk import Disk
from fault_proxy import FaultProxy, FaultRates, InjectedFault

from volvelle.live.agent.launch import free_port
from volvelle.model.cluster import parse_cluster
from volvelle.model.node import Node

sys.path.append(str(Path(__file__).parents[2] / "tests"))

_LEASE_SECONDS = 10.0
_PROGRESS_SECONDS = 0.2
_POLL_SECONDS = 0.005
_MAX_ABSENCE_SECONDS = 4.0

StartCommand = Callable[..., Command]
"""Starts a command: its name, its arguments."""


class Backend:
    """What provides an executor with nodes.

    executor: for the server's configuration. preloaded: modules to import before the server starts.
    address_file: where agents of ``{node}`` find the server, below its folder; "": they are told.
    frames: counts messages between agents and controller. injected: faults of these messages.
    removal_weight, deletion_weight, copy_weight, disturbance_weight: weights among the faults; 0: not among
    them. removal_name: the fault of removing a node, in words. disks: those of single nodes. unnoticed: what
    ought to have been noticed.
    """

    executor: str
    policy = "las:round=4"
    preloaded: tuple[str, ...] = ()
    address_file = ""
    removal_weight, deletion_weight, copy_weight = 0, 1, 0
    removal_name = ""
    disturbance_weight = 0

    def __init__(self, cluster: str, seed: int) -> None:
        self._nodes = parse_cluster(cluster).nodes
        self.nodes = [node.name for node in self._nodes]
        self.frames = EventCounter()
        self._proxy = FaultProxy(self.nodes, random.Random(f"{seed} weather"), self.frames.add)
        self.injected = self._proxy.injected
        self._closing = threading.Event()
        self._addresses = threading.Thread(target=self._replace_addresses, daemon=True)
        self.disks: list[Disk] = []
        self.unnoticed: list[str] = []

    def prepare(self, folder: Path) -> None:
        """Begin before the server does. ``folder``: for all files."""

    def start(self, start_command: StartCommand, folder: Path, token_file: Path) -> None:
        """Start; the server runs. ``folder``: for all files."""
        self._folder = folder
        if self.address_file:
            self._addresses.start()

    def _replace_addresses(self) -> None:
        """Have agents connect to their links, at every start of the server."""
        links = {
            f"serve/jobs/*/{self.address_file.format(node=node)}": self._proxy.links[node]
            for node in reversed(self.nodes)
        }
        while not self._closing.wait(_POLL_SECONDS):
            for pattern, link in links.items():
                for file in self._folder.glob(pattern):
                    with suppress(OSError):  # tried again
                        replace_address(file, link)

    @property
    def agents_address(self) -> tuple[str, int] | None:
        """Where the server listens for agents, once that is known."""
        targets = (link.target for link in self._proxy.links.values())
        return next((target for target in targets if target is not None), None)

    def set_fault_rates(self, rates: FaultRates) -> None:
        """Set the rates of faults of messages."""
        self._proxy.rates = rates

    def kill_agent(self, rng: random.Random) -> InjectedFault:
        """Kill -9 one of the agents; it is started again."""
        lock = f"{self._folder}/serve/jobs/.*/nodes/{rng.choice(self.nodes)}/lock"
        pid = holder_of(lock)
        return "agent killed" if pid is not None and kill(pid) else None

    def delete_folder(self, rng: random.Random) -> InjectedFault:
        """Kill an agent and delete its folder; another one begins there with nothing."""
        node = rng.choice(self.nodes)
        pid = holder_of(f"{self._folder}/serve/jobs/.*/nodes/{node}/lock")
        if pid is None or not kill(pid):
            return None
        for folder in self._folder.glob(f"serve/jobs/*/nodes/{node}"):
            shutil.rmtree(folder, ignore_errors=True)
        return "agent killed and its folder deleted"

    def start_in_a_copy(self, node: str, seconds: float) -> bool | None:
        """Start an agent in a copy of the node's folder; whether it is refused in time. None: not done."""
        return None

    def disconnect(self, node: str) -> InjectedFault:
        """Close the connection of a node; its agent may connect again."""
        self._proxy.disconnect(node)
        return "connection of an agent cut"

    def disturb(self, rng: random.Random) -> InjectedFault:
        """A fault that only this backend has."""
        return None

    def remove_node(self, node: str) -> None:
        """Remove a node."""
        raise NotImplementedError

    def restore_node(self, node: str) -> None:
        """Add the node again."""
        raise NotImplementedError

    def close(self) -> None:
        """End all that was started, but for commands."""
        self._closing.set()
        if self._addresses.is_alive():
            self._addresses.join()
        self._proxy.close()
        for disk in self.disks:
            disk.close()


class DialIn(Backend):
    """Agents that are commands, each behind a link of the proxy."""

    removal_weight, deletion_weight, copy_weight = 2, 0, 1  # a deleted folder costs a lease
    removal_name = "node cut off"

    def __init__(self, cluster: str, seed: int) -> None:
        super().__init__(cluster, seed)
        self._port = free_port()
        for link in self._proxy.links.values():
            link.target = "127.0.0.1", self._port
        self.executor = f"dial-in:port={self._port},lease_seconds={_LEASE_SECONDS}"

    def start(self, start_command: StartCommand, folder: Path, token_file: Path) -> None:
        """Start the agents."""
        super().start(start_command, folder, token_file)
        self.disks.append(Disk(folder / self.nodes[-1]))
        self._token_file = token_file
        self._agents = [
            start_command(
                node.name, *self._agent(node, folder / node.name, self._proxy.links[node.name].port)
            )
            for node in self._nodes
        ]

    def _agent(self, node: Node, folder: Path, port: int) -> tuple[str, ...]:
        """The command of an agent in ``folder`` that dials the port."""
        return (
            "agent", "--node", node.name, "--gpus", str(node.gpus), "--pretend",
            "--connect", f"127.0.0.1:{port}", "--token-file", str(self._token_file),
            "--key-file", str(self._folder / f"{node.name}.key"),
            "--folder", str(folder), "--work", str(self._folder / "work"),
        )  # fmt: skip

    def start_in_a_copy(self, node: str, seconds: float) -> bool | None:
        """Beside the agent of that folder, from where no fault is between it and the server."""
        copy = self._folder / f"{node}-copy"
        words = ["cp", "-a", str(self._folder / node), str(copy)]
        subprocess.run(words, check=False, capture_output=True)  # attempts end meanwhile
        (known,) = (each for each in self._nodes if each.name == node)
        command = [sys.executable, "-m", "volvelle.cli.main", *self._agent(known, copy, self._port)]
        try:
            ran = subprocess.run(
                command, timeout=seconds, check=False, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return False
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        return "an agent with the same identity runs" in ran.stderr

    def kill_agent(self, rng: random.Random) -> InjectedFault:
        """Kill -9 one, which is started again after a while."""
        agent = rng.choice(self._agents)
        return "agent killed" if agent.kill(rng.uniform(0.0, _MAX_ABSENCE_SECONDS)) else None

    def delete_folder(self, rng: random.Random) -> InjectedFault:
        """The next agent is accepted once the jobs of this one have certainly ended."""
        node, agent = rng.choice(list(zip(self.nodes, self._agents, strict=True)))
        if not agent.kill(_MAX_ABSENCE_SECONDS):
            return None
        shutil.rmtree(self._folder / node, ignore_errors=True)
        return "agent killed and its folder deleted"

    def remove_node(self, node: str) -> None:
        """Block the link of the node."""
        self._proxy.block(node)

    def restore_node(self, node: str) -> None:
        """Unblock the link of the node."""
        self._proxy.unblock(node)


class Local(Backend):
    """Agents that the server starts and restarts, all with the link of the first."""

    address_file = "agents.address"
    executor = f"local:pretend=true,progress_seconds={_PROGRESS_SECONDS}"

    def disconnect(self, node: str) -> InjectedFault:
        """Close the connections of all."""
        return super().disconnect(self.nodes[0])


class OnRay(Backend):
    """Agents that are actors on raylets, in a cluster of its own. Raises LookupError where Ray is missing."""

    preloaded = ("ray",)
    address_file = "nodes/{node}/controller.address"
    removal_weight = 6
    removal_name = "raylet killed"

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
        self.executor += f",progress_seconds={_PROGRESS_SECONDS}"

    def remove_node(self, node: str) -> None:
        """Kill -9 its raylet; its jobs end with that."""
        self._ray.kill(node)

    def restore_node(self, node: str) -> None:
        """Add a raylet of the same name."""
        self._ray.add(node, self._gpus[node])

    def close(self) -> None:
        """End the cluster."""
        super().close()
        self._ray.end()
