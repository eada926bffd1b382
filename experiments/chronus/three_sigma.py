"""3Sigma (EuroSys'18) beside Chronus and srsf on MIX2 at a density of 120 % (figure 9).

It solves a program at each decision and takes far longer than the others, so that it has a page of its own.
"""

from chronus_study import Claim, Figures, Report, options, outcomes_of, percent, workload

MIX = "MIX2"
DENSITY = 1.2
POLICIES = ("chronus", "srsf", "3sigma")


def main() -> None:
    given = options(__doc__, thin=30)
    report = Report("three_sigma", "3Sigma beside Chronus (section 5.4, figure 9)", given)
    runs = []
    for draw in given.draws:
        jobs = workload(draw, MIX, DENSITY)
        for policy in POLICIES:
            runs.append((policy, draw.seed, Figures.of(outcomes_of(jobs, draw.gpus, policy))))
    drawn = {
        policy: [figures for name, _, figures in runs if name == policy] for policy in POLICIES
    }
    found = {policy: Figures.mean(figures) for policy, figures in drawn.items()}
    report.table(
        ("policy", "wDMR", "best effort's mean JCT"),
        [(name, percent(f.missed), f"{f.best_effort:.1f} h") for name, f in found.items()],
    )
    both = zip(drawn["chronus"], drawn["3sigma"], strict=True)
    fewer = sum(ours.missed < theirs.missed for ours, theirs in both)
    seen = f"on {fewer} of {given.seeds} draws"
    report.claims([Claim("Chronus misses less than 3Sigma (5.4)", seen, fewer == given.seeds)])
    report.runs(
        ("policy", "seed", "best_effort_hours", "wdmr"),
        [(policy, seed, repr(f.best_effort), repr(f.missed)) for policy, seed, f in runs],
    )
    report.close()


if __name__ == "__main__":
    main()
