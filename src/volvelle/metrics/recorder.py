"""Folds a run's events and decisions into `Outcomes`, while it runs or from its journal."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from volvelle.core.decision import Decision
from volvelle.core.events import (
    BatchSizeChanged,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStarted,
    JobStopped,
    JobSubmitted,
    LossReported,
    NodeChanged,
    ProgressReported,
    Recomposed,
    TrainingReported,
    WakeUp,
)
from volvelle.core.journal import Entry, Header
from volvelle.core.state import first_changes_to_up
from volvelle.metrics.holdings import HoldingLog
from volvelle.metrics.outcomes import (
    BoolColumn,
    Choice,
    FloatColumn,
    IntColumn,
    JobStatus,
    Outcomes,
    Steps,
)
from volvelle.model.cluster import Cluster, NodeState
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.workload.workload import Workload

_NAN = float("nan")


class Recorder:
    """Watches a run. Jobs are expected to be numbered in order of submission, from 0.

    While the run goes on it only keeps a log of who holds what from when on (`HoldingLog`); segments and
    counts are made of it at the end, all at once.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._specs: list[JobSpec] = []
        self._log = HoldingLog()
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
        self._choices: list[Choice] = []
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
        for conclusion in decision.concluded:
            self._finish[conclusion.number] = time
            self._leave(conclusion.number, time, JobStatus.FINISHED)
            self._reasons[conclusion.number] = conclusion.reason
        if len(decision.job):
            self._log.add(time, decision)

    def holdings(
        self, job: IntColumn, time: FloatColumn, gpus: FloatColumn, attempt: IntColumn
    ) -> None:
        """Take over a stretch of the log of who holds what, as `HoldingLog.extend` says."""
        self._log.extend(job, time, gpus, attempt)

    def ends(
        self,
        now: float,
        specs: Sequence[JobSpec],
        finish: FloatColumn,
        contention: FloatColumn,
        rejected: Mapping[int, str],
    ) -> None:
        """Take over what became of all jobs by ``now``; NaN where a job is not through."""
        self._now = now
        self._specs.extend(specs)
        self._reasons.update(rejected)
        self._ended.update(dict.fromkeys(rejected, JobStatus.REJECTED))
        finished = np.flatnonzero(~np.isnan(finish))
        self._finish.update(zip(finished.tolist(), finish[finished].tolist(), strict=True))
        self._ended.update(dict.fromkeys(finished.tolist(), JobStatus.FINISHED))
        through = np.flatnonzero(~np.isnan(contention))
        self._contention.update(zip(through.tolist(), contention[through].tolist(), strict=True))

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
        self._log.started_late(event.number, event.start)

    def _cancelled(self, event: JobCancelled) -> None:
        self._leave(event.number, event.time, JobStatus.CANCELLED)

    def _recomposed(self, event: Recomposed) -> None:
        self._choices.append(Choice(event.time, event.policy, event.admission))

    def _other(self, event: Event) -> None:
        """Wake-ups, batch sizes, reports and holds leave no trace of their own in the outcomes."""

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
            choices=tuple(self._choices),
            single_gpu_seconds=None if single_gpu_seconds is None else single_gpu_seconds[:jobs],
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
    JobHeld: Recorder._other,
    JobReleased: Recorder._other,
    ProgressReported: Recorder._other,
    BatchSizeChanged: Recorder._other,
    TrainingReported: Recorder._other,
    LossReported: Recorder._other,
    NodeChanged: Recorder._node_changed,
    Recomposed: Recorder._recomposed,
    WakeUp: Recorder._other,
}
