"""Harnesses for the conformance tests of executors: one for each kind, which provides it with nodes."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar

import msgspec
import pytest
from kubernetes_cluster import KubernetesCluster, pod_template
from ray_cluster import shared_ray_cluster
from waiting import until

from volvelle.live.agent.files import write_file
from volvelle.live.agent.folders import AgentFolder, AgentSettings
from volvelle.live.agent.launch import free_port
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    Forget,
    Grant,
    Launch,
    NodeJoined,
    Report,
    Start,
    Stop,
)
from volvelle.live.nodes.executor import ExecutorContext, OpenExecutor, executors
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.model.cluster import parse_cluster

JOB = Path(__file__).parent / "training_job.py"
SOURCES = Path(__file__).parent.parent.parent / "src"

_R = TypeVar("_R", bound=Report)


class ExecutorHarness(ABC):
    """An executor with two nodes of two GPUs, and all its reports."""

    written: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.context = ExecutorContext(
            parse_cluster("2x2"), folder / "executor", "the token of agents"
        )
        self.nodes = [node.name for node in self.context.cluster.nodes]
        self.reports: list[Report] = []
        self._open: OpenExecutor | None = None
        self._placed: dict[AttemptKey, tuple[str, ...]] = {}
        """The nodes of all attempts, of which the next executor is told."""

    def open(self) -> None:
        """Open the executor; returns when all nodes have joined."""
        report_count = len(self.reports)
        self.begin()
        self.provide_nodes()
        until(
            lambda: {r.node.name for r in self.since(NodeJoined, report_count)} == set(self.nodes)
        )

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def begin(self) -> None:
        """Open the executor without waiting for nodes."""
        context = replace(self.context, placed=dict(self._placed))
        self._open = executors.make(self.written).open(context, self.reports.append)

    @abstractmethod
    def provide_nodes(self) -> None:
        """Start the nodes, unless the executor does."""

    def close(self) -> None:
        """Close the executor."""
        if self._open is not None:
            self._open.close()
            self._open = None

    # ------------------------------------------------------------------ orders and reports

    @property
    def logs(self) -> NodeLogs:
        """The logs of jobs."""
        assert self._open is not None
        return self._open.logs

    def send(self, order: Start | Stop | Forget) -> None:
        assert self._open is not None
        if isinstance(order, Start):
            self._placed[order.key] = tuple(grant.node for grant in order.grants)
        self._open.send(order)

    def start(
        self,
        *arguments: str,
        number: int = 1,
        attempt: int = 1,
        nodes: int = 1,
        grace: float = 5.0,
        saved: int = 0,
        command: tuple[str, ...] = (),
        first: int = 0,
        gpus: tuple[int, ...] = (0, 1),
        identity: str = "",
        directory: str = "",
        setup: tuple[tuple[str, ...], ...] = (),
        upload: str = "",
        container: str = "",
        checkpoint: str = "",
        stop_signal: str | None = "SIGTERM",
    ) -> Start:
        """Order the training job with these arguments, or ``command``, on so many nodes."""
        order = Start(
            number=number,
            attempt=attempt,
            identity=identity,
            user="dana",
            grants=tuple(Grant(name, gpus) for name in self.nodes[first : first + nodes]),
            launch=Launch(
                command=command or (sys.executable, "-S", str(JOB), *arguments),
                environment={"PYTHONPATH": str(SOURCES)},
                grace_seconds=grace,
                directory=directory,
                setup=setup,
                upload=upload,
                container=container,
                checkpoint=checkpoint,
                stop_signal=stop_signal,
            ),
            saved_iterations=saved,
        )
        self.send(order)
        return order

    def since(self, kind: type[_R], report_count: int = 0) -> list[_R]:
        """The reports of a kind after the first ``report_count`` reports."""
        return [report for report in self.reports[report_count:] if isinstance(report, kind)]

    def wait(self, kind: type[_R], number: int = 1, attempt: int = 1, report_count: int = 0) -> _R:
        """The first report of this kind on this attempt after the first ``report_count`` reports."""

        def found() -> _R | None:
            reports = self.since(kind, report_count)
            keys = ((getattr(r, "number", 0), getattr(r, "attempt", 0)) for r in reports)
            return next(
                (r for r, key in zip(reports, keys, strict=True) if key == (number, attempt)), None
            )

        return until(found, f"{kind.__name__} of {number}-{attempt} in {self.reports}")

    def end(self, number: int = 1, attempt: int = 1) -> AttemptEnded:
        return self.wait(AttemptEnded, number, attempt)

    # ------------------------------------------------------------------ from outside

    def attempt_folder(self, node: str, number: int = 1, attempt: int = 1) -> Path:
        return AgentFolder(self.agent_folder(node)).attempt(AttemptKey(number, attempt)).path

    def agent_folder(self, node: str) -> Path:
        return self.context.folder / "nodes" / node

    def trace(self, number: int = 1) -> list[str]:
        """The lines that the attempts of a job wrote, one for each event."""
        file = self.folder / f"trace-{number}"
        return file.read_text().splitlines() if file.exists() else []

    def jobs(self) -> list[int]:
        """The processes of attempts."""
        return [
            pid
            for pid in _pids()
            if f"VOLVELLE_RUN={self.folder}".encode() in _read(pid, "environ")
        ]

    def supervisors(self, node: str) -> list[int]:
        return self._named(f"{self.agent_folder(node)}/attempts")

    def agents(self, node: str) -> list[int]:
        return [
            pid
            for pid in self._named(str(self.agent_folder(node)))
            if pid not in self.supervisors(node)
        ]

    def _named(self, text: str) -> list[int]:
        return [pid for pid in _pids() if text.encode() in _read(pid, "cmdline")]

    def kill(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it has ended in the meantime
                os.kill(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """Close the executor, and kill all agents, supervisors and jobs."""
        self.close()
        self.kill([pid for node in self.nodes for pid in self.agents(node)])
        self.kill([pid for node in self.nodes for pid in self.supervisors(node)])
        self.kill(self.jobs())
        until(lambda: not self.jobs() and not self._named(str(self.folder)), "all processes to end")


class LocalHarness(ExecutorHarness):
    """The executor starts its agents itself."""

    written = "local:progress_seconds=0.05,linger_seconds=2"

    def provide_nodes(self) -> None:
        pass


class DialInHarness(ExecutorHarness):
    """Agents are started by hand, and again when they are gone."""

    def __init__(self, folder: Path, lease_seconds: float = 600.0) -> None:
        super().__init__(folder)
        self._port = free_port()
        self.written = f"dial-in:port={self._port},lease_seconds={lease_seconds}"
        self._watching: threading.Thread | None = None
        self._ending = threading.Event()
        self._returned: list[subprocess.Popen[bytes]] = []

    def provide_nodes(self) -> None:
        if self._watching is None:
            for node in self.context.cluster.nodes:
                settings = AgentSettings(
                    node=node,
                    connect=f"127.0.0.1:{self._port}",
                    key=self.context.given_keys.key(node.name),
                    progress_seconds=0.05,
                    work=str(self.context.folder / "work"),
                )
                folder = AgentFolder(self.agent_folder(node.name))
                write_file(folder.path / "agent.json", msgspec.json.encode(settings))
            self._watching = threading.Thread(target=self._watch)
            self._watching.start()

    def _watch(self) -> None:
        agents: dict[str, subprocess.Popen[bytes]] = {}
        while not self._ending.wait(0.01):
            for node in self.nodes:
                if node not in agents or agents[node].poll() is not None:
                    agents[node] = self._started(self.agent_folder(node))
        for agent in agents.values():
            agent.kill()
            agent.wait()

    def _started(self, folder: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "volvelle.live.agent", str(folder)]
        return subprocess.Popen(command, start_new_session=True)

    def return_agent(self, node: str) -> None:
        """After the agents were ended for good, the one of ``node`` is back."""
        self._returned.append(self._started(self.agent_folder(node)))

    def replace_agent(self, node: str) -> None:
        """After the agents were ended for good, one begins anew for ``node``, in a folder of its own."""
        before, folder = (
            self.agent_folder(node),
            AgentFolder(self.context.folder / f"another-{node}"),
        )
        write_file(folder.path / "agent.json", (before / "agent.json").read_bytes())
        self._returned.append(self._started(folder.path))

    def end_agents(self) -> None:
        """Kill the agents for good."""
        self._ending.set()
        if self._watching is not None:
            self._watching.join()

    def kill_all(self) -> None:
        self.end_agents()
        for agent in self._returned:
            agent.kill()
            agent.wait()
        super().kill_all()


class RayHarness(ExecutorHarness):
    """Agents are actors on two raylets of this machine, which all tests of a process share."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ray = shared_ray_cluster()
        quick = "progress_seconds=0.05,poll_seconds=0.1,settle_seconds=2"
        self.written = f"ray:address={self.ray.address},{quick}"

    def provide_nodes(self) -> None:
        pass

    def agents(self, node: str) -> list[int]:
        """Who holds the lock of the agent's folder: an actor's process does not carry its name."""
        lock = str(self.agent_folder(node) / "lock")
        return [pid for pid in _pids() if lock in _open_files(pid)]

    def kill_all(self) -> None:
        self.close()
        self.ray.end_actors()
        super().kill_all()


