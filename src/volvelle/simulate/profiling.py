"""Jobs run first on a profiling partition, which measures them (Chronus, SoCC'21, section 3.2).

Every job runs there for a limited time, in order of submission, by the rules of
`volvelle.profiling.partition`. One that ends meanwhile, done or crashed, never comes to the scheduler.
The others are begun anew by the scheduler, which then knows how long they take (`JobProfile`). The user is
taken to have declared how many iterations there are.

Nothing there depends on what the scheduler does, so this stage is worked out before it::

    workload ─▶ submission control ─▶ queue ─▶ nodes of the partition ─┬▶ done, crashed
                                                                       └▶ profiled, in this order ─▶ scheduler

Departures beside those of the rules: the partition's nodes do not fail. A node that it takes is empty after
the longest checkpoint of a job; jobs that ran there are queued again.
"""

import heapq
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from volvelle.core.events import JobProfile
from volvelle.metrics.outcomes import JobStatus, Outcomes, ProfiledJobs, Promised
from volvelle.model.arrays import BoolColumn, IntColumn
from volvelle.model.cluster import Cluster, NodeChange, NodeState, Profiling
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.throughput import AnyThroughput, Log2, PerBatchSize, PerType
from volvelle.profiling.partition import Partition, PartitionNode, Run
from volvelle.workload.workload import Workload

_CRASHED = "crashed while it was profiled"


@dataclass(frozen=True)
class ProfiledWorkload:
    """The scheduler's workload after the profiling partition, and the events of that partition.

    workload, profiles: the jobs that go on, in the order in which they come. rows: which of the ``whole``
    workload they are. cluster: what the scheduler has; its nodes change where the partition does. profiled: a
    row for each job of the whole. crashed: whether each crashed there.
    """

    whole: Workload
    workload: Workload
    profiles: tuple[JobProfile, ...]
    rows: IntColumn
    cluster: Cluster
    profiled: ProfiledJobs
    crashed: BoolColumn

    def outcomes(self, main: Outcomes, tracked: BoolColumn, until: float | None) -> Outcomes:
        """The outcomes of all jobs; ``main`` has those of the jobs that came to the scheduler."""
        end = main.end_time
        if until is None:
            end = max(end, float(self.profiled.end.max()))
        jobs = int(np.searchsorted(self.whole.submit_times, end, side="right"))
        rows, profiled = self.rows[: len(main)], self.profiled.first(jobs)
        over = profiled.ended_there & (profiled.end <= end)
        crashed = over & self.crashed[:jobs]
        done = over & ~crashed

        def spread(name: str, missing: Any) -> Any:
            column = np.full(jobs, missing, dtype=getattr(main, name).dtype)
            column[rows] = getattr(main, name)
            return column

        columns = {name: spread(name, np.nan) for name in ("first_start", "finish", "contention")}
        for name in ("predicted_finish", "predicted_p50", "predicted_p90"):
            if getattr(main, name) is not None:
                columns[name] = spread(name, np.nan)
        for name in ("gpu_seconds", "run_seconds", "lost_gpu_seconds", "preemptions", "restarts"):
            columns[name] = spread(name, 0)
        columns["first_start"][over] = profiled.start[over]
        columns["finish"][done] = profiled.end[done]
        columns["gpu_seconds"][over] = profiled.gpu_seconds[over]
        columns["run_seconds"][over] = profiled.run_seconds[over]
        columns["status"] = spread("status", JobStatus.WAITING.value)
        columns["status"][done] = JobStatus.FINISHED.value
        columns["status"][crashed] = JobStatus.FAILED.value
        reason = np.where(crashed, _CRASHED, "").tolist()
        for row, told in zip(rows.tolist(), main.reason, strict=True):
            reason[row] = told
        return replace(
            main,
            specs=self.whole.specs[:jobs],
            submit_time=self.whole.submit_times[:jobs],
            gpus=self.whole.gpus[:jobs],
            exclusive_seconds=self.whole.durations[:jobs],
            single_gpu_seconds=self.whole.single_gpu_seconds[:jobs],
            tracked=tracked[:jobs],
            reason=reason,
            segments=replace(main.segments, job=rows[main.segments.job]),
            end_time=end,
            promises=tuple(
                _told_to(told, int(rows[told.promise.number])) for told in main.promises
            ),
            profiled=profiled,
            **columns,
        )


