"""How long a controller takes to restart: python benchmarks/recovery.py [--jobs 100000] [--cluster 16x8]

A store is filled by a real controller with so many jobs, from submission to end (attempts are simulated, as
in benchmarks/live_cycles.py). Then the state is recovered as after a crash: the whole journal is read, and
each decision is made again. Prints seconds and processor time.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from live_cycles import SimulatedAttempts, SimulatedExecutor, request

from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import Header
from volvelle.live.control.controller import Controller
from volvelle.live.control.recovery import recover_state
from volvelle.live.control.requests import Submit
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.store import Store
from volvelle.model.cluster import parse_cluster


def fill(controller: Controller, agents: SimulatedAttempts, jobs: int) -> None:
    """Submit and end so many jobs; a few always wait."""
    rng = random.Random(1)
    for _ in range(jobs):
        controller.request(Submit("ada", request(rng)))
        if len(controller.status.jobs) > 2 * len(agents.running) and agents.running:
            agents.finish(rng.choice(list(agents.running)))
        controller.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--cluster", default="16x8")
    parser.add_argument("--policy", default="fifo")
    given = parser.parse_args()
    cluster = parse_cluster(given.cluster)
    written = WrittenComposition(given.policy, "consolidated", "accept-all", "declared")
    header = Header(volvelle="benchmark", cluster=cluster, composition=written)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store.db")
        agents = SimulatedAttempts()
        context = ExecutorContext(cluster, Path(folder), "")
        controller = Controller(Store.open(path), header, SimulatedExecutor(agents=agents), context)
        controller.open()
        fill(controller, agents, given.jobs)
        controller.stop()
        began, before = time.perf_counter(), time.process_time()
        store = Store.open(path)
        state = recover_state(store, header, time.time()).state
        wall, cpu = time.perf_counter() - began, time.process_time() - before
        store.close()
        print(
            f"{given.jobs:,} jobs in {state.next_seq:,} entries: {wall:.1f} s, {cpu:.1f} s processor time"
        )


if __name__ == "__main__":
    main()
