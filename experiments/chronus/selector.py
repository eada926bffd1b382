"""The selector: how long leases are, the objective, who is refused, wrong estimates (figures 7 a to c, 6 d).

Here the program does not decide who runs (decision 37). So figure 7 (b), the program with and without its
objective, is shown by the rewards that guarantees see: the declared ones, or the same for every step of a
job, when any step that can be kept will do and the last is tried first. What is missed is counted by the
declared ones in both.

Leases are compared on several draws, all else on the first. Beside ours are results of the authors' simulator
on the first of the jobs, where the reference results are at hand.
"""

import csv
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from chronus_jobs import RESULTS as THEIRS
from chronus_study import MIXES, Claim, Figures, Report, options, outcomes_of, percent, workload
from findings import SHARED

from volvelle.metrics import deadlines, promises
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import FloatColumn
from volvelle.workload.workload import Workload

MINUTES = (4, 12, 20, 28, 60)
ERRORS = (0.0, 0.2, 0.4)
MOST = 100.0
WHY = (
    "Estimates that are off make chronus reserve more than jobs need: fewer guarantees are made, and who has "
    "none waits. With rewards that are all alike guarantees are made for later steps, which leave the next "
    "leases to strict jobs: what the objective gives to soft jobs, strict ones pay for in part. "
    "Leases up to half an hour miss nearly alike: a lease that is renewed preempts nobody here, so that "
    "short ones preempt little more, where in the authors' simulator preemptions grow as leases get shorter."
)
LEASE_HEADS = ("lease, minutes", "wDMR", "best effort's mean JCT", "preemptions of a job")
THEIR_LEASES = (10, 15, 20, 30, 60)
THEIR_SETS = ("60_n2", "60_n4", "200_n12", "1000_n48", "5000_n120")


