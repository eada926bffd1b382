"""PCS, figures 9a and 9b: what a simulation and a search for a front cost, by jobs and GPUs.

CPU seconds of one process, a prediction for every job, on the jobs of the simulator's themis1 workload at
load 0.8. The paper's are minutes of the clock: of one simulation, and of some 1,000 of them on ten machines.
Of a search its simulations are told, 1,000 times the slowest; each evaluation is one, as in the artifact.
"""

import time

from pcs_study import ERROR, JCT, Claim, Report, generate, options, setting

from volvelle.tune.evaluate import evaluate

GPUS = (128, 256, 512, 1024)
PAPER_MINUTES = {512: (1.0, 3.0, 2.0, 2.0), 1024: (3.0, 2.0, 4.0, 3.0)}
"""Figure 9a, by `GPUS`."""
PAPER_SEARCH = {512: (931.0, 1086.0, 1305.0, 2065.0), 1024: (1879.0, 2157.0, 2713.0, 3919.0)}
"""Figure 9b, seconds on ten machines."""
EVALUATIONS = 1000
POLICY = "pcs:thresholds=37744/227658/1063650,weights=0.656/0.232/0.082/0.03,efficiency=0.7"
"""About the artifact's own for this workload."""


def main() -> None:
    given = options(
        __doc__,
        "up to {jobs} jobs, seed 1",
        jobs=1024,
    )
    report = Report("feasibility", "What a search costs (PCS, section 5.4, figures 9a, 9b)", given)
    sizes = [jobs for jobs in PAPER_MINUTES if jobs <= given.jobs] or [given.jobs]
    one = {(jobs, gpus): _simulation(jobs, gpus) for jobs in sizes for gpus in GPUS}
    whole = {key: EVALUATIONS * seconds for key, seconds in one.items()}
    report.say("One simulation, the paper's minutes and CPU seconds here:")
    report.table(
        ("jobs", *(f"{gpus} GPUs" for gpus in GPUS)),
        [
            (
                f"{jobs:,}",
                *(
                    f"{minutes} min; {one[jobs, gpus]:.2g} s"
                    for gpus, minutes in zip(GPUS, PAPER_MINUTES.get(jobs, ("",) * 4), strict=True)
                ),
            )
            for jobs in sizes
        ],
    )
    report.say(
        f"{EVALUATIONS:,} simulations, the paper's seconds on ten machines and CPU seconds here:"
    )
    report.table(
        ("jobs", "GPUs", "the paper", "here"),
        [
            (
                f"{jobs:,}",
                str(gpus),
                f"{dict(zip(GPUS, PAPER_SEARCH[jobs], strict=True))[gpus]:,.0f} s"
                if jobs in PAPER_SEARCH
                else "",
                f"{seconds:,.0f} s",
            )
            for (jobs, gpus), seconds in whole.items()
        ],
    )
    report.claims(
        [
            Claim(
                "a simulation takes minutes",
                f"{min(one.values()):.2g} to {max(one.values()):.2g} s: less",
                max(one.values()) <= 60.0 * 4.0,
            ),
            Claim(
                f"a front of some {EVALUATIONS:,} simulations takes about 60 minutes",
                f"{max(whole.values()):.2g} s of one core for as many of the slowest",
                max(whole.values()) <= 3600.0,
            ),
        ]
    )
    report.say(
        "CPU seconds of a machine that others share: their order of magnitude is what is told."
    )
    report.runs(
        ("what", "jobs", "gpus", "cpu_seconds"),
        [("simulation", *key, repr(s)) for key, s in one.items()],
    )
    report.close()


def _simulation(jobs: int, gpus: int) -> float:
    """CPU seconds, loops compiled before."""
    workload = generate(f"pcs-themis1:gpus={gpus},jobs={jobs},load=0.8", 1)
    evaluate(workload, setting(POLICY, gpus), (JCT, ERROR))
    began = time.process_time()
    evaluate(workload, setting(POLICY, gpus), (JCT, ERROR))
    return time.process_time() - began


if __name__ == "__main__":
    main()
