"""``volvelle serve`` and ``volvelle agent`` as processes, as their users start them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from waiting import until

DIAL_IN = """
cluster = "{cluster}"
executor = "dial-in:port={port}{more}"

[listen]
port = 0
"""

_PROGRAM = (sys.executable, "-m", "volvelle.cli.main")


def volvelle(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_PROGRAM, *arguments],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


@dataclass
class Served:
    """A server in ``folder``, and the agents that dial in there."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    agents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """All that the servers here said."""
        return (self.folder / "log").read_text()

    @property
    def url(self) -> str:
        file = self.folder / "volvelle-serve" / "server.json"
        return str(json.loads(file.read_text())["url"])

    def start(self, config: str) -> None:
        """Serve; returns when the first request can come."""
        (self.folder / "cluster.toml").write_text(config)
        with (self.folder / "log").open("a") as log:
            command = [*_PROGRAM, "serve", "--config", "cluster.toml"]
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        self.process = process
        file = self.folder / "volvelle-serve" / "server.json"
        until(lambda: file.exists() or process.poll() is not None)
        assert process.poll() is None, self.said

    def stop(self) -> None:
        """End the server as Ctrl-C does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.said

    def kill(self) -> None:
        """End the server as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        (self.folder / "volvelle-serve" / "server.json").unlink(missing_ok=True)

    def dial(self, node: str, port: int, *more: str) -> None:
        """An agent for ``node``, with one made-up GPU."""
        token = self.folder / "volvelle-serve" / "agents.token"
        where = ["--connect", f"localhost:{port}", "--token-file", str(token)]
        what = ["--node", node, "--gpus", "1", "--pretend", "--folder", str(self.folder / node)]
        work = ["--work", str(self.folder / "work")]
        with (self.folder / f"{node}.log").open("a") as log:
            self.agents[node] = subprocess.Popen(
                [*_PROGRAM, "agent", *where, *what, *work, *more], stderr=log
            )

    def hang_up(self, node: str) -> None:
        """The agent is gone, as in a crash; jobs run on."""
        agent = self.agents.pop(node)
        agent.kill()
        agent.wait()

    def volvelle(self, *arguments: str, **environment: str) -> str:
        """What a command says that succeeds."""
        ran = volvelle(self.folder, *arguments, **environment)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def job(self, number: int) -> dict[str, object]:
        """A job that is not over, as the queue has it; empty of one that is."""
        jobs = json.loads(self.volvelle("queue", "-o", "json"))
        return next((job for job in jobs if job["number"] == number), {})

    def end_all(self) -> None:
        """Leave nothing: neither server nor agents nor what they started."""
        for process in (self.process, *self.agents.values()):
            if process is not None:
                process.kill()
                process.wait()
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self._left(), "all processes to end")

    def _left(self) -> list[int]:
        """Agents that servers started, keepers, jobs: each has the folder in its command or environment."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                    if str(self.folder).encode() in told:
                        found.append(int(entry.name))
        return found


@contextmanager
def served(folder: Path, config: str = "") -> Iterator[Served]:
    """A place for a server, which serves where a ``config`` is given; in the end nothing of it is left."""
    server = Served(folder)
    try:
        if config:
            server.start(config)
        yield server
    finally:
        server.end_all()
