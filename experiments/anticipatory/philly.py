"""What the experiments on Philly's pools share: jobs, draws of pools as in section 6.1, what trains them.

Six virtual clusters of Philly (traces of PCS' artifact) stand in for the pools of the paper's provider. Jobs
submitted before `SPLIT` train predictors; runs are of jobs that came later. Durations above three days are
cut to three, so that a run of days has an end.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
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
    """Columns in order of submission: seconds, GPUs, seconds, index into ``names``.

    split: jobs before it train predictors, draws begin after it and end by ``last``; seconds. title: of the
    pools, in words.
    """

    submit: Floats
    gpus: Floats
    seconds: Floats
    pool: NDArray[np.int64]
    names: tuple[str, ...]
    split: float = SPLIT
    last: float = LAST
    title: str = "six virtual clusters of Philly"

    @classmethod
    def of(cls, rows: list[tuple[float, float, float, int]], names: Sequence[str]) -> "Jobs":
        """Of submission, GPUs, seconds and pool, in any order; durations are cut to `LONGEST`."""
        table = np.array(sorted(rows))
        seconds = np.clip(table[:, 2], 1.0, LONGEST)
        return cls(table[:, 0], table[:, 1], seconds, table[:, 3].astype(np.int64), tuple(names))

    def between(self, first: float, last: float) -> "Jobs":
        """Those submitted from ``first`` on, before ``last``."""
        mine = (self.submit >= first) & (self.submit < last)
        submit, gpus, seconds = self.submit[mine], self.gpus[mine], self.seconds[mine]
        return self._replace(submit=submit, gpus=gpus, seconds=seconds, pool=self.pool[mine])


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
                rows.append((float(row["submit_time"]), gpus, float(row["service"]) / gpus, pool))
    return Jobs.of(rows, [path.stem.removeprefix("trace_") for path in files])


def philly_two_weeks() -> Jobs:
    """Philly's jobs of two weeks of October 2017 (artifact of Chronus), by virtual cluster.

    The file's virtual clusters are alike: it has 2,700 to 2,900 jobs for each of eleven.
    """
    rows, names = [], dict[str, int]()
    for row in _table("philly-chronus", "trace_job_Philly_MIX2.csv"):
        pool = names.setdefault(row["user"], len(names))
        gpus, seconds = float(row["num_gpu"]), 60.0 * float(row["duration"])
        if gpus:
            rows.append((60.0 * float(row["submit_time"]), gpus, seconds, pool))
    title = "eleven virtual clusters of two weeks of Philly, as in the artifact of Chronus"
    return Jobs.of(rows, list(names))._replace(split=7.0 * DAY, last=14.0 * DAY, title=title)


def openb() -> Jobs:
    """Alibaba's pods of 2023 with GPUs, which ended or were stopped by the trace's end.

    Pools: class of service, whole GPUs or parts. A part of a GPU counts as a whole one.
    """
    rows, names = [], dict[str, int]()
    for row in _table("openb", "openb_pod_list_default.csv"):
        gpus, began, ended = float(row["num_gpu"]), row["scheduled_time"], row["deletion_time"]
        if gpus and began and ended:
            kind = "whole" if row["gpu_milli"] == "1000" else "part"
            pool = names.setdefault(f"{row['qos']}-{kind}", len(names))
            rows.append((float(row["creation_time"]), gpus, float(ended) - float(began), pool))
    title = f"{len(names)} classes of service of Alibaba's openb"
    return Jobs.of(rows, list(names))._replace(split=132.0 * DAY, last=149.0 * DAY, title=title)


def _table(folder: str, file: str) -> Iterator[dict[str, str]]:
    path = SHARED / "data" / folder / file
    if not path.is_file():
        raise SystemExit(f"skipped: this experiment needs {file} of {folder}")
    with path.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


TRACES = {"philly": philly, "philly-two-weeks": philly_two_weeks, "openb": openb}


class Draw(NamedTuple):
    """A cluster of pools and their jobs; those numbered from ``first`` on are measured.

    earlier: what came to each pool before.
    """

    seed: int
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
    without: int = 0,
) -> Draw:
    """Pools at random, each a stretch of its trace after the split, with a load between 0.6 and 1.1.

    A pool owns what its load needs times ``scale``, at least as much as its widest job. server: GPUs of each
    server, if it matters where jobs stand: pools own whole servers, and jobs wider than one are left out
    (section 6.4). 0: GPUs are counted. without: pools with the most idle GPUs that are left out (table 17).
    """
    rng = np.random.default_rng(seed)
    found: list[tuple[float, float, float, str]] = []
    owned, earlier, idle = [], {}, dict[str, float]()
    for pool in sorted(rng.choice(len(jobs.names), pools, replace=False).tolist()):
        load, begin = rng.uniform(0.6, 1.1), rng.uniform(jobs.split, jobs.last - days * DAY)
        mine = jobs.between(begin, begin + days * DAY)
        here = (mine.pool == pool) & (mine.gpus <= (server or np.inf))
        area = float((mine.gpus * mine.seconds)[here].sum()) / (days * DAY)
        widest = float(mine.gpus[here].max(initial=1.0))
        name = jobs.names[pool]
        earlier[name] = before(*jobs[:5], begin)[name]
        quota = max(round(area / load * scale), widest)
        if server:
            quota = max(round(quota / server), 1) * server
        idle[name] = quota - area
        owned.append(Pool(name, quota, lends=True))
        columns = (mine.submit[here] - begin, mine.gpus[here], mine.seconds[here])
        found += [(*row, name) for row in zip(*(each.tolist() for each in columns), strict=True)]
    shared = sorted(idle, key=lambda name: idle[name])[: pools - without]
    owned = [pool for pool in owned if pool.name in shared]
    found = sorted((row for row in found if row[-1] in shared), key=lambda row: row[0])
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
    return Draw(seed, Cluster(tuple(nodes), tuple(owned)), Workload(made), first, earlier)
