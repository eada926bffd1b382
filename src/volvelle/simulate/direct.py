"""Direct runs: a scheduler and its simulated world, moved on together by one compiled loop.

The general engine (`World` around `Scheduler.handle`) is the reference and runs everything; a direct run
gives the same results, to the last bit, for what an order decides over counted GPUs: policies that name
a `Key` (or whose decision is `ContestedShares`, AFS-L), admissions that are a limit on demand,
estimators that do not learn, and jobs that scale linearly, never fail, keep one batch size and stop at no
cost. `DirectRun.of` says whether that is so.
It leaves no journal: there are no events and decisions to write.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from volvelle.core.columns import Column
from volvelle.core.curves import RateCurves, RateTable
from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Estimator, KnownJob
from volvelle.core.policy import ContestedShares, OrderPolicy, compiled_key, compiled_shares
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import FloatColumn, JobColumns
from volvelle.metrics.recorder import Recorder
from volvelle.model.job import Job
from volvelle.model.throughput import Linear
from volvelle.simulate import direct_loop as loop
from volvelle.simulate.direct_loop import Ahead, Log, Rules, advance

_MOMENTS = 256
"""Moments between two looks at what else there is to do."""


class DirectRun:
    """A scheduler at its very start and the jobs that are to come, about to be moved on."""

    def __init__(
        self,
        scheduler: Scheduler,
        jobs: Sequence[Job],
        recorder: Recorder,
        rules: Rules,
        entries: "_Entries",
        tracked: Sequence[int] | None = None,
    ) -> None:
        self.scheduler = scheduler
        self._jobs = jobs
        self._recorder = recorder
        self._rules = rules
        self._entries = entries
        self._ahead = _at_the_start(jobs, entries, tracked)

    @classmethod
    def of(
        cls,
        scheduler: Scheduler,
        jobs: Sequence[Job],
        recorder: Recorder,
        *,
        tick: float | None = None,
        until: float = math.inf,
        tracked: Sequence[int] | None = None,
    ) -> "DirectRun | None":
        """The run of these jobs; None where only the general engine will do.

        The other arguments are those of `World`; ``recorder`` is told of everything.
        """
        composition, overheads = scheduler.composition, scheduler.overheads
        policy, capacity = composition.policy, scheduler.resources.gpus_by_type(up_only=True)
        key, limit = compiled_key(policy), composition.admission.limit(sum(capacity.tolist()))
        shares = compiled_shares(policy)
        contested = isinstance(shares, ContestedShares)
        if (key is None and not contested) or limit is None:
            return None
        named = composition.placement.names_gpus or scheduler.cluster.nodes_change
        learning = type(composition.estimator).learn is not Estimator.learn
        if named or learning or composition.loss_every is not None:
            return None
        if any(not _plain(job) or overheads.checkpoint_seconds(job.spec) for job in jobs):
            return None
        entries = _Entries(scheduler, jobs)
        if np.isnan(entries.columns[:, Column.UNIT_RATE]).any():
            return None  # believed not to scale linearly
        an_order = policy if isinstance(policy, OrderPolicy) else None
        rules = Rules(
            key=int(key or 0),
            contested=contested,
            later=isinstance(shares, ContestedShares) and shares.later,
            rates=entries.rates(capacity) if contested else np.zeros((0, 0, 0)),
            preemptive=an_order is None or an_order.preemptive,
            strict=an_order is not None and an_order.strict,
            elastic=an_order is None or an_order.elastic,
            round=policy.round or 0.0,
            time_varying=policy.time_varying,
            limit=limit,
            tick=tick or 0.0,
            until=until,
            capacity=capacity,
            quota=np.array([pool.quota for pool in scheduler.cluster.pools], dtype=np.float64),
        )
        return cls(scheduler, jobs, recorder, rules, entries, tracked)

    @property
    def now(self) -> float:
        """Seconds since the run's start."""
        return float(self._ahead.clock[loop.NOW])

    @property
    def moments(self) -> int:
        """Distinct times gone through."""
        return int(self._ahead.tally[loop.MOMENTS])

    @property
    def events(self) -> int:
        """Events gone through."""
        return int(self._ahead.tally[loop.EVENTS])

    @property
    def submitted(self) -> int:
        """Jobs submitted so far."""
        return int(self._ahead.tally[loop.NEXT])

    @property
    def in_system(self) -> int:
        """Jobs submitted and not yet through."""
        return int(self._ahead.tally[loop.ACTIVE])

    def run(self, on_pause: Callable[["DirectRun"], None] | None = None) -> None:
        """Let time pass to the end, and the recorder know of it.

        ``on_pause`` is called now and then; what was done before it raised is recorded.
        """
        why = loop.PAUSED
        try:
            while (why := advance(self._ahead, self._rules, _MOMENTS)) not in _ENDS:
                self._hand_over_log()
                if why == loop.ROWS_FULL:
                    self._make_rows(int(self._ahead.tally[loop.NEEDED]))
                elif why == loop.LOG_FULL:
                    self._make_log(int(self._ahead.tally[loop.NEEDED]))
                elif on_pause is not None:
                    on_pause(self)
        finally:
            self._hand_over_log()
            self._conclude(self._rules.until if why == loop.ENDED_EARLY else self.now)

    def _make_rows(self, rows: int) -> None:
        """Room for at least so many jobs in the system."""
        matrix = np.zeros((loop.WIDTH, 2 * rows))
        matrix[:, : self._ahead.matrix.shape[1]] = self._ahead.matrix
        self._ahead = self._ahead._replace(matrix=matrix)

    def _make_log(self, entries: int) -> None:
        """Room for at least so many entries of an empty log."""
        if entries > len(self._ahead.log.job):
            self._ahead = self._ahead._replace(log=_log(2 * entries))

    def _hand_over_log(self) -> None:
        logged = int(self._ahead.tally[loop.LOGGED])
        log = self._ahead.log
        self._recorder.holdings(
            log.job[:logged], log.time[:logged], log.gpus[:logged], log.attempt[:logged]
        )
        self._ahead.tally[loop.LOGGED] = 0

    def _conclude(self, end: float) -> None:
        """Tell what became of the jobs by ``end``, and leave the scheduler as it would be."""
        ahead, submitted = self._ahead, self.submitted
        self._recorder.ends(
            end,
            [job.spec for job in self._jobs[:submitted]],
            ahead.finish[:submitted],
            ahead.contention[:submitted],
            {
                number: self._entries.reasons[number]
                for number in np.flatnonzero(ahead.ended == loop.REJECTED).tolist()
            },
        )
        tally, known = ahead.tally, self._entries.known
        ahead.matrix[Column.CURVE] = -1.0  # the scheduler itself has no curves yet
        inside = ahead.matrix[Column.NUMBER, : tally[loop.ROWS]].astype(np.int64).tolist()
        door = range(int(tally[loop.DOOR]), submitted)
        self.scheduler.stand_at(
            self.now,
            ahead.matrix[: Column.COUNT, : len(inside)],
            [known[number] for number in inside],
            [
                self._entries.submission(number, self._jobs[number])
                for number in door
                if ahead.ended[number] == loop.WAITING
            ],
            undecided=bool(tally[loop.DIRTY]),
        )


