"""Nodes that are processes of this machine: one agent for each node of the cluster."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from pydantic import Field

from volvelle.live.agent.files import last_line, lock, write_file
from volvelle.live.agent.folders import LOG_RETENTION_SECONDS, AgentFolder, AgentSettings
from volvelle.live.agent.gpus import common_type, find_gpus
from volvelle.live.agent.job_users import check_run_as
from volvelle.live.messages import Report
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.current_agents import CurrentAgents
from volvelle.live.nodes.executor import Executor, ExecutorContext, OpenExecutor, executors
from volvelle.live.nodes.executors.managed_agents import ManagedAgents
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.node import Node
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds

_POLL_SECONDS = 0.05
_FIRST_RETRY_SECONDS = 0.2
_STABLE_SECONDS = 5.0
"""An agent that ran for so long has started well."""
_MAX_FAILURES = 5
"""After so many failed starts the node is reported lost."""


@executors.register
class Local(Executor):
    """Processes of this machine, one agent for each node; GPUs may be pretended."""

    name: ClassVar[str] = "local"
    starts_agents: ClassVar[bool] = True
    heeds_run_as: ClassVar[bool] = True
    trust: ClassVar[str] = (
        "Jobs run as the server's own user: whoever may submit can read what it can, and so is an operator."
    )

    pretend: bool = Field(False, description="hide this machine's GPUs, the cluster's are made up")
    progress_seconds: float = Field(1.0, gt=0, description="how often jobs' progress is reported")
    keep: Annotated[Seconds, Field(ge=1)] = Field(
        LOG_RETENTION_SECONDS, description="how long the logs of a run are kept after its end"
    )
    linger_seconds: float = Field(
        60.0,
        ge=0,
        description="how long an agent stays without a job when the controller was killed",
    )

    def discover_cluster(self) -> Cluster | None:
        """This machine as one node with all its GPUs; None if it has none, or they are hidden."""
        found = () if self.pretend else find_gpus()
        kind = f":{name}" if (name := common_type(found)) else ""
        return parse_cluster(f"1x{len(found)}{kind}") if found else None

    def warning(self, cluster: Cluster) -> str:
        """That jobs get no GPUs, where none is found and they are not declared to be made up."""
        if self.pretend or find_gpus():
            return ""
        return (
            "no GPU is found here by nvidia-smi: jobs are given numbers of GPUs and see none "
            "(--executor local:pretend=true says that this is meant)"
        )

    def open(self, context: ExecutorContext, report: Callable[[Report], None]) -> OpenExecutor:
        """Start agents, or take them over. Raises `Problem`."""
        return _LocalAgents(self, context, report)


class _LocalAgents(ManagedAgents):
    """The agents of all nodes, started where they do not run."""

    dismisses: ClassVar[bool] = True

    def __init__(
        self, executor: Local, context: ExecutorContext, report: Callable[[Report], None]
    ) -> None:
        busy, idle = _leaving_nodes(context)
        nodes = (*context.cluster.nodes, *busy)
        devices = _assign_devices(context, nodes, pretend=executor.pretend)
        _make_folders(context)
        server = AgentsServer(
            context.cluster.nodes,
            context.given_keys,
            report,
            leaving=context.leaving,
            position=context.position,
            placed=context.placed,
            is_down=context.is_down,
            uploads=context.uploads,
            current_agents=CurrentAgents(context.folder / "current-agents"),
        )
        try:
            address_file = context.folder / "agents.address"
            write_file(address_file, f"127.0.0.1:{server.port}".encode())
            self._agents = [
                _LocalAgent(
                    _agent_folder(context, node),
                    AgentSettings(
                        node=node,
                        connect=str(address_file.absolute()),
                        key=context.given_keys.key(node.name),
                        devices=devices[node.name] if devices else None,
                        work=str((context.folder / "work").absolute()),
                        progress_seconds=executor.progress_seconds,
                        linger_seconds=executor.linger_seconds,
                        retention_seconds=executor.keep,
                        umask=context.umask,
                        run_as=dict(context.run_as),
                    ),
                )
                for node in nodes
            ]
        except OSError as error:
            server.close()
            raise _cannot_work(context, error) from None
        for node in idle:
            server.node_lost(node.name, "it is not of the cluster any more", permanent=True)
        super().__init__(server, _POLL_SECONDS)

    def poll(self) -> None:
        """Start agents that do not run."""
        for agent in self._agents:
            with contextlib.suppress(OSError):  # of its folder; tried again
                if (reason := agent.check()) is not None:
                    self.server.node_lost(agent.node.name, reason)


class _LocalAgent:
    """The agent process of one node, restarted whenever it ends."""

    def __init__(self, path: Path, settings: AgentSettings) -> None:
        self.node = settings.node
        self._settings, self._path = settings, path
        self._folder = AgentFolder(path)
        self._child: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._failures = 0
        self._reported_lost = False

    def check(self) -> str | None:
        """Start the agent if it does not run. Returns once why it cannot be started, if nothing else runs."""
        now = time.monotonic()
        if self._child is not None and self._child.poll() is None:
            if now - self._started > _STABLE_SECONDS:
                self._failures, self._reported_lost = 0, False
            return None
        retry_at = self._started + _FIRST_RETRY_SECONDS * (2**self._failures - 1)
        if now < retry_at:
            return None
        self._folder = AgentFolder(self._path)  # it may have been deleted
        if self._other_agent_runs():
            return None
        failed = self._child is not None and now - self._started < _STABLE_SECONDS
        self._failures = min(self._failures + 1, _MAX_FAILURES) if failed else 0
        self._start(now)
        if self._failures == _MAX_FAILURES and not self._reported_lost and self._is_idle():
            self._reported_lost = True
            return f"its agent does not start: {last_line(self._log) or 'it says nothing'}"
        return None

    @property
    def _log(self) -> Path:
        return self._folder.path / "agent.log"

    def _other_agent_runs(self) -> bool:
        """Whether an agent runs that was started before this executor."""
        with lock(self._folder.path / "lock") as free:
            return not free

    def _is_idle(self) -> bool:
        """Whether no supervisor runs."""
        for key in self._folder.active_attempts():
            with self._folder.attempt(key).locked() as free:
                if not free:
                    return False
        return True

    def _write_settings(self) -> None:
        file, settings = self._folder.path / "agent.json", msgspec.json.encode(self._settings)
        if not file.exists() or file.read_bytes() != settings:  # works on a full disk
            write_file(file, settings)

    def _start(self, now: float) -> None:
        self._started = now
        with contextlib.suppress(OSError):  # tried again
            self._write_settings()
            with self._log.open("ab") as log:
                self._child = subprocess.Popen(
                    [sys.executable, "-m", "volvelle.live.agent", str(self._folder.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )


def _make_folders(context: ExecutorContext) -> None:
    """The folder of the executor, which jobs that run as other users may pass through. Raises `Problem`."""
    folder = context.folder.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_run_as(context.run_as, (folder.parent, folder, folder / "nodes", folder / "work"))
    except OSError as error:
        raise _cannot_work(context, error) from None


def _cannot_work(context: ExecutorContext, error: OSError) -> Problem:
    return Problem(
        f"agents cannot work in {context.folder}: {error.strerror}: {error.filename}",
        mend="choose a folder that can be written",
    )


def _agent_folder(context: ExecutorContext, node: Node) -> Path:
    return context.folder / "nodes" / node.name


def _leaving_nodes(context: ExecutorContext) -> tuple[list[Node], list[Node]]:
    """The leaving nodes: those with active attempts, and the others."""
    busy: list[Node] = []
    idle: list[Node] = []
    for node in context.leaving:
        (busy if _has_attempts(context, node) else idle).append(node)
    return busy, idle


def _has_attempts(context: ExecutorContext, node: Node) -> bool:
    folder = _agent_folder(context, node)
    return folder.is_dir() and bool(AgentFolder(folder).active_attempts())


def _assign_devices(
    context: ExecutorContext, nodes: Sequence[Node], *, pretend: bool
) -> dict[str, tuple[str, ...]] | None:
    """The GPUs of each node as CUDA names them; None if there are none, or they are hidden.

    A node keeps those that it had: jobs may run on them. Raises `Problem` if there are too few.
    """
    found = () if pretend else find_gpus()
    if not found:
        return None
    wanted = context.cluster.gpus
    leaving = sum(node.gpus for node in nodes) - wanted
    if len(found) < wanted + leaving:
        beside = f" beside {leaving} on which jobs of nodes that left it run" if leaving else ""
        wait = ", or keep these nodes until their jobs are over" if leaving else ""
        raise Problem(
            f"the cluster has {wanted} GPUs{beside}, this machine {len(found)}",
            mend=f"declare as many, or make them up: executor local:pretend=true{wait}",
        )
    devices: dict[str, tuple[str, ...]] = {}
    free = [gpu.device for gpu in found]
    for node in sorted(nodes, key=lambda node: not _has_attempts(context, node)):
        if before := _previous_devices(context, node, free):
            devices[node.name] = before
            free = [gpu for gpu in free if gpu not in before]
    for node in nodes:
        if node.name not in devices:
            devices[node.name], free = tuple(free[: node.gpus]), free[node.gpus :]
    return devices


def _previous_devices(context: ExecutorContext, node: Node, free: Sequence[str]) -> tuple[str, ...]:
    """The GPUs of a node when its agent was last started; empty if they are not all ``free``."""
    try:
        text = (_agent_folder(context, node) / "agent.json").read_bytes()
        before = msgspec.json.decode(text, type=AgentSettings).devices or ()
    except (OSError, msgspec.MsgspecError):
        return ()
    return before if len(before) == node.gpus and set(before) <= set(free) else ()