def _told_to(told: Promised, number: int) -> Promised:
    """The same guarantee, made to the job with another number."""
    promise = msgspec.structs.replace(told.promise, number=number)
    return msgspec.structs.replace(told, promise=promise)


def profile(workload: Workload, cluster: Cluster, overheads: Overheads) -> ProfiledWorkload:
    """Let the jobs of ``workload`` run on the profiling partition of ``cluster``, which has one.

    Raises `Problem` where nodes would be taken from jobs that may not be preempted.
    """
    spec = cluster.profiling
    assert spec is not None
    if spec.most > spec.nodes:
        fixed = next((job.spec.id for job in workload if not job.spec.preemptible), None)
        if fixed is not None:
            raise Problem(
                f"profiling takes nodes from running jobs, and job {fixed!r} may not be preempted",
                mend="leave out profiling.most_nodes, so that the partition keeps its size",
            )
    partition = _SimulatedPartition(workload, cluster, spec, overheads)
    partition.run()
    jobs = workload.jobs
    goes_on = np.flatnonzero(~partition.ended_there)
    rows = goes_on[np.lexsort((goes_on, partition.end[goes_on]))]
    times, sizes = np.array(partition.sizes).T
    return ProfiledWorkload(
        whole=workload,
        workload=Workload([jobs[row] for row in rows.tolist()], workload.name, workload.report),
        profiles=tuple(partition.profile(row) for row in rows.tolist()),
        rows=rows,
        cluster=_main_cluster(cluster, partition.changes),
        profiled=ProfiledJobs(
            start=partition.start,
            end=partition.end,
            ended_there=partition.ended_there,
            seconds=partition.seconds,
            run_seconds=partition.run_seconds,
            gpu_seconds=partition.gpu_seconds,
            partition_times=times.copy(),
            partition_gpus=sizes.copy(),
        ),
        crashed=partition.crashed,
    )


def _main_cluster(cluster: Cluster, changes: list[NodeChange]) -> Cluster:
    """The nodes that the partition does not always have, some of which it takes and gives back."""
    all_changes = sorted((*cluster.changes, *changes), key=lambda change: change.time)
    return msgspec.structs.replace(cluster.main, changes=tuple(all_changes))


# ---------------------------------------------------------------------- the partition


class _End(NamedTuple):
    """How a run ends: after ``seconds``; whether its job did, done or crashed."""

    run: Run
    seconds: float
    ended: bool
    crashed: bool


_END, _RESIZE, _SUBMIT, _READY = range(4)
"""Events of the partition, in the order in which simultaneous ones are handled."""


