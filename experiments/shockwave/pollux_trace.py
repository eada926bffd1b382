"""The jobs of Pollux (section 8.7, appendix J, figures 11 and 17), on 32 GPUs.

Pollux' own workload of 160 jobs, at their batch sizes and widths; under Pollux both are its to choose, so
that jobs take less work there. (In the paper Shockwave is given the batch sizes that Pollux chose.)
"""

import numpy as np
from shockwave_study import (
    CSV_HEADS,
    FAIR,
    HEADS,
    SHARED,
    Case,
    Claim,
    Options,
    Report,
    compared,
    lines,
    options,
    over,
    records,
    run,
)

from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

GPUS = 32


def jobs(given: Options, *, elastic: bool) -> Case:
    """Workload 1 of Pollux."""
    folder = SHARED / "data" / "pollux"
    read = read_trace(
        folder / "workload-1.csv",
        options={"applications": folder / "applications", "elastic": elastic},
    )
    some = read.jobs[: given.jobs] if given.jobs else read.jobs
    return Case("Pollux 1", Workload.of(some), GPUS)


def main() -> None:
    given = options(__doc__, f"workload 1 of Pollux, {GPUS} GPUs, one run each")
    report = Report("pollux_trace", "Pollux' jobs (Shockwave, figures 11 and 17)", given)
    case = jobs(given, elastic=False)
    runs = compared(case, FAIR)
    runs["Pollux"] = run(jobs(given, elastic=True), "pollux", "oracle")
    report.table(HEADS, lines(case.name, runs))
    own, pollux = runs["Shockwave"], runs["Pollux"]
    ahead = over(runs, "makespan")
    report.claims(
        [
            Claim(
                "17: makespan 20 % better than Themis', Gavel's and AlloX'",
                f"theirs {ahead:.2f} times",
                ahead >= 1.2,
            ),
            Claim(
                "17: worst rho better than theirs",
                f"{own.worst:.2f}; " + ", ".join(f"{one} {runs[one].worst:.2f}" for one in FAIR),
                own.worst <= min(runs[one].worst for one in FAIR),
            ),
            Claim(
                "11: Pollux' mean JCT is 3 times less",
                f"{own.jct / pollux.jct:.1f} times",
                bool(np.isclose(own.jct / pollux.jct, 3.0, atol=0.5)),
            ),
            Claim(
                "11: Shockwave's worst rho is better than Pollux'",
                f"{own.worst:.2f} and {pollux.worst:.2f}",
                own.worst < pollux.worst,
            ),
            Claim(
                "11: makespans are similar",
                f"{own.makespan:,.0f} and {pollux.makespan:,.0f} s",
                abs(own.makespan / pollux.makespan - 1.0) <= 0.1,
            ),
        ]
    )
    report.say(
        "Rho of Pollux is over the time alone on the GPUs and at the batch size that are requested."
    )
    report.runs(CSV_HEADS, records(case.name, runs))
    report.close()


if __name__ == "__main__":
    main()
