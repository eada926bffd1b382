"""What the experiments on Philly's pools share: jobs, draws of pools as in section 6.1, what trains them.

Six virtual clusters of Philly (traces of PCS' artifact) stand in for the pools of the paper's provider. Jobs
submitted before `SPLIT` train predictors; runs are of jobs that came later. Durations above three days are
cut to three, so that a run of days has an end.
"""

import csv
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.systems.anticipatory.arrivals import before
from volvelle.systems.anticipatory.past import Earlier
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import SHARED
from findings import Claim as Claim
from findings import Report as Report
from findings import command_line as command_line

RESULTS = Path(__file__).parent / "results"
DAY = 86400.0
SPLIT = 45 * DAY
"""Seconds from the beginning of each trace."""
LAST = 85 * DAY
LONGEST = 3 * DAY

Floats = NDArray[np.float64]


class Jobs(NamedTuple):
    """Columns in order of submission: seconds, GPUs, seconds, index into ``names``."""

    submit: Floats
    gpus: Floats
    seconds: Floats
    pool: NDArray[np.int64]
    names: tuple[str, ...]

    def between(self, first: float, last: float) -> "Jobs":
        """Those submitted from ``first`` on, before ``last``."""
        mine = (self.submit >= first) & (self.submit < last)
        submit, gpus, seconds = self.submit[mine], self.gpus[mine], self.seconds[mine]
        return Jobs(submit, gpus, seconds, self.pool[mine], self.names)


def philly() -> Jobs:
    """All six pools; ends the program where they are absent."""
    files = sorted((SHARED / "data" / "philly-pcs").glob("trace_??????.csv"))
    if not files:
        raise SystemExit("skipped: this experiment needs the Philly traces of PCS' artifact")
    rows = []
    for pool, path in enumerate(files):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                gpus = float(row["num_jobs"])
                seconds = min(max(float(row["service"]) / gpus, 1.0), LONGEST)
                rows.append((float(row["submit_time"]), gpus, seconds, pool))
    rows.sort(key=lambda row: row[0])
    table = np.array(rows)
    names = tuple(path.stem.removeprefix("trace_") for path in files)
    return Jobs(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.int64), names)


class Draw(NamedTuple):
    """A cluster of pools and their jobs; those numbered from ``first`` on are measured.

    earlier: what came to each pool before.
    """

    cluster: Cluster
    workload: Workload
    first: int
    earlier: dict[str, Earlier]


def draw(
    jobs: Jobs,
    seed: int,
    pools: int,
    days: float,
    warm_up: float,
    scale: float = 1.0,
    server: int = 0,
) -> Draw:
    """Pools at random, each a stretch of its trace after the split, with a load between 0.6 and 1.1.

    A pool owns what its load needs times ``scale``, at least as much as its widest job. server: GPUs of each
    server, if it matters where jobs stand: pools own whole servers, and jobs wider than one are left out
    (section 6.4). 0: GPUs are counted.
    """
    rng = np.random.default_rng(seed)
    found: list[tuple[float, float, float, str]] = []
    owned, earlier = [], {}
    for pool in sorted(rng.choice(len(jobs.names), pools, replace=False).tolist()):
        load, begin = rng.uniform(0.6, 1.1), rng.uniform(SPLIT, LAST - days * DAY)
        mine = jobs.between(begin, begin + days * DAY)
        here = (mine.pool == pool) & (mine.gpus <= (server or np.inf))
        area = float((mine.gpus * mine.seconds)[here].sum()) / (days * DAY)
        widest = float(mine.gpus[here].max(initial=1.0))
        name = jobs.names[pool]
        earlier[name] = before(*jobs, begin)[name]
        quota = max(round(area / load * scale), widest)
        if server:
            quota = max(round(quota / server), 1) * server
        owned.append(Pool(name, quota, lends=True))
        columns = (mine.submit[here] - begin, mine.gpus[here], mine.seconds[here])
        found += [(*row, name) for row in zip(*(each.tolist() for each in columns), strict=True)]
    found.sort(key=lambda row: row[0])
    made = tuple(
        Job(
            JobSpec(id=f"job-{number}", submit_time=submit, gpus=gpus, pool=name),
            Truth(work=seconds * gpus),
        )
        for number, (submit, gpus, seconds, name) in enumerate(found)
    )
    total = int(sum(pool.quota or 0.0 for pool in owned))
    first = sum(submit < warm_up * DAY for submit, *_ in found)
    nodes = [Node("gpus", total)]
    if server:
        nodes = [Node(f"server-{at}", server) for at in range(total // server)]
    return Draw(Cluster(tuple(nodes), tuple(owned)), Workload(made), first, earlier)
