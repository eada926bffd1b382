"""The second gear: compiled play-outs for the places that run ahead thousands of times.

The general engine (`Scheduler` in a `World`) is the reference; this one is for the policies that are a
plain order (fifo, fifo-skip, sjf, smallest, srtf, srsf, las) or PCS' divided shares, where GPUs are of
one type and only counted, starts and stops cost nothing, and rates are linear or a table. Whatever else
is asked for is answered with None, and the general engine does it. Both give the same times.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from volvelle.core.columns import Column
from volvelle.core.policy import (
    OrderPolicy,
    Policy,
    QueuedShares,
    compiled_key,
    compiled_shares,
)
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import FloatColumn, IntColumn
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import Linear, Table
from volvelle.simulate.forecast import Forecast
from volvelle.simulate.gear.foresight import foresee
from volvelle.simulate.gear.loop import SHARES, Input, play_out

if TYPE_CHECKING:
    from volvelle.simulate.run import Setting


class Rules(NamedTuple):
    """A policy as the compiled loop knows it."""

    order: int
    preemptive: bool
    strict: bool
    elastic: bool
    period: float
    weights: FloatColumn
    floor: float
    delta: float


def rules_of(policy: Policy) -> Rules | None:
    """The policy for the compiled loop; None where it does not know it."""
    none = np.zeros(0)
    if isinstance(shares := compiled_shares(policy), QueuedShares):
        return Rules(SHARES, True, False, True, 0.0, shares.weights, shares.floor, shares.delta)
    order = compiled_key(policy)
    if order is None or not isinstance(policy, OrderPolicy):
        return None
    return Rules(
        int(order),
        policy.preemptive,
        policy.strict,
        policy.elastic,
        policy.round or 0.0,
        none,
        0.0,
        0.0,
    )


class Played(NamedTuple):
    """First starts and finishes of jobs by number, NaN where there is none, and the events of it."""

    start: FloatColumn
    finish: FloatColumn
    events: int


class Curves:
    """Rates by (curve, GPUs) of the jobs seen so far, and which job has which curve.

    A job's curve is -1 where it is linear, and -2 where the compiled loop cannot follow it.
    """

    LINEAR, FOREIGN = -1, -2

    def __init__(self, gpus: float) -> None:
        self._index: dict[Table, int] = {}
        self._widest = int(gpus)
        self.rates: FloatColumn = np.zeros((0, self._widest + 1))

    def of(self, spec: JobSpec, truth: Truth) -> int:
        """The curve of one job."""
        throughput = truth.throughput
        fixed = not (truth.regimes or truth.spread_slowdown or truth.sensitivity or truth.beside)
        if not fixed or spec.least_gpus > self._widest:
            return self.FOREIGN
        if type(throughput) is Linear:
            return self.LINEAR
        if type(throughput) is not Table:
            return self.FOREIGN
        curve = self._index.get(throughput)
        if curve is None:
            curve = self._index[throughput] = len(self._index)
            rates = [0.0, *(throughput.rate(gpus) for gpus in range(1, self._widest + 1))]
            self.rates = np.vstack([self.rates, rates])
        return curve


class Gear:
    """Plays out the jobs of one scheduler, again and again; remembers what it knows of each.

    It is for as long as the scheduler keeps its policy.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._rules = _rules_of(scheduler)
        self._curves = Curves(scheduler.view().gpus)
        self._curve_of: IntColumn = np.zeros(0, dtype=np.int64)

    def play(self, scheduler: Scheduler, last: int | None = None) -> Played | None:
        """What `forecast` says of the jobs in ``scheduler``, in rising order of their numbers.

        last: the position of the job with which it may end. None where this gear cannot say.
        """
        jobs = self.columns(scheduler)
        return None if jobs is None else self.play_columns(jobs, jobs.shape[1], scheduler, last)

    def forecast(self, scheduler: Scheduler) -> Forecast | None:
        """As `volvelle.simulate.forecast.forecast`; None where this gear cannot say."""
        played = self.play(scheduler)
        if played is None:
            return None
        matrix = scheduler.jobs.matrix[:, : scheduler.jobs.count]
        matrix = matrix[:, np.argsort(matrix[Column.NUMBER])]
        numbers = matrix[Column.NUMBER].astype(np.int64).tolist()
        first = matrix[Column.FIRST_START]
        starts = np.where(np.isnan(first), played.start, first)
        return Forecast(_known(numbers, starts), _known(numbers, played.finish))

    def columns(self, scheduler: Scheduler) -> FloatColumn | None:
        """The jobs in ``scheduler`` as `Input` columns, by number; None where this gear cannot say."""
        matrix = scheduler.jobs.matrix[:, : scheduler.jobs.count]
        if self._rules is None or scheduler.at_the_door or not _plain(matrix, self._rules):
            return None
        matrix = matrix[:, np.argsort(matrix[Column.NUMBER])]
        curve = self._curves_of(scheduler, matrix[Column.NUMBER].astype(np.int64))
        if (curve == Curves.FOREIGN).any():
            return None
        jobs = np.empty((Input.COUNT, matrix.shape[1]))
        for to, column in _COPIED:
            jobs[to] = matrix[column]
        jobs[Input.CURVE] = curve
        if self._rules.order == SHARES:
            jobs[Input.QUEUE] = matrix[Column.COUNT] - 1.0
            if (jobs[Input.QUEUE] < 0.0).any():
                return None  # somebody has no queue yet: the policy was not asked since it came
        progress = np.maximum(scheduler.now - matrix[Column.PROGRESS_FROM], 0.0)
        reached = matrix[Column.DONE] + progress * matrix[Column.RATE]
        rest = np.maximum(matrix[Column.TOTAL] - reached, 0.0)
        as_told = (matrix[Column.SCALE] == 1.0) & (matrix[Column.TOTAL] >= reached)
        work = np.where(as_told, matrix[Column.TOTAL], reached + matrix[Column.SCALE] * rest)
        jobs[Input.SIZE], jobs[Input.LEFT] = work, work - matrix[Column.DONE]
        jobs[Input.TRULY_LEFT] = jobs[Input.LEFT]
        return jobs

    def play_columns(
        self, jobs: FloatColumn, present: int, scheduler: Scheduler, last: int | None = None
    ) -> Played:
        """What becomes of ``jobs`` (as `columns` gives them): ``present`` now, the others later."""
        rules = self._rules
        assert rules is not None, "columns are given only where there are rules"
        return Played(
            *play_out(
                jobs,
                present,
                scheduler.now,
                self._curves.rates,
                scheduler.view().gpus,
                *rules,
                rules.period > 0.0 and scheduler.wake_at() is not None,
                -1 if last is None else last,
                math.inf,
            )
        )

    def _curves_of(self, scheduler: Scheduler, numbers: IntColumn) -> IntColumn:
        """The curves of jobs by their ascending ``numbers``."""
        known = len(self._curve_of)
        if len(numbers) and numbers[-1] >= known:
            room = np.full(int(numbers[-1]) + 64, -3, dtype=np.int64)
            room[:known] = self._curve_of
            self._curve_of = room
        curve = self._curve_of[numbers]
        for i in np.flatnonzero(curve == -3).tolist():
            job = scheduler.known[int(numbers[i])]
            curve[i] = self._curve_of[numbers[i]] = self._curves.of(job.spec, job.believed)
        return curve


