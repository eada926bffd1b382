"""The selector: how long leases are, who is refused, how wrong estimates may be (figures 7 a, 7 c, 6 d).

Figure 7 (b), the program with and without its objective, has no counterpart: here the program does not decide
who runs (decision 37). Figure 6 (a), the size of the profiling cluster, is not tried here.
"""

import numpy as np
from chronus_study import MIXES, Claim, Figures, Report, options, outcomes_of, percent, workload

from volvelle.metrics import deadlines, promises

MINUTES = (4, 12, 20, 28, 60)
ERRORS = (0.0, 0.2, 0.4)


def main() -> None:
    given = options(__doc__, thin=30)
    report = Report("selector", "Leases, refusals, estimates (sections 5.1 and 5.2)", given)
    rows: list[tuple[str, str, float, Figures]] = []
    jobs = workload(given, "MIX2")
    for minutes in MINUTES:
        outcomes = outcomes_of(jobs, given.gpus, f"chronus:lease={60 * minutes}")
        rows.append(("lease", "MIX2", minutes, Figures.of(outcomes)))
    refused = {}
    for mix in MIXES:
        jobs = workload(given, mix)
        for error in ERRORS:
            outcomes = outcomes_of(jobs, given.gpus, "chronus", estimator=f"noisy:error={error}")
            rows.append(("error", mix, error, Figures.of(outcomes)))
            if error == 0.0:
                lost = 1.0 - deadlines.earned_value(outcomes) / 100.0
                made = promises.promised(outcomes)
                refused[mix] = (int((made == 0).sum()), float(np.mean(lost[made == 0.0])))
    leases = {at: f for what, _, at, f in rows if what == "lease"}
    errors = {(mix, at): f for what, mix, at, f in rows if what == "error"}
    report.table(
        ("lease, minutes", "wDMR", "best effort's mean JCT"),
        [(f"{at:g}", percent(f.missed), f"{f.best_effort:.2f} h") for at, f in leases.items()],
    )
    report.table(
        ("mix", "jobs refused", "wDMR of these"),
        [(mix, str(count), percent(lost)) for mix, (count, lost) in refused.items()],
    )
    report.table(
        ("mix", *(f"off by {error:.0%}" for error in ERRORS)),
        [(mix, *(percent(errors[mix, error].missed) for error in ERRORS)) for mix in MIXES],
    )
    best = min(leases, key=lambda at: leases[at].missed)
    longest = leases[60].best_effort / leases[20].best_effort - 1.0
    more = max(errors[mix, 0.4].missed - errors[mix, 0.0].missed for mix in MIXES)
    report.claims(
        [
            Claim("7 (a): leases of 15 to 30 min miss least", f"{best:g} min do", 15 <= best <= 30),
            Claim(
                "7 (a): from 15 min on the lease does not matter to best effort",
                f"{longest:+.1%} from 20 to 60 min",
                abs(longest) < 0.05,
            ),
            Claim(
                "7 (c): wDMR of refused jobs is very high",
                "; ".join(f"{mix} {percent(lost)}" for mix, (_, lost) in refused.items()),
                min(lost for _, lost in refused.values()) > 0.5,
            ),
            Claim(
                "6 (d): robust where estimates are off by less than 40 %",
                f"at 40 % up to {percent(more)} more is missed",
                more < 0.05,
            ),
        ]
    )
    report.runs(
        ("varied", "mix", "value", "promised", "broken", "best_effort_hours", "wdmr"),
        [
            (a, b, c, f.promised, f.broken, repr(f.best_effort), repr(f.missed))
            for a, b, c, f in rows
        ],
    )
    report.close()


if __name__ == "__main__":
    main()
