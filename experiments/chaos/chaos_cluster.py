"""A small live cluster of real processes: server, agents, supervisors, jobs; clients, store, disk."""

import random
import re
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from backends import Backend, DialIn, Local, OnRay
from clients import Client, SubmissionLog
from commands import Command, CommandSupervisor, kill, processes_with
from disk import Disk
from fault_proxy import FaultRates
from flood import Flood, HostileUser
from kubernetes_backend import OnKubernetes
from request_proxy import RequestProxy
from stores import LockedFile, PostgresqlServer, StoppableStore

from volvelle.live.agent.launch import free_port
from volvelle.live.http.client import ApiClient
from volvelle.live.serve_folder import ServeFolder, read_secret
from volvelle.model.problems import Problem

CLUSTER = "2x2"
BACKENDS: dict[str, type[Backend]] = {
    "dial-in": DialIn,
    "local": Local,
    "ray": OnRay,
    "kubernetes": OnKubernetes,
}
"""By the names of executors."""
_START_SECONDS = 600.0
_MOST_OPEN_EACH = 3
_AGENT = "volvelle.live.agent "
"""In the command line of an agent that the server started."""
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:  .*\n)*(.*)", re.MULTILINE)


class NotStartedError(Exception):
    """The server did not start before anything was done to it."""


