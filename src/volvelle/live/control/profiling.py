"""The profiling partition of a live cluster: a fold of the records, and what is to happen there in a cycle.

Its rules are those of `volvelle.profiling.partition`, which a simulation keeps to as well. A job that
is submitted first waits here, and then runs on the partition's nodes, ordered and reported like any attempt.
Its time counts from when its processes run. One that ends meanwhile is over. The others are stopped at a
checkpoint, and come to the scheduler with what their iterations showed (`JobProfile`); they go on from there.
"""

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from volvelle.core.events import JobProfile
from volvelle.live.control.gpu_ledger import GpuLedger
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.records import ProfileQueued, ProfileRunEnded, ProfileRunOver, ProfileStarted
from volvelle.model.cluster import Cluster
from volvelle.model.units import format_duration
from volvelle.profiling.partition import Partition, PartitionNode, Run


@dataclass
class ProfiledJob:
    """A job on the partition; times are seconds on the journal's clock.

    started: its first run. began: since when its processes run; None while they do not, or are to stop. run:
    the last one that ended. measured: seconds of an iteration in it (NaN: none). lasts: those on the GPUs
    that it requests (NaN: not known); None until that was concluded.
    """

    started: float = math.nan
    began: float | None = None
    run: Run | None = None
    measured: float = math.nan
    lasts: float | None = None


class PartitionMemory(NamedTuple):
    """A partition as a snapshot keeps it."""

    jobs: dict[int, ProfiledJob]
    rules: Partition


class LivePartition:
    """The partition of ``cluster``, which has one."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.profiling is not None
        self.seconds = cluster.profiling.seconds
        self.nodes = cluster.partition
        names = [node.name for node in self.nodes]
        self.rules = Partition.of(cluster.profiling, names, self.nodes[0].gpus)
        self.jobs: dict[int, ProfiledJob] = {}
        """Jobs that wait for a profile or are profiled, by number."""

    def node(self, name: str) -> PartitionNode | None:
        """A node of the partition; ``since`` is 0 where it is connected, else infinity."""
        return next((node for node in self.rules.nodes if node.name == name), None)

    @property
    def memory(self) -> PartitionMemory:
        """All that it knows, for a snapshot."""
        return PartitionMemory(self.jobs, self.rules)

    def remember(self, memory: PartitionMemory) -> None:
        """Know what `memory` was."""
        self.jobs, self.rules = memory

    # ------------------------------------------------------------------ the fold

    def queued(self, record: ProfileQueued) -> None:
        """A job was accepted."""
        self.jobs[record.number] = ProfiledJob()
        self.rules.arrive(record.number, record.user, record.gpus, record.time)

    def started(self, record: ProfileStarted, names: Container[str]) -> None:
        """A run has its GPUs, which are on these nodes."""
        nodes = [node for node in self.rules.nodes if node.name in names]
        self.rules.begin(Run(record.number, len(nodes), record.gpus), nodes, record.time)
        job = self.jobs[record.number]
        job.started = record.time if math.isnan(job.started) else job.started

    def running(self, number: int, now: float) -> None:
        """The processes of a run are there."""
        if number in self.jobs:
            self.jobs[number].began = now

    def stopping(self, record: ProfileRunOver) -> None:
        """A run is to stop: its time is over."""
        job, measured = self.jobs[record.number], record.iteration_seconds
        job.began, job.measured = None, math.nan if measured is None else measured

    def released(self, number: int) -> None:
        """Nothing of a run is left, if there was one; its GPUs are free."""
        if number in self.rules.runs:
            run, _ = self.rules.over(number)
            if number in self.jobs:
                self.jobs[number].began, self.jobs[number].run = None, run

    def ended(self, record: ProfileRunEnded) -> None:
        """The effects of a run that was released and did not end its job."""
        job = self.jobs[record.number]
        assert job.run is not None
        if record.again:
            self.rules.repeat(job.run)
        else:
            job.lasts = self.rules.conclude(job.run, job.measured)

    def left(self, number: int) -> None:
        """A job is over, or comes to the scheduler."""
        if self.jobs.pop(number, None) is not None:
            self.rules.leave(number)

    # ------------------------------------------------------------------ what is to happen

    def next_time(self) -> float:
        """When the time of a run is over, or a job may queue; infinity where neither will be."""
        ends = (job.began + self.seconds for job in self.jobs.values() if job.began is not None)
        return min(min(ends, default=math.inf), self.rules.next_release())

    def overdue(self, now: float) -> list[int]:
        """Jobs whose time is over."""
        return [
            number
            for number, job in self.jobs.items()
            if job.began is not None and now >= job.began + self.seconds
        ]

    def starts(
        self, now: float, drained: Container[str], ledger: GpuLedger
    ) -> Iterator[ProfileStarted]:
        """One run after another that there is room for; each must be recorded before the next."""
        for node in self.rules.nodes:
            node.leaving = node.name in drained
        while found := self.rules.next_run(now):
            run, nodes = found
            slots: list[int] = []
            for node in nodes:
                wanted = min(int(run.on_each), int(run.gpus) - len(slots))
                slots += ledger.free_slots(node.name)[:wanted]
            yield ProfileStarted(run.number, now, run.gpus, tuple(slots))

    def profile(self, job: LiveJob, now: float) -> JobProfile | None:
        """The scheduler's event of a job whose profile is over ``now``; None where it goes on.

        The seconds are those of the iterations that are left after its checkpoint.
        """
        profiled = self.jobs[job.number]
        if profiled.lasts is None:
            return None
        left = max(job.total_iterations - job.saved_iterations, 1)
        known = job.total_iterations > 0 and not math.isnan(profiled.lasts)
        return JobProfile(profiled.started, now, left * profiled.lasts if known else None)

    def describe(self, number: int, now: float) -> str:
        """The state of a job here, for people."""
        job = self.jobs[number]
        if number in self.rules.runs:
            _, nodes = self.rules.runs[number]
            where = " and ".join(node.name for node in nodes)
            if job.began is None:
                return f"its profile on {where} begins or ends"
            return f"is profiled on {where} for {format_duration(self.seconds)} at most"
        if self.rules.kept_back(number, now):
            return "waits for its profile: jobs of its user that are profiled now request much"
        return "waits for a place on the nodes for profiling"