_ENDS = (loop.THROUGH, loop.ENDED_EARLY)


class _Entries:
    """The jobs as they will enter: their columns, and why some never will."""

    def __init__(self, scheduler: Scheduler, jobs: Sequence[Job]) -> None:
        self.columns = np.zeros((len(jobs), Column.COUNT))
        self.verdict = np.full(len(jobs), loop.ADMITTED)
        self.known: dict[int, KnownJob] = {}
        self.reasons: dict[int, str] = {}
        self._types = scheduler.resources.types
        self._disclose = scheduler.composition.estimator.needs_truth
        for number, job in enumerate(jobs):
            if obstacle := scheduler.obstacle(job.spec):
                self.verdict[number] = loop.OBSTACLE
                self.reasons[number] = obstacle
                self.columns[number, Column.SUBMIT] = job.spec.submit_time
                continue
            newcomer = scheduler.newcomer(self.submission(number, job))
            if isinstance(newcomer, str):
                self.verdict[number] = loop.NO_PROGRESS
                self.reasons[number] = newcomer
                self.columns[number, [Column.SUBMIT, Column.GPUS]] = (
                    job.spec.submit_time,
                    job.spec.gpus,
                )
                continue
            self.columns[number], self.known[number] = newcomer

    def rates(self, capacity: FloatColumn) -> RateTable:
        """Believed rates by numbers of GPUs; every job's columns know its curve afterwards."""
        jobs = JobColumns()
        numbers = list(self.known)
        for number in numbers:
            jobs.add(number, self.columns[number])
        table = RateCurves().table(
            jobs, lambda number: self.known[number].believed, self._types, capacity
        )
        self.columns[numbers, Column.CURVE] = jobs.matrix[Column.CURVE, : len(numbers)]
        return table

    def submission(self, number: int, job: Job) -> JobSubmitted:
        """What the scheduler is told of the job."""
        truth = job.truth if self._disclose else None
        return JobSubmitted(job.spec.submit_time, number, job.spec, truth)


def _plain(job: Job) -> bool:
    """Whether the job's true rate is its GPUs times a constant, all along."""
    truth = job.truth
    varies = truth.regimes or truth.failures or truth.spread_slowdown or truth.sensitivity
    return type(truth.throughput) is Linear and not varies and job.training is None


def _at_the_start(jobs: Sequence[Job], entries: _Entries, tracked: Sequence[int] | None) -> Ahead:
    """Nobody has come yet."""
    number = len(jobs)
    tally = np.zeros(loop.COUNTERS, dtype=np.int64)
    tally[loop.TRACKED] = -1 if tracked is None else len(tracked)
    watched = np.zeros(number, dtype=np.bool_)
    watched[list(tracked or ())] = True
    return Ahead(
        matrix=np.zeros((loop.WIDTH, 64)),
        tally=tally,
        clock=np.array([0.0, math.inf, 0.0]),
        newcomers=entries.columns,
        verdict=entries.verdict,
        work=np.array([job.truth.work for job in jobs], dtype=np.float64),
        per_gpu=np.array([job.truth.throughput.rate(1) for job in jobs], dtype=np.float64),
        tracked=watched,
        row_of=np.zeros(number, dtype=np.int64),
        finish=np.full(number, math.nan),
        ended=np.full(number, loop.WAITING),
        contention=np.full(number, math.nan),
        turns_before=np.zeros(number, dtype=np.int64),
        active_before=np.zeros(number, dtype=np.int64),
        log=_log(1 << 16),
    )


def _log(entries: int) -> Log:
    """An empty log."""
    return Log(
        np.zeros(entries, dtype=np.int64),
        np.zeros(entries),
        np.zeros(entries),
        np.zeros(entries, dtype=np.int64),
    )
