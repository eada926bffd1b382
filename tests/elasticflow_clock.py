"""The clock of ElasticFlow's own simulator, round our decisions, to compare results job by job.

The decisions are those of `volvelle.systems.elasticflow.shares`. What stands here is how that simulator
lets time pass: events closer than a slot are moved together; at each event every running job pays for a
change of GPUs, less where the same GPUs, by rank, have been a group before; a job that is not done by its
event goes on to another; jobs that come in one event are admitted together or not at all.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from volvelle.model.job import Job
from volvelle.model.throughput import Table
from volvelle.systems.elasticflow.policy import levels_of
from volvelle.systems.elasticflow.shares import (
    Plan,
    Wishes,
    empty_plan,
    grow,
    share_of,
    share_out,
)

RESTART_EVERY = 240


@dataclass(eq=False)
class Trained:
    """A job of the trace, and how far it is."""

    number: int
    submit: float
    left: float
    deadline: float
    best_effort: bool
    levels: list[int]
    speed: list[float]
    gpus: int = 0
    overhead: float = 0.0
    start: float = math.inf
    end: float = 0.0
    real_end: float = math.inf
    holds: bool = False


@dataclass(eq=False)
class Event:
    """What happens at a time."""

    time: float
    starts: list[Trained] = field(default_factory=list)
    ends: list[Trained] = field(default_factory=list)


def simulated(
    scheduler: str, jobs: Iterable[Job], total: int, slot: float
) -> dict[int, tuple[float, float, int]]:
    """Start, end and last GPUs of each job that ends, by place in the trace."""
    kind = CLOCKS[scheduler]
    clock = kind(trained(jobs, float(total), fastest=kind is Clock), total, slot)
    while clock.events:
        clock.step()
    return clock.done


class Clock:
    """Events, and the jobs in the system in the order in which they were last sorted."""

    def __init__(self, jobs: list[Trained], total: int, slot: float) -> None:
        self.total, self.slot = total, slot
        self.jobs: list[Trained] = []
        self.events: list[Event] = []
        self.done: dict[int, tuple[float, float, int]] = {}
        self.groups: set[tuple[int, int]] = set()
        self.decisions = 0
        self.gap = 0.0
        for job in sorted(jobs, key=lambda job: job.submit):
            self.at(job.submit).starts.append(job)
        self.events.sort(key=lambda event: event.time)

    def at(self, time: float) -> Event:
        """The event at a time."""
        for event in self.events:
            if event.time == time:
                return event
        self.events.append(Event(time))
        return self.events[-1]

    def end_at(self, job: Trained, end: float) -> None:
        """Move a job's end."""
        if job.end == end:
            return
        for event in self.events:
            if event.time == job.end and job in event.ends:
                event.ends.remove(job)
                if not event.ends and not event.starts:
                    self.events.remove(event)
                break
        job.end = end
        ends = self.at(end).ends
        if job not in ends:
            ends.append(job)

    def step(self) -> None:
        """One event."""
        now = self.events[0].time
        self.train(now)
        event = self.at(now)
        self.events.remove(event)
        if not self.jobs and not event.ends and not event.starts:
            return
        for job in event.ends:
            if job.holds:
                self.jobs.remove(job)
                self.done[job.number] = (job.start, job.end, job.gpus)
        for job in self.jobs:
            job.holds = False
        self.admit(event.starts, now)
        self.decide(now)
        self.events.sort(key=lambda each: each.time)
        self.pay()
        self.events.sort(key=lambda each: each.time)
        self.merge(now)

    def train(self, now: float) -> None:
        """Let jobs train since the last event."""
        for job in self.jobs:
            if job.gpus == 0:
                continue
            ran = self.gap - max(now - job.real_end, 0.0)
            assert ran > 0
            ran = max(ran - job.overhead, 0.0)
            speed = job.speed[job.levels.index(job.gpus)]
            done = ran * speed
            if job.left <= done and job.end > now:
                ends = now - self.gap + math.ceil(job.left / speed)
                done = (job.end - now + self.gap) * speed
                self.end_at(job, now)
                job.end = ends
            job.left -= done
            job.overhead = 0.0

    def admit(self, starts: list[Trained], now: float) -> None:
        """Jobs that come, if all deadlines are met then; best effort in any case."""
        if not starts:
            return
        both = sorted(self.jobs + starts, key=lambda job: job.deadline)
        self.jobs.sort(key=lambda job: job.deadline)
        _, missed = self.shares(both, now)
        self.jobs += [job for job in starts if not missed or job.best_effort]

    def wishes(self, jobs: list[Trained]) -> Wishes:
        """The jobs in columns."""
        most = max(len(job.levels) for job in jobs)
        levels, speed = np.zeros((len(jobs), most)), np.zeros((len(jobs), most))
        for row, job in enumerate(jobs):
            levels[row, : len(job.levels)] = job.levels
            speed[row, : len(job.speed)] = job.speed
        return Wishes(
            np.array([job.left for job in jobs]),
            np.array([job.deadline for job in jobs], dtype=np.float64),
            levels,
            speed,
            np.array([len(job.levels) for job in jobs]),
        )

    def shares(self, jobs: list[Trained], now: float) -> tuple[Plan, int]:
        """The least shares of jobs in their order."""
        wishes = self.wishes(jobs)
        plan = empty_plan(now, float(self.total), wishes)
        return share_out(plan, np.arange(len(jobs)), wishes, self.slot)

    def decide(self, now: float) -> None:
        """Shares, growth, ends and the next change."""
        if not self.jobs:
            return
        self.jobs.sort(key=lambda job: job.deadline)
        jobs = self.jobs
        plan, _ = self.shares(jobs, now)
        for row, job in enumerate(jobs):
            self.end_at(job, float(plan.end[row]))
            job.real_end = float(plan.real_end[row])
        plan, order = grow(plan, np.arange(len(jobs)), self.wishes(jobs), self.slot)
        changes = []
        for row, job in enumerate(jobs):
            self.end_at(job, float(plan.end[row]))
            job.real_end = float(plan.real_end[row])
            job.gpus = int(plan.held[row])
            if job.gpus and job.start == math.inf:
                job.start = now
            job.holds = job.gpus > 0
            share = share_of(plan, row)
            changes.append(share.at[1] if len(share.at) > 1 else share.end)
        self.jobs = sorted((jobs[row] for row in order), key=lambda job: -job.gpus)
        first = min(changes, default=math.inf)
        if first < min((event.time for event in self.events), default=math.inf):
            self.at(first)

    def pay(self) -> None:
        """What the change costs each job that runs, less where its GPUs were a group before."""
        again = self.decisions > 0 and self.decisions % RESTART_EVERY == 0
        self.decisions += 1
        rank = 0
        for job in self.jobs:
            if job.gpus == 0:
                continue
            known = (rank, job.gpus) in self.groups
            self.groups.add((rank, job.gpus))
            rank += job.gpus
            costs, more = (2, 27) if self.total < 256 else (7, 47)
            job.overhead = float(costs)
            if not known:
                job.overhead += more * again + 2 * (math.log2(job.gpus) + 1)
            self.end_at(job, job.end + job.overhead)
        if again:
            self.groups.clear()

    def merge(self, now: float) -> None:
        """Events that are closer than a slot happen at its end, together."""
        if not self.events:
            return
        soon = self.events[0].time
        while soon - now <= self.slot and len(self.events) > 1:
            self.events[0].time = now + self.slot
            if self.events[1].time - now > self.slot:
                break
            soon = self.events[1].time
            self.events[0].starts += self.events[1].starts
            self.events[0].ends += self.events[1].ends
            del self.events[1]
        self.gap = float(int(self.events[0].time - now))


