"""What a window costs (section 8.9, figure 12): gaps of the program after so much time, on 256 GPUs.

Windows of 20 rounds of 120 s, as the policy makes them, of jobs of the generator somewhere on their way. By
counts (`volvelle.systems.shockwave.rounds`), as the policy solves them, and in X[j, t] as the paper does.
"""

import time
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from shockwave_study import Claim, Options, Report, options

from volvelle.plan.plan import Window
from volvelle.systems.shockwave.policy import Shockwave
from volvelle.systems.shockwave.rounds import RoundJobs, share_rounds
from volvelle.systems.shockwave.welfare import gains
from volvelle.workload.generators import make_generator

GPUS = 256.0
WINDOW = Window(0.0, 120.0, 20)
JOBS = (500, 1000, 2000, 10_000)
LIMITS = (1.0, 5.0, 15.0)
"""Seconds for the solver."""
DIRECT = 1000
"""Jobs up to which the paper's program is solved too."""
POLICY = Shockwave()
"""With its defaults."""


class Solved(NamedTuple):
    """One window. limit, seconds: allowed, and on the clock. gap: to its own bound, percent."""

    jobs: int
    program: str
    limit: float
    seconds: float
    gap: float


def window(count: int, seed: int = 1) -> tuple[RoundJobs, float]:
    """Jobs of which up to four fifths are done, rho between 0.5 and 2.5; what a second of makespan costs."""
    rng = np.random.default_rng(seed)
    jobs = make_generator("shockwave", {"jobs": count}).generate(rng).jobs
    whole = np.array([job.seconds_on(job.spec.gpus) for job in jobs])
    gpus = np.array([job.spec.gpus for job in jobs])
    done = rng.uniform(0.0, 0.8, count) * whole
    reached = done[:, None] + WINDOW.slot_seconds * np.arange(WINDOW.slots + 1)
    weight = rng.uniform(0.5, 2.5, count) ** POLICY.power
    gained = gains(np.minimum(reached / whole[:, None], 1.0), weight, POLICY.pieces, POLICY.ending)
    factor = max(count / GPUS, 1.0)
    return (
        RoundJobs(np.arange(count), gpus, gained, whole - done),
        POLICY.makespan * count * GPUS / float(whole.sum() * factor),
    )


def solved(count: int, limit: float, *, direct: bool) -> Solved:
    """The window of ``count`` jobs within ``limit`` seconds."""
    jobs, cost = window(count)
    began = time.monotonic()
    share = share_rounds(
        jobs, WINDOW, GPUS, makespan_weight=cost, gap=1e-4, seconds=limit, direct=direct
    )
    program = "X[j, t]" if direct else "counts"
    return Solved(count, program, limit, time.monotonic() - began, 100.0 * share.gap)


def measured(given: Options) -> list[Solved]:
    """All windows, those in X[j, t] where there are few jobs."""
    sizes = sorted({min(count, given.jobs or count) for count in JOBS})
    share_rounds(window(20)[0], WINDOW, GPUS)  # loads the inner loops
    return [
        solved(count, limit, direct=direct)
        for count in sizes
        for direct in (False, True)
        if not direct or count <= DIRECT
        for limit in LIMITS
    ]


def main() -> None:
    given = options(__doc__, "one window of each size, HiGHS with one thread; seconds on the clock")
    report = Report("solver", "What a window costs (Shockwave, figure 12)", given)
    all_ = measured(given)
    report.table(
        ("jobs", "program", "limit", "took", "gap"),
        [
            (
                f"{one.jobs:,}",
                one.program,
                f"{one.limit:g} s",
                f"{one.seconds:.2f} s",
                f"{one.gap:.3f} %",
            )
            for one in all_
        ],
    )
    counts = [one for one in all_ if one.program == "counts"]
    last = {one.jobs: one for one in counts}
    paper = (0.03, 0.11, 0.44)
    report.claims(
        [
            Claim(
                "gaps after 15 s are 0.03, 0.11 and 0.44 % with 500, 1,000 and 2,000 jobs",
                ", ".join(f"{one.gap:.3f} % with {jobs:,}" for jobs, one in last.items()),
                all(one.gap <= most for one, most in zip(last.values(), paper, strict=False)),
            ),
            Claim(
                "from 1 s to 15 s the answer gets better, and less so towards the end",
                "; ".join(
                    f"{program}, {jobs:,} jobs: "
                    + ", ".join(
                        f"{one.gap:.2f} %"
                        for one in all_
                        if (one.jobs, one.program) == (jobs, program)
                    )
                    for jobs, program in dict.fromkeys((one.jobs, one.program) for one in all_)
                ),
                all(
                    one.gap >= other.gap
                    for one, other in pairwise(all_)
                    if (one.jobs, one.program) == (other.jobs, other.program)
                ),
            ),
            Claim(
                "the solver is hidden behind half a round, 60 s",
                f"at most {max(one.seconds for one in counts):.1f} s by counts, with up to "
                f"{max(last):,} jobs",
                max(one.seconds for one in counts) <= 60.0,
            ),
        ]
    )
    report.runs(Solved._fields, all_)
    report.close()


if __name__ == "__main__":
    main()
