"""One run against another of the same jobs (anticipatory scheduling, SIA, section 6.1).

The paper compares every scheduler with a baseline that shares nothing (first come, first served in
each pool): who gained, who lost, and how much.
"""

from dataclasses import dataclass

import numpy as np

from volvelle.metrics import labels, per_job
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.problems import Problem
from volvelle.model.tolerances import SAME_SHARE


@dataclass(frozen=True)
class AgainstBaseline:
    """Columns in the rows of the run that is judged; NaN where a job did not finish in both runs.

    speed_up: JCT of the baseline over JCT of the run; 2 is half the time, below 1 a loss.
    slowdown_seconds: what the run added to the job's JCT; 0 for jobs that gained.
    """

    speed_up: FloatColumn
    slowdown_seconds: FloatColumn

    @property
    def compared(self) -> int:
        """Jobs that finished in both runs."""
        return int(np.isfinite(self.speed_up).sum())

    def of(self, rows: BoolColumn) -> "AgainstBaseline":
        """The same of some of the jobs."""
        return AgainstBaseline(self.speed_up[rows], self.slowdown_seconds[rows])

    @property
    def slowed(self) -> int:
        """Compared jobs that finished later than in the baseline."""
        return int(np.nansum(self.slowdown_seconds > 0.0))

    def speed_up_at(self, percent: float) -> float:
        """A percentile of the jobs' speed-ups; NaN where no job was compared."""
        ratios = self.speed_up[np.isfinite(self.speed_up)]
        return float(np.percentile(ratios, percent)) if len(ratios) else float("nan")

    @property
    def mean_speed_up(self) -> float:
        """Geometric mean, as in the paper's table 12: a gain of 2 and a loss of 2 cancel out."""
        ratios = self.speed_up[np.isfinite(self.speed_up)]
        return float(np.exp(np.log(ratios).mean())) if len(ratios) else float("nan")

    @property
    def slowed_fraction(self) -> float:
        """Share of the compared jobs that finished later than in the baseline, 0 to 1."""
        added = self.slowdown_seconds[np.isfinite(self.slowdown_seconds)]
        return float((added > 0).mean()) if len(added) else float("nan")

    @property
    def total_slowdown_seconds(self) -> float:
        """Seconds added to all slowed jobs together (the paper's table 17)."""
        return float(np.nansum(self.slowdown_seconds))

    @property
    def worst_slowdown_seconds(self) -> float:
        """Seconds added to the job that lost most; NaN where no job was compared."""
        return float(np.fmax.reduce(self.slowdown_seconds, initial=np.nan))


def against(outcomes: Outcomes, baseline: Outcomes) -> AgainstBaseline:
    """Per-job gain and loss of ``outcomes`` against ``baseline``, over its tracked jobs.

    The baseline's rows may be in another order. Raises `Problem` where the two runs are not of the
    same jobs.
    """
    row = _matching_rows(outcomes, baseline)
    after, before = per_job.jct(outcomes), per_job.jct(baseline)[row]
    after[~outcomes.tracked] = np.nan
    added = np.where(after - before > SAME_SHARE * before, after - before, 0.0)
    return AgainstBaseline(
        speed_up=per_job.ratio(before, after),
        slowdown_seconds=np.where(np.isnan(after + before), np.nan, added),
    )


def by_pool(outcomes: Outcomes, compared: AgainstBaseline) -> dict[str, AgainstBaseline]:
    """Gains and losses of the jobs of each pool: what a donor's jobs lost is what it paid for lending.

    ``compared`` is `against` of the same ``outcomes``; pools in order of their names, "" for jobs of none.
    """
    pools = labels.pools(outcomes)
    found = set(pools.of[outcomes.tracked].tolist())
    return {
        name: compared.of(outcomes.tracked & (pools.of == number))
        for name, number in sorted(zip(pools.names, range(len(pools.names)), strict=True))
        if number in found
    }


def _matching_rows(outcomes: Outcomes, baseline: Outcomes) -> IntColumn:
    """The row of the baseline that holds the job of each row of ``outcomes``."""
    rows = {spec.id: row for row, spec in enumerate(baseline.specs)}
    ours = [spec.id for spec in outcomes.specs]
    strangers = [name for name in ours if name not in rows] or list(rows.keys() - set(ours))
    if strangers:
        raise Problem(
            f"the run has {len(ours)} jobs and its baseline {len(rows)}, "
            f"and job {min(strangers)!r} is in only one of them",
            mend="compare two runs of the same workload",
        )
    return np.array([rows[name] for name in ours], dtype=np.int64)
