"""Round-up and local search where placement decides about speed (figures 8 a and b).

A share of MIX2's jobs of 2 to 8 GPUs asks for 3, 5, 6 or 7, which is hostile to consolidation. A job is 20 %
slower for each node beyond the fewest. Guarantees do not know that: those to jobs that are spread may break.
Round-up asks for rounded-up GPUs before it guarantees anything (Eq. 6, ``rounded=true``); a row is without.
"""

from operator import attrgetter

import msgspec
import numpy as np
from chronus_study import Claim, Figures, Options, Report, options, outcomes_of, percent, workload

from volvelle.workload.workload import Workload

HOSTILE = (0.2, 0.4)
SLOWER = 0.2
WHY = (
    "A gang that waits for its place, or is spread, is later than was believed, which breaks guarantees "
    "under every placement. To ask for rounded-up GPUs before anything is guaranteed is what keeps round-up "
    "from missing more than the wait for a place does."
)
ROUND_UP, UNASKED = "round-up", "round-up, not asked for"
PLACEMENTS = {
    "consolidated or wait": ("chronus", "consolidated-strict"),
    ROUND_UP: ("chronus:rounded=true", "round-up"),
    UNASKED: ("chronus", "round-up"),
    "quasi-consolidated": ("chronus", "consolidated"),
    "local search": ("chronus", "local-search"),
}
"""Policy and placement."""
Drawn = dict[tuple[float, str], list[Figures]]
"""By share of hostile jobs and placement, a run for each draw."""


def main() -> None:
    given = options(__doc__, thin=30, seeds=6)
    write(
        given, {(share, name): ran(given, share, name) for share in HOSTILE for name in PLACEMENTS}
    )


def ran(given: Options, share: float, name: str) -> list[Figures]:
    """A placement on every draw."""
    policy, placement = PLACEMENTS[name]
    return [
        Figures.of(
            outcomes_of(
                _hostile(workload(draw, "MIX2"), share, draw.seed),
                draw.gpus,
                policy,
                placement=placement,
            )
        )
        for draw in given.draws
    ]


def write(given: Options, drawn: Drawn) -> None:
    """The page and its runs."""
    report = Report("allocator", "Round-up and local search (section 5.3, figure 8)", given)
    found = {key: Figures.mean(figures) for key, figures in drawn.items()}
    report.say("Means over the draws; guarantees broken are of all together.")
    report.table(
        ("hostile jobs", "placement", "wDMR", "best effort's mean JCT", "guarantees broken"),
        [
            (f"{share:.0%}", name, percent(f.missed), f"{f.best_effort:.2f} h", str(f.broken))
            for (share, name), f in found.items()
        ],
    )

    waits, others = "consolidated or wait", ("consolidated or wait", "quasi-consolidated")

    def gain(share: float) -> float:
        return found[share, waits].missed - found[share, ROUND_UP].missed

    def lead(share: float, quantity: str) -> tuple[float, float]:
        """Local search's figure, and the lowest of the others."""
        of = attrgetter(quantity)
        return of(found[share, "local search"]), min(of(found[share, other]) for other in others)

    won = sum(
        mine.missed < other.missed
        for share in HOSTILE
        for mine, other in zip(drawn[share, ROUND_UP], drawn[share, waits], strict=True)
    )
    every = len(HOSTILE) * given.seeds
    quick = {share: lead(share, "best_effort") for share in HOSTILE}
    slo = {share: lead(share, "missed") for share in HOSTILE}
    report.claims(
        [
            Claim(
                "8 (a): round-up lowers wDMR",
                f"by {percent(min(map(gain, HOSTILE)))} at least in the mean; on {won} of {every} draws",
                min(map(gain, HOSTILE)) > 0.0 and 2 * won > every,
            ),
            Claim(
                "8 (a): it helps less where more jobs are hostile",
                ", ".join(f"{share:.0%}: {percent(gain(share))}" for share in HOSTILE),
                round(gain(HOSTILE[0]), 4) > round(gain(HOSTILE[-1]), 4),
            ),
            Claim(
                "8 (b): local search has the lowest JCT of best effort",
                ", ".join(f"{at:.0%}: {a:.2f} h against {b:.2f} h" for at, (a, b) in quick.items()),
                all(mine < other for mine, other in quick.values()),
            ),
            Claim(
                "8 (b): and the lowest wDMR",
                ", ".join(
                    f"{at:.0%}: {percent(a)} against {percent(b)}" for at, (a, b) in slo.items()
                ),
                all(mine < other for mine, other in slo.values()),
            ),
        ]
    )
    report.say(WHY)
    report.runs(
        ("hostile", "placement", "seed", "promised", "broken", "best_effort_hours", "wdmr"),
        [
            (*key, draw.seed, f.promised, f.broken, repr(f.best_effort), repr(f.missed))
            for key, figures in drawn.items()
            for draw, f in zip(given.draws, figures, strict=True)
        ],
    )
    report.close()


def _hostile(jobs: Workload, share: float, seed: int) -> Workload:
    """This share of the jobs on 2 to 8 asks for 3, 5, 6 or 7, for as long as before; all suffer apart."""
    rng = np.random.default_rng([seed, 3])
    made, replace = [], msgspec.structs.replace
    for job in jobs:
        gpus, draw = job.spec.gpus, float(rng.random())
        wished = float(rng.choice([3.0, 5.0, 6.0, 7.0]))
        if 1.0 < gpus <= 8.0 and draw < share:
            work = job.truth.work * wished / gpus
            truth = replace(job.truth, work=work, spread_slowdown=SLOWER)
            job = replace(job, spec=replace(job.spec, gpus=wished), truth=truth)  # noqa: PLW2901
        else:
            job = replace(job, truth=replace(job.truth, spread_slowdown=SLOWER))  # noqa: PLW2901
        made.append(job)
    return Workload(made, jobs.name)


if __name__ == "__main__":
    main()
