"""Quantities over time, exact between events: nothing here samples.

Each series is a `Steps`: intervals (segments held, waits, stays) are sorted by time once, and every series
over them is one sum, so an integral over it is a sum of rectangles. A job is in the system from its
submission until it leaves; it runs while it holds a segment and waits the rest of that time. A rejected job
never waits.

GPUs are counted, not located: a free GPU on a fragmented node counts as usable by a gang of the
right size. Pools' quotas and GPU types are not looked at either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volvelle.metrics.outcomes import JobStatus, Outcomes, Steps, once
from volvelle.metrics.per_job import has_status
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn

_DECIMALS = 9  # sums of fractional GPUs are rounded here, so that 0.1 + 0.2 - 0.3 is no GPU


def start_time(outcomes: Outcomes) -> float:
    """The first submission, where measuring begins; the end of the run if nothing was submitted."""
    return float(outcomes.submit_time.min()) if len(outcomes) else outcomes.end_time


@once
def departure(outcomes: Outcomes) -> FloatColumn:
    """When each job left the system: its finish; the run's end if it was still there.

    A rejected job leaves as it comes. A failed or cancelled job without a recorded finish leaves
    with its last segment, or as it came if it never had one.
    """
    last_held = outcomes.submit_time.copy()
    np.maximum.at(last_held, outcomes.segments.job, _segment_ends(outcomes))
    left = np.where(np.isnan(outcomes.finish), last_held, outcomes.finish)
    left[has_status(outcomes, JobStatus.RUNNING, JobStatus.WAITING)] = outcomes.end_time
    rejected = has_status(outcomes, JobStatus.REJECTED)
    left[rejected] = outcomes.submit_time[rejected]
    return np.maximum(left, outcomes.submit_time)


@once
def busy_gpus(outcomes: Outcomes) -> Steps:
    """GPUs held by jobs."""
    return _holdings(outcomes).sum(outcomes.segments.gpus)


def running_jobs(outcomes: Outcomes) -> Steps:
    """Jobs that hold GPUs."""
    return _holdings(outcomes).count()


@once
def queue_length(outcomes: Outcomes) -> Steps:
    """Jobs that wait, preempted ones included."""
    return _waiting(outcomes).count()


@once
def queued_gpus(outcomes: Outcomes) -> Steps:
    """GPUs requested by the jobs that wait."""
    jobs, _, _ = waits(outcomes)
    return _waiting(outcomes).sum(outcomes.gpus[jobs])


def demand(outcomes: Outcomes) -> Steps:
    """GPUs requested by all jobs in the system, running or waiting."""
    return _stays(outcomes).sum(outcomes.gpus)


@once
def waits(outcomes: Outcomes) -> tuple[IntColumn, FloatColumn, FloatColumn]:
    """Every unbroken wait as (job, start, end), by job and start; waits of no length left out.

    A wait begins at submission and at the end of each segment; the next segment or the departure
    ends it.
    """
    segments, jobs = outcomes.segments, np.arange(len(outcomes), dtype=np.int64)
    held_until = _segment_ends(outcomes)
    order = np.lexsort((held_until, segments.start, segments.job))
    held = segments.job[order]
    starts = np.insert(held_until[order], _firsts(held, jobs), outcomes.submit_time)
    ends = np.insert(segments.start[order], _lasts(held, jobs), departure(outcomes))
    owners = np.insert(held, _firsts(held, jobs), jobs)
    real = ends > starts
    return owners[real], starts[real], ends[real]


def fragmented_gpus(outcomes: Outcomes) -> Steps:
    """Free GPUs that no waiting gang could use: fewer are free than the smallest of them needs.

    An elastic job needs its least. Zero while nothing waits, and while something waits that would
    fit (that is a decision of the policy, not fragmentation). Count-based, see the module.
    """
    jobs, starts, ends = waits(outcomes)
    least = np.array([spec.least_gpus for spec in outcomes.specs], dtype=np.float64)
    free = _difference(outcomes.capacity, busy_gpus(outcomes))
    times = _distinct(free.times, _waiting(outcomes).times)
    smallest = _smallest_over(times, starts, ends, least[jobs])
    idle = values_at(free, times)
    stuck = (idle > 0) & (idle < smallest) & np.isfinite(smallest)
    return _coalesced(times, np.where(stuck, idle, 0.0))


def waits_beside_idle(outcomes: Outcomes) -> Steps:
    """1 while jobs wait and half of the free GPUs would do for any one of them; else 0.

    No order of the jobs explains such waits, nor does a gang that finds no GPUs together, so something did
    that is not among the jobs. Count-based, see the module.
    """
    jobs, starts, ends = waits(outcomes)
    free = _difference(outcomes.capacity, busy_gpus(outcomes))
    times = _distinct(free.times, _waiting(outcomes).times)
    widest = -_smallest_over(times, starts, ends, -outcomes.gpus[jobs])
    any_would_fit = (widest > 0.0) & (widest <= values_at(free, times) / 2.0)
    return _coalesced(times, np.where(any_would_fit, 1.0, 0.0))


def utilisation(outcomes: Outcomes, start: float | None = None, end: float | None = None) -> float:
    """GPU time held over GPU time present from ``start`` to ``end``, 0 to 1.

    By default from the first submission to the end of the run. NaN where no GPU was present.
    """
    start = start_time(outcomes) if start is None else start
    end = outcomes.end_time if end is None else end
    present = integral(outcomes.capacity, start, end)
    return integral(busy_gpus(outcomes), start, end) / present if present > 0 else float("nan")


def makespan(outcomes: Outcomes) -> float:
    """Seconds from first submission to last departure of the tracked jobs (Shockwave, section 8.2).

    Rejected jobs are left out. While a job is unfinished the end of the run stands for its
    departure, so the figure is a lower bound. NaN without jobs.
    """
    counted = outcomes.tracked & ~has_status(outcomes, JobStatus.REJECTED)
    if not counted.any():
        return float("nan")
    return float(departure(outcomes)[counted].max() - outcomes.submit_time[counted].min())


def integral(steps: Steps, start: float, end: float) -> float:
    """The area under ``steps`` from ``start`` to ``end``; before its first change a series is 0."""
    return float(np.dot(*_pieces(steps, start, end)))


def mean(steps: Steps, start: float, end: float) -> float:
    """The time average; the value itself where the span has no length."""
    if end <= start:
        return float(values_at(steps, np.array([start]))[0])
    return integral(steps, start, end) / (end - start)


def percentiles(steps: Steps, shares: Sequence[float], start: float, end: float) -> list[float]:
    """For each of ``shares``, the least value not exceeded during that percentage of the time."""
    values, lengths = _pieces(steps, start, end)
    if not lengths.any():
        return [mean(steps, start, start)] * len(shares)
    values, lengths = values[lengths > 0], lengths[lengths > 0]
    order = np.argsort(values)
    values, reached = values[order], np.cumsum(lengths[order])
    wanted = reached[-1] * np.array(shares, dtype=np.float64) / 100.0 * (1 - 1e-12)
    found: list[float] = values[np.searchsorted(reached, wanted)].tolist()
    return found


def values_at(steps: Steps, times: FloatColumn) -> FloatColumn:
    """The value at each of ``times``, 0 before the first change."""
    index = np.searchsorted(steps.times, times, side="right")
    return np.concatenate(([0.0], steps.values))[index]


def _segment_ends(outcomes: Outcomes) -> FloatColumn:
    return np.fmin(outcomes.segments.end, outcomes.end_time)  # fmin: an open end may be NaN


def _firsts(held: IntColumn, jobs: IntColumn) -> IntColumn:
    return np.searchsorted(held, jobs, side="left").astype(np.int64)


def _lasts(held: IntColumn, jobs: IntColumn) -> IntColumn:
    return np.searchsorted(held, jobs, side="right").astype(np.int64)


@dataclass(frozen=True)
class _Intervals:
    """Intervals whose starts and ends are in order of time, to be summed as often as needed.

    order: positions in the starts followed by the ends. last: for each of the different ``times``
    the last place in that order.
    """

    times: FloatColumn
    order: IntColumn
    last: IntColumn

    @classmethod
    def of(cls, starts: FloatColumn, ends: FloatColumn) -> "_Intervals":
        moments = np.concatenate((starts, ends))
        order = np.argsort(moments, kind="stable")
        moments = moments[order]
        last = np.flatnonzero(np.diff(moments, append=np.inf) != 0)
        return cls(moments[last], order, last)

    def sum(self, amounts: FloatColumn) -> Steps:
        """The sum of ``amounts``, one for each interval, over those that cover a moment."""
        changes = np.concatenate((amounts, -amounts))[self.order]
        return _coalesced(self.times, _rounded(np.cumsum(changes)[self.last]))

    def count(self) -> Steps:
        """How many of the intervals cover a moment."""
        return self.sum(np.ones(len(self.order) // 2))


@once
def _holdings(outcomes: Outcomes) -> _Intervals:
    return _Intervals.of(outcomes.segments.start, _segment_ends(outcomes))


@once
def _stays(outcomes: Outcomes) -> _Intervals:
    return _Intervals.of(outcomes.submit_time, departure(outcomes))


@once
def _waiting(outcomes: Outcomes) -> _Intervals:
    _, starts, ends = waits(outcomes)
    return _Intervals.of(starts, ends)


def _rounded(values: FloatColumn) -> FloatColumn:
    return np.asarray(np.round(values, _DECIMALS), dtype=np.float64)


def _coalesced(times: FloatColumn, values: FloatColumn) -> Steps:
    """The same series without the times at which nothing changes."""
    changed: BoolColumn = np.diff(values, prepend=0.0) != 0
    return Steps(times[changed], values[changed])


def _difference(left: Steps, right: Steps) -> Steps:
    times = _distinct(left.times, right.times)
    return Steps(times, _rounded(values_at(left, times) - values_at(right, times)))


def _distinct(*times: FloatColumn) -> FloatColumn:
    """All different times, ascending; np.unique would import numpy.ma for this."""
    ordered: FloatColumn = np.sort(np.concatenate(times))
    changed: BoolColumn = np.diff(ordered, prepend=-np.inf) != 0
    return ordered[changed]


def _pieces(steps: Steps, start: float, end: float) -> tuple[FloatColumn, FloatColumn]:
    """Values and how long each holds, within ``start`` and ``end``."""
    times = np.concatenate(
        ([start], np.clip(steps.times, start, max(start, end)), [max(start, end)])
    )
    return np.concatenate(([0.0], steps.values)), np.diff(times)


def _smallest_over(
    times: FloatColumn, starts: FloatColumn, ends: FloatColumn, sizes: FloatColumn
) -> FloatColumn:
    """The smallest size whose interval covers each of the sorted ``times``; inf where none does.

    ``starts`` and ``ends`` are among ``times``. An interval is the union of two overlapping runs of
    2^k times; the minima are written there and handed down to runs of half the length, k times.
    """
    smallest = np.full(len(times), np.inf)
    if len(starts) == 0:
        return smallest
    first, beyond = np.searchsorted(times, starts), np.searchsorted(times, ends)
    level = np.frexp(beyond - first)[1] - 1  # floor(log2(length))
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(level.max() + 2))
    for k in range(int(level.max()), -1, -1):
        chosen = order[bounds[k] : bounds[k + 1]]
        np.minimum.at(smallest, first[chosen], sizes[chosen])
        np.minimum.at(smallest, beyond[chosen] - (1 << k), sizes[chosen])
        if k:
            half = 1 << (k - 1)
            smallest[half:] = np.minimum(smallest[half:], smallest[:-half])
    return smallest
