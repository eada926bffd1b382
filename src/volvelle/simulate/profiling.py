"""Jobs run first on a profiling partition, which measures them (Chronus, SoCC'21, section 3.2).

Every job runs there for a limited time, in order of submission. One that ends meanwhile, done or
crashed, never comes to the scheduler. Of the others the scheduler is told how long they will take
(`JobProfile`), and begins them anew. A job wider than a node is run on one node and on two, one after the
other, and its iterations on n nodes are taken to last ``t_n = t_1 + log2(n) (t_2 - t_1)`` (section
3.2.2). The user is taken to have declared how many iterations there are.

Nothing there depends on what the scheduler does, so this stage is worked out before it::

    workload ─▶ submission control ─▶ queue ─▶ nodes of the partition ─┬▶ done, crashed
                                                                       └▶ profiled, in this order ─▶ scheduler

Departures: a user's job that alone requests more than the limit passes once nothing else of the user has
in an interval (the paper does not say). CPUs and memory are not limited in the partition, whose nodes do
not fail. With a partition of one node there is no run on two, and ``t_2`` is taken for ``t_1``. A node that
the partition takes is empty after the longest checkpoint of a job; jobs that ran there are queued again.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from volvelle.core.events import JobProfile
from volvelle.metrics.outcomes import (
    BoolColumn,
    IntColumn,
    JobStatus,
    Outcomes,
    ProfiledJobs,
    Promised,
)
from volvelle.model.cluster import Cluster, NodeChange, NodeState, Profiling, check_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.throughput import AnyThroughput, Log2, PerBatchSize, PerType
from volvelle.workload.workload import Workload

_FITS = 1e-9
"""GPUs that sums of fractions may be over by rounding."""

_CRASHED = "crashed while it was profiled"


@dataclass(frozen=True)
class ProfiledWorkload:
    """What is left for the scheduler after the profiling partition, and what happened there.

    workload, profiles: the jobs that go on, in the order in which they come. rows: which of the ``whole``
    workload they are. cluster: what the scheduler has; its nodes change where the partition does. profiled: a
    row for each job of the whole. crashed: those that crashed there.
    """

    whole: Workload
    workload: Workload
    profiles: tuple[JobProfile, ...]
    rows: IntColumn
    cluster: Cluster
    profiled: ProfiledJobs
    crashed: BoolColumn

    def outcomes(self, main: Outcomes, tracked: BoolColumn, until: float | None) -> Outcomes:
        """What became of all jobs, where ``main`` is what became of those that came to the scheduler."""
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
    """The same told to the job with another number."""
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
    partition = _Partition(workload, cluster, spec, overheads)
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
        cluster=_main_cluster(cluster, spec, partition.changes),
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


def _main_cluster(cluster: Cluster, spec: Profiling, changes: list[NodeChange]) -> Cluster:
    """What the scheduler has: all nodes but those that the partition has from the beginning."""
    main = msgspec.structs.replace(
        cluster,
        nodes=cluster.nodes[: len(cluster.nodes) - spec.nodes],
        changes=tuple(sorted((*cluster.changes, *changes), key=lambda change: change.time)),
        profiling=None,
    )
    check_cluster(main, "the cluster without its profiling partition")
    return main


# ---------------------------------------------------------------------- the partition


class _Run(NamedTuple):
    """A job on one or two ``nodes``: with ``gpus``, for ``seconds``; what ends it."""

    row: int
    nodes: int
    gpus: float
    seconds: float
    ended: bool
    crashed: bool


class _Node:
    """A node of the partition; ``since`` when it is there, ``leaving``: it goes once nothing runs on it."""

    def __init__(self, name: str, gpus: int) -> None:
        self.name = name
        self.free = float(gpus)
        self.since = math.inf
        self.leaving = False


_END, _RESIZE, _SUBMIT, _READY = range(4)
"""What happens on the partition, in the order in which simultaneous events are handled."""


class _Partition:
    """First come, first served, on as many nodes as there are; `run` fills the columns."""

    def __init__(
        self, workload: Workload, cluster: Cluster, spec: Profiling, overheads: Overheads
    ) -> None:
        self._jobs, self._spec = workload.jobs, spec
        self._width = float(cluster.nodes[-1].gpus)
        self._type = cluster.nodes[-1].gpu_type
        self._start_seconds = overheads.start
        self._vacating_seconds = max(
            (overheads.checkpoint_seconds(job.spec) for job in workload), default=0.0
        )
        nodes = cluster.nodes[-spec.most :]
        self._nodes = [_Node(node.name, node.gpus) for node in reversed(nodes)]
        first = float(workload.submit_times[0])
        for node in self._nodes[: spec.nodes]:
            node.since = first
        self._queue: deque[_Run] = deque()
        self._happens: list[tuple[float, int, int, Any]] = []
        self._count = 0
        self._asked: deque[tuple[float, float]] = (
            deque()
        )  # submissions of late: when, GPUs of their runs
        rows = len(workload)
        self.start, self.end, self.seconds = (np.full(rows, np.nan) for _ in range(3))
        self.run_seconds, self.gpu_seconds = np.zeros(rows), np.zeros(rows)
        self._one_node = np.full(rows, np.nan)
        self.crashed, self.ended_there = (np.zeros(rows, dtype=np.bool_) for _ in range(2))
        self.changes: list[NodeChange] = []
        self.sizes = [(first, spec.nodes * self._width)]
        for row, time in enumerate(_released(workload, spec)):
            self._expect(time, _SUBMIT, row)
        if spec.most > spec.nodes:
            self._expect(first + spec.resize_every, _RESIZE, None)

    def run(self) -> None:
        """Until all jobs are profiled, and the partition has its smallest size again."""
        while self._happens:
            now, kind, _, what = heapq.heappop(self._happens)
            if kind == _SUBMIT:
                self._submitted(what, now)
            elif kind == _END:
                run, held, each = what
                self._ended(run, held, each, now)
            elif kind == _RESIZE:
                self._resize(now)
            self._start(now)

    def profile(self, row: int) -> JobProfile:
        """What the scheduler is told of a job that goes on."""
        seconds = float(self.seconds[row])
        measured = None if math.isnan(seconds) else seconds
        return JobProfile(float(self.start[row]), float(self.end[row]), measured)

    def _expect(self, time: float, kind: int, what: Any) -> None:
        self._count += 1
        heapq.heappush(self._happens, (time, kind, self._count, what))

    def _submitted(self, row: int, now: float) -> None:
        run = self._one(row, 1)
        self._queue.append(run)
        wide = self._two_too(row)
        self._asked.append((now, run.gpus + (self._one(row, 2).gpus if wide else 0.0)))

    def _two_too(self, row: int) -> bool:
        return self._jobs[row].spec.gpus > self._width and self._spec.nodes > 1

    def _one(self, row: int, nodes: int) -> _Run:
        """A run of the job on so many nodes."""
        job = self._jobs[row]
        gpus = min(job.spec.gpus, nodes * self._width)
        limit = self._spec.seconds
        whole = self._start_seconds + job.seconds_on(gpus, self._type, nodes)
        crash = math.inf
        if job.truth.failures:
            truth = msgspec.structs.replace(job.truth, work=min(job.truth.failures))
            until = msgspec.structs.replace(job, truth=truth).seconds_on(gpus, self._type, nodes)
            crash = self._start_seconds + until
        seconds = min(whole, crash, limit)
        ended = min(whole, crash) <= limit
        return _Run(row, nodes, gpus, seconds, ended, ended and crash < whole)

    def _start(self, now: float) -> None:
        """Start the first in the queue, as long as there is room for it."""
        while self._queue and (found := self._room(self._queue[0], now)):
            run = self._queue.popleft()
            each = run.gpus / run.nodes
            for node in found:
                node.free -= each
            if run.nodes == 1:
                self.start[run.row] = now
            self._expect(now + run.seconds, _END, (run, found, each))

    def _room(self, run: _Run, now: float) -> list[_Node]:
        """Nodes with enough free GPUs; none where there are not as many."""
        each = run.gpus / run.nodes - _FITS
        fit = [
            node
            for node in self._nodes
            if node.since <= now and not node.leaving and node.free >= each
        ][: run.nodes]
        return fit if len(fit) == run.nodes else []

    def _ended(self, run: _Run, held: list[_Node], each: float, now: float) -> None:
        for node in held:
            node.free += each
            self._leave(node, now)
        row = run.row
        self.run_seconds[row] += run.seconds
        self.gpu_seconds[row] += run.seconds * run.gpus
        self.end[row] = now
        if run.ended:
            self.ended_there[row], self.crashed[row] = True, run.crashed
        elif run.nodes == 1 and self._two_too(row):
            self._one_node[row] = self._iteration_seconds(row, 1)
            self._queue.appendleft(self._one(row, 2))
        else:
            self.seconds[row] = self._measured(row, run.nodes)

    def _iteration_seconds(self, row: int, nodes: int) -> float:
        """How long an iteration takes at the batch size that goes with the GPUs of so many nodes.

        NaN where the job makes no progress there.
        """
        job = self._jobs[row]
        gpus = min(job.spec.gpus, nodes * self._width)
        rate = job.truth.rate(gpus, self._type, nodes)
        return _units(job, self._type, gpus) / rate if rate > 0.0 else math.nan

    def _measured(self, row: int, nodes: int) -> float:
        """Seconds that the job takes on the GPUs it requests, by the iterations that it did."""
        job = self._jobs[row]
        last = self._iteration_seconds(row, nodes)
        wanted = math.ceil(job.spec.gpus / self._width - _FITS)
        if nodes == 2:
            first = self._one_node[row]
            last = first + math.log2(wanted) * (last - first)
        return job.truth.work / _units(job, self._type, job.spec.gpus) * last

    # ------------------------------------------------------------------ how large it is

    def _resize(self, now: float) -> None:
        """Have as many nodes as ``C >= lambda T`` says, by the submissions since the last time."""
        spec = self._spec
        while self._asked and self._asked[0][0] <= now - spec.resize_every:
            self._asked.popleft()
        needs = sum(gpus for _, gpus in self._asked) * spec.seconds / spec.resize_every
        wanted = min(max(math.ceil(needs / self._width - _FITS), spec.nodes), spec.most)
        for at, node in enumerate(self._nodes):
            if at < wanted and node.since == math.inf:
                node.since = now + self._vacating_seconds
                self.changes.append(NodeChange(now, node.name, NodeState.VACATED))
                self._note_size(now)
                self._expect(node.since, _READY, None)
            node.leaving = at >= wanted
            self._leave(node, now)
        if self._happens or self._queue or wanted > spec.nodes:
            self._expect(now + spec.resize_every, _RESIZE, None)

    def _leave(self, node: _Node, now: float) -> None:
        """Give a node back that is to leave, where nothing runs on it."""
        idle = node.free >= self._width - _FITS
        if node.leaving and idle and node.since < math.inf:
            node.since = math.inf
            self.changes.append(NodeChange(now, node.name, NodeState.UP))
            self._note_size(now)

    def _note_size(self, now: float) -> None:
        there = sum(node.since < math.inf for node in self._nodes)
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


def _released(workload: Workload, spec: Profiling) -> list[float]:
    """When each job may queue for its profile: submission control (section 3.2.1)."""
    if spec.user_gpus is None:
        return [job.spec.submit_time for job in workload]
    taken: dict[str, tuple[int, float]] = {}
    released = []
    for job in workload:
        time, user = job.spec.submit_time, job.spec.user
        if user:
            interval, asked = taken.get(user, (-1, 0.0))
            now = math.floor(time / spec.seconds)
            if now > interval:
                interval, asked = now, 0.0
            if asked > 0.0 and asked + job.spec.gpus > spec.user_gpus + _FITS:
                interval, asked = interval + 1, 0.0
            taken[user] = interval, asked + job.spec.gpus
            time = max(time, interval * spec.seconds)
        released.append(time)
    return released
