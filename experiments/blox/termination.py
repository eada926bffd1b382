"""Blox, section 5.3 (figure 16): FIFO at 7 jobs an hour, ended by loss or by epochs.

Jobs are those of `study`; 75 % of them are within 0.1 % of their lowest loss after 40 % of their work, the
others only at its end (`volvelle.workload.generators.convergence`). The rule is told each job's loss once
a round.
"""

from functools import partial

import numpy as np
from study import (
    ROUND,
    Case,
    Claim,
    Measured,
    Report,
    hours,
    mean,
    options,
    philly,
    run,
    setting,
)

from volvelle.model.units import HOUR
from volvelle.report.charts import Axis, Plot, Series, cdf, line_chart

RATE = 7.0
SHARE = 0.75
CONVERGED_AT = 0.4
RULES = {"epochs": "completion", "loss": "loss:threshold=0.001"}
PAPER = 44.0


def main() -> None:
    given = options(__doc__)
    report = Report("termination", "Loss-based termination (Blox, section 5.3, figure 16)", given)
    extra = f",converging_share={SHARE},converged_at={CONVERGED_AT}"
    cases = [
        Case(
            (name, str(seed)),
            partial(philly, given.submitted, seed, RATE, extra),
            setting(given, f"fifo:{ROUND}", termination=rule),
        )
        for name, rule in RULES.items()
        for seed in given.seeds
    ]
    found = {key: Measured.of(outcomes) for key, outcomes in run(cases, given.workers).items()}
    jct = {name: [found[name, str(seed)].hours for seed in given.seeds] for name in RULES}
    wait = {name: [found[name, str(seed)].wait_hours for seed in given.seeds] for name in RULES}
    report.table(
        ("jobs end by", "mean JCT", "mean responsiveness"),
        [(name, hours(jct[name]), hours(wait[name])) for name in RULES],
    )
    lower = [100 * (1 - a / b) for a, b in zip(jct["loss"], jct["epochs"], strict=True)]
    work = 100 * SHARE * (1 - CONVERGED_AT)
    report.claims(
        [
            Claim(
                f"loss-based termination lowers the mean JCT by around {PAPER:g} %",
                f"by {mean(lower):.1f} % ({min(lower):.1f} to {max(lower):.1f} over seeds)",
                abs(mean(lower) - PAPER) <= 5.0,
            )
        ]
    )
    report.say(
        f"Of a job's own time {SHARE:g} x {1 - CONVERGED_AT:g} = {work:.0f} % is saved on average, if its "
        "length says nothing about whether it converges; beyond that jobs save the waiting that there is "
        "at this load when all run to their last epoch."
    )
    lines = []
    for index, name in enumerate(RULES):
        x, share = cdf(np.concatenate([found[name, str(seed)].jct for seed in given.seeds]))
        lines.append(Series.numbered(index, name, np.maximum(x, HOUR / 2), share))
    report.picture(
        line_chart(
            "Job completion times when jobs end by epochs or by loss",
            [Plot(tuple(lines), Axis("Share of jobs", "share", low=0.0, high=1.0))],
            Axis("Submission to finish", "duration", log=True),
        )
    )
    report.runs(
        ("termination", "seed", "mean_jct_hours", "mean_responsiveness_hours"),
        [(*key, repr(one.hours), repr(one.wait_hours)) for key, one in found.items()],
    )
    report.close()


if __name__ == "__main__":
    main()
