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

from forked import ForkedProcess, forked
from waiting import until

from volvelle.live.http.client import ApiClient

DIAL_IN = """
cluster = "{cluster}"
executor = "dial-in:port={port}{more}"

[listen]
port = 0
"""

_PROGRAM = (sys.executable, "-m", "volvelle.cli.main")


def volvelle(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [forked().folder / "volvelle", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


@dataclass
class ServerProcess:
    """A server in ``folder``, and the agents that connect to it."""

    folder: Path
    process: ForkedProcess | None = None
    agents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """What all the servers started here printed."""
        return (self.folder / "log").read_text()

    @property
    def url(self) -> str:
        file = self.folder / "volvelle-serve" / "server.json"
        return str(json.loads(file.read_text())["url"])

    def start(self, config: str) -> None:
        """Start the server; returns once it accepts requests."""
        (self.folder / "cluster.toml").write_text(config)
        with (self.folder / "log").open("a") as log:
            serve = ("serve", "--config", "cluster.toml")
            process = forked().start(self.folder, *serve, output=log)
        self.process = process
        file = self.folder / "volvelle-serve" / "server.json"
        until(lambda: file.exists() or process.poll() is not None)
        assert process.poll() is None, self.output

    def stop(self) -> None:
        """End the server as Ctrl-C does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.output

    def kill(self) -> None:
        """End the server as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        (self.folder / "volvelle-serve" / "server.json").unlink(missing_ok=True)

    def start_agent(self, node: str, port: int, *more: str) -> None:
        """An agent for ``node``, with one made-up GPU."""
        token = self.folder / "volvelle-serve" / "agents.token"
        where = ["--connect", f"localhost:{port}", "--token-file", str(token)]
        what = ["--node", node, "--gpus", "1", "--pretend", "--folder", str(self.folder / node)]
        work = ["--work", str(self.folder / "work")]
        with (self.folder / f"{node}.log").open("a") as log:
            self.agents[node] = subprocess.Popen(
                [*_PROGRAM, "agent", *where, *what, *work, *more], stderr=log
            )

    def kill_agent(self, node: str) -> None:
        """Kill the agent, as in a crash; its jobs run on."""
        agent = self.agents.pop(node)
        agent.kill()
        agent.wait()

    def volvelle(self, *arguments: str, **environment: str) -> str:
        """The output of a command, which has to succeed."""
        ran = volvelle(self.folder, *arguments, **environment)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def job(self, number: int) -> dict[str, object]:
        """An unfinished job as `volvelle queue` lists it; empty for any other."""
        return next((job for job in self.jobs() if job["number"] == number), {})

    def jobs(self) -> list[dict[str, object]]:
        """All unfinished jobs; no command, as waiting tests ask without pause."""
        return list(ApiClient.find({}, self.folder).pages("/v1/jobs", "jobs"))

    def kill_all(self) -> None:
        """Kill the server, the agents and all processes that they started."""
        for process in (self.process, *self.agents.values()):
            if process is not None:
                process.kill()
                process.wait()
        for pid in self.remaining():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.remaining(), "all processes to end")

    def remaining(self) -> list[int]:
        """Agents, supervisors and jobs: each has the folder in its command or its environment."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                    if str(self.folder).encode() in text:
                        found.append(int(entry.name))
        return found


@contextmanager
def server_process(folder: Path, config: str = "") -> Iterator[ServerProcess]:
    """A folder for a server, started if a ``config`` is given; in the end all processes are killed."""
    server = ServerProcess(folder)
    try:
        if config:
            server.start(config)
        yield server
    finally:
        server.kill_all()
