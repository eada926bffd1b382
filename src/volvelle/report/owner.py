"""A comparison for the owner of a cluster, in five sentences: idle GPUs, waits, and the best change."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from volvelle.metrics import labels, per_job, series
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import Outcomes, Steps
from volvelle.model.arrays import FloatColumn, distinct
from volvelle.report.cautions import TooFewWanted
from volvelle.report.compositions import Composition, baseline, judge
from volvelle.report.grid import Grid
from volvelle.report.sentences import BestChange, Idle, Needs, Sentence, WaitedMost, WaitingCost
from volvelle.report.table import same
from volvelle.workload.proposing import TYPICAL_LOAD

_DAY = 86400.0
_FEW = 10  # smaller groups are not named
_WAITED = 1.0  # seconds a job on average, below which nothing is said of who waited
_LONGER = 1.1  # times the mean wait of all others, which a group that waited most waited at least

_GROUPINGS: tuple[tuple[str, Callable[[Outcomes], Labels]], ...] = (
    ("pool {}", labels.pools),
    ("user {}", labels.users),
)
"""The first by which jobs differ is told, and beside it the widths."""


def in_short(
    grid: Grid, reference: str | None = None, price: float | None = None
) -> tuple[Sentence, ...]:
    """Five sentences at most; none where ``grid`` is over several rates, or has one run and no price.

    Before them it is said where the trace seems to hold a part of the load, after them where few jobs wait.

    The first are of the run that the others are held against (`baseline`), the last of the one with
    the least mean completion time, among those that need nothing that a cluster does not know where one of
    these betters the baseline. ``price``: of a GPU-hour.
    """
    if len(grid.rates) > 1 or (len(grid.labels) < 2 and price is None):
        return ()
    _, judged, part = judge(grid)
    if not judged:
        return ()
    first = () if part is None else (part,)
    now = baseline(judged, reference)
    told = (*first, *_told(judged, now, price))
    changed = any(isinstance(one, BestChange) and one.improves for one in told)
    if part is not None or changed or len(grid.labels) < 2 or not _hardly_waits(now):
        return told
    return (*told, _too_few_wanted(now))


def _told(
    judged: Sequence[Composition], now: Composition, price: float | None
) -> Iterator[Sentence]:
    beside_waits = now.mean(_idle_beside_waits) / _DAY
    yield Idle(now.label, now.mean(_present) / _DAY, now.mean(_idle) / _DAY, beside_waits)
    mean = now.mean(_mean_wait)
    if mean >= _WAITED:
        yield WaitedMost(now.label, _longest_waits(now))
    yield WaitingCost(now.label, now.mean(_waited) / _DAY, mean, beside_waits, price)
    if len(judged) < 2:
        return
    times = {one.label: one.figure("jct:mean") for one in judged}
    before = times[now.label]
    quickest = best = min(judged, key=lambda one: times[one.label])
    if quickest.durations == "exact" != now.durations:
        able = [one for one in judged if one.durations != "exact"]
        first = min(able, key=lambda one: times[one.label])
        if times[first.label] < before and not same(times[first.label], before):
            best = first
    after = times[best.label]
    yield BestChange(best.label, best.mean(_mean_wait), after, now.label, mean, before)
    if not same(after, before):
        quicker = times[quickest.label] < after and not same(times[quickest.label], after)
        known = (quickest.label, times[quickest.label]) if quicker else None
        preempts = best.figure("preemptions:mean")
        yield Needs(best.label, best.durations, preempts, best.resized, known)


def _hardly_waits(now: Composition) -> bool:
    """Whether jobs would finish as early (`same`) without their waits, so that no order of them matters."""
    jct = now.figure("jct:mean")
    return same(jct, jct - now.mean(_mean_wait))


def _too_few_wanted(now: Composition) -> TooFewWanted:
    """The sentence, with a cluster for a load of `TYPICAL_LOAD`, in any case smaller than what jobs held."""
    outcomes = now.runs[0].outcomes
    start, end = _span(outcomes)
    submission = float(outcomes.submit_time[-1]) - start
    load = float(outcomes.gpu_seconds.sum()) / (submission or end - start)
    peak = float(series.busy_gpus(outcomes).values.max())
    wanted = max(min(load / TYPICAL_LOAD, TYPICAL_LOAD * peak), float(outcomes.gpus.max()))
    gpus = float(outcomes.capacity.values.max())
    return TooFewWanted(load, gpus, now.fewer_nodes(wanted))


def _span(outcomes: Outcomes) -> tuple[float, float]:
    return series.start_time(outcomes), outcomes.end_time


def _present(outcomes: Outcomes) -> float:
    return series.integral(outcomes.capacity, *_span(outcomes))


def _idle(outcomes: Outcomes) -> float:
    return _present(outcomes) - series.integral(series.busy_gpus(outcomes), *_span(outcomes))


def _idle_beside_waits(outcomes: Outcomes) -> float:
    """GPU-seconds that stood idle while some job waited."""
    held, queue = series.busy_gpus(outcomes), series.queue_length(outcomes)
    times = distinct(np.concatenate([held.times, queue.times, outcomes.capacity.times]))
    free = series.values_at(outcomes.capacity, times) - series.values_at(held, times)
    waits = series.values_at(queue, times) > 0
    return series.integral(Steps(times, np.where(waits, free, 0.0)), *_span(outcomes))


def _waits(outcomes: Outcomes) -> FloatColumn:
    """Seconds without GPUs of the jobs that are measured and finished, 0 for the others."""
    return np.where(outcomes.tracked, np.nan_to_num(per_job.queueing_delay(outcomes)), 0.0)


def _waited(outcomes: Outcomes) -> float:
    return float(_waits(outcomes).sum())


def _mean_wait(outcomes: Outcomes) -> float:
    finished = outcomes.tracked & np.isfinite(per_job.queueing_delay(outcomes))
    return _waited(outcomes) / max(1, int(finished.sum()))


def _longest_waits(now: Composition) -> tuple[tuple[str, float, float], ...]:
    found = []
    outcomes = now.runs[0].outcomes
    of_people = [each for each in _GROUPINGS if len(each[1](outcomes).names) > 1][:1]
    for words, labels_of in (*of_people, ("jobs of {} GPUs", labels.widths)):
        labelled = labels_of(outcomes)
        waits = np.bincount(labelled.of, _waits(outcomes), len(labelled.names))
        jobs = np.bincount(labelled.of, outcomes.tracked, len(labelled.names))
        if len(labelled.names) < 2:
            continue
        means = np.where(jobs >= min(_FEW, jobs.max()), waits / np.maximum(jobs, 1), -1.0)
        most = int(means.argmax())
        others = (waits.sum() - waits[most]) / max(jobs.sum() - jobs[most], 1.0)
        if means[most] < _LONGER * others:
            continue
        named = words.format(labelled.names[most]).replace("of 1 GPUs", "of 1 GPU")
        if not labelled.names[most]:
            named = f"jobs without a {words.partition(' ')[0]}"
        found.append((named, float(means[most]), float(jobs[most] / jobs.sum())))
    return tuple(found)