def main() -> None:
    several = options(__doc__, thin=30, seeds=6)
    given = several.draws[0]
    report = Report("selector", "Leases, refusals, estimates (sections 5.1 and 5.2)", several)
    rows: list[tuple[str, str, float, Figures]] = []
    drawn: dict[int, list[Figures]] = {minutes: [] for minutes in MINUTES}
    preempted: dict[int, list[float]] = {minutes: [] for minutes in MINUTES}
    for draw in several.draws:
        jobs = workload(draw, "MIX2")
        for minutes in MINUTES:
            outcomes = outcomes_of(jobs, draw.gpus, f"chronus:lease={60 * minutes}")
            drawn[minutes].append(Figures.of(outcomes))
            preempted[minutes].append(float(outcomes.preemptions.mean()))
            rows.append(("lease", f"MIX2, seed {draw.seed}", minutes, drawn[minutes][-1]))
    jobs = workload(given, "MIX2")
    aims = {"declared rewards": jobs, "any deadline": _all_steps_alike(jobs)}
    ran = {aim: outcomes_of(those, given.gpus, "chronus") for aim, those in aims.items()}
    declared = [job.spec for job in jobs]
    by_class = {aim: _missed_by_class(replace(ran[aim], specs=declared)) for aim in aims}
    refused = {}
    for mix in MIXES:
        jobs = workload(given, mix)
        for error in ERRORS:
            outcomes = outcomes_of(jobs, given.gpus, "chronus", estimator=f"noisy:error={error}")
            rows.append(("error", mix, error, Figures.of(outcomes)))
            if error == 0.0:
                lost = 1.0 - deadlines.earned_value(outcomes) / 100.0
                made = promises.promised(outcomes)
                refused[mix] = (int((made == 0).sum()), _mean(lost[made == 0.0]))
    leases = {minutes: Figures.mean(figures) for minutes, figures in drawn.items()}
    errors = {(mix, at): f for what, mix, at, f in rows if what == "error"}
    report.table(
        LEASE_HEADS,
        [
            (str(at), percent(f.missed), f"{f.best_effort:.2f} h", f"{np.mean(preempted[at]):.2f}")
            for at, f in leases.items()
        ],
    )
    report.table(
        ("guarantees aim at", "strict: wDMR", "soft: wDMR"),
        [(aim, *map(percent, missed)) for aim, missed in by_class.items()],
    )
    report.table(
        ("mix", "jobs refused", "wDMR of these"),
        [(mix, str(count), percent(lost)) for mix, (count, lost) in refused.items()],
    )
    report.table(
        ("mix", *(f"off by {error:.0%}" for error in ERRORS)),
        [(mix, *(percent(errors[mix, error].missed) for error in ERRORS)) for mix in MIXES],
    )
    _say_theirs(report)
    best = min(leases, key=lambda at: leases[at].missed)
    longer = [
        long.best_effort / short.best_effort - 1.0
        for long, short in zip(drawn[60], drawn[20], strict=True)
    ]
    aimed, alike = by_class["declared rewards"], by_class["any deadline"]
    more = max(errors[mix, 0.4].missed - errors[mix, 0.0].missed for mix in MIXES)
    report.claims(
        [
            Claim(
                "7 (a): leases of 15 to 30 min miss least",
                f"{best:g} min do, {percent(leases[best].missed)}; "
                f"{MINUTES[0]} min {percent(leases[MINUTES[0]].missed)}",
                15 <= best <= 30,
            ),
            Claim(
                "7 (a): from 15 min on the lease does not matter to best effort",
                f"{np.mean(longer):+.1%} from 20 to 60 min in the mean of draws ("
                + ", ".join(f"{one:+.1%}" for one in longer)
                + ")",
                abs(float(np.mean(longer))) < 0.05,
            ),
            Claim(
                "7 (b): with the objective less reward of soft jobs is missed",
                f"{percent(aimed[1])} instead of {percent(alike[1])}",
                aimed[1] < alike[1],
            ),
            Claim(
                "7 (b): and no more of strict jobs'",
                f"{percent(aimed[0])} instead of {percent(alike[0])}",
                aimed[0] <= alike[0],
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
    report.say(WHY)
    report.runs(
        ("varied", "mix", "value", "promised", "broken", "best_effort_hours", "wdmr"),
        [
            (a, b, c, f.promised, f.broken, repr(f.best_effort), repr(f.missed))
            for a, b, c, f in rows
        ],
    )
    report.close()


def _say_theirs(report: Report) -> None:
    """Leases and refused jobs in the results of the authors' simulator, where these are at hand."""
    folder = SHARED / THEIRS
    if not (folder / "summary.csv").is_file():
        return
    summary = {row["file"]: row for row in _rows(folder / "summary.csv")}
    leases = [summary[f"MIX2_1000_n48_HIGHS_l{at}_adaptive.csv"] for at in THEIR_LEASES]
    report.say("The authors' simulator, the first 1,000 jobs on 48 nodes, with HiGHS:")
    report.table(
        LEASE_HEADS,
        [
            (
                str(at),
                percent(float(row["wDMR"])),
                f"{float(row['be_avg_jct_min']) / 60.0:.2f} h",
                f"{int(row['preemptions']) / int(row['jobs']):.2f}",
            )
            for at, row in zip(THEIR_LEASES, leases, strict=True)
        ],
    )
    report.say("Jobs that it refuses of the first ones, without a solver:")
    refused = {
        name: [
            float(row["miss_weighted"])
            for row in _rows(folder / f"MIX2_{name}_NONE_l20_adaptive.csv")
            if row["admitted"] == "unguaranteed"
        ]
        for name in THEIR_SETS
    }
    report.table(
        ("jobs, nodes", "jobs refused", "wDMR of these"),
        [
            (name.replace("_n", ", "), str(len(missed)), percent(float(np.mean(missed))))
            for name, missed in refused.items()
        ],
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _all_steps_alike(jobs: Workload) -> Workload:
    """The same jobs where each step of a job is worth what its best is."""
    made = []
    for job in jobs:
        steps = tuple(msgspec.structs.replace(step, value=MOST) for step in job.spec.rewards)
        spec = msgspec.structs.replace(job.spec, rewards=steps)
        made.append(msgspec.structs.replace(job, spec=spec))
    return Workload(made, jobs.name)


def _missed_by_class(outcomes: Outcomes) -> tuple[float, float]:
    """Share of the rewards missed by jobs with one deadline, and by those with several."""
    steps = np.array([len(spec.rewards) for spec in outcomes.specs])
    lost = 1.0 - deadlines.earned_value(outcomes) / MOST
    return _mean(lost[steps == 1]), _mean(lost[steps > 1])


def _mean(values: FloatColumn) -> float:
    """0 of none."""
    return float(values.mean()) if len(values) else 0.0


if __name__ == "__main__":
    main()
