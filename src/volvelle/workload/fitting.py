"""A generator that resembles a given trace (``--like TRACE``) and stretches it.

Properties of the trace that are kept:

- Rhythm: the rate of submission in each hour of the week (`volvelle.workload.rhythm`).
- Bursts, and sweeps of one user: a circular block bootstrap (Politis and Romano, 1992) of
  jobs with their gaps in operational time, that is with the rhythm taken out. A block of
  neighbouring jobs keeps a user's sweep together. Every job is used equally often (a balanced
  bootstrap: Davison, Hinkley and Schechtman, 1986), so that a heavy tail does not move the load.
- Width, duration, user, pool, class, elasticity, deadlines: whole jobs are resampled, so that all
  of these stay joint. Durations are smoothed on the logarithm, within each width class and with a
  kernel no wider than the trace is dense, so that a longer workload is not the same jobs again;
  work, deadlines and estimates stretch along.

Parameters: the number of jobs or the length, the load, the size of the cluster. A cluster
twice as large gets twice the rate of the same jobs, since widths are what users ask for; where it
is smaller, jobs wider than it are left out. Trends over weeks are kept only inside blocks.

Measured on the published traces of some thousand jobs (Philly, openb): deciles of duration within 10 %,
width shares exact, load within 5 % (12 % where single jobs weigh that much), and 70 to 100 % of the
dispersion of hourly submissions: the largest bursts come out flatter than they were.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job, Reward, Truth
from volvelle.model.problems import Problem
from volvelle.model.units import HOUR
from volvelle.workload.describe import dispersion
from volvelle.workload.rhythm import WEEK, WeeklyRhythm, weekly_rhythm
from volvelle.workload.workload import Workload

_replace = msgspec.structs.replace
_Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Target:
    """How large the generated workload is: ``jobs`` over ``length_seconds``.

    With ``gpu_seconds_per_second`` (load x GPUs) the workload is drawn to that much work: the side
    named ``fixed`` ("jobs" or "length") stays, the other follows from the jobs drawn.
    """

    jobs: int
    length_seconds: float
    fixed: str
    gpu_seconds_per_second: float | None = None


@dataclass(frozen=True)
class FittedTrace:
    """A fitted trace; `generate` draws a workload like it.

    ``burstiness`` is the index of dispersion of submissions in bins of one expected hour of
    operational time (1 for Poisson around the rhythm); ``left_out`` counts the jobs of the trace
    that were wider than the new cluster or had no finite duration.
    """

    trace: Workload
    rhythm: WeeklyRhythm
    gaps: FloatColumn
    bandwidths: FloatColumn
    block_jobs: int
    target: Target
    burstiness: float | None
    left_out: int = 0
    name: str = "like"

    @property
    def source(self) -> str:
        """The trace it was fitted to."""
        return f"fitted to {self.trace.name or 'a trace'} of {len(self.trace):,} jobs"

    def generate(self, rng: np.random.Generator) -> Workload:
        """Draw one workload; it begins at the trace's hour of the week."""
        rows, factors = self._drawn(rng)
        length = self._length(rows, factors)
        begin = float(self.trace.submit_times[0]) % WEEK
        low, high = self.rhythm.expected(np.array([begin, begin + length]))
        reached = np.cumsum(self.gaps[rows])
        reached -= reached[0] / 2 if len(rows) else 0.0
        share = reached / (reached[-1] + self.gaps.mean() / 2) if len(rows) else reached
        times = self.rhythm.moment(low + share * (high - low))
        # Rounding in the inversion must not put neighbours out of order.
        return Workload(list(self._jobs(rows, factors, np.maximum.accumulate(times))), self.name)

    def _drawn(self, rng: np.random.Generator) -> tuple[_Indices, FloatColumn]:
        """Rows of the trace to copy and the factors for their durations."""
        target, count = self.target, self.target.jobs
        if target.gpu_seconds_per_second is None or target.fixed == "jobs":
            return self._resampled(rng, count)
        wanted = target.gpu_seconds_per_second * target.length_seconds
        rows, factors = self._resampled(rng, count + 16)
        while (done := self._work(rows, factors).sum()) < wanted:
            more = int(len(rows) * (wanted / done - 1) * 1.2) + 16
            extra, stretched = self._resampled(rng, more)
            rows, factors = np.append(rows, extra), np.append(factors, stretched)
        kept = int(np.searchsorted(np.cumsum(self._work(rows, factors)), wanted)) + 1
        return rows[:kept], factors[:kept]

    def _resampled(self, rng: np.random.Generator, count: int) -> tuple[_Indices, FloatColumn]:
        passes = -(-count // len(self.trace))
        rows = np.concatenate([self._pass(rng) for _ in range(passes)])[:count]
        width = self.bandwidths[rows]
        # The second term keeps the mean duration.
        return rows, np.exp(width * rng.standard_normal(count) - width**2 / 2)

    def _pass(self, rng: np.random.Generator) -> _Indices:
        """Every row once: the trace as a circle, cut into blocks at a random place, shuffled."""
        size = len(self.trace)
        circle = (int(rng.integers(size)) + np.arange(size)) % size
        blocks = np.split(circle, np.arange(self.block_jobs, size, self.block_jobs))
        return np.concatenate([blocks[index] for index in rng.permutation(len(blocks))])

    def _work(self, rows: _Indices, factors: FloatColumn) -> FloatColumn:
        work: FloatColumn = (self.trace.gpus * self.trace.durations)[rows] * factors
        return work

    def _length(self, rows: _Indices, factors: FloatColumn) -> float:
        if self.target.gpu_seconds_per_second is None or self.target.fixed == "length":
            return self.target.length_seconds
        return float(self._work(rows, factors).sum()) / self.target.gpu_seconds_per_second

    def _jobs(self, rows: _Indices, factors: FloatColumn, times: FloatColumn) -> Iterator[Job]:
        jobs = self.trace.jobs
        drawn = zip(rows.tolist(), factors.tolist(), times.tolist(), strict=True)
        for index, (row, factor, time) in enumerate(drawn):
            yield stretched(jobs[row], factor, str(index), time)


def like(
    trace: Workload,
    *,
    jobs: int | None = None,
    length_seconds: float | None = None,
    load: float | None = None,
    gpus: int | None = None,
    cluster_gpus: int | None = None,
) -> FittedTrace:
    """Fit ``trace`` and say how large a workload like it shall be.

    ``cluster_gpus`` is the size of the cluster that the trace ran on, ``gpus`` that of the new one
    (the same unless given). Without anything else the result has the trace's length and rate, the
    rate times ``gpus / cluster_gpus``; ``load`` sets the rate instead. ``jobs`` or
    ``length_seconds`` set the size; both together set the rate.

    Raises `Problem` where the trace is too small or the wishes contradict each other.
    """
    fitted = _usable(trace, gpus)
    target = _target(fitted, jobs, length_seconds, load, gpus, cluster_gpus)
    rhythm = weekly_rhythm(fitted.submit_times)
    operational = rhythm.expected(fitted.submit_times)
    gaps = np.diff(operational, prepend=operational[0])
    gaps[0] = gaps[1:].mean()
    counts = np.bincount(
        ((operational - operational[0]) / (rhythm.rates.mean() * HOUR)).astype(np.int64)
    )
    return FittedTrace(
        trace=fitted,
        rhythm=rhythm,
        gaps=gaps,
        bandwidths=_bandwidths(fitted),
        block_jobs=max(20, round(min(len(fitted), target.jobs) ** (2 / 3))),
        target=target,
        burstiness=dispersion(counts.astype(np.float64)),
        left_out=len(trace) - len(fitted),
    )


def stretched(job: Job, factor: float, name: str, submit_time: float) -> Job:
    """``job`` as job ``name``, with ``factor`` times the work, deadlines and estimate."""
    spec, truth = job.spec, job.truth
    estimate = spec.estimate_seconds
    new_spec = _replace(
        spec,
        id=name,
        submit_time=submit_time,
        rewards=tuple(Reward(r.deadline_seconds * factor, r.value) for r in spec.rewards),
        estimate_seconds=None if estimate is None else estimate * factor,
    )
    return Job(new_spec, _stretched_truth(truth, factor))


def _stretched_truth(truth: Truth, factor: float) -> Truth:
    if not (truth.regimes or truth.failures or truth.loss_curve):
        return _replace(truth, work=truth.work * factor)
    return _replace(
        truth,
        work=truth.work * factor,
        regimes=tuple(_replace(r, start_work=r.start_work * factor) for r in truth.regimes),
        failures=tuple(work * factor for work in truth.failures),
        loss_curve=tuple(_replace(p, work=p.work * factor) for p in truth.loss_curve),
    )


def _usable(trace: Workload, gpus: int | None) -> Workload:
    """The jobs that can be copied: of finite duration, and no wider than the new cluster."""
    keep = np.isfinite(trace.durations) & (trace.durations > 0) & (trace.gpus > 0)
    if gpus is not None:
        keep &= trace.gpus <= gpus
    if keep.all():
        fitted = trace
    else:
        kept = [job for job, good in zip(trace.jobs, keep.tolist(), strict=True) if good]
        fitted = Workload(kept, trace.name)
    if len(fitted) < 2 or fitted.submit_times[-1] <= fitted.submit_times[0]:
        raise Problem(
            f"cannot fit {trace.name or 'a trace'}: {len(fitted)} of its {len(trace)} jobs have GPUs "
            "that the cluster has, a duration, and a time of submission of their own",
            mend="give a trace of two such jobs or more",
        )
    return fitted


def _target(
    trace: Workload,
    jobs: int | None,
    length_seconds: float | None,
    load: float | None,
    gpus: int | None,
    cluster_gpus: int | None,
) -> Target:
    for key, value in (
        ("jobs", jobs),
        ("length", length_seconds),
        ("load", load),
        ("gpus", gpus),
        ("cluster_gpus", cluster_gpus),
    ):
        if value is not None and not value > 0:
            raise Problem(f"{key} is {value}", mend="give a number above 0")
    span = float(trace.submit_times[-1] - trace.submit_times[0])
    if load is not None:
        return _target_of_load(trace, jobs, length_seconds, load, gpus or cluster_gpus)
    if gpus is not None and cluster_gpus is None and jobs is None and length_seconds is None:
        raise Problem(
            f"a cluster of {gpus} GPUs is wanted, but the size of the trace's own is not known",
            mend="say on how many GPUs the trace ran (--was; cluster_gpus in Python), or the load",
        )
    rate = len(trace) / span * (gpus / cluster_gpus if gpus and cluster_gpus else 1.0)
    if jobs is not None:
        return Target(jobs, length_seconds or jobs / rate, "jobs")
    length = length_seconds or span
    return Target(max(1, round(rate * length)), length, "length")


def _target_of_load(
    trace: Workload,
    jobs: int | None,
    length_seconds: float | None,
    load: float,
    capacity: int | None,
) -> Target:
    if capacity is None:
        raise Problem(
            f"a load of {load:g} is wanted, but of how many GPUs is not known",
            mend="name the cluster (--cluster; gpus in Python)",
        )
    if jobs is not None and length_seconds is not None:
        raise Problem("jobs, length and load contradict each other", mend="give two of them")
    speed = load * capacity
    rate = speed / float((trace.gpus * trace.durations).mean())
    if jobs is not None:
        return Target(jobs, jobs / rate, "jobs", speed)
    length = length_seconds or float(trace.submit_times[-1] - trace.submit_times[0])
    return Target(max(1, round(rate * length)), length, "length", speed)


def _bandwidths(trace: Workload) -> FloatColumn:
    """For each job the deviation by which the logarithm of its duration is smoothed.

    Half of Silverman's bandwidth of its width class, or the distance to its nearest neighbours in
    that class where they are closer: durations that are repeated exactly stay exact.
    """
    logs = np.log(trace.durations)
    classes = np.round(np.log2(trace.gpus)).astype(np.int64)
    widths = np.zeros(len(trace))
    for value in np.unique(classes):
        members = np.flatnonzero(classes == value)
        members = members[np.argsort(logs[members], kind="stable")]
        widths[members] = _smoothing(logs[members])
    return widths


def _smoothing(ordered: FloatColumn) -> FloatColumn:
    """The bandwidth at each of the ascending values."""
    size = len(ordered)
    quarter, three = np.quantile(ordered, (0.25, 0.75))
    spread = min(float(ordered.std()), float(three - quarter) / 1.34)
    reach = max(1, round(size**0.5 / 2))
    places = np.arange(size)
    above = ordered[np.minimum(places + reach, size - 1)] - ordered
    below = ordered - ordered[np.maximum(places - reach, 0)]
    # The ends have neighbours on one side only, which counts alone.
    above = np.where(places + reach < size, above, below)
    below = np.where(places - reach >= 0, below, above)
    kernel: FloatColumn = np.minimum(0.45 * spread * size**-0.2, np.minimum(above, below))
    return kernel