def position_of(scheduler: Scheduler, number: int) -> int:
    """Which of the jobs in the system, by number, job ``number`` is."""
    numbers = scheduler.jobs.matrix[Column.NUMBER, : scheduler.jobs.count]
    return int(np.count_nonzero(numbers < number))


def _known(numbers: Sequence[int], times: FloatColumn) -> dict[int, float]:
    return {
        number: time
        for number, time in zip(numbers, times.tolist(), strict=True)
        if not math.isnan(time)
    }


_COPIED = (
    (Input.SUBMIT, Column.SUBMIT),
    (Input.GPUS, Column.GPUS),
    (Input.LEAST, Column.LEAST),
    (Input.MOST, Column.MOST),
    (Input.UNIT_RATE, Column.UNIT_RATE),
    (Input.FULL_RATE, Column.FULL_RATE),
    (Input.HELD, Column.HELD),
    (Input.SINCE, Column.PROGRESS_FROM),
    (Input.RATE, Column.RATE),
    (Input.ATTAINED, Column.ATTAINED_GPU),
    (Input.ATTAINED_SECONDS, Column.ATTAINED),
)
_FREE_OF_CHARGE = [Column.START_GAP, Column.RESTORE, Column.RESIZE, Column.PINNED]


def _rules_of(scheduler: Scheduler) -> Rules | None:
    cluster = scheduler.cluster
    if scheduler.resources.named or len(cluster.gpu_types) > 1 or cluster.pools:
        return None
    if cluster.nodes_change or scheduler.composition.loss_every is not None:
        return None
    return rules_of(scheduler.composition.policy)


