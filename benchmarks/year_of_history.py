"""How long a start takes after a long past: python benchmarks/year_of_history.py [--past 10000000]

A real controller fills a store with ``--jobs`` jobs on ``--cluster`` (attempts are simulated, as in
benchmarks/live_cycles.py), of which some end, and is killed. Its journal begins at entry ``--past``; those
before are put into the store as copies of its own, with one job that is over for each ten of them. Then
`volvelle serve` is started on it, and is ready once ``/readyz`` says so. Prints the seconds and the
processor time until then, and the size of the store.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from live_cycles import SimulatedAttempts, SimulatedExecutor, request

from volvelle.core.composition import WrittenComposition
from volvelle.core.journal import Header
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Submit
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.store import Store
from volvelle.model.cluster import parse_cluster

CONFIG = """
cluster = "{cluster}"
policy = "{policy}"
estimator = "declared"
executor = "dial-in:port={port}"

[listen]
port = 0
"""


EVENTS_OF_A_JOB = 10
STEADY = 3500
"""Cycles in which a job is submitted and another ends."""


def fill(path: Path, cluster: str, policy: str, jobs: int, past: int) -> int:
    """A store with so many jobs in the system, whose server was killed; its last entry."""
    made = parse_cluster(cluster)
    written = WrittenComposition(policy, "consolidated", "accept-all", "declared")
    header = Header(volvelle="benchmark", cluster=made, composition=written)
    agents, rng = SimulatedAttempts(), random.Random(1)
    context = ExecutorContext(made, path.parent, "")
    store = Store.open(str(path))
    controller = Controller(store, header, SimulatedExecutor(agents=agents), context)
    controller.open()
    state = controller._cycle.state
    state.next_seq, state.next_number = past, past // EVENTS_OF_A_JOB
    controller.step()
    for width in [20] * (jobs // 20) + [1] * STEADY:
        for _ in range(width):
            controller.request(Submit("ada", request(rng)))
        if width == 1:
            agents.finish(rng.choice(list(agents.running)))
        controller.step()
    controller._loop._snapshots.close(None)
    store.close()
    return state.next_seq - 1


def put_before(path: Path, past: int) -> int:
    """Put ``past`` entries before those that are there, and the jobs that they are of; how many events."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous=OFF", "journal_mode=MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("begin")
    query = (
        "select time, body, records, digest from entries where seq > 0 order by seq desc limit 500"
    )
    rows = connection.execute(query).fetchall()
    connection.executemany(
        "insert into entries (seq, time, body, records, digest) values (?, ?, ?, ?, ?)",
        ((seq, *rows[seq % len(rows)]) for seq in range(1, past)),
    )
    over = connection.execute("select * from jobs where state is not null limit 100").fetchall()
    marks = ", ".join("?" * len(over[0]))
    connection.executemany(
        f"insert into jobs values ({marks})",
        ((number, *over[number % len(over)][1:]) for number in range(past // EVENTS_OF_A_JOB)),
    )
    connection.execute("commit")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    events = sum(len(json.loads(body)["events"]) for _, body, _, _ in rows)
    return past * events // len(rows)


def start(folder: Path, config: str) -> tuple[float, float]:
    """Start a server and stop it again: seconds and processor time until it is ready."""
    (folder / "cluster.toml").write_text(config)
    command = [sys.executable, "-m", "volvelle.cli.main", "serve", "--config", "cluster.toml"]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    address = folder / "volvelle-serve" / "server.json"
    while not _is_ready(address):
        if process.poll() is not None:
            sys.exit("the server has ended")
        time.sleep(0.01)
    wall = time.perf_counter() - began
    ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    process.send_signal(signal.SIGTERM)
    process.wait()
    return wall, (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def _is_ready(address: Path) -> bool:
    try:
        url = json.loads(address.read_text())["url"]
        return bool(urllib.request.urlopen(f"{url}/readyz").status == 200)
    except (OSError, ValueError):
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--past", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--cluster", default="1000x8")
    parser.add_argument("--policy", default="fifo")
    parser.add_argument(
        "--port", type=int, default=28422, help="for agents, none of which connects"
    )
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "volvelle-serve" / "store.db"
        path.parent.mkdir()
        last = fill(path, given.cluster, given.policy, given.jobs, given.past)
        events = put_before(path, given.past)
        connection = sqlite3.connect(path)
        ((taken,),) = connection.execute("select coalesce(max(seq), -1) from snapshots")
        ((body,),) = connection.execute("select coalesce(max(length(body)), 0) from snapshots")
        ((live,),) = connection.execute("select count(*) from jobs where state is null")
        connection.close()
        print(
            f"{live:,} jobs in the system, {events:,} events in {last:,} entries, {last - taken:,} behind "
            f"the latest snapshot of {body / 1e6:.1f} MB, {path.stat().st_size / 1e9:.2f} GB"
        )
        config = CONFIG.format(cluster=given.cluster, policy=given.policy, port=given.port)
        for which in range(given.times):
            wall, cpu = start(folder, config)
            after = "a kill" if which == 0 else "a stop"
            print(f"ready after {after}: {wall:.2f} s, {cpu:.2f} s processor time", flush=True)


if __name__ == "__main__":
    main()
