"""The worth of rounds to Shockwave: finish-time fairness, utility and the makespan (NSDI'23, 6.2, G)."""

import numpy as np

from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats

JOB_SECONDS, JOBS, COUNTED = 0, 1, 2
"""Own columns: jobs in the system summed over the seconds that a job was in it; how many there were at the
last decision, and when that was."""
OWN_COLUMNS = 3

NO_PROGRESS = 1e-6
"""The progress that a job without any counts as having, since its logarithm would be infinite."""

_ALL = 1.0 - 1e-9
"""UTIL of a job that is done, with what rounding may take from it."""


def count_jobs(own: Floats, submitted: FloatColumn, now: float) -> None:
    """Add to each job the job-seconds since the last decision, in place.

    A new one met those that are there now, from its submission on.
    """
    new, there = own[JOBS] == 0.0, float(own.shape[1])
    met = np.where(new, there, own[JOBS])
    own[JOB_SECONDS] += met * (now - np.where(new, submitted, own[COUNTED]))
    own[JOBS], own[COUNTED] = there, now


def contention(own: Floats, submitted: FloatColumn, now: float, gpus: float) -> FloatColumn:
    """N_avg of equation 9: jobs for each GPU, averaged over the time that a job was in the system; >= 1."""
    stay = now - submitted
    mean = np.where(stay > 0.0, own[JOB_SECONDS] / np.where(stay > 0.0, stay, 1.0), own[JOBS])
    factor: FloatColumn = np.maximum(mean / max(gpus, 1.0), 1.0)
    return factor


def finish_time_fairness(
    age: FloatColumn, left: FloatColumn, whole: FloatColumn, factor: FloatColumn
) -> FloatColumn:
    """Rho of equation 9, for jobs that came ``age`` seconds ago (L + W).

    left, whole: R and P, seconds alone. factor: N_avg.
    """
    rho: FloatColumn = (age + left * factor) / (whole * factor)
    return rho


def budgets(view: View) -> FloatColumn:
    """(jobs,) weights of jobs; those of a pool that has one divide it, in proportion to their own."""
    jobs = view.jobs
    weight = jobs.weight.copy()
    for pool in np.flatnonzero(np.isfinite(view.budget)).tolist():
        mine = jobs.pool == pool
        weight[mine] *= view.budget[pool] / float(weight[mine].sum())
    return weight


def gains(progress: Floats, weight: FloatColumn, pieces: int, ending: float = 0.0) -> Floats:
    """(jobs, rounds) by how much each further round raises ``weight`` log UTIL, equations 8 and 11.

    progress: (jobs, rounds + 1), UTIL. The logarithm is linear between ``pieces`` equal parts of a job's
    progress; 0: it is itself. ending: what the round in which a job ends is worth beside that.
    """
    if pieces:
        ends = np.linspace(0.0, 1.0, pieces + 1)
        worth = np.interp(progress, ends, np.log(np.maximum(ends, NO_PROGRESS)))
    else:
        worth = np.log(np.maximum(progress, NO_PROGRESS))
    worth += ending * (progress >= _ALL)
    gained: Floats = weight[:, None] * np.diff(worth, axis=1)
    return gained


def less_to_come(gangs: Floats, left: Floats, progress: Floats) -> Floats:
    """(jobs, ways, rounds) by how many GPU-seconds each further round lessens what is left of a job.

    Counted on the number of GPUs that takes least of them, as the sum in the makespan's bound has to be.
    gangs, left: (jobs, ways) GPUs, and seconds on them. progress: (jobs, ways, rounds + 1), UTIL.
    """
    least = (gangs * left).min(axis=1)
    rest = np.maximum(1.0 - progress[:, :, :1], NO_PROGRESS)
    lessened: Floats = least[:, None, None] * np.diff(progress, axis=2) / rest
    return lessened
