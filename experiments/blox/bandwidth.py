"""Blox, section 5.3 (table 4): the links within a node, FIFO and consolidation, at 7 jobs an hour.

On a p3.8xlarge GPUs 0-3 and 1-2 are joined by two NVLinks, the other pairs by one (Blink, MLSys'20). What a
link carries is calibrated, not measured: with `LINK_GBPS` any two GPUs of a node exchange the paper's
58.7 Gbps on average, so that the first row is the paper's by construction, and only the second a result.
Jobs are those of `study` on one or two GPUs. Wider ones have no choice on a node of four, or hardly one.
"""

import itertools
from functools import partial

import msgspec
import numpy as np
from study import (
    CLUSTER,
    ROUND,
    Case,
    Claim,
    Options,
    Report,
    each_job,
    mean,
    options,
    philly,
    run,
    setting,
)

from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.job import Job
from volvelle.workload.workload import Workload

RATE = 7.0
LINKS = ((0, 1, 1, 2), (1, 0, 2, 1), (1, 2, 0, 1), (2, 1, 1, 0))
LINK_GBPS = 44.0
NODE_GPUS = 4
PLACEMENTS = {"random": "consolidated-random", "bandwidth-aware": "bandwidth-aware"}
PAPER = {"random": 58.7, "bandwidth-aware": 86.5}
_WIDE_SHARE = 0.5


def _cluster() -> Cluster:
    matrix = tuple(tuple(LINK_GBPS * links for links in row) for row in LINKS)
    nodes = parse_cluster(CLUSTER).nodes
    return Cluster(tuple(msgspec.structs.replace(node, bandwidth_gbps=matrix) for node in nodes))


def _workload(given: Options, seed: int) -> Workload:
    wide = np.random.default_rng(seed).random(given.submitted) < _WIDE_SHARE
    return each_job(philly(given.submitted, seed, RATE), partial(_widened, wide.tolist()))


def _widened(wide: list[bool], number: int, job: Job) -> Job:
    """On two GPUs for half as long, or as it is."""
    if not wide[number]:
        return job
    return Job(msgspec.structs.replace(job.spec, gpus=2.0), job.truth)


def observed(outcomes: Outcomes) -> float:
    """Mean bandwidth between the GPUs of jobs with several on one node, over their starts."""
    segments = outcomes.segments
    seen: list[float] = []
    for first, last in itertools.pairwise(segments.slot_offsets.tolist()):
        slots = segments.slots[first:last]
        if len(slots) > 1 and len(np.unique(slots // NODE_GPUS)) == 1:
            pairs = itertools.combinations((slots % NODE_GPUS).tolist(), 2)
            seen.append(float(np.mean([LINK_GBPS * LINKS[i][j] for i, j in pairs])))
    return mean(seen)


def main() -> None:
    given = options(__doc__, jobs=2000)
    report = Report("bandwidth", "Intra-node placement (Blox, section 5.3, table 4)", given)
    cluster = _cluster()
    cases = [
        Case(
            (name, str(seed)),
            partial(_workload, given, seed),
            setting(given, f"fifo:{ROUND}", placement=placement, cluster=cluster),
        )
        for name, placement in PLACEMENTS.items()
        for seed in given.seeds
    ]
    found = {key: observed(one) for key, one in run(cases, given.workers, slots=True).items()}
    gbps = {name: mean([found[name, str(seed)] for seed in given.seeds]) for name in PLACEMENTS}
    report.table(
        ("placement on the node", "the paper", "here"),
        [(name, f"{PAPER[name]:g} Gbps", f"{gbps[name]:.1f} Gbps") for name in PLACEMENTS],
    )
    ratio, paper = gbps["bandwidth-aware"] / gbps["random"], 86.5 / 58.7
    report.claims(
        [
            Claim(
                f"the bandwidth observed is {paper:.2f} times as high",
                f"{ratio:.2f} times",
                abs(ratio / paper - 1) <= 0.05,
            )
        ]
    )
    report.say(
        "The ratio is at most that of two links to the mean of all pairs, 2 / (4/3) = 1.5; it is lower as "
        "far as jobs come when no good pair is free on a node that fits them."
    )
    report.runs(
        ("placement", "seed", "gbps"), [(*key, repr(value)) for key, value in found.items()]
    )
    report.close()


if __name__ == "__main__":
    main()
