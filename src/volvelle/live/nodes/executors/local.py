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

from volvelle.live.agent.folders import (
    KEEP_SECONDS,
    AgentFolder,
    Settings,
    last_line,
    lock,
    umask,
    write,
)
from volvelle.live.agent.gpus import gpus_found
from volvelle.live.messages import Report
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.executor import Executor, OpenExecutor, Site, executors
from volvelle.live.nodes.executors.agent_watcher import Watching
from volvelle.model.node import Node
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds

_LOOK_SECONDS = 0.05
_FIRST_RETRY_SECONDS = 0.2
_SETTLED_SECONDS = 5.0
_FAILURES_UNTIL_LOST = 5


@executors.register
class Local(Executor):
    """Processes of this machine, one agent for each node; GPUs may be pretended."""

    name: ClassVar[str] = "local"

    pretend: bool = Field(False, description="hide this machine's GPUs, the cluster's are made up")
    progress_seconds: float = Field(1.0, gt=0, description="how often jobs' progress is told")
    keep: Annotated[Seconds, Field(ge=1)] = Field(
        KEEP_SECONDS, description="how long the logs of a run are kept after its end"
    )
    linger_seconds: float = Field(
        60.0, ge=0, description="how long an agent stays without a job and without a controller"
    )

    def open(self, site: Site, report: Callable[[Report], None]) -> OpenExecutor:
        """Begin (or take over) at ``site``. Raises `Problem`."""
        return _Open(self, site, report)


class _Open(Watching):
    """Agents at work, started where they are not."""

    def __init__(self, executor: Local, site: Site, report: Callable[[Report], None]) -> None:
        busy, idle = _leaving(site)
        nodes = (*site.cluster.nodes, *busy)
        devices = _devices(site, nodes, pretend=executor.pretend)
        server = AgentsServer(site.cluster.nodes, site.token, report, leaving=site.leaving)
        try:
            site.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            at = site.folder / "agents.address"
            write(at, f"127.0.0.1:{server.port}".encode())
            self._agents = [
                _LocalAgent(
                    _folder(site, node),
                    Settings(
                        node=node,
                        connect=str(at.absolute()),
                        token=site.token,
                        devices=devices[node.name] if devices else None,
                        work=str((site.folder / "work").absolute()),
                        progress_seconds=executor.progress_seconds,
                        linger_seconds=executor.linger_seconds,
                        keep_seconds=executor.keep,
                        umask=umask(),
                    ),
                )
                for node in nodes
            ]
        except OSError as error:
            server.close()
            raise Problem(
                f"agents cannot work in {site.folder}: {error.strerror}: {error.filename}",
                mend="choose a folder that can be written",
            ) from None
        for node in idle:
            server.lost(node.name, "it is not of the cluster any more", for_good=True)
        super().__init__(server, _LOOK_SECONDS)

    def look(self) -> None:
        """Start agents that are not there."""
        for agent in self._agents:
            if (reason := agent.look()) is not None:
                self.server.lost(agent.node.name, reason)


class _LocalAgent:
    """The agent of one node, started again whenever it is gone."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.node = settings.node
        self._settings = settings
        self._folder = AgentFolder(path)
        self._child: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._failures = 0
        self._lost = False

    def look(self) -> str | None:
        """See to it that the agent runs; why it does not, once, when it seems that it never will.

        And only if nothing else of the node runs either.
        """
        now = time.monotonic()
        if self._child is not None and self._child.poll() is None:
            if now - self._started > _SETTLED_SECONDS:
                self._failures, self._lost = 0, False
            return None
        if now < self._started + _FIRST_RETRY_SECONDS * (2**self._failures - 1) or self._another():
            return None
        quick = self._child is not None and now - self._started < _SETTLED_SECONDS
        self._failures = min(self._failures + 1, _FAILURES_UNTIL_LOST) if quick else 0
        self._start(now)
        if self._failures == _FAILURES_UNTIL_LOST and not self._lost and self._idle():
            self._lost = True
            return f"its agent does not start: {last_line(self._log) or 'it says nothing'}"
        return None

    @property
    def _log(self) -> Path:
        return self._folder.path / "agent.log"

    def _another(self) -> bool:
        """Whether an agent from before us is at work."""
        with lock(self._folder.path / "lock") as free:
            return not free

    def _idle(self) -> bool:
        """Whether no keeper is at work."""
        for key in self._folder.alive():
            with self._folder.attempt(key).alone() as free:
                if not free:
                    return False
        return True

    def _write_settings(self) -> None:
        file, settings = self._folder.path / "agent.json", msgspec.json.encode(self._settings)
        if not file.exists() or file.read_bytes() != settings:  # an agent starts on a full disk too
            write(file, settings)

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


def _folder(site: Site, node: Node) -> Path:
    return site.folder / "nodes" / node.name


def _leaving(site: Site) -> tuple[list[Node], list[Node]]:
    """The nodes that are not of the cluster any more: on which there are attempts, and the others."""
    busy: list[Node] = []
    idle: list[Node] = []
    for node in site.leaving:
        (busy if _busy(site, node) else idle).append(node)
    return busy, idle


def _busy(site: Site, node: Node) -> bool:
    """Whether something may run there."""
    folder = _folder(site, node)
    return folder.is_dir() and bool(AgentFolder(folder).alive())


def _devices(
    site: Site, nodes: Sequence[Node], *, pretend: bool
) -> dict[str, tuple[str, ...]] | None:
    """What CUDA calls the GPUs of each node; None where there are none, or none are to be seen.

    A node keeps those that it had: jobs may run on them. Raises `Problem` where there are some, but too few.
    """
    found = [] if pretend else gpus_found()
    if not found:
        return None
    wanted, leaving = site.cluster.gpus, sum(node.gpus for node in nodes) - site.cluster.gpus
    if len(found) < wanted + leaving:
        beside = f" beside {leaving} on which jobs of nodes that left it run" if leaving else ""
        wait = ", or keep these nodes until their jobs are over" if leaving else ""
        raise Problem(
            f"the cluster has {wanted} GPUs{beside}, this machine {len(found)}",
            mend=f"declare as many, or make them up: executor local:pretend=true{wait}",
        )
    devices: dict[str, tuple[str, ...]] = {}
    free = list(found)
    for node in sorted(nodes, key=lambda node: not _busy(site, node)):
        if before := _devices_before(site, node, free):
            devices[node.name] = before
            free = [gpu for gpu in free if gpu not in before]
    for node in nodes:
        if node.name not in devices:
            devices[node.name], free = tuple(free[: node.gpus]), free[node.gpus :]
    return devices


def _devices_before(site: Site, node: Node, free: Sequence[str]) -> tuple[str, ...]:
    """The GPUs that a node had when its agent was started last, if they are ``free``; else none."""
    try:
        text = (_folder(site, node) / "agent.json").read_bytes()
        before = msgspec.json.decode(text, type=Settings).devices or ()
    except (OSError, msgspec.MsgspecError):
        return ()
    return before if len(before) == node.gpus and set(before) <= set(free) else ()
