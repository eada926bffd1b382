"""Blox, section 5.3 (table 4): links within a node where jobs are on up to four GPUs.

As in `bandwidth`, with jobs on one to four GPUs in several mixes, as much work in all. The paper says its
policy "maximizes the aggregate bandwidth" of a job and reports the bandwidth observed, not saying how that
is summed: here per pair of a job's GPUs, and in the aggregate, all pairs of a job together.
"""

import itertools
from functools import partial

import msgspec
import numpy as np
from bandwidth import (
    AWARE,
    MATRICES,
    NODE_GPUS,
    PAPER,
    PLACEMENTS,
    RATE,
    Links,
    cluster_of,
    decided_by,
)
from study import ROUND, Case, Claim, Options, Report, each_job, mean, options, philly, run, setting

from volvelle.metrics.outcomes import Outcomes
from volvelle.model.job import Job
from volvelle.workload.workload import Workload

MIXES: dict[str, tuple[float, ...]] = {
    "70, 15, 0, 15 %": (0.7, 0.15, 0.0, 0.15),
    "25 % each": (0.25, 0.25, 0.25, 0.25),
    "0, 50, 50, 0 %": (0.0, 0.5, 0.5, 0.0),
    "0, 50, 0, 50 %": (0.0, 0.5, 0.0, 0.5),
    "50, 0, 50, 0 %": (0.5, 0.0, 0.5, 0.0),
    "0, 80, 10, 10 %": (0.0, 0.8, 0.1, 0.1),
}
"""Shares of the jobs on one, two, three and four GPUs."""
PER_PAIR, AGGREGATE = "per pair", "aggregate"


def main() -> None:
    given = options(__doc__, jobs=1000, seeds=2)
    report = Report(
        "bandwidth_mixes", "Intra-node placement of wider jobs (Blox, section 5.3, table 4)", given
    )
    outcomes = run(_cases(given), given.workers, slots=True)
    found = {
        (matrix, mix, name, str(seed)): observed(
            outcomes[decided_by(matrix, name), mix, name, str(seed)], MATRICES[matrix]
        )
        for matrix, mix, name, seed in itertools.product(MATRICES, MIXES, PLACEMENTS, given.seeds)
    }
    seen = {
        (matrix, mix, name, what): mean([found[matrix, mix, name, str(s)][at] for s in given.seeds])
        for matrix, mix, name in itertools.product(MATRICES, MIXES, PLACEMENTS)
        for at, what in enumerate((PER_PAIR, AGGREGATE))
    }
    claims = []
    for what in (PER_PAIR, AGGREGATE):
        report.say(f"Links observed, {what}, by the jobs on one, two, three and four GPUs:")
        rows = []
        for matrix, mix in itertools.product(MATRICES, MIXES):
            links = {name: seen[matrix, mix, name, what] for name in PLACEMENTS}
            ratios = [links[AWARE] / links[name] for name in ("random", "first")]
            rows.append((matrix, mix, *(f"{x:.2f}" for x in (*links.values(), *ratios))))
        report.table(
            ("pairs with two links", "mix", *PLACEMENTS, "aware / random", "aware / first"), rows
        )
        claims += [_claim(seen, matrix, what) for matrix in MATRICES]
    report.claims(claims)
    report.say(EXPLAINED)
    report.runs(
        ("pairs with two links", "mix", "placement", "seed", "links_per_pair", "links_of_a_job"),
        [(*key, *map(repr, links)) for key, links in found.items()],
    )
    report.close()


def _cases(given: Options) -> list[Case]:
    return [
        Case(
            (matrix, mix, name, str(seed)),
            partial(_workload, given, mix, seed),
            setting(given, f"fifo:{ROUND}", placement=placement, cluster=cluster_of(links)),
        )
        for matrix, links in MATRICES.items()
        for mix in MIXES
        for name, placement in PLACEMENTS.items()
        for seed in given.seeds
        if decided_by(matrix, name) == matrix
    ]


def _workload(given: Options, mix: str, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    widths = rng.choice(len(MIXES[mix]), given.submitted, p=MIXES[mix]) + 1.0
    return each_job(philly(given.submitted, seed, RATE), partial(_widened, widths.tolist()))


def _widened(widths: list[float], number: int, job: Job) -> Job:
    """On as many GPUs, with as much work."""
    return Job(msgspec.structs.replace(job.spec, gpus=widths[number]), job.truth)


def observed(outcomes: Outcomes, links: Links) -> tuple[float, float]:
    """Mean links of a pair, and of all pairs of a job together, of jobs with several GPUs of one node."""
    segments = outcomes.segments
    each: list[tuple[float, float]] = []
    for first, last in itertools.pairwise(segments.slot_offsets.tolist()):
        slots = segments.slots[first:last]
        if len(slots) > 1 and len(np.unique(slots // NODE_GPUS)) == 1:
            pairs = itertools.combinations((slots % NODE_GPUS).tolist(), 2)
            counts = [links[i][j] for i, j in pairs]
            each.append((float(np.mean(counts)), float(np.sum(counts))))
    per_pair, aggregate = np.mean(each, axis=0)
    return float(per_pair), float(aggregate)


def _claim(seen: dict[tuple[str, str, str, str], float], matrix: str, what: str) -> Claim:
    paper = PAPER[AWARE] / PAPER["random"]
    ratio = {
        mix: seen[matrix, mix, AWARE, what] / seen[matrix, mix, "random", what] for mix in MIXES
    }
    return Claim(
        f"the bandwidth observed is {paper:.2f} times as high ({what}, {matrix} pairs with two links)",
        f"{min(ratio.values()):.2f} to {max(ratio.values()):.2f} times over the mixes",
        max(ratio.values()) >= 0.95 * paper,
    )


EXPLAINED = (
    "Wider jobs leave less to choose: three of four GPUs have one or two pairs of two links whichever "
    "they are, and four have them all. So every mix with them is below the one of pairs alone "
    "([bandwidth](bandwidth.md)), per pair and more so in the aggregate, in which wide jobs, with most "
    "pairs, weigh most."
)

if __name__ == "__main__":
    main()
