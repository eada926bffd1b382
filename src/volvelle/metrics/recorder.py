"""Folds a run's events and decisions into `Outcomes`, while it runs or from its journal."""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from volvelle.core.decision import Decision
from volvelle.core.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeChanged,
)
from volvelle.core.journal import Entry, Header
from volvelle.metrics.outcomes import BoolColumn, FloatColumn, JobStatus, Outcomes, Segments, Steps
from volvelle.model.cluster import Cluster, NodeState
from volvelle.model.job import Job, JobSpec

_NAN = float("nan")


class Recorder:
    """Watches a run. Jobs are expected to be numbered in order of submission, from 0."""

    def __init__(self, cluster: Cluster) -> None:
        self._specs: list[JobSpec] = []
        self._first_start = array("d")
        self._finish = array("d")
        self._preemptions = array("q")
        self._restarts = array("q")
        self._lost = array("d")
        self._status: list[JobStatus] = []
        self._reasons: dict[int, str] = {}
        self._job = array("q")
        self._start = array("d")
        self._end = array("d")
        self._gpus = array("d")
        self._slots: list[NDArray[np.int64]] = []
        self._open: dict[int, int] = {}
        self._last: dict[int, int] = {}
        # PCS' contention: active jobs summed over events, up to each job's arrival and departure.
        self._active = 0
        self._events = 0
        self._active_sum = 0.0
        self._arrival = array("d")
        self._contention = array("d")
        self._arrival_event = array("q")
        self._node_gpus = {node.name: node.gpus for node in cluster.nodes}
        first: dict[str, NodeState] = {}
        for change in cluster.changes:
            first.setdefault(change.node, change.state)
        self._up = {name for name in self._node_gpus if first.get(name) is not NodeState.UP}
        self._capacity_times = array("d", [0.0])
        self._capacity = array("d", [float(sum(self._node_gpus[name] for name in self._up))])
        self._now = 0.0

    def record(self, time: float, events: Iterable[Event], decision: Decision) -> None:
        """Take note of one moment."""
        self._now = time
        for event in events:
            kind = type(event)
            if kind is JobSubmitted:
                self._submitted(event)  # type: ignore[arg-type]
            elif kind is JobFinished:
                self._leave(event.number, time, JobStatus.FINISHED)  # type: ignore[union-attr]
                self._finish[event.number] = time  # type: ignore[union-attr]
            elif isinstance(event, JobFailed):
                self._close(event.number, time)
                self._lost[event.number] += event.lost_gpu_seconds
            elif isinstance(event, JobStopped):
                self._end[self._last[event.number]] = time
            elif isinstance(event, JobStarted):
                self._start[self._open[event.number]] = time
                if self._restarts[event.number] == 0:
                    self._first_start[event.number] = time
            elif isinstance(event, JobCancelled):
                self._close(event.number, time)
                self._leave(event.number, time, JobStatus.CANCELLED)
            elif isinstance(event, NodeChanged):
                self._node_changed(event)
        for rejection in decision.rejected:
            number = rejection.number
            ran = self._first_start[number] == self._first_start[number]
            self._leave(number, time, JobStatus.FAILED if ran else JobStatus.REJECTED)
            self._reasons[number] = rejection.reason
        if len(decision.job):
            self._allocated(time, decision)

    def _submitted(self, event: JobSubmitted) -> None:
        self._specs.append(event.spec)
        self._first_start.append(_NAN)
        self._finish.append(_NAN)
        self._preemptions.append(0)
        self._restarts.append(0)
        self._lost.append(0.0)
        self._status.append(JobStatus.WAITING)
        self._arrival.append(self._active_sum)
        self._arrival_event.append(self._events)
        self._contention.append(_NAN)
        self._count(+1)

    def _count(self, change: int) -> None:
        self._active += change
        self._events += 1
        self._active_sum += self._active

    def _leave(self, number: int, time: float, status: JobStatus) -> None:
        self._close(number, time)
        self._status[number] = status
        seen = self._events - self._arrival_event[number]
        self._contention[number] = (self._active_sum - self._arrival[number]) / seen
        self._count(-1)

    def _allocated(self, time: float, decision: Decision) -> None:
        attempts = decision.attempt.tolist()
        for row, (number, gpus) in enumerate(
            zip(decision.job.tolist(), decision.gpus.tolist(), strict=True)
        ):
            held = number in self._open
            self._close(number, time)
            if gpus == 0.0:
                self._preemptions[number] += 1
                self._status[number] = JobStatus.WAITING
                continue
            if not held:
                if self._first_start[number] != self._first_start[number]:
                    self._first_start[number] = time
                self._restarts[number] = attempts[row] - 1
            self._status[number] = JobStatus.RUNNING
            self._open[number] = self._last[number] = len(self._job)
            self._job.append(number)
            self._start.append(time)
            self._end.append(_NAN)
            self._gpus.append(gpus)
            self._slots.append(decision.slots_of(row))

    def _close(self, number: int, time: float) -> None:
        segment = self._open.pop(number, None)
        if segment is not None:
            self._end[segment] = time
            if self._status[number] is JobStatus.RUNNING:
                self._status[number] = JobStatus.WAITING

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
        end = np.array(self._end)
        end[np.isnan(end)] = self._now
        job, start, gpus = np.array(self._job), np.array(self._start), np.array(self._gpus)
        order = np.argsort(start, kind="stable")
        lengths = np.array([len(slots) for slots in self._slots], dtype=np.int64)
        segments = Segments(
            job[order],
            start[order],
            end[order],
            gpus[order],
            np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64),
            np.concatenate([self._slots[i] for i in order] or [np.zeros(0)]).astype(np.int64),
        )
        held = end - start
        return Outcomes(
            specs=self._specs,
            submit_time=np.array([spec.submit_time for spec in self._specs]),
            gpus=np.array([spec.gpus for spec in self._specs]),
            exclusive_seconds=np.full(jobs, _NAN)
            if exclusive_seconds is None
            else np.asarray(exclusive_seconds, dtype=np.float64)[:jobs],
            first_start=np.array(self._first_start),
            finish=np.array(self._finish),
            gpu_seconds=np.bincount(job, weights=held * gpus, minlength=jobs),
            run_seconds=np.bincount(job, weights=held, minlength=jobs),
            preemptions=np.array(self._preemptions),
            restarts=np.array(self._restarts),
            lost_gpu_seconds=np.array(self._lost),
            contention=np.array(self._contention),
            tracked=np.ones(jobs, dtype=np.bool_) if tracked is None else tracked[:jobs],
            status=np.array(self._status, dtype=np.str_),
            reason=[self._reasons.get(number, "") for number in range(jobs)],
            segments=segments,
            capacity=Steps(np.array(self._capacity_times), np.array(self._capacity)),
            end_time=self._now,
        )


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
