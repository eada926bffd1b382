"""The most that anticipation could gain: figure 19's program, solved offline (sections 4.1 and appendix A).

All jobs are known beforehand. Each job starts between its submission and its **cut-off**, its start in the
isolated reference, so that none is later than there; the sum of all waits, plus ``beta`` times how far pools
exceed their share, is least. For small workloads.

Windows are sized by duration, as appendix A says: the starts that a job may have are its submission, every
window of it from then on, and its cut-off. GPUs are counted exactly at every possible start, where use can
rise, so that an answer can be carried out with any windows; a schedule between two windows is not seen. With
windows of one ``unit`` of which all times are multiples nothing is missed: among the best schedules is one in
which each start is a submission or the end of another job.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.model.tolerances import SAME_MOMENT
from volvelle.plan.programs import Program, Rows, maximise, relative_gap
from volvelle.systems.anticipatory.virtual_clock import VirtualClock


class OracleJobs(NamedTuple):
    """Jobs in order of submission, and the pools that own GPUs.

    submit, seconds, gpus, pool (index into ``owned``) of each job; times in seconds. owned: GPUs by pool.
    """

    submit: FloatColumn
    seconds: FloatColumn
    gpus: FloatColumn
    pool: IntColumn
    owned: FloatColumn

    @classmethod
    def of(cls, jobs: Sequence[Job], cluster: Cluster) -> "OracleJobs":
        """Gangs with linear rates on a cluster of one GPU type, all of them in pools. Raises `Problem`."""
        places = {pool.name: place for place, pool in enumerate(cluster.pools)}
        for job in jobs:
            if job.spec.pool not in places:
                raise Problem(
                    f"job {job.spec.id!r} is of pool {job.spec.pool!r}, which owns nothing",
                    mend=f"pools are {', '.join(places) or 'not described'}",
                )
        rates = [job.truth.rate(job.spec.gpus, cluster.gpu_types[0]) for job in jobs]
        work = np.array([job.truth.work for job in jobs], dtype=np.float64)
        return cls(
            np.array([job.spec.submit_time for job in jobs], dtype=np.float64),
            work / np.array(rates, dtype=np.float64),
            np.array([job.spec.gpus for job in jobs], dtype=np.float64),
            np.array([places[job.spec.pool] for job in jobs], dtype=np.int64),
            np.array([pool.quota for pool in cluster.pools], dtype=np.float64),
        )

    @property
    def cut_offs(self) -> FloatColumn:
        """The start of each job in the isolated reference: equation 3's m. Raises `Problem` if never."""
        found = np.zeros(len(self.submit))
        for pool, owned in enumerate(self.owned.tolist()):
            mine = self.pool == pool
            clock = VirtualClock(owned)
            found[mine] = clock.starts(self.submit[mine], self.gpus[mine], self.seconds[mine])
        if len(wide := np.flatnonzero(np.isinf(found))):
            job = int(wide[0])
            raise Problem(
                f"job {job} wants {self.gpus[job]:g} GPUs, its pool owns {self.owned[self.pool[job]]:g}",
                mend="leave it out: with its pool alone it would never start",
            )
        return found


class OracleSchedule(NamedTuple):
    """Starts of the jobs, seconds; the waits of all together; and the ``gap``.

    gap: how much smaller, relative to it, the program's objective could at most be; 0: a proven optimum (of
    the starts that the windows allow).
    """

    starts: FloatColumn
    waited_seconds: float
    gap: float


