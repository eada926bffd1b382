"""The controller under load: python benchmarks/live_cycles.py [--jobs 5000] [--nodes 1000] [--policy fifo]

Agents are simulated at the protocol's level, in the same process; store, controller and scheduler are real.
The cluster is filled and ``--jobs`` more are queued; then jobs end and are submitted at random, and every
cycle is timed, with forecasts in the background. Prints percentiles in milliseconds, how many submissions a
second are accepted durably by one client that waits for each, and by many, and the processor time for each.
"""

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import Header
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Submit
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptStarted,
    NodeJoined,
    Order,
    Outcome,
    Report,
    Start,
    Stop,
)
from volvelle.live.nodes.executor import Executor, ExecutorContext, OpenExecutor
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.live.store import Store
from volvelle.model.cluster import parse_cluster


class SimulatedExecutor(Executor):
    """An executor whose jobs are only simulated: they run until the benchmark ends them."""

    name: ClassVar[str] = "simulated"

    agents: Any

    def open(self, context: ExecutorContext, report: Callable[[Report], None]) -> OpenExecutor:
        """All nodes join at once."""
        self.agents.report = report
        for node in context.cluster.nodes:
            report(NodeJoined(node=node))
        opened: OpenExecutor = self.agents
        return opened


class SimulatedAttempts:
    """The running attempts, by job."""

    def __init__(self) -> None:
        self.report: Callable[[Report], None] = lambda report: None
        self.running: dict[int, AttemptKey] = {}

    @property
    def logs(self) -> NodeLogs:
        """Jobs that are only simulated write none."""
        raise NotImplementedError

    def send(self, order: Order) -> None:
        """Start or stop at once."""
        if isinstance(order, Start):
            self.running[order.number] = order.key
            self.report(AttemptStarted(*order.key))
        elif isinstance(order, Stop):
            self.running.pop(order.number, None)
            self._ended(order.key, Outcome.STOPPED)

    def finish(self, number: int) -> None:
        """The running attempt of a job has finished."""
        self._ended(self.running.pop(number), Outcome.FINISHED)

    def _ended(self, key: AttemptKey, outcome: Outcome) -> None:
        self.report(AttemptEnded(*key, outcome=outcome))

    def close(self) -> None:
        """Nothing to release."""


def request(rng: random.Random) -> JobRequest:
    """A job of a random width and length."""
    gpus = rng.choice([1, 1, 1, 2, 4, 8])
    return JobRequest(command=("true",), gpus=gpus, estimate=rng.lognormvariate(7.0, 1.5))


def fill(controller: Controller, rng: random.Random, jobs: int) -> float:
    """Submit ``jobs`` at once; seconds until all are accepted."""
    began = time.perf_counter()
    answers = [controller.request(Submit("ada", request(rng))) for _ in range(jobs)]
    for answer in answers:
        answer.result()
    return time.perf_counter() - began


def one_by_one(controller: Controller, rng: random.Random, clients: int, each: int) -> None:
    """Print submissions a second of ``clients`` that wait for each answer."""

    def client(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(each):
            controller.request(Submit("ada", request(rng))).result()

    threads = [threading.Thread(target=client, args=(rng.random(),)) for _ in range(clients)]
    began, before = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = clients * each / (time.perf_counter() - began)
    cpu = (time.process_time() - before) / (clients * each)
    print(
        f"{rate:.0f} submissions a second from {clients} clients, {cpu * 1e3:.2f} ms CPU for each"
    )


def churn(
    controller: Controller, agents: SimulatedAttempts, rng: random.Random, cycles: int
) -> list[float]:
    """Repeatedly end a job and submit another; seconds until it is accepted."""
    seconds = []
    for _ in range(cycles):
        if agents.running:
            agents.finish(rng.choice(list(agents.running)))
        began = time.perf_counter()
        answer: Future[Any] = controller.request(Submit("ada", request(rng)))
        answer.result()
        seconds.append(time.perf_counter() - began)
        time.sleep(rng.random() * 0.02)
    return seconds


def show(name: str, seconds: Sequence[float]) -> None:
    """Percentiles, in milliseconds."""
    p50, p90, p99 = np.percentile(np.array(seconds) * 1e3, (50, 90, 99))
    print(f"{name}: p50 {p50:.1f}  p90 {p90:.1f}  p99 {p99:.1f}  most {max(seconds) * 1e3:.1f} ms")


class ObservationLog:
    """Records the observations of a histogram."""

    def __init__(self, histogram: Any) -> None:
        self.seconds: list[float] = []
        observe = histogram.observe

        def observed(value: float) -> None:
            self.seconds.append(value)
            observe(value)

        histogram.observe = observed


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--policy", default="fifo")
    given = parser.parse_args()
    cluster = parse_cluster(f"{given.nodes}x8")
    written = WrittenComposition(given.policy, "consolidated", "accept-all", "declared")
    agents = SimulatedAttempts()
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(str(Path(folder) / "store.db"))
        header = Header(volvelle="benchmark", cluster=cluster, composition=written)
        context = ExecutorContext(cluster, Path(folder), "")
        controller = Controller(store, header, SimulatedExecutor(agents=agents), context)
        controller.start()
        try:
            measure(controller, agents, given.jobs, given.cycles)
        finally:
            controller.stop()


def measure(controller: Controller, agents: SimulatedAttempts, jobs: int, cycles: int) -> None:
    """Fill the cluster and queue so many jobs, and print what cycles take then."""
    rng = random.Random(1)
    submitted = 0
    while len(controller.status.jobs) - len(agents.running) < jobs:
        fill(controller, rng, 500)
        submitted += 500
    nodes = len(controller.status.nodes)
    print(f"{submitted:,} submitted, {len(agents.running):,} run, {nodes:,} nodes")
    metrics = controller.metrics
    histograms = (metrics.decision, metrics.commit, metrics.cycle, metrics.forecast)
    logs = [ObservationLog(histogram) for histogram in histograms]
    before = time.process_time()
    show("accepted", churn(controller, agents, rng, cycles))
    cpu = time.process_time() - before
    for name, log in zip(("decision", "commit", "cycle", "forecast"), logs, strict=True):
        if log.seconds:
            show(name, log.seconds)
    print(f"{cpu / cycles * 1e3:.2f} ms CPU for an end and a submission, forecasts included")
    one_by_one(controller, rng, 1, 200)
    one_by_one(controller, rng, 32, 50)


if __name__ == "__main__":
    main()