class KubernetesHarness(ExecutorHarness):
    """Pods are processes of this machine, on the nodes of a fake cluster."""

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("lightkube", reason="no client of Kubernetes is installed")
        super().__init__(folder)
        pods = folder / "executor" / "pods"
        self.cluster = KubernetesCluster(pods, dict.fromkeys(self.nodes, 2))
        self.cluster.__enter__()
        store, work = self.cluster.store, str(folder / "executor" / "work")
        store.create(store.kind("podtemplates"), pod_template(work))
        port, kubeconfig = free_port(), self.cluster.server.kubeconfig(folder)
        self.written = (
            f"kubernetes:host=127.0.0.1,port={port},address=127.0.0.1:{port},work={work},"
            f"kubeconfig={kubeconfig},progress_seconds=0.05,poll_seconds=0.5"
        )

    def provide_nodes(self) -> None:
        pass

    def agent_folder(self, node: str) -> Path:
        """The folder of the last pod on a node."""
        found = until(lambda: self._folders(node), f"a pod on {node}")
        return max(found, key=lambda path: path.stat().st_mtime)

    def _folders(self, node: str) -> list[Path]:
        pods = self.cluster.store.listed("pods")
        uids = [pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == node]
        folder = self.cluster.folder
        return [path for uid in uids for path in folder.glob(f"*-{uid}/volvelle")]

    def supervisors(self, node: str) -> list[int]:
        return [pid for path in self._folders(node) for pid in self._named(f"{path}/attempts")]

    def agents(self, node: str) -> list[int]:
        named = [pid for path in self._folders(node) for pid in self._named(str(path))]
        return [pid for pid in named if pid not in self.supervisors(node)]

    def kill_all(self) -> None:
        self.close()
        self.cluster.__exit__()
        super().kill_all()


HARNESSES: dict[str, type[ExecutorHarness]] = {
    "local": LocalHarness,
    "dial-in": DialInHarness,
    "kubernetes": KubernetesHarness,
    "ray": RayHarness,
}


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(descriptor.readlink())


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
