"""What the experiments on pools with exact knowledge share: clusters of queues, runs, speed-up and harm.

Workloads are those of the paper's appendices A.1 and C (generator ``anticipatory``): bursts into queues that
own 8 GPUs each. Beliefs are true, starts are free, and every run is compared with ``fcfs-pools``, job by job.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.baseline import AgainstBaseline, against
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated
from volvelle.workload.workload import Workload

sys.path.append(str(Path(__file__).parents[1]))
from findings import Claim as Claim  # what all experiments share
from findings import Report as Report
from findings import command_line as command_line

RESULTS = Path(__file__).parent / "results"
REFERENCE = "fcfs-pools"
QUEUE_GPUS = 8

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def cluster(queues: int) -> Cluster:
    """A node of its own for each queue, which lends what it leaves idle."""
    return Cluster(
        tuple(Node(f"node-{n}", QUEUE_GPUS) for n in range(1, queues + 1)),
        tuple(Pool(f"queue-{n}", float(QUEUE_GPUS), lends=True) for n in range(1, queues + 1)),
    )


def bursts(length: str, queues: int, seed: int, extra: str = "") -> Workload:
    """Jobs of so many queues; ``extra`` parameters of the generator begin with a comma."""
    return generated(
        f"anticipatory:length={length},queues={queues}{extra}", seed, None, None
    ).workload


def composition(policy: str) -> WrittenComposition:
    """A policy that is told the truth, on GPUs that are counted."""
    return WrittenComposition(policy, "none", "accept-all", "oracle", "completion")


def happen(jobs: Workload, where: Cluster, policy: str) -> Outcomes:
    """What comes of the jobs under a policy that is told the truth."""
    return simulate(jobs, Setting(cluster=where, composition=composition(policy))).outcomes


class Compared(NamedTuple):
    """A run against its reference.

    speed_up: geometric mean over jobs. mean_jct: mean JCT there over that here. slowed: jobs that are
    later, %. total, worst: harm, seconds.
    """

    speed_up: float
    mean_jct: float
    slowed: float
    total: float
    worst: float

    @classmethod
    def of(cls, compared: AgainstBaseline, mean_jct: float) -> "Compared":
        """The figures of a comparison."""
        return cls(
            compared.mean_speed_up,
            mean_jct,
            100.0 * compared.slowed_fraction,
            compared.total_slowdown_seconds,
            compared.worst_slowdown_seconds,
        )

    @classmethod
    def runs(cls, outcomes: Outcomes, reference: Outcomes) -> "Compared":
        """Of two runs of the same jobs."""
        mean_jct = float(np.nanmean(reference.jct) / np.nanmean(outcomes.jct))
        return cls.of(against(outcomes, reference), mean_jct)


def spread(values: list[float], digits: int = 2) -> str:
    """Median of some values, with the smallest and the largest."""
    low, middle, high = min(values), float(np.median(values)), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"
