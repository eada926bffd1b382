"""Optimistic and central renewal of leases after Blox' figure 19: python benchmarks/lease_renewal.py

For more and more GPUs, eight a node, real agents run one job a node. A worker for each GPU checks its lease
after every iteration of about 100 ms: optimistically, in its control block (`volvelle.client`); centrally, by
asking its agent, which asks the agents server. Prints how long a check takes. Everything shares one
machine, on whose cores agents, server and workers wait for each other: its times are not a cluster's.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import msgspec
import numpy as np

from volvelle.client.lease import Lease
from volvelle.client.process_context import ProcessContext
from volvelle.live.agent.central_renewal import CentralRenewalClient
from volvelle.live.agent.files import write_file
from volvelle.live.agent.folders import AgentFolder, AgentSettings
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptStarted,
    Grant,
    Launch,
    NodeJoined,
    Report,
    Start,
    Stop,
)
from volvelle.live.nodes.agents_server import AgentsServer
from volvelle.live.nodes.node_keys import GivenKeys
from volvelle.model.node import Node

GPUS_OF_A_NODE = 8
ITERATION_SECONDS = 0.1
TOKEN = "of this benchmark"


def optimistic(folder: Path, number: int) -> Callable[[], bool]:
    """A worker's check in its control block."""
    run = AgentFolder(folder).attempt(AttemptKey(number, 1)).path
    lease = Lease(ProcessContext.from_environment({"VOLVELLE_RUN": str(run)}))
    return lambda: not lease.iteration_done(1, 1)


def central(folder: Path, number: int) -> Callable[[], bool]:
    """A worker's check that the agents server answers."""
    return CentralRenewalClient(folder, AttemptKey(number, 1)).is_valid


WAYS = {"optimistic": optimistic, "central": central}


def seconds_of_checks(way: str, folders: list[Path], seconds: float) -> list[float]:
    """How long each check took of workers on the nodes whose agents have these folders."""
    taken: list[float] = []

    def work(is_valid: Callable[[], bool]) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            time.sleep(ITERATION_SECONDS * random.uniform(0.5, 1.5))
            began = time.perf_counter()
            valid = is_valid()
            taken.append(time.perf_counter() - began)
            assert valid

    checks = [
        WAYS[way](folder, number)
        for number, folder in enumerate(folders)
        for _ in range(GPUS_OF_A_NODE)
    ]
    workers = [threading.Thread(target=work, args=(check,)) for check in checks]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return taken


def wait(reports: "SimpleQueue[Report]", kind: type[Report], count: int) -> None:
    """Until so many reports of a kind have come."""
    while count:
        count -= isinstance(reports.get(timeout=60), kind)


def measure(gpus: int, seconds: float) -> None:
    """Print a line for each way of renewal."""
    nodes = [Node(f"node-{index}", GPUS_OF_A_NODE) for index in range(gpus // GPUS_OF_A_NODE)]
    reports: SimpleQueue[Report] = SimpleQueue()
    keys = GivenKeys(TOKEN)
    server = AgentsServer(nodes, keys, reports.put)
    agents: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / node.name for node in nodes]
        try:
            for node, folder in zip(nodes, folders, strict=True):
                connect = f"127.0.0.1:{server.port}"
                settings = AgentSettings(
                    node=node, connect=connect, key=keys.key(node.name), central_renewal=True
                )
                AgentFolder(folder)
                write_file(folder / "agent.json", msgspec.json.encode(settings))
                command = [sys.executable, "-m", "volvelle.live.agent", str(folder)]
                agents.append(subprocess.Popen(command))
            wait(reports, NodeJoined, len(nodes))
            for number, node in enumerate(nodes):
                grants = (Grant(node.name, tuple(range(GPUS_OF_A_NODE))),)
                launch = Launch(command=("sleep", "1000"))
                server.send(
                    Start(number=number, attempt=1, user="dana", grants=grants, launch=launch)
                )
            wait(reports, AttemptStarted, len(nodes))
            for way in WAYS:
                with ProcessPoolExecutor(1) as elsewhere:
                    taken = elsewhere.submit(seconds_of_checks, way, folders, seconds).result()
                p50, p99 = np.percentile(taken, [50, 99]) * 1e3
                print(
                    f"{gpus:5} GPUs {way:12} {p50:9.4f} ms p50 {p99:9.4f} ms p99 {len(taken):7} checks"
                )
            for number, _ in enumerate(nodes):
                server.send(Stop(number, 1, kill=True))
            wait(reports, AttemptEnded, len(nodes))
        finally:
            for agent in agents:
                agent.kill()
                agent.wait()
            server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256])
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    for gpus in given.gpus:
        measure(gpus, given.seconds)


if __name__ == "__main__":
    main()