def best_schedule(
    jobs: OracleJobs,
    *,
    unit: float = 60.0,
    windows: int | None = None,
    beta: float = 0.0,
    limit_seconds: float = 60.0,
    known: FloatColumn | None = None,
) -> OracleSchedule:
    """Figure 19's schedule, found within ``limit_seconds`` of work; at worst the one ``known``.

    unit: the shortest window, seconds. windows: how many a job's duration has (None: all are of one unit).
    beta: equation 8's weight of fairness, seconds of waiting for a second in which some pool holds the whole
    of its share more. known: starts of a schedule without harm, which are among the choices (None: the
    reference). Raises `Problem` where jobs never start in the reference, or without HiGHS.
    """
    cut_offs = jobs.cut_offs
    known = cut_offs if known is None else np.minimum(known, cut_offs)
    choices = [
        np.union1d(_choices(submit, seconds, last, unit, windows), [start, last])
        for submit, seconds, last, start in zip(
            jobs.submit.tolist(),
            jobs.seconds.tolist(),
            cut_offs.tolist(),
            known.tolist(),
            strict=True,
        )
    ]
    owner = np.repeat(np.arange(len(choices)), [len(each) for each in choices])
    starts = np.concatenate(choices)
    times = np.unique(starts)
    count, fair = len(starts), beta > 0.0
    gain = -(starts - jobs.submit[owner])
    upper = np.ones(count)
    if fair:  # one multiplier for every time at which use can rise, weighed by how long it stays
        lasts = np.diff(np.append(times, (starts + jobs.seconds[owner]).max()))
        most = float(jobs.owned.sum() / jobs.owned[jobs.owned > 0.0].min())
        gain = np.concatenate([gain, -beta * lasts])
        upper = np.concatenate([upper, np.full(len(times), most)])
    rows = Rows()
    for job in range(len(choices)):  # (9), (10): each starts once, in time
        mine = np.flatnonzero(owner == job)
        rows.add(mine, np.ones(len(mine)), 1.0, 1.0)
    ends = starts + jobs.seconds[owner]
    capacity, widths = float(jobs.owned.sum()), jobs.gpus[owner]
    for at, now in enumerate(times.tolist()):
        running = np.flatnonzero((starts <= now) & (ends > now + SAME_MOMENT))
        if jobs.gpus[np.unique(owner[running])].sum() > capacity:  # (12)
            rows.add(running, widths[running], upper=capacity)
        for pool, owned in enumerate(jobs.owned.tolist() if fair else []):  # (13)
            mine = running[jobs.pool[owner[running]] == pool]
            if len(mine):
                share = np.append(widths[mine], -owned)
                rows.add(np.append(mine, count + at), share, upper=0.0)
    whole = np.arange(len(gain)) < count
    incumbent = np.zeros(len(gain))
    incumbent[:count] = starts == known[owner]
    if fair:
        incumbent[count:] = _multipliers(jobs, known, times)
    answer = maximise(Program(gain, upper, rows, whole), incumbent, 0.0, limit_seconds)
    chosen = np.flatnonzero(np.round(answer.x[:count]) == 1.0)
    found = np.empty(len(choices))
    found[owner[chosen]] = starts[chosen]
    waited = float((found - jobs.submit).sum())
    return OracleSchedule(found, waited, relative_gap(answer.value, answer.bound))


def _choices(
    submit: float, seconds: float, last: float, unit: float, windows: int | None
) -> FloatColumn:
    """The submission of a job and its windows, before its ``last`` start."""
    window = unit
    if windows is not None:
        window = max(unit, unit * math.floor(seconds / windows / unit))
    count = math.ceil((last - submit) / window)
    found: FloatColumn = submit + window * np.arange(count, dtype=np.float64)
    return found[found < last]


def _multipliers(jobs: OracleJobs, starts: FloatColumn, times: FloatColumn) -> FloatColumn:
    """Equation 13's alpha at each of ``times`` for jobs that start so."""
    ends = starts + jobs.seconds - SAME_MOMENT
    runs = (starts <= times[:, None]) & (ends > times[:, None])
    found = np.zeros(len(times))
    for pool, owned in enumerate(jobs.owned.tolist()):
        if owned > 0.0:
            held = (runs * jobs.gpus)[:, jobs.pool == pool].sum(axis=1)
            found = np.maximum(found, held / owned)
    return found
