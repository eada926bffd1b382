"""The jobs of Chronus' simulator with the costs that it charges, and its results."""

import csv
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from volvelle.core.composition import WrittenComposition
from volvelle.metrics import deadlines, promises
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

TRACE = Path("data") / "philly-chronus" / "trace_job_Philly_MIX2.csv"
RESULTS = Path("golden") / "chronus"
START = 30.0
"""Seconds that a resume costs on one GPU; 1 + log2 GPUs times as much on more."""
_MOST_VALUE = 10.0


@dataclass(frozen=True)
class Figures:
    """Of one run: reward missed (their wDMR), best effort's mean JCT in minutes, guarantees given, broken."""

    missed: float
    best_effort_minutes: float
    promised: int
    broken: int

    @classmethod
    def of(cls, outcomes: Outcomes) -> "Figures":
        """Rewards count as in the simulator: one minus the value of the best step, of ten."""
        slo = np.array([bool(spec.rewards) for spec in outcomes.specs])
        earned = deadlines.earned_value(outcomes)[slo]
        jct = outcomes.jct[~slo]
        made, broken = promises.promised(outcomes), promises.broken(outcomes)
        return cls(
            float(1.0 - earned.mean() / _MOST_VALUE),
            float(jct.mean() / 60.0),
            int(np.nansum(made)),
            int(np.nansum(broken)),
        )


def chronus_run(
    shared: Path, jobs: int, nodes: int, policy: str, estimator: str = "oracle"
) -> Outcomes:
    """What becomes of the first jobs of MIX2 on nodes of 8 GPUs, which are only counted."""
    composition = WrittenComposition(policy, placement="none", estimator=estimator)
    setting = Setting(
        cluster=parse_cluster(f"{nodes}x8"),
        composition=composition,
        overheads=Overheads(start=START, restore=START),
    )
    return simulate(Workload(mix2_jobs(shared / TRACE)[:jobs]), setting).outcomes


@cache
def mix2_jobs(trace: Path) -> tuple[Job, ...]:
    """The jobs of the file by submission, with the costs that the simulator charges."""
    found = read_trace(trace, "chronus").jobs
    return tuple(_charged(job) for job in sorted(found, key=lambda job: job.spec.submit_time))


def _charged(job: Job) -> Job:
    """A wide job's first start costs more than the world's: the rest of it is work."""
    doublings = math.log2(job.spec.gpus)
    spec = replace(job.spec, restore_seconds=START * (1.0 + doublings), pool="", user="")
    truth = replace(job.truth, work=job.truth.work + START * doublings * job.spec.gpus)
    return replace(job, spec=spec, truth=truth)


def reference_runs(shared: Path) -> dict[tuple[int, int], list[dict[str, str]]]:
    """The rows of the simulator's summary, by how many jobs ran on how many nodes."""
    found: dict[tuple[int, int], list[dict[str, str]]] = {}
    with (shared / RESULTS / "summary.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            nodes = int(row["file"].split("_n")[1].split("_")[0])
            found.setdefault((int(row["jobs"]), nodes), []).append(row)
    return found
