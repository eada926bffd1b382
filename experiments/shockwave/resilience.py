"""Errors of predicted run times (section 8.10, figure 13).

The run time that is predicted of each job, with batch sizes to come, is off by a factor drawn once, even
between 1 - p and 1 + p. Most jobs of the trace change their batch size.
"""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from shockwave_study import (
    CSV_HEADS,
    HEADS,
    Claim,
    Report,
    compared,
    lines,
    options,
    records,
    run,
    small,
)

from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Belief, KnownJob, estimators
from volvelle.systems.shockwave.regimes import Regimes

LEVELS = (0, 50, 100)


@estimators.register
class NoisyRegimes(Regimes):
    """`Regimes`, with what remains of each job off by a factor."""

    name: ClassVar[str] = "noisy-regimes"

    error: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="p")

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The prior, off."""
        return self._off(job.spec.id, super().believe(job, seed))

    def adapt(self, job: KnownJob, work_done: float, batch_size: int | None) -> Belief | None:
        """What is restated, off by the same factor."""
        restated = super().adapt(job, work_done, batch_size)
        return None if restated is None else self._off(job.spec.id, restated)

    def _off(self, job: str, belief: Belief) -> Belief:
        draw = np.random.default_rng(list(job.encode()))
        factor = 1.0 + self.error * float(draw.uniform(-1.0, 1.0))
        return belief._replace(scale=max(factor, 0.01))


def main() -> None:
    given = options(__doc__, "the authors' trace of 120 jobs on 32 GPUs, one draw")
    report = Report("resilience", "Errors of predictions (Shockwave, figure 13)", given)
    table, rows, claims = [], [], []
    for case in (small(given),):
        runs = {
            f"noise {level} %": run(case, "shockwave", f"{NoisyRegimes.name}:error={level / 100:g}")
            for level in LEVELS
        }
        others = {
            name: one
            for name, one in compared(case, ("Themis", "Gavel", "AlloX")).items()
            if name != "Shockwave"
        }
        table += lines(case.name, runs) + lines(case.name, others)
        rows += records(case.name, runs | others)
        none, most = runs["noise 0 %"], runs["noise 100 %"]
        longest = max(one.makespan for one in others.values())
        claims += [
            Claim(
                "worst rho, the share of unfairly served jobs and the mean JCT rise slowly",
                f"{case.name}, 0 to 100 %: {none.worst:.2f} to {most.worst:.2f}, {none.unfair:.1f} to "
                f"{most.unfair:.1f} %, {none.jct:,.0f} to {most.jct:,.0f} s",
                most.worst <= 1.5 * none.worst and most.jct <= 1.1 * none.jct,
            ),
            Claim(
                "with 100 % noise the makespan is over 30 % longer, still on par with Themis, Gavel, AlloX",
                f"{case.name}: {100 * (most.makespan / none.makespan - 1):+.0f} %; "
                f"{most.makespan:,.0f} s, theirs up to {longest:,.0f} s",
                most.makespan > 1.3 * none.makespan and most.makespan <= 1.05 * longest,
            ),
        ]
    report.table(HEADS, table)
    report.claims(claims)
    report.runs(CSV_HEADS, rows)
    report.close()


if __name__ == "__main__":
    main()
