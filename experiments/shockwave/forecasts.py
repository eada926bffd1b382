"""Predictions of finishes for users under Shockwave: how far off they are, and how often P50 and P90 hold.

Jobs of the generator at a steady load on 32 GPUs; each is told at its submission when it will finish, by the
same forecasts as under every policy (a play-out of the scheduler), and by when with chances of 50 and
90 %, from the errors of jobs that ended before. Who believes what of batch sizes to come is the estimator's:
`oracle` knows, `regimes` predicts, the greedy rule expects no change. The paper has predictions only inside
the policy.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from shockwave_study import (
    PROACTIVE,
    REACTIVE,
    SEEDS,
    Case,
    Claim,
    Report,
    options,
    setting,
)

from volvelle.simulate.run import simulate
from volvelle.workload.generators import make_generator

GPUS, JOBS, JOBS_PER_HOUR = 32, 150, 4
BELIEFS = {"oracle": "oracle", "regimes": PROACTIVE, "greedy": REACTIVE}


class Told(NamedTuple):
    """One run. error: of point predictions, over completion times; p50, p90: shares that hold, of
    ``quantiles`` jobs that had them. All in percent.
    """

    seed: int
    belief: str
    mean_error: float
    median_error: float
    quantiles: int
    p50: float
    p90: float


def told(jobs: int, seed: int, belief: str) -> Told:
    """What became of predictions for ``jobs`` jobs."""
    generator = make_generator("shockwave", {"jobs": jobs, "jobs_per_hour": JOBS_PER_HOUR})
    case = Case("", generator.generate(np.random.default_rng(seed)), GPUS)
    under = replace(setting(case, "shockwave", BELIEFS[belief]), predict=True)
    outcomes = simulate(case.workload, under).outcomes
    finish, p50, p90 = outcomes.finish, outcomes.predicted_p50, outcomes.predicted_p90
    assert outcomes.predicted_finish is not None
    assert p50 is not None
    assert p90 is not None
    error = 100.0 * np.abs(outcomes.predicted_finish - finish) / outcomes.jct
    stated = np.isfinite(p90)
    held = [
        100.0 * float(np.mean((finish <= one)[stated])) if stated.any() else 0.0
        for one in (p50, p90)
    ]
    return Told(
        seed, belief, float(error.mean()), float(np.median(error)), int(stated.sum()), *held
    )


def main() -> None:
    given = options(
        __doc__, f"{JOBS} jobs on {GPUS} GPUs, {JOBS_PER_HOUR} an hour; quantiles from past errors"
    )
    report = Report("forecasts", "Predicted finishes under Shockwave", given)
    jobs = given.jobs or JOBS
    runs = [told(jobs, SEEDS[0], belief) for belief in BELIEFS]
    runs += [told(jobs, seed, "regimes") for seed in SEEDS[1:]]
    report.table(
        ("seed", "batch sizes to come", "mean error", "median", "with P50, P90", "P50", "P90"),
        [
            (
                str(one.seed),
                one.belief,
                f"{one.mean_error:.1f} %",
                f"{one.median_error:.1f} %",
                str(one.quantiles),
                f"{one.p50:.0f} %",
                f"{one.p90:.0f} %",
            )
            for one in runs
        ],
    )
    known, ahead, reacting = runs[:3]
    report.claims(
        [
            Claim(
                "finishes are predicted better where batch sizes to come are (section 2.2, figure 2)",
                f"mean error {ahead.mean_error:.1f} %, of who expects no change "
                f"{reacting.mean_error:.1f} %, of who knows {known.mean_error:.1f} %",
                ahead.mean_error < reacting.mean_error,
            )
        ]
    )
    predicted = [one for one in runs if one.belief == "regimes"]
    count = sum(one.quantiles for one in predicted)
    if count:
        shares = [
            sum(getattr(one, name) * one.quantiles for one in predicted) / count
            for name in ("p50", "p90")
        ]
        report.say(
            f"With predicted regimes P50 holds for {shares[0]:.0f} % and P90 for {shares[1]:.0f} % of "
            f"{count} jobs. The errors that are left come from jobs that are submitted later, of which a "
            "forecast knows nothing, and from batch sizes that change at other times than believed."
        )
    report.runs(Told._fields, runs)
    report.close()


if __name__ == "__main__":
    main()
