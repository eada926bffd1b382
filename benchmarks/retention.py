"""How large a store stays that forgets: python benchmarks/retention.py [--jobs 40000] [--keep 6]

A real controller serves ``--jobs`` jobs on ``--nodes`` nodes of 8 GPUs, one in each cycle (attempts are
simulated, as in benchmarks/live_cycles.py), on a clock that goes ten seconds a cycle; the store keeps what
was over less than ``--keep`` hours ago. Prints the size of the store after each tenth with and without that,
and how long the longest transaction took in which something was forgotten: the server does not write then.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from live_cycles import SimulatedAttempts, SimulatedExecutor, request
from sqlalchemy import Connection, Engine, event

from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import Header
from volvelle.live.control.clock import Clock
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Submit
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.store import Store
from volvelle.model.cluster import parse_cluster

CYCLE_SECONDS = 10.0
AT_ONCE = 200
"""Cycles between two times at which something is forgotten."""


class LongestTransaction:
    """How many seconds the longest transaction took so far, of a database that is only pruned meanwhile."""

    def __init__(self) -> None:
        self.seconds = self._began = 0.0

    @contextmanager
    def watched(self, engine: Engine) -> Iterator[None]:
        """Time the transactions of ``engine``."""
        event.listen(engine, "begin", self._begin)
        event.listen(engine, "commit", self._commit)
        try:
            yield
        finally:
            event.remove(engine, "begin", self._begin)
            event.remove(engine, "commit", self._commit)

    def _begin(self, connection: Connection) -> None:
        self._began = time.perf_counter()

    def _commit(self, connection: Connection) -> None:
        self.seconds = max(self.seconds, time.perf_counter() - self._began)


def serve(folder: Path, nodes: int, jobs: int, keep_hours: float | None) -> list[float]:
    """Serve so many jobs; the size of the store after each tenth, in MB."""
    now, rng, agents = [1e9], random.Random(1), SimulatedAttempts()
    cluster = parse_cluster(f"{nodes}x8")
    written = WrittenComposition("fifo", "consolidated", "accept-all", "declared")
    header = Header(volvelle="benchmark", cluster=cluster, composition=written)
    store = Store.open(str(folder / "store.db"))
    context = ExecutorContext(cluster, folder, "")
    clock = Clock(wall=lambda: now[0], monotonic=lambda: now[0])
    controller = Controller(store, header, SimulatedExecutor(agents=agents), context, clock)
    controller.open()
    controller.step()
    sizes, forgetting, longest = [], 0.0, LongestTransaction()
    for number in range(jobs):
        now[0] += CYCLE_SECONDS
        controller.request(Submit("ada", request(rng)))
        if len(agents.running) >= nodes:
            agents.finish(rng.choice(list(agents.running)))
        controller.step()
        if keep_hours is not None and number % AT_ONCE == 0:
            began = time.process_time()
            until = controller._cycle.state.last_time - 3600.0 * keep_hours
            with longest.watched(store._database.engine):
                while store.prune(until, frozenset(agents.running)):
                    pass
            forgetting += time.process_time() - began
        if (number + 1) % (jobs // 10) == 0:
            sizes.append((folder / "store.db").stat().st_size / 1e6)
    if keep_hours is not None:
        print(
            f"forgetting took {1e6 * forgetting / jobs:.0f} us of processor time a job, the longest "
            f"transaction {1e3 * longest.seconds:.0f} ms"
        )
    controller._loop._snapshots.close(None)
    store.close()
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--keep", type=float, default=6.0, help="hours")
    given = parser.parse_args()
    for keep in (None, given.keep):
        with tempfile.TemporaryDirectory() as folder:
            sizes = serve(Path(folder), given.nodes, given.jobs, keep)
        kept = "all is kept" if keep is None else f"{keep:g} hours are kept"
        print(f"{kept}: {', '.join(f'{size:.0f}' for size in sizes)} MB", flush=True)


if __name__ == "__main__":
    main()
