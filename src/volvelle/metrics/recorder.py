"""Folds a run's events and decisions into `Outcomes`, while it runs or from its journal."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core.decision import NO_INTS, Decision
from volvelle.core.events import (
    BatchSizeChanged,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeChanged,
    WakeUp,
)
from volvelle.core.journal import Entry, Header
from volvelle.core.state import first_changes_to_up
from volvelle.metrics.outcomes import (
    BoolColumn,
    FloatColumn,
    IntColumn,
    JobStatus,
    Outcomes,
    Segments,
    Steps,
)
from volvelle.model.cluster import Cluster, NodeState
from volvelle.model.job import Job, JobSpec

_NAN = float("nan")


class Recorder:
    """Watches a run. Jobs are expected to be numbered in order of submission, from 0."""

    def __init__(self, cluster: Cluster) -> None:
        self._specs: list[JobSpec] = []
        self._first_start: dict[int, float] = {}
        self._finish: dict[int, float] = {}
        self._preemptions: Counter[int] = Counter()
        self._restarts: dict[int, int] = {}
        self._lost: defaultdict[int, float] = defaultdict(float)
        self._ended: dict[int, JobStatus] = {}
        self._reasons: dict[int, str] = {}
        # Segments: columns of all, the open one of each job that runs, the last of each job.
        self._job = array("q")
        self._start = array("d")
        self._end = array("d")
        self._gpus = array("d")
        self._slots: list[NDArray[np.int64]] = []
        self._open: dict[int, int] = {}
        self._stopping: dict[tuple[int, int], int] = {}
        # PCS' contention: active jobs summed over events, up to each job's arrival and departure.
        self._active = 0
        self._events = 0
        self._active_sum = 0
        self._arrival: list[tuple[int, int]] = []
        self._contention: dict[int, float] = {}
        self._node_gpus = {node.name: node.gpus for node in cluster.nodes}
        self._up = set(self._node_gpus) - first_changes_to_up(cluster)
        self._capacity_times = array("d", [0.0])
        self._capacity = array("d", [float(sum(self._node_gpus[name] for name in self._up))])
        self._now = 0.0

    def record(self, time: float, events: Iterable[Event], decision: Decision) -> None:
        """Take note of one moment."""
        self._now = time
        for event in events:
            _NOTES[type(event)](self, event)
        for rejection in decision.rejected:
            number = rejection.number
            ran = number in self._first_start
            self._leave(number, time, JobStatus.FAILED if ran else JobStatus.REJECTED)
            self._reasons[number] = rejection.reason
        if len(decision.job):
            self._allocated(time, decision)

    def _submitted(self, event: JobSubmitted) -> None:
        self._specs.append(event.spec)
        self._arrival.append((self._events, self._active_sum))
        self._count(+1)

    def _finished(self, event: JobFinished) -> None:
        self._finish[event.number] = event.time
        self._leave(event.number, event.time, JobStatus.FINISHED)

    def _failed(self, event: JobFailed) -> None:
        self._close(event.number, event.time)
        self._lost[event.number] += event.lost_gpu_seconds

    def _stopped(self, event: JobStopped) -> None:
        self._end[self._stopping.pop((event.number, event.attempt))] = event.time

    def _started(self, event: JobStarted) -> None:
        self._start[self._open[event.number]] = event.time
        if self._restarts[event.number] == 0:
            self._first_start[event.number] = event.time

    def _cancelled(self, event: JobCancelled) -> None:
        self._leave(event.number, event.time, JobStatus.CANCELLED)

    def _other(self, event: Event) -> None:
        """Wake-ups and batch sizes leave no trace in the outcomes."""

    def _count(self, change: int) -> None:
        self._active += change
        self._events += 1
        self._active_sum += self._active

    def _leave(self, number: int, time: float, status: JobStatus) -> None:
        self._close(number, time)
        self._ended[number] = status
        events, active = self._arrival[number]
        self._contention[number] = (self._active_sum - active) / (self._events - events)
        self._count(-1)

    def _close(self, number: int, time: float) -> bool:
        """End a job's open segment; whether it had one."""
        segment = self._open.pop(number, None)
        if segment is None:
            return False
        self._end[segment] = time
        return True

    def _allocated(self, time: float, decision: Decision) -> None:
        rows = zip(
            decision.job.tolist(), decision.gpus.tolist(), decision.attempt.tolist(), strict=True
        )
        for row, (number, gpus, attempt) in enumerate(rows):
            segment = self._open.get(number, -1)
            held = self._close(number, time)
            if gpus == 0.0:
                self._stopping[number, attempt] = segment
                self._preemptions[number] += 1
                continue
            if not held:
                self._first_start.setdefault(number, time)
                self._restarts[number] = attempt - 1
            self._open[number] = len(self._job)
            self._job.append(number)
            self._start.append(time)
            self._end.append(_NAN)
            self._gpus.append(gpus)
            self._slots.append(decision.slots_of(row))

    def _node_changed(self, event: NodeChanged) -> None:
        if event.node is not None:
            self._node_gpus[event.name] = event.node.gpus
        if event.state is NodeState.DOWN:
            self._up.discard(event.name)
        else:
            self._up.add(event.name)
        self._capacity_times.append(event.time)
        self._capacity.append(float(sum(self._node_gpus[name] for name in self._up)))

    def outcomes(
        self,
        exclusive_seconds: Sequence[float] | FloatColumn | None = None,
        tracked: BoolColumn | None = None,
    ) -> Outcomes:
        """What became of the jobs seen so far.

        exclusive_seconds: what each job takes alone, where known (by default: unknown).
        tracked: the jobs to measure (by default: all).
        """
        jobs = len(self._specs)
        segments = self._segments()
        held = segments.end - segments.start
        return Outcomes(
            specs=self._specs,
            submit_time=np.array([spec.submit_time for spec in self._specs]),
            gpus=np.array([spec.gpus for spec in self._specs]),
            exclusive_seconds=np.full(jobs, _NAN)
            if exclusive_seconds is None
            else np.asarray(exclusive_seconds, dtype=np.float64)[:jobs],
            first_start=_column(self._first_start, jobs, _NAN),
            finish=_column(self._finish, jobs, _NAN),
            gpu_seconds=_summed(segments.job, held * segments.gpus, jobs),
            run_seconds=_summed(segments.job, held, jobs),
            preemptions=_column(self._preemptions, jobs, 0).astype(np.int64),
            restarts=_column(self._restarts, jobs, 0).astype(np.int64),
            lost_gpu_seconds=_column(self._lost, jobs, 0.0),
            contention=_column(self._contention, jobs, _NAN),
            tracked=np.ones(jobs, dtype=np.bool_) if tracked is None else tracked[:jobs],
            status=np.array([self._status(number) for number in range(jobs)], dtype=np.str_),
            reason=[self._reasons.get(number, "") for number in range(jobs)],
            segments=segments,
            capacity=Steps(np.array(self._capacity_times), np.array(self._capacity)),
            end_time=self._now,
        )

    def _segments(self) -> Segments:
        """All segments by start; those still open end now."""
        end = np.array(self._end)
        end[np.isnan(end)] = self._now
        start = np.array(self._start)
        order = np.argsort(start, kind="stable")
        lengths = np.array([len(slots) for slots in self._slots], dtype=np.int64)
        return Segments(
            np.array(self._job, dtype=np.int64)[order],
            start[order],
            end[order],
            np.array(self._gpus)[order],
            np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64),
            np.concatenate([NO_INTS, *(self._slots[i] for i in order)]),
        )

    def _status(self, number: int) -> JobStatus:
        running = JobStatus.RUNNING if number in self._open else JobStatus.WAITING
        return self._ended.get(number, running)


