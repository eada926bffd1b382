"""A whole server under load: python benchmarks/serve_load.py [--jobs 10000] [--nodes 1000] [--hostile 5]

The server is a process of its own with its store in SQLite, agents are simulated at the protocol's level
(benchmarks/simulated_agents.py), jobs are submitted over HTTP, each with a key of its own. One job of eight
GPUs a node fills the cluster, the others queue. Prints submissions accepted durably per second, how long the
first jobs of the queue, 10,000 of them and the reason why one waits take to be answered, how long the command
takes that prints the whole queue, each with the server's processor time for it, and what the server says of
its decisions. ``--hostile`` so many times it also measures four users who submit jobs and look at the queue,
ten seconds alone and ten beside a hostile user (benchmarks/hostile_user.py), in turn.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx

_PATIENCE_SECONDS = 120.0
_QUEUES = 10
_LISTS = 200
_END_SECONDS = 20.0
_USERS = 4
_TURN_SECONDS = 10.0
_THINK_SECONDS = 0.05
_BEGIN_SECONDS = 2.0
"""From the start of the hostile user to all that they do."""


class Server:
    """``volvelle serve`` in ``folder`` for so many nodes, with their agents."""

    def __init__(self, folder: Path, nodes: int, policy: str, *agents_options: str) -> None:
        self._folder = folder / "serve"
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self._start(nodes, policy, *agents_options)
        except BaseException:
            self.end()
            raise

    def _start(self, nodes: int, policy: str, *agents_options: str) -> None:
        cluster = ("--cluster", f"{nodes}x8")
        options = ("--policy", policy, "--port", "0", "--folder", str(self._folder))
        self.agents_port = port = _free_port()
        serve = ("-m", "volvelle.cli.main", "serve", "--executor", f"dial-in:port={port}")
        self._processes.append(self._run(*serve, *cluster, *options))
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

    def user(self, name: str) -> str:
        """A token of a user."""
        made = httpx.post(f"{self.url}/v1/tokens", json={"user": name}, headers=self.headers)
        return str(made.raise_for_status().json()["token"])

    def end(self) -> None:
        """End agents and server."""
        for process in reversed(self._processes):
            end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process, which is killed if it does not."""
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
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


def _hundredths(seconds: list[float]) -> list[float]:
    return statistics.quantiles(seconds, n=100)


def say(what: str, seconds: list[float], cpu: float) -> None:
    """Percentiles in milliseconds, and the server's processor time for each."""
    hundredths, each = _hundredths(seconds), cpu / len(seconds) * 1e3
    wall = f"{hundredths[49] * 1e3:8.1f} ms p50 {hundredths[98] * 1e3:8.1f} ms p99"
    print(f"{what:28} {wall} {each:8.2f} ms CPU")


def measure(server: Server, what: str, act: Callable[[], list[float]]) -> list[float]:
    """Seconds that each of some acts took, after these were said with what they cost the server."""
    before = server.cpu_seconds()
    took = act()
    say(what, took, server.cpu_seconds() - before)
    return took


class Usual(threading.Thread):
    """A user who submits a job and looks at the queue, again and again, until ``seconds`` are over."""

    def __init__(self, server: Server, token: str, seconds: float) -> None:
        super().__init__()
        self.took: list[float] = []
        self._server, self._token, self._seconds = server, token, seconds

    def run(self) -> None:
        """Ask."""
        body = {"command": ["true"], "gpus": 8, "estimate": "1h"}
        headers = {"Authorization": f"Bearer {self._token}"}
        with httpx.Client(base_url=self._server.url, headers=headers, timeout=60.0) as client:
            end = time.monotonic() + self._seconds
            while time.monotonic() < end:
                self._time(partial(client.post, "/v1/jobs", json=body))
                self._time(partial(client.get, "/v1/jobs?limit=100"))

    def _time(self, ask: Callable[[], httpx.Response]) -> None:
        began = time.perf_counter()
        ask().raise_for_status()
        self.took.append(time.perf_counter() - began)
        time.sleep(_THINK_SECONDS)


def usual(server: Server, tokens: list[str]) -> list[float]:
    """Seconds that requests of some users took."""
    users = [Usual(server, token, _TURN_SECONDS) for token in tokens]
    for user in users:
        user.start()
    for user in users:
        user.join()
    return [took for user in users for took in user.took]


@contextmanager
def hostile_user(server: Server, token: str) -> Iterator[None]:
    """A hostile user beside the others."""
    script = str(Path(__file__).with_name("hostile_user.py"))
    where = ("--url", server.url, "--agents-port", str(server.agents_port))
    process = subprocess.Popen([sys.executable, script, *where], stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.write(token.encode() + b"\n")
        process.stdin.close()
        time.sleep(_BEGIN_SECONDS)
        yield
    finally:
        end(process)


def beside_a_hostile_user(server: Server, turns: int) -> None:
    """Measure users alone and beside a hostile one, in turn."""
    tokens, hostile = [server.user(f"user-{n}") for n in range(_USERS)], server.user("hostile")
    ratios = []
    for _ in range(turns):
        alone = measure(server, "four users, a request", lambda: usual(server, tokens))
        with hostile_user(server, hostile):
            beside = measure(server, "beside a hostile one", lambda: usual(server, tokens))
        ratios.append(_hundredths(beside)[98] / _hundredths(alone)[98])
    print(f"{statistics.median(ratios):.2f} times the p99 beside them, median of {turns} turns")


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
    parser.add_argument("--hostile", type=int, default=0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), given.nodes, given.policy)
        try:
            began, before = time.perf_counter(), server.cpu_seconds()
            took = asyncio.run(submit(server, given.jobs, given.connections))
            seconds, cpu = time.perf_counter() - began, server.cpu_seconds() - before
            print(f"{given.jobs:,} submissions accepted: {given.jobs / seconds:.0f}/s")
            say("a submission", took, cpu)
            for what, path, times in (
                ("the first 500 of the queue", "/v1/jobs?limit=500", _LISTS),
                ("10,000 of the queue", "/v1/jobs?limit=10000", _QUEUES),
                ("why the last job waits", f"/v1/jobs/{given.jobs - 1}/why", _QUEUES),
            ):
                measure(server, what, partial(server.answers, path, times))
            command = "the command queue, all of it"
            measure(server, command, lambda: [server.queue() for _ in range(_QUEUES)])
            if given.hostile:
                beside_a_hostile_user(server, given.hostile)
            print(decisions(httpx.get(f"{server.url}/metrics", headers=server.headers).text))
        finally:
            server.end()


if __name__ == "__main__":
    main()
