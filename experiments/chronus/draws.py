"""Thirty draws: rewards missed under chronus and srsf, and by the best that anybody could do.

The best is the optimum of a linear program that knows all jobs before the first comes, divides each over time
and GPUs as it likes, pays nothing for starts and serves no best effort. No schedule misses less; one that
misses no more need not exist. Its cells of time are an hour long.
"""

import numpy as np
from chronus_study import Claim, Figures, Options, Report, options, outcomes_of, percent, workload

from volvelle.model.units import HOUR
from volvelle.plan.programs import Program, Rows, maximise
from volvelle.workload.workload import Workload

MIX = "MIX2"
DENSITIES = (1.2, 1.6)
POLICIES = ("chronus", "srsf")
CELL = HOUR


def main() -> None:
    given = options(__doc__, thin=30, seeds=30)
    report = Report("draws", "Chronus, srsf and the best that could be, draw by draw", given)
    runs, rows, claims = [], [], []
    for density in DENSITIES:
        missed = np.array([_missed(draw, density) for draw in given.draws])
        runs += [
            (density, policy, draw.seed, repr(wdmr))
            for draw, row in zip(given.draws, missed.tolist(), strict=True)
            for policy, wdmr in zip((*POLICIES, "least possible"), row, strict=True)
        ]
        means, worst = missed.mean(axis=0), missed.max(axis=0)
        rows.append((f"{density:.0%}", "mean", *map(percent, means)))
        rows.append((f"{density:.0%}", "worst draw", *map(percent, worst)))
        wins = int((missed[:, 0] <= missed[:, 1]).sum())
        seen = f"on {wins} of {len(missed)} draws"
        claims.append(
            Claim(f"no more missed than under srsf at {density:.0%}", seen, wins == len(missed))
        )
    report.table(("density", "", *POLICIES, "least possible"), rows)
    report.claims(claims)
    report.runs(("density", "policy", "seed", "wdmr"), runs)
    report.close()


def _missed(draw: Options, density: float) -> tuple[float, ...]:
    """Shares of rewards missed: under each policy, and at least."""
    jobs = workload(draw, MIX, density)
    found = [Figures.of(outcomes_of(jobs, draw.gpus, policy)).missed for policy in POLICIES]
    return *found, least_missed(jobs, draw.gpus)


def least_missed(jobs: Workload, gpus: float) -> float:
    """The share of all rewards that any schedule on so many GPUs misses.

    Variables are the GPU-seconds of a job in each cell of time, and by which of its steps it ends. A cell is
    counted as if all of it were before a deadline within it.
    """
    due = [job for job in jobs if job.spec.rewards]
    gain: list[float] = []
    upper: list[float] = []
    served: dict[int, list[int]] = {}
    rows = Rows()
    for job in due:
        came, gpus_of, rewards = job.spec.submit_time, job.spec.gpus, job.spec.rewards
        ends = np.array([came + each.deadline_seconds for each in rewards])
        cells = np.arange(came // CELL, ends[-1] // CELL + 1)
        within = np.minimum(cells * CELL + CELL, ends[-1]) - np.maximum(cells * CELL, came)
        parts = len(gain) + np.arange(len(cells))
        steps = len(gain) + len(cells) + np.arange(len(rewards))
        gain += [0.0] * len(cells) + [each.value for each in rewards]
        upper += (gpus_of * within).tolist() + [1.0] * len(rewards)
        for cell, part in zip(cells.astype(int).tolist(), parts.tolist(), strict=True):
            served.setdefault(cell, []).append(part)
        rows.add(steps, np.ones(len(steps)), upper=1.0)
        work = gpus_of * job.seconds_on(gpus_of)
        for step, end in enumerate(ends):
            there, by_then = parts[cells <= end // CELL], steps[: step + 1]
            ones, works = np.ones(len(there)), np.full(len(by_then), -work)
            rows.add(np.concatenate([there, by_then]), np.concatenate([ones, works]), lower=0.0)
    for together in served.values():
        rows.add(np.array(together), np.ones(len(together)), upper=gpus * CELL)
    program = Program(np.array(gain), np.array(upper), rows)
    most = sum(job.spec.rewards[0].value for job in due)
    return 1.0 - maximise(program, np.zeros(len(gain)), most, np.inf).value / most


if __name__ == "__main__":
    main()