def _column(values: Mapping[int, float], jobs: int, default: float) -> FloatColumn:
    """``values`` by job number as a column, ``default`` where there is none."""
    column: FloatColumn = np.full(jobs, default)
    column[np.fromiter(values.keys(), dtype=np.int64, count=len(values))] = np.fromiter(
        values.values(), dtype=np.float64, count=len(values)
    )
    return column


def _summed(job: IntColumn, values: FloatColumn, jobs: int) -> FloatColumn:
    return np.bincount(job, weights=values, minlength=jobs).astype(np.float64)


def outcomes_of(header: Header, entries: Iterable[Entry]) -> Outcomes:
    """The outcomes of a journal. What jobs take alone is known where the truth was disclosed."""
    recorder = Recorder(header.cluster)
    alone: list[float] = []
    for entry in entries:
        recorder.record(entry.time, entry.events, entry.decision)
        for event in entry.events:
            if isinstance(event, JobSubmitted):
                alone.append(_alone(event))
    return recorder.outcomes(alone)


def _alone(event: JobSubmitted) -> float:
    if event.truth is None:
        return _NAN
    types = event.spec.gpu_types
    return Job(event.spec, event.truth).seconds_on(event.spec.gpus, types[0] if types else "")


_NOTES: dict[type, Callable[[Recorder, Any], None]] = {
    JobSubmitted: Recorder._submitted,
    JobStarted: Recorder._started,
    JobFinished: Recorder._finished,
    JobStopped: Recorder._stopped,
    JobFailed: Recorder._failed,
    JobCancelled: Recorder._cancelled,
    BatchSizeChanged: Recorder._other,
    NodeChanged: Recorder._node_changed,
    WakeUp: Recorder._other,
}
