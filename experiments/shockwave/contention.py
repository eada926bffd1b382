"""Fewer jobs for as many GPUs (section 8.8 and appendix I, figure 16).

The paper's 14 GPUs are physical; here they are simulated, with jobs drawn from the authors' trace by seeds:
42, 28 and 21 of them, so that jobs per GPU are 3, 2 and 1.5. Figures are means over the draws.
"""

import numpy as np
from shockwave_study import (
    CSV_HEADS,
    DRAWS,
    FAIR,
    HEADS,
    Case,
    Claim,
    Report,
    compared,
    draws,
    lines,
    mean,
    options,
    over,
    records,
    small,
)

from volvelle.workload.workload import Workload

GPUS = 14
FACTORS = (3.0, 2.0, 1.5)
WIDE = 4.0
"""GPUs of the widest jobs."""


def thinned(case: Case, factor: float, draw: int) -> Case:
    """So many jobs for each GPU, those of smaller factors among those of larger ones."""
    order = np.random.default_rng(draw).permutation(len(case.workload.jobs))
    chosen = sorted(order[: int(GPUS * factor)].tolist())
    jobs = [case.workload.jobs[one] for one in chosen]
    return Case(f"{factor:g} jobs per GPU", Workload.of(jobs), GPUS)


def narrow(case: Case) -> Case:
    """The jobs that are not `WIDE`."""
    return case._replace(
        workload=Workload.of(job for job in case.workload.jobs if job.spec.gpus < WIDE)
    )


def main() -> None:
    given = options(__doc__, f"jobs of the authors' trace of 120 on {GPUS} GPUs, {DRAWS} draws")
    report = Report("contention", "Contention (Shockwave, figure 16)", given)
    cases = {
        factor: [thinned(small(given), factor, draw) for draw in draws(given)] for factor in FACTORS
    }
    each = {factor: [compared(case, FAIR) for case in some] for factor, some in cases.items()}
    runs = most, middle, least = [mean(some) for some in each.values()]
    names = [cases[factor][0].name for factor in FACTORS]
    report.table(
        HEADS, [line for name, one in zip(names, runs, strict=True) for line in lines(name, one)]
    )
    report.say("Makespans of Gavel, AlloX and Themis longer than Shockwave's, by draw:")
    report.table(
        ("jobs", *(f"draw {draw}" for draw in draws(given))),
        [
            (name, *(f"{100.0 * (over(one, 'makespan') - 1.0):.0f} %" for one in some))
            for name, some in zip(names, each.values(), strict=True)
        ],
    )
    report.runs(
        ("draw", *CSV_HEADS),
        [
            (draw, *row)
            for name, some in zip(names, each.values(), strict=True)
            for draw, one in zip(draws(given), some, strict=True)
            for row in records(name, one)
        ],
    )
    without = [
        compared(thinned(narrow(small(given)), FACTORS[-1], draw), FAIR) for draw in draws(given)
    ]
    report.say(
        f"Worst rho at {FACTORS[-1]:g} jobs per GPU, by draw, and where jobs on {WIDE:g} GPUs are left out "
        "of the trace before it is drawn from:"
    )
    report.table(
        ("jobs", "policy", *(f"draw {draw}" for draw in draws(given)), "mean"),
        [
            (jobs, name, *(f"{one:.2f}" for one in (*worst, float(np.mean(worst)))))
            for jobs, some in (("all", each[FACTORS[-1]]), (f"none on {WIDE:g}", without))
            for name in ("Shockwave", *FAIR)
            for worst in [[one[name].worst for one in some]]
        ],
    )
    ahead = [100.0 * (over(one, "makespan") - 1.0) for one in runs]
    own = [one["Shockwave"] for one in (most, middle, least)]
    unfair = [float(np.mean([one[name].unfair for one in runs])) for name in ("Shockwave", *FAIR)]
    report.claims(
        [
            Claim(
                "makespans of Gavel, AlloX and Themis are 35, 19 and 8 % longer at 3, 2 and 1.5",
                ", ".join(f"{one:.0f} %" for one in ahead),
                ahead[0] >= 35.0 and ahead[1] >= 19.0 and ahead[2] >= 8.0,
            ),
            Claim(
                "the gain is less with less contention",
                ", ".join(f"{one:.0f} %" for one in ahead),
                ahead[0] > ahead[1] > ahead[2],
            ),
            Claim(
                "8.67 % of jobs are served unfairly on average, by the others 2.85 times as many",
                f"{unfair[0]:.1f} %, others {np.mean(unfair[1:]):.1f} %",
                unfair[0] <= 8.67 and float(np.mean(unfair[1:])) >= 2.85 * unfair[0],
            ),
            Claim(
                "at 2 the worst rho is 1.2, 1.27 times better than theirs; at 1.5 all approach 1",
                f"{own[1].worst:.2f}, theirs {over(middle, 'worst'):.2f} times; at 1.5 "
                + ", ".join(f"{name} {one.worst:.2f}" for name, one in least.items()),
                own[1].worst <= 1.2
                and over(middle, "worst") >= 1.27
                and max(one.worst for one in least.values()) <= 1.3,
            ),
        ]
    )
    last = [
        max(job.spec.submit_time + job.seconds_on(job.spec.gpus) for job in case.workload.jobs)
        for case in cases[FACTORS[-1]]
    ]
    bound = sum(
        one["Shockwave"].makespan <= 1.03 * each_last
        for one, each_last in zip(each[FACTORS[-1]], last, strict=True)
    )
    report.say(
        f"In {bound} of {len(last)} draws Shockwave's makespan at {FACTORS[-1]:g} is within 3 % of the "
        "earliest end of one of the jobs, so that no policy could do much better there."
    )
    report.close()


if __name__ == "__main__":
    main()