class ChaosCluster:
    """The cluster in ``folder``, with its clients. ``store``: sqlite or postgresql."""

    def __init__(self, folder: Path, executor: str, store: str, seed: int, clients: int) -> None:
        self._folder, self._seed = folder, seed
        self.submissions = SubmissionLog()
        self.commands: list[Command] = []
        self.traces = folder / "traces"
        self.traces.mkdir()
        with ExitStack() as closing:
            self.disk = Disk(folder / "disk")
            closing.callback(self.disk.close)
            self._serve = ServeFolder(self.disk.path / "serve")
            self._serve.prepare()
            sqlite = self._serve.path / "store.db"
            self.store: StoppableStore = (
                LockedFile(sqlite, folder / "kept", random.Random(f"{seed} store"))
                if store == "sqlite"
                else PostgresqlServer()
            )
            closing.callback(self.store.close)
            self.backend: Backend = BACKENDS[executor](CLUSTER, seed)
            closing.callback(self.backend.close)
            self._port = free_port()
            self._url = f"http://127.0.0.1:{self._port}"
            self.requests = RequestProxy(self._port, random.Random(f"{seed} requests"))
            closing.callback(self.requests.close)
            closing.callback(self._kill_processes)
            self._commands = CommandSupervisor(self.backend.preloaded)
            closing.callback(self._commands.close)
            self.backend.prepare(self.disk.path)
            self._start_cluster()
            self._clients = [self._client(n, _MOST_OPEN_EACH * clients) for n in range(clients)]
            closing.callback(self._end_clients)
            self._until(lambda: bool(self.submissions.totals), "no job is acknowledged")
            self._closing = closing.pop_all()

    def _start_cluster(self) -> None:
        """Start the server and the nodes."""
        config = self._folder / "cluster.toml"
        config.write_text(
            f'cluster = "{CLUSTER}"\n'
            f'policy = "{self.backend.policy}"\n'
            f'executor = "{self.backend.executor}"\n'
            f'store = "{self.store.url}"\n'
            f'folder = "{self._serve.path}"\n'
            f"[listen]\nport = {self._port}\n",
            encoding="utf-8",
        )
        self.server = self._start_command("serve", "serve", "--config", str(config))
        self._until(self._serve.agents_token_file.exists, "the server does not start")
        self.backend.start(self._start_command, self.disk.path, self._serve.agents_token_file)

    def _start_command(self, name: str, *arguments: str) -> Command:
        command = self._commands.start(arguments, self._folder / f"{name}.log")
        self.commands.append(command)
        return command

    def _client(self, number: int, most_open: int) -> Client:
        return Client(
            f"client-{number}",
            f"http://127.0.0.1:{self.requests.port}",
            self._serve.token_file,
            self.traces,
            self.submissions,
            f"{self._seed} client {number}",
            most_open,
        )

    def get(self, path: str) -> Any:
        """The answer of the server at ``path``; None if there is none now."""
        with suppress(Problem):
            return self.api.get(path)
        return None

    def post(self, path: str) -> None:
        """Post to ``path``, as an operator; nothing happens if the server does not answer."""
        with suppress(Problem):
            self.api.post(path)

    def set_policy(self, policy: str) -> bool:
        """Let another policy decide; whether it does."""
        with suppress(Problem):
            self.api.put("/v1/policy", {"policy": policy})
            return True
        return False

    @property
    def api(self) -> ApiClient:
        """A client of the server with its first token, not through the proxy."""
        return ApiClient(self._url, read_secret(self._serve.token_file))

    def set_fault_rates(self, rates: FaultRates) -> None:
        """Set the rates of faults of messages and requests."""
        self.backend.set_fault_rates(rates)
        self.requests.rate = rates.request

    def pause_clients(self) -> None:
        """Let clients submit nothing; returns once all that they submitted is acknowledged."""
        for client in self._clients:
            client.pause()

    def resume_clients(self) -> None:
        """Let clients submit jobs again."""
        for client in self._clients:
            client.resume()

    def flood(self, agents: tuple[str, int]) -> Flood:
        """Begin a flood of the server, which listens for agents at ``agents``."""
        return Flood(self._port, agents, self.api.token)

    def hostile_user(self, agents: tuple[str, int]) -> HostileUser:
        """Begin the attacks of a user. Raises Problem if there is no server that makes a token."""
        token = self.api.post("/v1/tokens", {"user": "mallory", "role": "user"})["token"]
        return HostileUser(self._url, agents, token)

    def processes(self) -> dict[int, str]:
        """Supervisors and all processes of jobs, with their command lines."""
        found = processes_with(f"{self.disk.path}/")
        return {pid: line for pid, line in found.items() if _AGENT not in line}

    @property
    def progress_mark(self) -> tuple[int, ...]:
        """A value that changes as long as jobs make progress."""
        sizes = [path.stat().st_size for path in self.traces.glob("*.jsonl")]
        return len(self.submissions.totals), len(sizes), sum(sizes)

    @property
    def trace_lines(self) -> int:
        """The number of lines in the traces of jobs."""
        return sum(path.read_bytes().count(b"\n") for path in self.traces.glob("*.jsonl"))

    def end_clients(self, timeout: float) -> bool:
        """End the clients; whether all submitted jobs were acknowledged in time."""
        self._end_clients()
        until = time.monotonic() + timeout
        return all(client.ended(max(until - time.monotonic(), 0.1)) for client in self._clients)

    def _end_clients(self) -> None:
        for client in self._clients:
            client.end()

    def ended_jobs(self) -> list[dict[str, Any]]:
        """The ended jobs, from the server."""
        return list(self.api.pages("/v1/jobs", "jobs", over=True))

    @property
    def tracebacks(self) -> list[str]:
        """Where the output of server or agents has a traceback, with its last line."""
        logs = [*self._folder.glob("*.log"), *self._serve.path.glob("jobs/*/nodes/*/agent.log")]
        return [
            f"{log.name}: {each}"
            for log in logs
            for each in _TRACEBACK.findall(log.read_text(encoding="utf-8", errors="replace"))
        ]

    def close(self) -> None:
        """End all processes."""
        self._closing.close()

    def _kill_processes(self) -> None:
        while left := processes_with(f"{self.disk.path}/"):
            for pid in left:
                kill(pid)
            time.sleep(0.05)

    def _until(self, condition: Callable[[], bool], error: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                file = self._folder / "serve.log"
                log = file.read_text(encoding="utf-8")[-2000:] if file.exists() else "no log"
                raise NotStartedError(f"{error}: {log}")
            time.sleep(0.02)
