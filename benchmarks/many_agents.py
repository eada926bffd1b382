"""The agents server with 1,000 agents: python benchmarks/many_agents.py [--cluster 1000x8] [--jobs 5000]

Agents are simulated in a process of their own, the server is real. Prints how long it takes until all have
joined, and from the order to start a job until it is reported as started, by percentile: jobs one after
another, then all at once, a tenth of them on two nodes.
"""

import argparse
import queue
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volvelle.live.messages import (
    AttemptEnded,
    AttemptStarted,
    Forget,
    Grant,
    Launch,
    NodeJoined,
    Report,
    Start,
    Stop,
)
from volvelle.live.nodes.executor import ExecutorContext, OpenExecutor
from volvelle.live.nodes.executors.dial_in import DialIn
from volvelle.model.cluster import Cluster, parse_cluster

PORT = 17_475
TOKEN = "of this benchmark"
ONE_BY_ONE = 500
TWO_NODES_EVERY = 10


class TimedExecutor:
    """Sends orders to start and to stop, and measures when they are answered."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._names = [node.name for node in cluster.nodes]
        self._reports: queue.SimpleQueue[tuple[float, Report]] = queue.SimpleQueue()
        self._jobs = 0
        context = ExecutorContext(cluster, folder, TOKEN)
        self.executor: OpenExecutor = DialIn(port=PORT).open(
            context, lambda report: self._reports.put((time.perf_counter(), report))
        )

    def wait(self, kind: type[Report], count: int) -> dict[int, float]:
        """When each of the next ``count`` reports of a kind came, by job if it is about one."""
        came: dict[int, float] = {}
        while len(came) < count:
            at, report = self._reports.get(timeout=60)
            if isinstance(report, kind):
                came[getattr(report, "number", len(came))] = at
        return came

    def start(self) -> int:
        """Order the next job to be started."""
        number = self._jobs = self._jobs + 1
        nodes = 2 if number % TWO_NODES_EVERY == 0 else 1
        names = [self._names[(number + step) % len(self._names)] for step in range(nodes)]
        order = Start(
            number=number,
            attempt=1,
            user="dana",
            grants=tuple(Grant(name, (0,)) for name in names),
            launch=Launch(command=("true",)),
        )
        self.executor.send(order)
        return number

    def started_after(self, jobs: int, *, at_once: bool) -> NDArray[np.float64]:
        """Seconds from order to report of so many jobs, which are then stopped."""
        ordered: dict[int, float] = {}
        came: dict[int, float] = {}
        for _ in range(jobs):
            at = time.perf_counter()
            ordered[self.start()] = at
            if not at_once:
                came |= self.wait(AttemptStarted, 1)
        if at_once:
            came = self.wait(AttemptStarted, jobs)
        for number in ordered:
            self.executor.send(Stop(number, 1, kill=True))
        self.wait(AttemptEnded, jobs)
        for number in ordered:
            self.executor.send(Forget(number, 1))
        return np.array([came[number] - ordered[number] for number in ordered])


def show(what: str, seconds: NDArray[np.float64]) -> None:
    p50, p99, most = np.percentile(seconds, [50, 99, 100]) * 1e3
    print(f"{what:32} {p50:9.1f} ms p50 {p99:9.1f} ms p99 {most:9.1f} ms at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cluster", default="1000x8")
    parser.add_argument("--jobs", type=int, default=5000)
    given = parser.parse_args()
    cluster = parse_cluster(given.cluster)
    with tempfile.TemporaryDirectory() as name:
        token = Path(name) / "token"
        token.write_text(TOKEN, encoding="utf-8")
        timed = TimedExecutor(cluster, Path(name))
        program = Path(__file__).with_name("simulated_agents.py")
        where = ["--connect", f"127.0.0.1:{PORT}", "--token-file", str(token)]
        began = time.perf_counter()
        agents = subprocess.Popen([sys.executable, program, *where, "--cluster", given.cluster])
        try:
            timed.wait(NodeJoined, len(cluster.nodes))
            print(f"{len(cluster.nodes)} agents joined in {time.perf_counter() - began:.1f} s")
            show("started, one after another", timed.started_after(ONE_BY_ONE, at_once=False))
            began = time.perf_counter()
            show(f"started, {given.jobs} at once", timed.started_after(given.jobs, at_once=True))
            print(f"started and ended {given.jobs} in {time.perf_counter() - began:.1f} s")
        finally:
            agents.kill()
            agents.wait()
            timed.executor.close()


if __name__ == "__main__":
    main()
