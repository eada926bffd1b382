"""A small cluster of real processes: server, agents, supervisors, jobs; clients, store, disk."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from clients import Client, Submitting
from commands import Command, Keeping, kill, marked
from disk import Disk
from grounds import GROUNDS, Ground
from stores import DyingServer, LockedFile, Stoppable

from volvelle.live.agent.launch import free_port
from volvelle.live.serve_folder import ServeFolder
from volvelle.model.problems import Problem

CLUSTER = "2x2"
_POLICY = "las:round=4"
_MOST_OPEN_EACH = 3
_AGENT = "volvelle.live.agent "
"""In the command line of an agent that the server started."""


class ChaosSite:
    """All of it, in ``folder``, with so many clients; ``store``: sqlite or postgresql."""

    def __init__(self, folder: Path, executor: str, store: str, seed: int, clients: int) -> None:
        self._folder, self._seed = folder, seed
        self.known = Submitting()
        self.traces = folder / "traces"
        self.traces.mkdir()
        with ExitStack() as closing:
            self.disk = Disk(folder / "disk")
            closing.callback(self.disk.close)
            self._serve = ServeFolder(self.disk.path / "serve")
            self._serve.prepare()
            sqlite = self._serve.path / "store.db"
            self.store: Stoppable = LockedFile(sqlite) if store == "sqlite" else DyingServer()
            closing.callback(self.store.close)
            self.ground: Ground = GROUNDS[executor](CLUSTER, seed)
            closing.callback(self.ground.close)
            closing.callback(self._kill_processes)
            self._keeping = Keeping(self.ground.preloaded)
            closing.callback(self._keeping.close)
            self._begin_cluster()
            self._clients = [self._client(n, _MOST_OPEN_EACH * clients) for n in range(clients)]
            closing.callback(self._end_clients)
            self._until(lambda: bool(self.known.totals), "no job is acknowledged")
            self._closing = closing.pop_all()

    def _begin_cluster(self) -> None:
        """The server, and whatever runs the jobs."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = self._folder / "cluster.toml"
        config.write_text(
            f'cluster = "{CLUSTER}"\n'
            f'policy = "{_POLICY}"\n'
            f'executor = "{self.ground.executor}"\n'
            f'store = "{self.store.url}"\n'
            f'folder = "{self._serve.path}"\n'
            f"[listen]\nport = {port}\n",
            encoding="utf-8",
        )
        self.server = self._keep("serve", "serve", "--config", str(config))
        self._until(self._serve.agents_token_file.exists, "the server does not start")
        self.ground.begin(self._keep, self.disk.path, self._serve.agents_token_file)

    def _keep(self, name: str, *words: str) -> Command:
        return self._keeping.keep(words, self._folder / f"{name}.log")

    def _client(self, number: int, most_open: int) -> Client:
        return Client(
            f"client-{number}",
            self.url,
            self._serve.token_file,
            self.traces,
            self.known,
            f"{self._seed} client {number}",
            most_open,
        )

    def ask(self, path: str) -> Any:
        """What the server says at ``path``; None where it says nothing now."""
        try:
            return self._clients[0].client.get(path)
        except Problem:
            return None

    def processes(self) -> dict[int, str]:
        """Supervisors and all processes of jobs, with their command lines."""
        found = marked(f"{self.disk.path}/")
        return {pid: line for pid, line in found.items() if _AGENT not in line}

    @property
    def mark(self) -> tuple[int, ...]:
        """Something that changes as long as anything happens to jobs."""
        sizes = [path.stat().st_size for path in self.traces.glob("*.jsonl")]
        return len(self.known.totals), len(sizes), sum(sizes)

    @property
    def words(self) -> int:
        """Lines that jobs wrote."""
        return sum(path.read_bytes().count(b"\n") for path in self.traces.glob("*.jsonl"))

    def end_clients(self, timeout: float) -> bool:
        """No more jobs; whether all that were submitted are acknowledged."""
        self._end_clients()
        until = time.monotonic() + timeout
        return all(client.ended(max(until - time.monotonic(), 0.1)) for client in self._clients)

    def _end_clients(self) -> None:
        for client in self._clients:
            client.end()

    def over(self) -> list[dict[str, Any]]:
        """The jobs that are over, as the server tells."""
        return list(self._clients[0].client.pages("/v1/jobs", "jobs", over=True))

    def close(self) -> None:
        """End every process of it."""
        self._closing.close()

    def _kill_processes(self) -> None:
        while left := marked(f"{self.disk.path}/"):
            for pid in left:
                kill(pid)
            time.sleep(0.05)

    def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        patience = time.monotonic() + 120.0
        while not holds():
            if time.monotonic() > patience:
                log = (self._folder / "serve.log").read_text(encoding="utf-8")[-2000:]
                raise RuntimeError(f"{otherwise}: {log}")
            time.sleep(0.02)
