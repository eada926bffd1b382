"""Nodes that are processes of this machine: one agent for each node of the cluster."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import msgspec
from pydantic import Field

from volvelle.live.agent.folder import AgentFolder, Settings, last_line, lock, umask, write
from volvelle.live.agent.gpus import gpus_found
from volvelle.live.agents_server import AgentsServer
from volvelle.live.executor import Executor, OpenExecutor, Site, executors
from volvelle.live.executors.watching import Watching
from volvelle.live.messages import Report
from volvelle.model.problems import Problem

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
    linger_seconds: float = Field(
        60.0, ge=0, description="how long an agent stays without a job and without a controller"
    )

    def open(self, site: Site, report: Callable[[Report], None]) -> OpenExecutor:
        """Begin (or take over) at ``site``. Raises `Problem`."""
        return _Open(self, site, report)


class _Open(Watching):
    """Agents at work, started where they are not."""

    def __init__(self, executor: Local, site: Site, report: Callable[[Report], None]) -> None:
        devices = _devices(site, pretend=executor.pretend)
        server = AgentsServer(site.cluster.nodes, site.token, report)
        try:
            site.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            at = site.folder / "agents.address"
            write(at, f"127.0.0.1:{server.port}".encode())
            self._agents = [
                _LocalAgent(
                    site.folder / "nodes" / node.name,
                    Settings(
                        node=node,
                        connect=str(at.absolute()),
                        token=site.token,
                        devices=devices[node.name] if devices else None,
                        work=str((site.folder / "work").absolute()),
                        progress_seconds=executor.progress_seconds,
                        linger_seconds=executor.linger_seconds,
                        umask=umask(),
                    ),
                )
                for node in site.cluster.nodes
            ]
        except OSError as error:
            server.close()
            raise Problem(
                f"agents cannot work in {site.folder}: {error.strerror}: {error.filename}",
                mend="choose a folder that can be written",
            ) from None
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


def _devices(site: Site, *, pretend: bool) -> dict[str, tuple[str, ...]] | None:
    """What CUDA calls the GPUs of each node; None where there are none, or none are to be seen.

    Raises `Problem` where there are some, but too few.
    """
    found = [] if pretend else gpus_found()
    if not found:
        return None
    if len(found) < site.cluster.gpus:
        raise Problem(
            f"the cluster has {site.cluster.gpus} GPUs, this machine {len(found)}",
            mend="declare as many, or make them up: executor local:pretend=true",
        )
    devices: dict[str, tuple[str, ...]] = {}
    for node in site.cluster.nodes:
        devices[node.name] = tuple(found[: node.gpus])
        found = found[node.gpus :]
    return devices
