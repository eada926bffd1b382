"""Folds a run's events and decisions into `Outcomes`, while it runs or from its journal."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from volvelle.core.decision import Decision
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
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.workload.workload import Workload

_NAN = float("nan")
_NOBODY = -1


class Recorder:
    """Watches a run. Jobs are expected to be numbered in order of submission, from 0.

    While the run goes on it only keeps a log of who holds what from when on (`_Log`); segments and
    counts are made of it at the end, all at once.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._specs: list[JobSpec] = []
        self._log = _Log()
        self._finish: dict[int, float] = {}
        self._lost: defaultdict[int, float] = defaultdict(float)
        self._ended: dict[int, JobStatus] = {}
        self._reasons: dict[int, str] = {}
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
            ran = number in self._lost
            self._leave(number, time, JobStatus.FAILED if ran else JobStatus.REJECTED)
            self._reasons[number] = rejection.reason
        if len(decision.job):
            self._log.add(time, decision)

    def _submitted(self, event: JobSubmitted) -> None:
        self._specs.append(event.spec)
        # As in PCS' simulator, the job's own arrival counts twice.
        self._arrival.append((self._events - 1, self._active_sum - self._active - 1))
        self._count(+1)

    def _finished(self, event: JobFinished) -> None:
        self._finish[event.number] = event.time
        self._leave(event.number, event.time, JobStatus.FINISHED)

    def _failed(self, event: JobFailed) -> None:
        self._log.close(event.number, event.time)
        self._lost[event.number] += event.lost_gpu_seconds

    def _stopped(self, event: JobStopped) -> None:
        self._log.held_until(event.number, event.attempt, event.time)

    def _started(self, event: JobStarted) -> None:
        self._log.started_late(event.number, event.time)

    def _cancelled(self, event: JobCancelled) -> None:
        self._leave(event.number, event.time, JobStatus.CANCELLED)

    def _other(self, event: Event) -> None:
        """Wake-ups and batch sizes leave no trace in the outcomes."""

    def _count(self, change: int) -> None:
        self._active += change
        self._events += 1
        self._active_sum += self._active

    def _leave(self, number: int, time: float, status: JobStatus) -> None:
        self._log.close(number, time)
        self._ended[number] = status
        events, active = self._arrival[number]
        self._contention[number] = (self._active_sum - active) / (self._events - events)
        self._count(-1)

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
        single_gpu_seconds: FloatColumn | None = None,
    ) -> Outcomes:
        """What became of the jobs seen so far.

        exclusive_seconds, single_gpu_seconds: what each job takes alone on the GPUs it requests, and
        on one, where known (by default: unknown).
        tracked: the jobs to measure (by default: all).
        """
        jobs = len(self._specs)
        history = self._log.history(jobs, self._now)
        segments = history.segments
        held = segments.end - segments.start
        status = np.where(history.running, JobStatus.RUNNING.value, JobStatus.WAITING.value)
        status = status.astype(f"<U{max(len(value) for value in JobStatus)}")
        status[list(self._ended)] = [value.value for value in self._ended.values()]
        return Outcomes(
            specs=self._specs,
            submit_time=np.array([spec.submit_time for spec in self._specs]),
            gpus=np.array([spec.gpus for spec in self._specs]),
            exclusive_seconds=np.full(jobs, _NAN)
            if exclusive_seconds is None
            else np.asarray(exclusive_seconds, dtype=np.float64)[:jobs],
            first_start=history.first_start,
            finish=_column(self._finish, jobs, _NAN),
            gpu_seconds=_summed(segments.job, held * segments.gpus, jobs),
            run_seconds=_summed(segments.job, held, jobs),
            preemptions=history.preemptions,
            restarts=history.restarts,
            lost_gpu_seconds=_column(self._lost, jobs, 0.0),
            contention=_column(self._contention, jobs, _NAN),
            tracked=np.ones(jobs, dtype=np.bool_) if tracked is None else tracked[:jobs],
            status=status,
            reason=[self._reasons.get(number, "") for number in range(jobs)],
            segments=segments,
            capacity=Steps(np.array(self._capacity_times), np.array(self._capacity)),
            end_time=self._now,
            single_gpu_seconds=None if single_gpu_seconds is None else single_gpu_seconds[:jobs],
        )


@dataclass(frozen=True)
class _History:
    """What a log adds up to: segments by start, and a row for each job."""

    segments: Segments
    first_start: FloatColumn
    preemptions: IntColumn
    restarts: IntColumn
    running: BoolColumn


