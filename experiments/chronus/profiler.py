"""How large the profiling partition is: fixed sizes and the rule that follows arrivals (figure 6 a).

The first jobs of the file, as many as one in ``thin``, with its deadlines, on 48 nodes for 1,000 of them. All
run first on some of these nodes for 300 s at most; chronus believes what is measured there. The rule gives
the partition the GPUs that came in the last hour's 300 s on average (section 3.2.3), between the least and
the largest size.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from chronus_study import Claim, Figures, Report, options, outcomes_of, percent, workload

from volvelle.metrics import profiling
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Profiling
from volvelle.model.units import HOUR, MINUTE
from volvelle.workload.workload import Workload

SHARES = (1 / 12, 1 / 8, 1 / 6, 1 / 4)
"""Of the nodes."""
JOBS_PER_NODE = 1000 / 48
MOST = 10.0
"""What a job of the file earns at best."""
RULE, OFTEN = "by the rule", "by the rule, every 10 min"


class _Page(NamedTuple):
    """What it is to show."""

    out: Path
    setting: str


def main() -> None:
    given = options(__doc__, thin=30)
    every = tuple(workload(given.whole, None))
    few = every[: max(len(every) // given.thin, 1)]
    nodes = max(round(len(few) / JOBS_PER_NODE), 8)
    sizes = sorted({max(round(share * nodes), 1) for share in SHARES})
    partitions = {f"{size} nodes": Profiling(size) for size in sizes}
    partitions[RULE] = Profiling(sizes[0], most_nodes=sizes[-1])
    partitions[OFTEN] = Profiling(sizes[0], most_nodes=sizes[-1], resize_every=10 * MINUTE)
    jobs = Workload([job for job in few if job.spec.gpus <= 4 * nodes], "MIX2")
    page = _Page(given.out, f"the first {len(jobs):,} jobs of MIX2, {nodes} nodes of 8 GPUs")
    report = Report(
        "profiler", "The size of the profiling partition (section 5.1, figure 6 a)", page
    )
    ran = {
        name: outcomes_of(
            jobs,
            8 * nodes,
            "chronus",
            estimator="profiled",
            placement="consolidated",
            profiling=partition,
        )
        for name, partition in partitions.items()
    }
    found = {name: (Figures.of(outcomes, MOST), _waits(outcomes)) for name, outcomes in ran.items()}
    report.table(
        ("partition", "wDMR", "mean wait for a profile"),
        [
            (
                name,
                percent(f.missed),
                f"{wait:.0f} s",
            )
            for name, (f, wait) in found.items()
        ],
    )
    fixed = [found[name] for name in partitions if name not in (RULE, OFTEN)]
    missed = [f.missed for f, _ in fixed]
    waits = [wait for _, wait in fixed]
    ruled, ruled_wait = found[RULE]
    report.claims(
        [
            Claim(
                "6 (a): too large a partition misses more",
                f"{percent(missed[-1])} with the largest, {percent(min(missed))} with the best",
                missed[-1] > min(missed),
            ),
            Claim(
                "6 (a): too small a partition lets jobs wait for it",
                f"{waits[0]:.0f} s with the smallest, {waits[-1]:.0f} s with the largest",
                waits[0] > waits[-1],
            ),
            Claim(
                "6 (a): the rule misses least (5.0 %)",
                f"{percent(ruled.missed)}; the best fixed size {percent(min(missed))}",
                ruled.missed <= min(missed),
            ),
            Claim(
                "6 (a): with the rule jobs wait 32 s for a profile",
                f"{ruled_wait:.0f} s",
                ruled_wait <= 32.0,
            ),
        ]
    )
    report.say(
        f"Why the rule is not best here: these jobs come within {jobs.submit_times[-1] / HOUR:.1f} h, in the "
        "first of which the partition has its least size, since the rule is applied once an hour. Applied "
        "every ten minutes (the last row) it misses least of all. What a partition takes is missing in "
        "the main cluster, and a profile of a job that goes on is thrown away (decision 39). No job of the "
        "file lasts less than 20 minutes, so none ends on the partition, and figure 6 (c) cannot be tried."
    )
    report.runs(
        ("partition", "jobs", "promised", "broken", "wait_seconds", "best_effort_hours", "wdmr"),
        [
            (name, f.jobs, f.promised, f.broken, repr(wait), repr(f.best_effort), repr(f.missed))
            for name, (f, wait) in found.items()
        ],
    )
    report.close()


def _waits(outcomes: Outcomes) -> float:
    """Seconds, on average."""
    return float(np.nanmean(profiling.wait(outcomes)))


if __name__ == "__main__":
    main()
