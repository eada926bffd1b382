"""A batch of 50 jobs, by size (section 8.4, figure 8).

The paper's batch and its GPUs are not told: here it is 50 jobs drawn by a seed from the authors' trace, all
there at the start, on 14 GPUs. Sizes are quarters of the jobs by GPU time.
"""

import msgspec
import numpy as np
from shockwave_study import (
    CSV_HEADS,
    HEADS,
    Case,
    Claim,
    Column,
    Measured,
    Report,
    compared,
    lines,
    options,
    records,
    small,
)

from volvelle.model.job import Job
from volvelle.report.charts import Axis, Plot, Series, cdf, line_chart
from volvelle.workload.workload import Workload

NAMES = ("AlloX", "Gavel", "OSSP")
SIZES = ("XSmall", "Small", "Medium", "(X)Large")


def batch(case: Case) -> Case:
    """50 of the jobs, submitted at once."""
    chosen = np.random.default_rng(1).permutation(len(case.workload.jobs))[:50]
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
    given = options(__doc__, "50 jobs of the authors' trace of 120 on 14 GPUs, one draw")
    report = Report("closer", "A closer look at schedules (Shockwave, figure 8)", given)
    case = batch(small(given))
    runs = compared(case, NAMES)
    report.table(HEADS, lines(case.name, runs))
    ends = {name: by_size(case, one) for name, one in runs.items()}
    report.say("Mean finish of jobs of a size, as a share of the schedule:")
    report.table(
        ("policy", *SIZES),
        [(name, *(f"{100 * share:.0f} %" for share in each)) for name, each in ends.items()],
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
    report.runs(CSV_HEADS, records(case.name, runs))
    report.close()


if __name__ == "__main__":
    main()