def _plain(matrix: FloatColumn, rules: Rules) -> bool:
    """Whether starts and stops cost these jobs nothing, and they may be stopped where they are."""
    held = matrix[Column.HELD] > 0.0
    return (
        not matrix[_FREE_OF_CHARGE].any()
        and (not rules.preemptive or bool(matrix[Column.PREEMPTIBLE].all()))
        and not np.any(held & (matrix[Column.STARTED] != matrix[Column.PROGRESS_FROM]))
    )


class Foreseen(NamedTuple):
    """First starts and finishes of jobs by number, and the finishes predicted at submission."""

    start: FloatColumn
    finish: FloatColumn
    predicted: FloatColumn


def play(jobs: Sequence[Job], setting: "Setting") -> Played | None:
    """A whole simulation: first starts and finishes of ``jobs``, in order of submission.

    None where this gear cannot say: beside what the module says, beliefs must be true (``oracle``),
    everybody be admitted, and ends be noticed at once.
    """
    whole = _whole(jobs, setting)
    if whole is None:
        return None
    until = math.inf if setting.until is None else setting.until
    return Played(
        *play_out(whole.columns, 0, 0.0, whole.rates, whole.gpus, *whole.rules, False, -1, until)
    )


def play_and_predict(jobs: Sequence[Job], setting: "Setting") -> Foreseen | None:
    """As `play`, with each job's finish predicted at its submission; None with rounds or an end too."""
    whole = _whole(jobs, setting)
    if whole is None or whole.rules.period or setting.until is not None:
        return None
    rules = whole.rules
    return Foreseen(
        *foresee(
            whole.columns,
            whole.rates,
            whole.gpus,
            rules.order,
            rules.preemptive,
            rules.strict,
            rules.elastic,
            rules.weights,
            rules.floor,
            rules.delta,
        )
    )


class _Whole(NamedTuple):
    """All jobs of a simulation for the compiled loop, and what rules it."""

    columns: FloatColumn
    rates: FloatColumn
    gpus: float
    rules: Rules


def _whole(jobs: Sequence[Job], setting: "Setting") -> _Whole | None:
    scheduler = setting.header.scheduler()
    rules = _rules_of(scheduler)
    written = setting.composition
    free = not any(setting.overheads.model_dump(exclude={"checkpoint_every"}).values())
    if (
        rules is None
        or (written.estimator, written.admission) != ("oracle", "accept-all")
        or setting.tick is not None
        or setting.tracked is not None
        or not free
    ):
        return None
    gpus = scheduler.view().gpus
    curves = Curves(gpus)
    columns = np.zeros((Input.COUNT, len(jobs)))
    rows = []
    for job in jobs:
        spec, truth = job.spec, job.truth
        curve = curves.of(spec, truth)
        needs = spec.least_gpus if rules.elastic else spec.gpus
        costs = (spec.checkpoint_seconds, spec.restore_seconds)
        if (
            curve == Curves.FOREIGN
            or job.training is not None
            or needs > gpus
            or truth.failures
            or any(costs)
            or spec.gpu_types
            or (rules.preemptive and not spec.preemptible)
        ):
            return None
        linear = curve == Curves.LINEAR
        rows.append(
            (
                spec.submit_time,
                spec.gpus,
                spec.least_gpus,
                spec.most_gpus,
                curve,
                truth.rate(1.0) if linear else math.nan,
                truth.rate(spec.most_gpus),
                truth.work,
                truth.work,
                spec.least_gpus * truth.work / truth.rate(spec.least_gpus),
            )
        )
    columns[: Input.QUEUE + 1] = np.array(rows).reshape(len(jobs), Input.QUEUE + 1).T
    columns[Input.TRULY_LEFT] = columns[Input.LEFT]
    if isinstance(shares := compiled_shares(scheduler.composition.policy), QueuedShares):
        columns[Input.QUEUE] = np.searchsorted(shares.thresholds, columns[Input.QUEUE])
    return _Whole(columns, curves.rates, gpus, rules)
