"""Guarantees made, kept and broken.

A guarantee is a finish that a policy or an admission undertakes to keep. It is kept if the job finished by
the last time that it was guaranteed, and that guarantee was not taken back before it did. A job that was
cancelled, or that could still keep its guarantee when the run ended, is NaN.
"""

import numpy as np

from volvelle.core.promises import keeps
from volvelle.metrics import per_job
from volvelle.metrics.outcomes import JobStatus, Outcomes, once
from volvelle.model.arrays import FloatColumn


@once
def finish_by(outcomes: Outcomes) -> FloatColumn:
    """The latest guaranteed finish of each job, seconds on the workload's clock; NaN without one."""
    last = np.full(len(outcomes), np.nan)
    for change in outcomes.promises:
        if change.promise.finish_by is not None:
            last[change.promise.number] = change.promise.finish_by
    return last


def promised(outcomes: Outcomes) -> FloatColumn:
    """1 for jobs that were guaranteed a finish, 0 for others with deadlines; NaN without guarantees."""
    guaranteed = ~np.isnan(finish_by(outcomes))
    asked = np.array([bool(spec.rewards) for spec in outcomes.specs], dtype=np.bool_)
    asked &= bool(outcomes.promises)
    return np.where(asked | guaranteed, guaranteed.astype(np.float64), np.nan)


def broken(outcomes: Outcomes) -> FloatColumn:
    """1 where a guarantee was not kept, 0 where it was, NaN without a guarantee."""
    due = finish_by(outcomes)
    withdrawn = np.zeros(len(outcomes), dtype=np.bool_)
    for change in outcomes.promises:
        job = change.promise.number
        withdrawn[job] = change.promise.finish_by is None and not outcomes.finish[job] < change.time
    not_kept = np.full(len(outcomes), np.nan)
    for job in np.flatnonzero(~np.isnan(due)).tolist():
        kept = keeps(float(outcomes.finish[job]), float(due[job]))
        not_kept[job] = float(withdrawn[job] or not kept)
    there = per_job.has_status(outcomes, JobStatus.RUNNING, JobStatus.WAITING)
    open_yet = there & ~withdrawn & (outcomes.end_time < due)
    undecided = open_yet | per_job.has_status(outcomes, JobStatus.CANCELLED)
    return np.where(undecided, np.nan, not_kept)