class _Log:
    """Who holds how many GPUs from when on, in the order in which it happened."""

    def __init__(self) -> None:
        self._job = array("q")
        self._time = array("d")
        self._gpus = array("d")
        self._attempt = array("q")  # _NOBODY where an event took the GPUs, not a decision
        self._slots = array("q")
        self._slot_count = array("q")
        self._late: list[tuple[int, float]] = []  # row, real start
        self._held_until: list[tuple[int, int, float]] = []  # job, attempt, real end

    def add(self, time: float, decision: Decision) -> None:
        """A decision: its rows as they are."""
        count = len(decision.job)
        self._job.frombytes(decision.job.tobytes())
        self._time.extend([time] * count)
        self._gpus.frombytes(decision.gpus.tobytes())
        self._attempt.frombytes(decision.attempt.tobytes())
        self._slots.frombytes(decision.slots.tobytes())
        if len(decision.slot_offsets):
            self._slot_count.frombytes(np.diff(decision.slot_offsets).tobytes())
        else:
            self._slot_count.extend([0] * count)

    def close(self, job: int, time: float) -> None:
        """The job holds nothing any more, by itself."""
        self._job.append(job)
        self._time.append(time)
        self._gpus.append(0.0)
        self._attempt.append(_NOBODY)
        self._slot_count.append(0)

    def started_late(self, job: int, time: float) -> None:
        """The GPUs given to ``job`` last came free only now."""
        row = len(self._job) - 1
        while self._job[row] != job:
            row -= 1
        self._late.append((row, time))

    def held_until(self, job: int, attempt: int, time: float) -> None:
        """The GPUs of a stopped attempt were held until now."""
        self._held_until.append((job, attempt, time))

    def history(self, jobs: int, now: float) -> _History:
        """All segments and counts; what is still held is held until ``now``."""
        job, gpus = np.array(self._job, dtype=np.int64), np.array(self._gpus)
        attempt, start = np.array(self._attempt, dtype=np.int64), np.array(self._time)
        changed = start.copy()
        for row, time in self._late:
            start[row] = time
        by_job = np.argsort(job, kind="stable")
        end = np.full(len(job), now)
        followed = by_job[:-1][job[by_job[1:]] == job[by_job[:-1]]]
        following = by_job[1:][job[by_job[1:]] == job[by_job[:-1]]]
        end[followed] = changed[following]
        holding = by_job[gpus[by_job] > 0]
        key = job[holding] * (attempt.max(initial=0) + 1) + attempt[holding]
        for number, which, time in self._held_until:
            wanted = number * (attempt.max(initial=0) + 1) + which
            end[holding[np.searchsorted(key, wanted, side="right") - 1]] = time
        first_start = np.full(jobs, np.inf)
        np.minimum.at(first_start, job[holding], start[holding])
        last_attempt = np.zeros(jobs, dtype=np.int64)
        np.maximum.at(last_attempt, job[holding], attempt[holding])
        running = np.zeros(jobs, dtype=np.bool_)
        running[job[by_job]] = gpus[by_job] > 0  # the last row of each job stands
        stopped = job[(gpus == 0) & (attempt != _NOBODY)]
        return _History(
            self._segments(holding[np.argsort(start[holding], kind="stable")], start, end),
            np.where(np.isinf(first_start), _NAN, first_start),
            np.bincount(stopped, minlength=jobs).astype(np.int64),
            np.maximum(last_attempt - 1, 0),
            running,
        )

    def _segments(self, rows: IntColumn, start: FloatColumn, end: FloatColumn) -> Segments:
        """The segments that begin with ``rows``, in this order."""
        counts = np.array(self._slot_count, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts[rows])]).astype(np.int64)
        moved = (np.cumsum(counts) - counts)[rows] - offsets[:-1]
        places = np.repeat(moved, counts[rows]) + np.arange(offsets[-1])
        return Segments(
            np.array(self._job, dtype=np.int64)[rows],
            start[rows],
            np.maximum(end[rows], start[rows]),
            np.array(self._gpus)[rows],
            offsets,
            np.array(self._slots, dtype=np.int64)[places],
        )


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
    submitted: list[Job] = []
    for entry in entries:
        recorder.record(entry.time, entry.events, entry.decision)
        submitted.extend(
            Job(event.spec, event.truth or _UNKNOWN)
            for event in entry.events
            if isinstance(event, JobSubmitted)
        )
    jobs = Workload(submitted)
    return recorder.outcomes(jobs.durations, single_gpu_seconds=jobs.single_gpu_seconds)


_UNKNOWN = Truth(work=_NAN)


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
