"""A whole server under load: python benchmarks/serve_load.py [--jobs 10000] [--nodes 1000] [--connections 32]

The server is a process of its own with its store in SQLite, agents are simulated at the protocol's level
(benchmarks/simulated_agents.py), jobs are submitted over HTTP, each with a key of its own. One job of eight
GPUs a node fills the cluster, the others queue. Prints submissions accepted durably per second and the
server's processor time for each, how long the first jobs of the queue, 10,000 of them and the reason why one
waits take to be answered, how long the command takes that prints the whole queue, and what the server says
of its decisions.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx

_PATIENCE_SECONDS = 120.0
_QUEUES = 10
_LISTS = 200


class Server:
    """``volvelle serve`` in ``folder`` for so many nodes, with their agents."""

    def __init__(self, folder: Path, nodes: int, policy: str, *agents_options: str) -> None:
        self._folder = folder / "serve"
        cluster = ("--cluster", f"{nodes}x8")
        options = ("--policy", policy, "--port", "0", "--folder", str(self._folder))
        port = _free_port()
        serve = ("-m", "volvelle.cli.main", "serve", "--executor", f"dial-in:port={port}")
        self._processes = [self._run(*serve, *cluster, *options)]
        self._until((self._folder / "server.json").exists)
        token = str(self._folder / "agents.token")
        agents = str(Path(__file__).with_name("simulated_agents.py"))
        where = ("--connect", f"127.0.0.1:{port}", "--token-file", token)
        self._processes.append(self._run(agents, *where, *cluster, *agents_options))
        self.url = json.loads((self._folder / "server.json").read_text())["url"]
        self.headers = {"Authorization": f"Bearer {(self._folder / 'token').read_text().strip()}"}
        self._until(lambda: self._nodes_up() == nodes)

    def _run(self, *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)

    def _nodes_up(self) -> int:
        answer = httpx.get(f"{self.url}/v1/nodes", headers=self.headers, timeout=60.0).json()
        return sum(node["state"] == "up" for node in answer["nodes"])

    def _until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            if time.monotonic() > end or self._processes[0].poll() is not None:
                raise SystemExit("error: the server does not come up")
            time.sleep(0.1)

    def cpu_seconds(self) -> float:
        """Processor time of the server so far."""
        stat = Path(f"/proc/{self._processes[0].pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def answers(self, path: str, times: int) -> list[float]:
        """Seconds that each of so many requests took, over one connection."""
        took = []
        with httpx.Client(base_url=self.url, headers=self.headers, timeout=60.0) as client:
            for _ in range(times):
                began = time.perf_counter()
                client.get(path).raise_for_status()
                took.append(time.perf_counter() - began)
        return took

    def queue(self) -> float:
        """Seconds that the command took which prints the whole queue."""
        token = self.headers["Authorization"].removeprefix("Bearer ")
        environment = os.environ | {"VOLVELLE_SERVER": self.url, "VOLVELLE_TOKEN": token}
        command = [sys.executable, "-m", "volvelle.cli.main", "queue"]
        began = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    def end(self) -> None:
        """End agents and server."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Connection:
    """A connection that stays open; little more than a socket, so that the server is what is measured."""

    def __init__(self, server: Server) -> None:
        self._place = urlsplit(server.url)
        lines = [f"{name}: {value}" for name, value in server.headers.items()]
        head = ["POST /v1/jobs HTTP/1.1", f"Host: {self._place.netloc}", *lines]
        self._head = "\r\n".join((*head, "Content-Type: application/json"))
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def submit(self, body: bytes, key: str) -> None:
        """Submitted; again under the same key where the connection broke, as every client should."""
        try:
            status = await self._post(body, key)
        except (OSError, EOFError):
            self._streams = None
            await self.submit(body, key)
        else:
            if status != 201:
                raise SystemExit(f"error: the server answered {status}")

    async def _post(self, body: bytes, key: str) -> int:
        """The status of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._place.hostname, self._place.port)
        reader, writer = self._streams
        own = f"Idempotency-Key: {key}\r\nContent-Length: {len(body)}"
        writer.write(f"{self._head}\r\n{own}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
        await reader.readexactly(int(length.partition(":")[2]))
        return int(head.split()[1])


async def submit(server: Server, jobs: int, connections: int) -> list[float]:
    """Seconds that each of so many submissions took, over so many connections."""
    numbers = iter(range(jobs))
    took: list[float] = []
    body = json.dumps({"command": ["true"], "gpus": 8, "estimate": "1h"}).encode()

    async def one_after_another() -> None:
        connection = Connection(server)
        for number in numbers:
            began = time.perf_counter()
            await connection.submit(body, f"job-{number}")
            took.append(time.perf_counter() - began)

    await asyncio.gather(*(one_after_another() for _ in range(connections)))
    return took


def say(what: str, seconds: list[float]) -> None:
    """Percentiles, in milliseconds."""
    hundredths = statistics.quantiles(seconds, n=100)
    print(f"{what:32} {hundredths[49] * 1e3:9.1f} ms p50 {hundredths[98] * 1e3:9.1f} ms p99")


def decisions(metrics: str) -> str:
    """The bound under which 99 % of the server's decisions took, from its own histogram."""
    name = "volvelle_decision_seconds_bucket"
    lines = [line for line in metrics.splitlines() if line.startswith(name)]
    counts = [(line.split('le="')[1].split('"')[0], float(line.split()[-1])) for line in lines]
    total = counts[-1][1]
    bound = next(bound for bound, count in counts if count >= 0.99 * total)
    return f"{total:.0f} decisions, 99 % of them within {bound} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--policy", default="fifo")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), given.nodes, given.policy)
        try:
            began, before = time.perf_counter(), server.cpu_seconds()
            took = asyncio.run(submit(server, given.jobs, given.connections))
            seconds, cpu = time.perf_counter() - began, server.cpu_seconds() - before
            print(f"{given.jobs:,} submissions accepted: {given.jobs / seconds:.0f}/s")
            print(f"{cpu / given.jobs * 1e3:.2f} ms of the server's processor time for each")
            say("a submission", took)
            waits = f"/v1/jobs/{given.jobs - 1}/why"
            say("the first 500 of the queue", server.answers("/v1/jobs?limit=500", _LISTS))
            say("10,000 of the queue", server.answers("/v1/jobs?limit=10000", _QUEUES))
            say("why the last job waits", server.answers(waits, _QUEUES))
            say("the command queue, all of it", [server.queue() for _ in range(_QUEUES)])
            print(decisions(httpx.get(f"{server.url}/metrics", headers=server.headers).text))
        finally:
            server.end()


if __name__ == "__main__":
    main()
