"""The description of a workload: counts, load over time, and distributions, for tables and plots.

Load is work submitted over capacity, GPU-seconds / (cluster GPUs x time), over the span from the
first submission to the last. Series have two values for each bin: the work submitted in it
(``submitted_gpus``: its GPU-seconds divided by the bin, so 48 means 48 GPUs' worth) and the GPUs that
would be busy if every job started when it was submitted (``demanded_gpus``, the time average). Bins are
aligned to whole hours and days of the trace's own clock.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import FloatColumn
from volvelle.model.units import DAY, HOUR, format_duration
from volvelle.workload.workload import Workload

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_CDF_POINTS = 200
_MOST_GROUPS = 20


@dataclass(frozen=True)
class Distribution:
    """A column of numbers, in the unit that the field's name states.

    ``quantiles`` are pairs (share, value); ``cdf`` are pairs (value, share of the column at or
    below it), at most about 200, for a plot. Everything is None or empty where there are no numbers.
    """

    count: int
    mean: float | None = None
    least: float | None = None
    most: float | None = None
    quantiles: tuple[tuple[float, float], ...] = ()
    cdf: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, column: FloatColumn) -> "Distribution":
        """The distribution of the finite values of ``column``."""
        values = np.sort(column[np.isfinite(column)])
        if not len(values):
            return cls(0)
        return cls(
            count=len(values),
            mean=float(values.mean()),
            least=float(values[0]),
            most=float(values[-1]),
            quantiles=_pairs(QUANTILES, np.quantile(values, QUANTILES)),
            cdf=_cdf(values),
        )

    def quantile(self, share: float) -> float | None:
        """One of the kept quantiles."""
        return dict(self.quantiles).get(share)


@dataclass(frozen=True)
class WidthShare:
    """The jobs that ask for ``gpus`` GPUs."""

    gpus: float
    jobs: int
    job_share: float
    gpu_seconds: float
    gpu_second_share: float


@dataclass(frozen=True)
class GroupShare:
    """The jobs of a user or of a pool."""

    name: str
    jobs: int
    gpu_seconds: float
    gpu_second_share: float


@dataclass(frozen=True)
class TimeSeries:
    """One value for each bin of ``bin_seconds``, the first beginning at ``start_seconds``.

    ``offered_load`` is ``submitted_gpus`` over the cluster's GPUs, None without a cluster. The
    first and the last bin are seldom full; what they hold is still divided by a whole bin.
    """

    bin_seconds: float
    start_seconds: float
    submitted_jobs: tuple[int, ...]
    submitted_gpus: tuple[float, ...]
    demanded_gpus: tuple[float, ...]
    offered_load: tuple[float, ...] | None


@dataclass(frozen=True)
class BusiestDay:
    """The day on which the most work was submitted; ``day`` counts from 0 at the first one."""

    day: int
    start_seconds: float
    submitted_jobs: int
    submitted_gpus: float
    offered_load: float | None


@dataclass(frozen=True, repr=False)
class Description:
    """A workload in numbers; `as_json` makes it plain lists and mappings.

    ``gpu_types`` counts jobs by the types they accept, "any" where they name none.
    ``unrunnable`` jobs make no progress on the GPUs they ask for; their work counts as nothing.
    ``burstiness`` is the index of dispersion of hourly submissions, variance over mean: 1 for
    Poisson, more for bursts or a daily rhythm. ``estimate_ratio`` is what users estimated over the truth.
    """

    name: str
    jobs: int
    users: int
    pools: int
    classes: dict[str, int]
    gpu_types: dict[str, int]
    elastic: int
    fractional: int
    unrunnable: int
    first_submit_seconds: float
    span_seconds: float
    gpu_seconds: float
    cluster_gpus: int | None
    load: float | None
    peak_demanded_gpus: float
    burstiness: float | None
    duration_seconds: Distribution
    gpus: Distribution
    gap_seconds: Distribution
    estimate_ratio: Distribution
    widths: tuple[WidthShare, ...]
    top_users: tuple[GroupShare, ...]
    top_pools: tuple[GroupShare, ...]
    hourly: TimeSeries
    daily: TimeSeries
    busiest_day: BusiestDay | None

    def as_json(self) -> dict[str, Any]:
        """Mappings, lists and numbers only; nothing in it is infinite or not a number."""
        return asdict(self)

    def __repr__(self) -> str:
        load = (
            f", load {self.load:.3g} of {self.cluster_gpus:,} GPUs" if self.load is not None else ""
        )
        width, seconds = self.gpus.quantile(0.5), self.duration_seconds.quantile(0.5)
        middle = ""
        if width is not None and seconds is not None:
            wide = f"{width:g} GPU{'' if width == 1.0 else 's'} or fewer"
            middle = f"; half of them ask for {wide} and take {format_duration(seconds)} or less"
        return (
            f"<{self.jobs:,} jobs of {self.name}: {self.users:,} users, {self.gpu_seconds / HOUR:,.0f} "
            f"GPU-hours in {self.span_seconds / DAY:.3g} days{load}{middle}; "
            "as_json() has it all>"
        )


def describe(workload: Workload, cluster_gpus: int | None = None) -> Description:
    """Describe ``workload``, its load against a cluster of ``cluster_gpus`` GPUs where given."""
    submits, gpus = workload.submit_times, workload.gpus
    durations = np.where(np.isfinite(workload.durations), workload.durations, 0.0)
    work = gpus * durations
    total = float(work.sum())
    span = float(submits[-1] - submits[0]) if len(submits) else 0.0
    hourly, daily = (
        _series(submits, gpus, durations, bin_seconds, cluster_gpus) for bin_seconds in (HOUR, DAY)
    )
    specs = [job.spec for job in workload]
    return Description(
        name=workload.name,
        jobs=len(workload),
        users=len({spec.user for spec in specs if spec.user}),
        pools=len({spec.pool for spec in specs if spec.pool}),
        classes=dict(Counter(str(spec.job_class) for spec in specs)),
        gpu_types=dict(Counter("|".join(spec.gpu_types) or "any" for spec in specs)),
        elastic=sum(spec.elastic for spec in specs),
        fractional=int((gpus % 1 != 0).sum()),
        unrunnable=int((~np.isfinite(workload.durations)).sum()),
        first_submit_seconds=float(submits[0]) if len(submits) else 0.0,
        span_seconds=span,
        gpu_seconds=total,
        cluster_gpus=cluster_gpus,
        load=total / (span * cluster_gpus) if cluster_gpus and span > 0 else None,
        peak_demanded_gpus=peak_demand(submits, gpus, durations),
        burstiness=dispersion(np.array(hourly.submitted_jobs, dtype=np.float64)),
        duration_seconds=Distribution.of(workload.durations),
        gpus=Distribution.of(gpus),
        gap_seconds=Distribution.of(np.diff(submits)),
        estimate_ratio=Distribution.of(_estimate_ratios(workload, durations)),
        widths=_widths(gpus, work),
        top_users=_groups((spec.user for spec in specs), work),
        top_pools=_groups((spec.pool for spec in specs), work),
        hourly=hourly,
        daily=daily,
        busiest_day=_busiest(daily),
    )


def dispersion(counts: FloatColumn) -> float | None:
    """Variance over mean of the counts of equal bins; None for fewer than two bins or no jobs."""
    if len(counts) < 2 or counts.sum() == 0:
        return None
    return float(counts.var() / counts.mean())


def peak_demand(submits: FloatColumn, gpus: FloatColumn, durations: FloatColumn) -> float:
    """The most GPUs that would run at once if every job started when it was submitted."""
    if not len(submits):
        return 0.0
    moments = np.concatenate([submits + durations, submits])  # at a tie, ends before starts
    changes = np.concatenate([-gpus, gpus])
    order = np.argsort(moments, kind="stable")
    return float(max(np.cumsum(changes[order]).max(), 0.0))


def _series(
    submits: FloatColumn,
    gpus: FloatColumn,
    durations: FloatColumn,
    bin_seconds: float,
    cluster_gpus: int | None,
) -> TimeSeries:
    if not len(submits):
        return TimeSeries(bin_seconds, 0.0, (), (), (), () if cluster_gpus else None)
    first = int(submits[0] // bin_seconds)
    bins = (submits // bin_seconds).astype(np.int64) - first
    count = int(bins[-1]) + 1
    jobs: NDArray[np.int64] = np.bincount(bins, minlength=count)
    submitted = np.bincount(bins, weights=gpus * durations, minlength=count) / bin_seconds
    edges: FloatColumn = (first + np.arange(count + 1, dtype=np.float64)) * bin_seconds
    demanded = np.diff(_demanded_until(edges, submits, gpus, durations)) / bin_seconds
    return TimeSeries(
        bin_seconds=bin_seconds,
        start_seconds=first * bin_seconds,
        submitted_jobs=tuple(jobs.tolist()),
        submitted_gpus=tuple(submitted.tolist()),
        demanded_gpus=tuple(np.maximum(demanded, 0.0).tolist()),
        offered_load=tuple((submitted / cluster_gpus).tolist()) if cluster_gpus else None,
    )


def _demanded_until(
    moments: FloatColumn, submits: FloatColumn, gpus: FloatColumn, durations: FloatColumn
) -> FloatColumn:
    """GPU-seconds run before each moment if every job started when it was submitted."""
    origin = submits[0]  # sums of products with absolute clocks would lose digits
    started = _ramps(moments - origin, submits - origin, gpus)
    return started - _ramps(moments - origin, submits - origin + durations, gpus)


def _ramps(moments: FloatColumn, begins: FloatColumn, slopes: FloatColumn) -> FloatColumn:
    """``sum of slope x max(0, moment - begin)`` at each moment."""
    order = np.argsort(begins, kind="stable")
    slope = np.concatenate([[0.0], np.cumsum(slopes[order])])
    offset = np.concatenate([[0.0], np.cumsum((slopes * begins)[order])])
    reached = np.searchsorted(begins[order], moments)
    area: FloatColumn = slope[reached] * moments - offset[reached]
    return area


def _busiest(daily: TimeSeries) -> BusiestDay | None:
    if not daily.submitted_gpus:
        return None
    day = int(np.argmax(daily.submitted_gpus))
    return BusiestDay(
        day=day,
        start_seconds=daily.start_seconds + day * daily.bin_seconds,
        submitted_jobs=daily.submitted_jobs[day],
        submitted_gpus=daily.submitted_gpus[day],
        offered_load=daily.offered_load[day] if daily.offered_load else None,
    )


def _widths(gpus: FloatColumn, work: FloatColumn) -> tuple[WidthShare, ...]:
    values, places, counts = np.unique(gpus, return_inverse=True, return_counts=True)
    spent = np.bincount(places, weights=work, minlength=len(values))
    total = max(float(work.sum()), np.finfo(float).tiny)
    return tuple(
        WidthShare(width, jobs, jobs / len(gpus), seconds, seconds / total)
        for width, jobs, seconds in zip(
            values.tolist(), counts.tolist(), spent.tolist(), strict=True
        )
    )


def _groups(names: Iterable[str], work: FloatColumn) -> tuple[GroupShare, ...]:
    """The groups with the most GPU-seconds; jobs without a name belong to none."""
    jobs: Counter[str] = Counter()
    spent: dict[str, float] = {}
    for name, seconds in zip(names, work.tolist(), strict=True):
        if name:
            jobs[name] += 1
            spent[name] = spent.get(name, 0.0) + seconds
    total = max(float(work.sum()), np.finfo(float).tiny)
    first = sorted(spent, key=lambda name: (-spent[name], name))[:_MOST_GROUPS]
    return tuple(GroupShare(name, jobs[name], spent[name], spent[name] / total) for name in first)


def _estimate_ratios(workload: Workload, durations: FloatColumn) -> FloatColumn:
    estimates = np.array(
        [
            np.nan if job.spec.estimate_seconds is None else job.spec.estimate_seconds
            for job in workload
        ]
    )
    ratios = np.full(len(estimates), np.nan)
    np.divide(estimates, durations, out=ratios, where=durations > 0)
    return ratios


def _cdf(ordered: FloatColumn) -> tuple[tuple[float, float], ...]:
    """At most about `_CDF_POINTS` points of the distribution function, the first and last kept."""
    places = np.unique(np.linspace(0, len(ordered) - 1, _CDF_POINTS).astype(np.int64))
    values = np.unique(ordered[places])
    return _pairs(values, np.searchsorted(ordered, values, side="right") / len(ordered))


def _pairs(first: Iterable[float], second: Iterable[float]) -> tuple[tuple[float, float], ...]:
    return tuple((float(a), float(b)) for a, b in zip(first, second, strict=True))
