"""A batch of 50 jobs, by size (section 8.4, figure 8).

The paper's batch and its GPUs are not told: here it is 50 jobs drawn by seeds from the authors' trace, all
there at the start, on 14 GPUs. Sizes are quarters of the jobs by GPU time. Figures are means over the draws.
"""

import msgspec
import numpy as np
from shockwave_study import (
    CSV_HEADS,
    DRAWS,
    HEADS,
    Case,
    Claim,
    Column,
    Measured,
    Report,
    compared,
    draws,
    lines,
    mean,
    options,
    records,
    small,
)

from volvelle.model.job import Job
from volvelle.report.charts import Axis, Plot, Series, cdf, line_chart
from volvelle.workload.workload import Workload

NAMES = ("AlloX", "Gavel", "OSSP")
SIZES = ("XSmall", "Small", "Medium", "(X)Large")


def batch(case: Case, draw: int) -> Case:
    """50 of the jobs, submitted at once."""
    chosen = np.random.default_rng(draw).permutation(len(case.workload.jobs))[:50]
    drawn = [case.workload.jobs[one] for one in sorted(chosen.tolist())]
    jobs = [Job(msgspec.structs.replace(one.spec, submit_time=0.0), one.truth) for one in drawn]
    return Case("50 jobs", Workload.of(jobs), 14)


def by_size(case: Case, one: Measured) -> Column:
    """(4,) mean finish of each quarter of the jobs, over the makespan."""
    size = {
        job.spec.id: job.seconds_on(job.spec.gpus) * job.spec.gpus for job in case.workload.jobs
    }
    order = np.argsort([size[spec.id] for spec in one.outcomes.specs], kind="stable")
    parts = np.array_split(one.outcomes.finish[order], len(SIZES))
    return np.array([part.mean() for part in parts]) / one.makespan


def main() -> None:
    given = options(__doc__, f"50 jobs of the authors' trace of 120 on 14 GPUs, {DRAWS} draws")
    report = Report("closer", "A closer look at schedules (Shockwave, figure 8)", given)
    cases = [batch(small(given), draw) for draw in draws(given)]
    each = [compared(case, NAMES) for case in cases]
    runs = mean(each)
    report.table(HEADS, lines(cases[0].name, runs))
    ends = {
        name: np.mean(
            [by_size(case, one[name]) for case, one in zip(cases, each, strict=True)], axis=0
        )
        for name in runs
    }
    report.say("Mean finish of jobs of a size, as a share of the schedule:")
    report.table(
        ("policy", *SIZES),
        [(name, *(f"{100 * share:.0f} %" for share in shares)) for name, shares in ends.items()],
    )
    own = runs["Shockwave"]
    report.claims(
        [
            Claim(
                "8a: large jobs of AlloX and Gavel trail, those of Shockwave do not",
                ", ".join(f"{name} {one.makespan:,.0f} s" for name, one in runs.items()),
                own.makespan < min(runs[name].makespan for name in ("AlloX", "Gavel")),
            ),
            Claim(
                "8a: XSmall jobs are over as early as AlloX'",
                f"after {ends['Shockwave'][0] * own.makespan:,.0f} s, "
                f"AlloX' {ends['AlloX'][0] * runs['AlloX'].makespan:,.0f} s",
                ends["Shockwave"][0] * own.makespan
                <= 1.1 * ends["AlloX"][0] * runs["AlloX"].makespan,
            ),
            Claim(
                "8a: OSSP puts XSmall jobs off to the end",
                f"mean finish at {100 * ends['OSSP'][0]:.0f} % of the schedule",
                bool(ends["OSSP"][0] >= 0.75),
            ),
            Claim(
                "8b: worst rho 1.23; of AlloX and Gavel more than 20 % are above 1",
                f"{own.worst:.2f}; "
                + ", ".join(f"{name} {runs[name].unfair:.0f} %" for name in ("AlloX", "Gavel")),
                own.worst <= 1.23 and min(runs[name].unfair for name in ("AlloX", "Gavel")) > 20.0,
            ),
        ]
    )
    report.picture(
        line_chart(
            "Rho of 50 jobs",
            [
                Plot(
                    tuple(
                        Series.numbered(index, name, *cdf(one.rho))
                        for index, (name, one) in enumerate(runs.items())
                    ),
                    Axis("Share of jobs", "share", low=0.0, high=1.0),
                )
            ],
            Axis("Completion time over that on a fair share"),
        )
    )
    report.runs(
        ("draw", *CSV_HEADS),
        [
            (draw, *row)
            for draw, case, one in zip(draws(given), cases, each, strict=True)
            for row in records(case.name, one)
        ],
    )
    report.close()


if __name__ == "__main__":
    main()
