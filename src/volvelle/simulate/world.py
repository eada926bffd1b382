"""The simulated world: it knows the truth about every job and computes the next event exactly.

Between events nothing changes (`Executions` says what goes on meanwhile); nothing ticks and nothing drifts.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from volvelle.core.decision import Decision
from volvelle.core.events import (
    Event,
    JobSubmitted,
    NodeChanged,
    WakeUp,
)
from volvelle.core.scheduler import Scheduler, next_multiple
from volvelle.core.state import Resources, first_changes_to_up
from volvelle.model.cluster import Cluster, NodeState
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.simulate.execution import Execution
from volvelle.simulate.executions import Executions
from volvelle.simulate.nodes import node_changes

_PATIENCE = 1000
"""Wake-ups to no effect, while nothing runs, after which nothing is expected of them any more."""


class Watcher(Protocol):
    """Whoever wants to know each moment of a run: a journal, a recorder."""

    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        """One moment: what happened and what was decided."""
        ...


class Director(Protocol):
    """Whoever steers the scheduler while it runs, as an operator would: through events."""

    every: float
    """Seconds; it is asked at multiples of this, as long as there are jobs."""

    def choose(self, scheduler: Scheduler, now: float, events: Sequence[Event]) -> Sequence[Event]:
        """What else is to happen at ``now``, beside ``events`` that ``scheduler`` has not seen yet."""
        ...


class World(Executions):
    """A cluster on which the jobs of ``jobs`` really happen.

    jobs: in order of submission. tick: ends of jobs are noticed at multiples of it (None: at once).
    until: the world ends at this time. tracked: it ends when all these jobs have (None: when all have).
    director: steers the scheduler.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        jobs: Sequence[Job],
        watchers: Sequence[Watcher] = (),
        *,
        overheads: Overheads | None = None,
        tick: float | None = None,
        until: float = math.inf,
        tracked: Sequence[int] | None = None,
        director: Director | None = None,
    ) -> None:
        super().__init__(
            Resources(scheduler.cluster),
            overheads or scheduler.overheads,
            tick=tick,
            tracked=tracked,
            loss_every=scheduler.composition.loss_every,
            now=scheduler.now,
        )
        self.scheduler = scheduler
        self._director = director
        self._direct_at = math.inf if director is None else director.every
        self._jobs = jobs
        self._watchers = watchers
        self._until = until
        cluster: Cluster = scheduler.cluster
        self._disclose = scheduler.composition.estimator.needs_truth
        self._nodes: Iterator[NodeChanged] = node_changes(cluster, scheduler.seed)
        self._next_node = next(self._nodes, None)
        self._away = first_changes_to_up(cluster)  # nodes that take no jobs just now
        self._next_job, self._first = 0, 0
        self._wake: float | None = None
        self._idle_wakes = 0  # wake-ups in a row after which nothing changed
        self.moments = 0
        self.events = 0

    # ------------------------------------------------------------------ the loop

    def run(self, on_moment: Callable[["World"], None] | None = None) -> None:
        """Let time pass until every job is through, or nothing can happen any more."""
        while (now := self._next_time()) < math.inf:
            if now > self._until:
                self._end_early()
                return
            self.now = now
            events = tuple(self._events_at(now))
            if now >= self._direct_at:
                events = self._directed(now, events)
            decision = self.scheduler.handle(now, events)
            for watcher in self._watchers:
                watcher.record(now, events, decision)
            self._wake_at(now, decision)
            self._carry_out(now, decision)
            self.moments += 1
            self.events += len(events)
            woken = len(events) == 1 and type(events[0]) is WakeUp and not len(decision.job)
            self._idle_wakes = self._idle_wakes + 1 if woken else 0
            if on_moment is not None:
                on_moment(self)
            if self._through() or self._stuck():
                return

    @property
    def submitted(self) -> int:
        """Jobs submitted so far."""
        return self._next_job

    @property
    def settled(self) -> bool:
        """Whether nothing more happens at this moment."""
        return self._next_time() > self.now

    def expect(self, jobs: Sequence[Job], first: int) -> None:
        """These are the jobs that are still to come; they are numbered from ``first``."""
        self._jobs, self._first = jobs, first

    def resume(self, wake_at: float | None) -> None:
        """Start in the middle: the scheduler has already asked to be woken."""
        self.now = self.scheduler.now
        self._wake = wake_at
        while self._next_node is not None and self._next_node.time <= self.now:
            self._next_node = next(self._nodes, None)

    def _next_time(self) -> float:
        now = self._next_news()
        if self._next_job < len(self._jobs):
            now = min(now, self._jobs[self._next_job].spec.submit_time)
        if self._wake is not None:
            now = min(now, self._wake)
        if self._next_node is not None and (now < math.inf or self._in_system):
            now = min(now, self._next_node.time)
        if now < math.inf and self._in_system:
            now = min(now, self._direct_at)
        return now

    def _events_at(self, now: float) -> Iterator[Event]:
        """All that happens at ``now``: news of jobs, node changes, submissions, the wake-up."""
        yield from self._all_news(now)
        changes: list[NodeChanged] = []
        while self._next_node is not None and self._next_node.time <= now:
            changes.append(self._next_node)
            self._next_node = next(self._nodes, None)
        for change in changes:
            self._away.discard(change.name)
            if change.state is not NodeState.UP:
                self._away.add(change.name)
            if change.state is NodeState.DOWN:
                yield from self._lose_node(now, change.name)
        yield from changes
        jobs = self._jobs
        while self._next_job < len(jobs) and jobs[self._next_job].spec.submit_time <= now:
            number, job = self._first + self._next_job, jobs[self._next_job]
            self._next_job += 1
            tuned = self.scheduler.composition.policy.tunes_batch_size
            self._in_system[number] = Execution(number, job, tuned=tuned)
            yield JobSubmitted(now, number, job.spec, job.truth if self._disclose else None)
        if self._wake is not None and self._wake <= now:
            self._wake = None
            yield WakeUp(now)

    def _directed(self, now: float, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """``events`` and what the director adds; a date that nobody was there for is passed over."""
        assert self._director is not None
        while self._direct_at < now:
            self._direct_at = next_multiple(self._direct_at, self._director.every)
        if self._direct_at > now or not self._in_system:
            return events
        self._direct_at = next_multiple(now, self._director.every)
        return (*events, *self._director.choose(self.scheduler, now, events))

    def _through(self) -> bool:
        if self._waited_for is not None and not self._waited_for:
            return True
        return not self._in_system and self._next_job >= len(self._jobs)

    def _stuck(self) -> bool:
        """Whether nothing is still to come but what goes on for ever and changes nothing.

        That is random failures of nodes, and a policy that is woken again and again to no effect.
        """
        patient = self._wake is None or self._idle_wakes > _PATIENCE
        endless = self.scheduler.cluster.failures is not None
        if not patient or self._next_job < len(self._jobs) or (self._wake is None and not endless):
            return False
        nodes_help = self._next_node is not None and (self._away or not endless)
        return not nodes_help and not any(job.gpus for job in self._in_system.values())

    def _end_early(self) -> None:
        """Tell the watchers that time went on to the very end."""
        self.now = self._until
        for watcher in self._watchers:
            watcher.record(self._until, (), Decision())

    def _wake_at(self, now: float, decision: Decision) -> None:
        """Take note of when the scheduler asks to be woken."""
        if decision.wake_at is not None and decision.wake_at <= now:
            raise RuntimeError(f"the scheduler asks at {now} to be woken at {decision.wake_at}")
        self._wake = decision.wake_at
