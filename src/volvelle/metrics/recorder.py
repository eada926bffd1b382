"""Folds a run's events and decisions into `Outcomes`, while it runs or from its journal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from volvelle.core.events import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobRequeued,
    JobStopped,
    JobSubmitted,
    NodeChanged,
    Recomposed,
)
from volvelle.core.journal import Entry, Header
from volvelle.core.log import Batch, Moment, Submission, batch_of
from volvelle.core.resources import first_changes_to_up
from volvelle.core.state import (
    BEGAN,
    CHECKPOINTED,
    CONCLUDED,
    FINISHED,
    OBJECT,
    REJECTED,
    SUBMITTED,
    TIMED_OUT,
)
from volvelle.metrics.holdings import HoldingLog, joined
from volvelle.metrics.outcomes import Choice, JobStatus, Outcomes, Promised, Steps
from volvelle.metrics.power import drawn, energy_and_carbon
from volvelle.model.alone import seconds_alone
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.cluster import Cluster, NodeState
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.power import Power

_NAN = float("nan")
_BACK, _CANCELLED = 100, 101
"""Kinds of events that only Python has, beside those of the log. Back: in the queue or held, without GPUs."""
_OF_JOBS: dict[Any, int] = {
    JobFinished: FINISHED,
    JobCancelled: _CANCELLED,
    JobFailed: _BACK,
    JobHeld: _BACK,
    JobRequeued: _BACK,
    JobStopped: CHECKPOINTED,
}
_LEFT = (FINISHED, REJECTED, CONCLUDED, TIMED_OUT, _CANCELLED)
_BY_DECISION = (REJECTED, CONCLUDED, TIMED_OUT)
_ENTRIES = 4096


def _among(*kinds: int) -> BoolColumn:
    """Whether a kind is one of ``kinds``, by the kind."""
    among = np.zeros(1 + _CANCELLED, dtype=np.bool_)
    among[list(kinds)] = True
    return among


_DECIDES, _TURNS = _among(*_BY_DECISION), _among(SUBMITTED, *_LEFT)
_CLOSES = _among(*_LEFT, _BACK)


class Recorder:
    """Watches a run. Jobs are expected to be numbered in order of submission, from 0.

    While the run goes on it keeps who came, who left and who holds what from when on; segments and counts are
    made of it at the end, all at once.
    """

    def __init__(self, cluster: Cluster, power: Power | None = None) -> None:
        self._power = power
        self._types = [kind.gpu_type for kind in cluster.kinds]
        self._specs: list[JobSpec] = []
        self._expected: Sequence[JobSpec] | None = None
        self._came = 0
        self._log = HoldingLog()
        self._kinds: list[NDArray[np.int8]] = []
        self._numbers: list[NDArray[np.int32]] = []
        self._times: list[FloatColumn] = []
        self._lost: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        self._node_gpus = {node.name: node.gpus for node in cluster.nodes}
        self._up = set(self._node_gpus) - first_changes_to_up(cluster)
        self._capacity = [(0.0, float(sum(self._node_gpus[name] for name in self._up)))]
        self._choices: list[Choice] = []
        self._promises: list[Promised] = []
        self._now = 0.0

    def expect(self, specs: Sequence[JobSpec]) -> None:
        """The declarations of the jobs that will come, in this order; else they are kept as jobs come."""
        self._expected = specs

    def take(self, batch: Batch, submission: Submission) -> None:
        """A stretch of moments."""
        if not len(batch.time):
            return
        self._now = float(batch.time[-1])
        for place, given in batch.notes.promises.items():
            at = float(batch.time[place - batch.first])
            self._promises += [Promised(at, one) for one in given]
        kind, number = self._plain(batch)
        time = batch.event_time
        rows = (kind == SUBMITTED).nonzero()[0]
        self._came += len(rows)
        if self._expected is None:
            arrived = zip(time[rows].tolist(), number[rows].tolist(), strict=True)
            self._specs += [submission(each, which).spec for each, which in arrived]
        moment = np.repeat(np.arange(len(batch.time)), np.diff(batch.events_end, prepend=0))
        decided = _DECIDES[kind]
        if decided.any():  # decisions follow events
            order = np.argsort(2 * moment + decided, kind="stable")
            kind, number, time = kind[order], number[order], time[order]
            moment, value, attempt = moment[order], batch.value[order], batch.attempt[order]
            left = number[_DECIDES[kind]].tolist()
            self._reasons.update((each, batch.notes.reason(each)) for each in left)
        else:
            value, attempt = batch.value, batch.attempt
        turns = _TURNS[kind]
        self._kinds.append(kind[turns].astype(np.int8))
        self._numbers.append(number[turns].astype(np.int32))
        self._times.append(time[turns])
        closes = _CLOSES[kind]
        self._log.extend(batch, moment[closes], number[closes], time[closes])
        late = (kind == BEGAN).nonzero()[0]
        if len(late):
            self._log.started_late(number[late], moment[late], value[late])
        stops = (kind == CHECKPOINTED).nonzero()[0]
        self._log.held_until(number[stops], attempt[stops], time[stops])

    def _plain(self, batch: Batch) -> tuple[IntColumn, IntColumn]:
        """Kinds and job numbers of events, also of those that Python brought."""
        kind, number = batch.kind, batch.number
        places = (kind == OBJECT).nonzero()[0]
        if not len(places):
            return kind, number
        kind, number = kind.copy(), number.copy()
        for place in places.tolist():
            event = batch.notes.objects[number[place]]
            if isinstance(event, NodeChanged):
                self._node_changed(event)
            elif isinstance(event, Recomposed):
                self._choices.append(Choice(event.time, event.policy, event.admission))
            elif type(event) in _OF_JOBS:
                number[place] = event.number
                kind[place] = _OF_JOBS[type(event)]
                if isinstance(event, JobFailed) and not event.requeued:
                    lost = self._lost.get(event.number, 0.0)
                    self._lost[event.number] = lost + event.lost_gpu_seconds
                elif isinstance(event, JobStopped):
                    batch.attempt[place] = event.attempt
        return kind, number

    def _node_changed(self, event: NodeChanged) -> None:
        if event.node is not None:
            self._node_gpus[event.name] = event.node.gpus
        if event.state is NodeState.DOWN:
            self._up.discard(event.name)
        else:
            self._up.add(event.name)
        gpus = float(sum(self._node_gpus[name] for name in self._up))
        self._capacity.append((event.time, gpus))

    def end(self, time: float) -> None:
        """Nothing more happens up to ``time``."""
        self._now = time

    def outcomes(
        self,
        exclusive_seconds: Sequence[float] | FloatColumn | None = None,
        tracked: BoolColumn | None = None,
        single_gpu_seconds: FloatColumn | None = None,
    ) -> Outcomes:
        """Outcomes of the jobs seen so far.

        exclusive_seconds, single_gpu_seconds: durations of each job alone on the GPUs it requests, and
        on one, where known (by default: unknown).
        tracked: the jobs to measure (by default: all).
        """
        jobs, specs = self._came, self._specs if self._expected is None else self._expected
        if len(specs) > jobs:
            specs = specs[:jobs]
        history = self._log.history(jobs, self._now)
        segments = history.segments
        held = segments.end - segments.start
        kind = joined(self._kinds, np.int8)
        number, time = joined(self._numbers, np.int32), joined(self._times, np.float64)
        longest = max(len(value) for value in JobStatus)
        status = np.full(jobs, JobStatus.WAITING.value, dtype=f"<U{longest}")
        status[history.running] = JobStatus.RUNNING.value
        finish = np.full(jobs, _NAN)
        for which, status_then in _STATUS.items():
            status[number[kind == which]] = status_then.value
        over = np.isin(kind, (FINISHED, CONCLUDED))
        finish[number[over]] = time[over]
        rejected = number[kind == REJECTED].tolist()
        status[[each for each in rejected if each in self._lost]] = JobStatus.FAILED.value
        times, present = np.array(self._capacity).T
        capacity = Steps(times.copy(), present.copy())
        submitted = np.fromiter((spec.submit_time for spec in specs), np.float64, jobs)
        kwh, kilograms = None, None
        if (power := self._power) is not None:
            watts = np.array([power.of(gpu_type) for gpu_type in self._types])[history.kind]
            first = float(submitted.min(initial=self._now))
            total = drawn(power, watts, segments, capacity)
            kwh, kilograms = energy_and_carbon(power, total, first, self._now)
        return Outcomes(
            specs=specs,
            submit_time=submitted,
            gpus=np.fromiter((spec.gpus for spec in specs), np.float64, jobs),
            exclusive_seconds=np.full(jobs, _NAN)
            if exclusive_seconds is None
            else np.asarray(exclusive_seconds, dtype=np.float64)[:jobs],
            first_start=history.first_start,
            finish=finish,
            gpu_seconds=_summed(segments.job, held * segments.gpus, jobs),
            run_seconds=_summed(segments.job, held, jobs),
            preemptions=history.preemptions,
            restarts=history.restarts,
            lost_gpu_seconds=_column(self._lost, jobs),
            contention=contention(kind, number, jobs),
            tracked=np.ones(jobs, dtype=np.bool_) if tracked is None else tracked[:jobs],
            status=status,
            reason=[self._reasons.get(each, "") for each in range(jobs)],
            segments=segments,
            capacity=capacity,
            end_time=self._now,
            choices=tuple(self._choices),
            promises=tuple(self._promises),
            single_gpu_seconds=None if single_gpu_seconds is None else single_gpu_seconds[:jobs],
            energy_kwh=kwh,
            carbon_kg=kilograms,
        )


_STATUS = {
    FINISHED: JobStatus.FINISHED,
    CONCLUDED: JobStatus.FINISHED,
    TIMED_OUT: JobStatus.FAILED,
    _CANCELLED: JobStatus.CANCELLED,
    REJECTED: JobStatus.REJECTED,
}


def contention(kind: NDArray[np.int8], number: NDArray[np.int32], jobs: int) -> FloatColumn:
    """PCS' contention: active jobs summed over events from each job's arrival to its departure, over these.

    As in PCS' simulator, the job's own arrival counts twice. NaN for jobs that are still there.
    """
    comes = kind == SUBMITTED
    active = np.cumsum(np.where(comes, 1, -1), dtype=np.int32)
    before = np.concatenate([[0], np.cumsum(active, dtype=np.int64)])
    arrival, departure = np.full(jobs, -1), np.full(jobs, -1)
    arrival[number[comes]] = comes.nonzero()[0]
    departure[number[~comes]] = (~comes).nonzero()[0]
    averaged = np.full(jobs, _NAN)
    left = departure >= 0
    came, went = arrival[left], departure[left]
    summed = before[went] - before[came] + np.concatenate([[0], active])[came] + 1
    averaged[left] = summed / (went - came + 1)
    return averaged


def _column(values: Mapping[int, float], jobs: int) -> FloatColumn:
    """``values`` by job number as a column, 0 where there is none."""
    column: FloatColumn = np.zeros(jobs)
    column[list(values.keys())] = list(values.values())
    return column


def _summed(job: IntColumn, values: FloatColumn, jobs: int) -> FloatColumn:
    summed: FloatColumn = np.bincount(job, weights=values, minlength=jobs).astype(np.float64)
    return summed


def recorded(recorder: Recorder, entries: Iterable[Entry]) -> Iterable[JobSubmitted]:
    """Let ``recorder`` take all ``entries``; yields the submissions among them.

    Entries of a server may lack numbers: of jobs that were over before the scheduler heard of them, or that
    the server has forgotten. And a job that was profiled first comes after later ones.
    """
    rows = _Rows()
    stretch = iter(entries)
    while some := list(islice(stretch, _ENTRIES)):
        batch, submission = batch_of(Moment(one.time, one.events, one.decision) for one in some)
        recorder.take(*rows.renumbered(batch, submission))
        for entry in some:
            yield from (event for event in entry.events if isinstance(event, JobSubmitted))


def outcomes_of(header: Header, entries: Iterable[Entry]) -> Outcomes:
    """The outcomes of a journal. Durations of jobs alone are known where the truth was disclosed."""
    recorder = Recorder(header.cluster)
    submitted = [Job(event.spec, event.truth or _UNKNOWN) for event in recorded(recorder, entries)]
    requested = np.array([job.spec.gpus for job in submitted])
    return recorder.outcomes(
        seconds_alone(submitted, requested),
        single_gpu_seconds=seconds_alone(submitted, np.ones(len(submitted))),
    )


_UNKNOWN = Truth(work=_NAN)


class _Rows:
    """Numbers jobs anew, in order of submission from 0, where they are not."""

    def __init__(self) -> None:
        self._row_of: dict[int, int] = {}
        self._differ = False

    def renumbered(self, batch: Batch, submission: Submission) -> tuple[Batch, Submission]:
        """The batch that follows those before, and the submissions in it."""
        row_of, notes = self._row_of, batch.notes
        number_of: dict[int, int] = {}
        for number in batch.number[batch.kind == SUBMITTED].tolist():
            row = row_of[number] = len(row_of)
            number_of[row] = number
            self._differ |= row != number
        if not self._differ:
            return batch, submission
        number = batch.number.copy()
        numbered = batch.kind != OBJECT
        number[numbered] = self._rows(number[numbered])
        renumbered = replace(
            batch,
            number=number,
            job=self._rows(batch.job),
            notes=replace(
                notes,
                objects=[self._of_row(event) for event in notes.objects],
                reasons={row_of[each]: reason for each, reason in notes.reasons.items()},
                promises={
                    place: tuple(map(self._of_row, promises))
                    for place, promises in notes.promises.items()
                },
            ),
        )
        return renumbered, lambda time, row: submission(time, number_of[row])

    def _rows(self, numbers: IntColumn) -> IntColumn:
        return np.array([self._row_of[each] for each in numbers.tolist()], dtype=np.int64)

    def _of_row(self, record: Any) -> Any:
        """An event or a guarantee, of a job's row if it is of a job."""
        number = getattr(record, "number", None)
        return record if number is None else structs.replace(record, number=self._row_of[number])