class _SimulatedPartition:
    """The partition in a world that knows how long jobs take; `run` fills the columns."""

    def __init__(
        self, workload: Workload, cluster: Cluster, spec: Profiling, overheads: Overheads
    ) -> None:
        self._jobs, self._spec = workload.jobs, spec
        self._type = cluster.nodes[-1].gpu_type
        self._start_seconds = overheads.start
        self._vacating_seconds = max(
            (overheads.checkpoint_seconds(job.spec) for job in workload), default=0.0
        )
        names = [node.name for node in reversed(cluster.nodes[-spec.most :])]
        self._partition = Partition.of(spec, names, cluster.nodes[-1].gpus)
        self._width = self._partition.node_gpus
        first = float(workload.submit_times[0])
        for node in self._partition.nodes[: spec.nodes]:
            node.since = first
        self._happens: list[tuple[float, int, int, Any]] = []
        self._count = 0
        rows = len(workload)
        self.start, self.end, self.seconds = (np.full(rows, np.nan) for _ in range(3))
        self.run_seconds, self.gpu_seconds = np.zeros(rows), np.zeros(rows)
        self.crashed, self.ended_there = (np.zeros(rows, dtype=np.bool_) for _ in range(2))
        self.changes: list[NodeChange] = []
        self.sizes = [(first, spec.nodes * self._width)]
        for row, job in enumerate(self._jobs):
            self._expect(job.spec.submit_time, _SUBMIT, row)
        if spec.most > spec.nodes:
            self._expect(first + spec.resize_every, _RESIZE, None)

    def run(self) -> None:
        """Until all jobs are profiled, and the partition has its smallest size again."""
        while self._happens:
            now, kind, _, what = heapq.heappop(self._happens)
            if kind == _SUBMIT:
                spec = self._jobs[what].spec
                released = self._partition.arrive(what, spec.user, spec.gpus, now)
                if released > now:
                    self._expect(released, _READY, None)
            elif kind == _END:
                self._ended(what, now)
            elif kind == _RESIZE:
                self._resize(now)
            self._start(now)

    def profile(self, row: int) -> JobProfile:
        """The profile of a job that goes on to the scheduler."""
        seconds = float(self.seconds[row])
        measured = None if math.isnan(seconds) else seconds
        return JobProfile(float(self.start[row]), float(self.end[row]), measured)

    def _expect(self, time: float, kind: int, what: Any) -> None:
        self._count += 1
        heapq.heappush(self._happens, (time, kind, self._count, what))

    def _start(self, now: float) -> None:
        """Start the first in the queue, as long as there is room for it."""
        while found := self._partition.next_run(now):
            self._partition.begin(*found, now)
            end = self._end(found[0])
            if end.run.nodes == 1:
                self.start[end.run.number] = now
            self._expect(now + end.seconds, _END, end)

    def _end(self, run: Run) -> _End:
        """How a run will end."""
        job = self._jobs[run.number]
        limit = self._spec.seconds
        whole = self._start_seconds + job.seconds_on(run.gpus, self._type, run.nodes)
        crash = math.inf
        if job.truth.failures:
            truth = msgspec.structs.replace(job.truth, work=min(job.truth.failures))
            broken = msgspec.structs.replace(job, truth=truth)
            crash = self._start_seconds + broken.seconds_on(run.gpus, self._type, run.nodes)
        ended = min(whole, crash) <= limit
        return _End(run, min(whole, crash, limit), ended, ended and crash < whole)

    def _ended(self, end: _End, now: float) -> None:
        row = end.run.number
        run, nodes = self._partition.over(row)
        for node in nodes:
            self._leave(node, now)
        self.run_seconds[row] += end.seconds
        self.gpu_seconds[row] += end.seconds * run.gpus
        self.end[row] = now
        if end.ended:
            self.ended_there[row], self.crashed[row] = True, end.crashed
            self._partition.leave(row)
            return
        lasts = self._partition.conclude(run, self._iteration_seconds(run))
        if lasts is not None:
            job = self._jobs[row]
            self.seconds[row] = job.truth.work / _units(job, self._type, job.spec.gpus) * lasts
            self._partition.leave(row)

    def _iteration_seconds(self, run: Run) -> float:
        """How long an iteration takes at the batch size that goes with the GPUs of a run.

        NaN where the job makes no progress there.
        """
        job = self._jobs[run.number]
        rate = job.truth.rate(run.gpus, self._type, run.nodes)
        return _units(job, self._type, run.gpus) / rate if rate > 0.0 else math.nan

    # ------------------------------------------------------------------ how large it is

    def _resize(self, now: float) -> None:
        """Have as many nodes as the submissions since the last time ask for."""
        wanted = self._partition.nodes_wanted(now)
        for at, node in enumerate(self._partition.nodes):
            if at < wanted and node.since == math.inf:
                node.since = now + self._vacating_seconds
                self.changes.append(NodeChange(now, node.name, NodeState.VACATED))
                self._note_size(now)
                self._expect(node.since, _READY, None)
            node.leaving = at >= wanted
            self._leave(node, now)
        if self._happens or not self._partition.idle or wanted > self._spec.nodes:
            self._expect(now + self._spec.resize_every, _RESIZE, None)

    def _leave(self, node: PartitionNode, now: float) -> None:
        """Give a node back that is to leave, where nothing runs on it."""
        if node.leaving and node.idle and node.since < math.inf:
            node.since = math.inf
            self.changes.append(NodeChange(now, node.name, NodeState.UP))
            self._note_size(now)

    def _note_size(self, now: float) -> None:
        there = sum(node.since < math.inf for node in self._partition.nodes)
        self.sizes.append((now, there * self._width))


def _units(job: Job, gpu_type: str, gpus: float) -> float:
    """Units of work in an iteration on ``gpus`` GPUs, each of which has its share of the batch.

    Where work is counted in iterations of the job it is one on any GPUs.
    """
    model: AnyThroughput = job.truth.throughput
    while isinstance(model, (PerType, PerBatchSize)):
        model = (
            model.types[gpu_type]
            if isinstance(model, PerType)
            else model.batch_sizes[model.default]
        )
    return 1.0 if isinstance(model, Log2) else gpus
