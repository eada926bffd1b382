"""Promises kept: with true estimates at loads of 0.8 to 1.6, and with estimates off by 10, 20 and 40 %.

Jobs and deadlines are those of the file, submitted faster or slower to meet the load. With wrong estimates
the margin that adapts (``broken=0.01``) is compared with none (``broken=0.99``: what jobs that ran tell about
others is not used); how long a job's own believed seconds take is seen in both. Those runs are
of one in 24 of all jobs.
"""

from dataclasses import replace

from chronus_study import Claim, Figures, Report, at_load, options, outcomes_of, percent, workload

LOADS = (0.8, 1.0, 1.2, 1.6)
WRONG_LOAD = 1.2
ERRORS = (0.1, 0.2, 0.4)
MARGINS = {"adapts": "chronus", "none": "chronus:broken=0.99"}
MOST = 10.0
"""What a job of the file earns at best."""
CHOSEN = 0.01
WRONG_THIN = 24


def main() -> None:
    given = options(__doc__, thin=1)
    report = Report(
        "promises", "Promises kept (Chronus, section 3.3; estimates: figure 6 d)", given
    )
    jobs = workload(given, None)
    few = replace(given, thin=max(given.thin, WRONG_THIN))
    rows = []
    for load in LOADS:
        made = at_load(jobs, load, given.gpus)
        rows.append(
            (load, 0.0, "adapts", Figures.of(outcomes_of(made, given.gpus, "chronus"), MOST))
        )
    made = at_load(workload(few, None), WRONG_LOAD, few.gpus)
    report.say(f"Runs with wrong estimates: {few.setting}.")
    for error in ERRORS:
        for name, policy in MARGINS.items():
            outcomes = outcomes_of(made, few.gpus, policy, estimator=f"noisy:error={error}")
            rows.append((WRONG_LOAD, error, name, Figures.of(outcomes, MOST)))
    report.table(
        ("load", "estimates off by", "margin", "promised", "broken", "share broken", "wDMR"),
        [
            (
                *(f"{load:g}", percent(error), name, f"{f.promised:,}", f"{f.broken:,}"),
                *(percent(f.broken / max(f.promised, 1)), percent(f.missed)),
            )
            for load, error, name, f in rows
        ],
    )
    true = sum(f.broken for _, error, _, f in rows if error == 0.0)
    wrong = max(f.broken / f.promised for _, error, name, f in rows if error and name == "adapts")
    report.claims(
        [
            Claim("with true estimates no promise is broken (ours)", f"{true} broken", true == 0),
            Claim(
                "with wrong estimates at most 1 % are, with the margin that adapts (ours)",
                f"at most {percent(wrong)}",
                wrong <= CHOSEN,
            ),
        ]
    )
    report.runs(
        ("load", "error", "margin", "jobs", "promised", "broken", "wdmr"),
        [(a, b, c, f.jobs, f.promised, f.broken, repr(f.missed)) for a, b, c, f in rows],
    )
    report.close()


if __name__ == "__main__":
    main()