class EarliestDeadline(Clock):
    """The clock of ``edf``: changes cost nothing, and jobs end at their second.

    Jobs have all that is free in order of their deadlines, as `least_share` has it for a deadline that is
    now.
    """

    def step(self) -> None:
        """One event."""
        now = self.events[0].time
        self.train(now)
        event = self.at(now)
        for job in event.ends:
            self.jobs.remove(job)
            self.done[job.number] = (job.start, job.end, job.gpus)
        self.jobs = sorted(self.jobs + event.starts, key=lambda job: job.deadline)
        if self.jobs:
            wishes = self.wishes(self.jobs)
            wishes.deadline[:] = now
            plan = empty_plan(now, float(self.total), wishes)
            plan, _ = share_out(plan, np.arange(len(self.jobs)), wishes, self.slot)
            for row, job in enumerate(self.jobs):
                job.gpus = int(plan.held[row])
                if job.gpus and job.start == math.inf:
                    job.start = now
                if job.start < math.inf:
                    self.end_at(job, float(plan.real_end[row]))
                    job.real_end = job.end
        self.events.remove(event)
        self.events.sort(key=lambda each: each.time)
        self.merge(now)


CLOCKS = {"ef-accessctrl": Clock, "edf": EarliestDeadline}
"""The clocks of schedulers, by the names that the simulator has for these."""


def trained(jobs: Iterable[Job], most: float, *, fastest: bool) -> list[Trained]:
    """Jobs of a trace on the levels on which they get faster, or on all, up to ``most`` GPUs."""
    found = []
    for number, job in enumerate(jobs):
        table = job.truth.throughput
        assert isinstance(table, Table)
        measured = job.spec.max_gpus or 1.0 if fastest else len(table.rates)
        row = np.zeros(64)
        levels = [int(gpus) for gpus in row[: levels_of(1.0, min(measured, most), row)]]
        speed = [table.rate(gpus) for gpus in levels]
        known = speed.index(max(speed)) + 1 if fastest else len(levels)
        submitted, rewards = job.spec.submit_time, job.spec.rewards
        found.append(
            Trained(
                number,
                submitted,
                job.truth.work,
                submitted + rewards[0].deadline_seconds if rewards else math.inf,
                not rewards,
                levels[:known],
                speed[:known],
            )
        )
    return found
