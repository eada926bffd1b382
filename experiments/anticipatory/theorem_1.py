"""Theorem 1 (SIA, section 5.1): random workloads, of which no job may end later than with its pool alone.

Pools of any size lend all they have; jobs are of any width up to their pool's and of lengths that differ a
hundredfold, and come in bursts. Once GPUs are counted, and once gangs have to stand together on nodes of
different sizes (``locality``), where the pool alone on its nodes is the reference. Starts cost nothing or two
seconds; decisions are made at events or at multiples of 7.5 s.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pools_study import RESULTS, Claim, Report, command_line

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.baseline import against
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

SECONDS = (1 / 3, 1.0, 2.5, 7.0, 10.0, 12.3, 30.0, 100.0, 250.0)
GAPS = (0.0, 0.0, 0.1, 1.0, 5.0, 33.3, 120.0)


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    workloads: int
    out: Path

    @property
    def setting(self) -> str:
        """In words, for the results."""
        return f"{self.workloads:,} random workloads, each counted and on nodes"


def main() -> None:
    workloads = {"workloads": (3000, "how many, of each kind")}
    given = Options(**vars(command_line(__doc__, RESULTS, workloads)))
    report = Report("theorem_1", "Nobody is harmed (SIA, theorem 1)", given)
    rows, claims, made = [], [], []
    for kind, placement, parameter in (
        ("GPUs counted", "none", ""),
        ("gangs on nodes", "consolidated", "locality=true"),
    ):
        draw = random.Random(kind)
        slowed, jobs, gains = 0, 0, []
        for number in range(given.workloads):
            cluster, workload = _drawn(draw)
            start, period = draw.choice((0.0, 0.0, 2.0)), draw.choice(("", "", "round=7.5"))
            chosen = ",".join(part for part in (parameter, period) if part)
            alone, ahead = (
                _run(policy + (f":{chosen}" if chosen else ""), placement, cluster, workload, start)
                for policy in ("fcfs-pools", "anticipatory-vc")
            )
            compared = against(ahead, alone)
            assert compared.compared == len(workload)
            slowed, jobs = slowed + compared.slowed, jobs + len(workload)
            gains.append(compared.mean_speed_up)
            made.append((kind, number, len(workload), compared.slowed, repr(gains[-1])))
        rows.append(
            (kind, f"{jobs:,}", f"{slowed}", f"{np.mean(gains):.2f}", f"{np.max(gains):.1f}")
        )
        claims.append(
            Claim(f"no job is slowed ({kind})", f"{slowed} of {jobs:,} jobs", slowed == 0)
        )
    report.table(("", "jobs", "slowed", "mean speed-up of a workload", "largest"), rows)
    report.claims(claims)
    report.runs(("kind", "workload", "jobs", "slowed", "speed_up"), made)
    report.close()


def _drawn(draw: random.Random) -> tuple[Cluster, Workload]:
    """One to four pools, on nodes of one to eight GPUs, some of which nobody may own; up to forty jobs."""
    quotas = [draw.randint(1, 12) for _ in range(draw.randint(1, 4))]
    left = sum(quotas) + draw.choice((0, 0, 1, 3))
    nodes: list[Node] = []
    while left:
        gpus = min(left, draw.choice((1, 2, 4, 4, 8)))
        nodes.append(Node(f"node-{len(nodes)}", gpus))
        left -= gpus
    pools = tuple(Pool(f"pool-{n}", float(quota), lends=True) for n, quota in enumerate(quotas))
    jobs, time = [], 0.0
    for number in range(draw.randint(2, 40)):
        time += draw.choice(GAPS)
        owner = draw.randrange(len(quotas))
        gang = float(draw.choice((1, draw.randint(1, quotas[owner]))))
        spec = JobSpec(id=str(number), submit_time=time, gpus=gang, pool=pools[owner].name)
        jobs.append(Job(spec, Truth(work=gang * draw.choice(SECONDS))))
    return Cluster(tuple(nodes), pools), Workload(jobs)


def _run(policy: str, placement: str, cluster: Cluster, jobs: Workload, start: float) -> Outcomes:
    composition = WrittenComposition(policy, placement, "accept-all", "oracle", "completion")
    costs = Overheads(start=start)
    return simulate(
        jobs, Setting(cluster=cluster, composition=composition, overheads=costs)
    ).outcomes


if __name__ == "__main__":
    main()
