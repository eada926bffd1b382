"""A scheduler without a world, as the live one: users hold, release, change and requeue their jobs."""

import msgspec
import numpy as np
from hypothesis import strategies as st

from volvelle.core.events import (
    Event,
    JobChanged,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobStopped,
    JobSubmitted,
    WakeUp,
)
from volvelle.core.journal import Entry, follow, replay
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot
from volvelle.model.cluster import parse_cluster
from volvelle.testing.scenario import Scenario, linear_job, state_of

_JOBS = 6
_STEP_SECONDS = 7.0
_CHANGES = (
    {"priority": 5, "weight": 2.0},
    {"estimate_seconds": 11.0, "time_limit_seconds": None},
    {"time_limit_seconds": 90.0, "max_retries": 0},
)

Act = tuple[str, int]
acts = st.lists(
    st.tuples(
        st.sampled_from(["hold", "release", "change", "requeue", "finish"]),
        st.integers(0, _JOBS - 1),
    ),
    max_size=20,
)
"""Changes by users, each with the number of a job."""


class _Live:
    """The scheduler of ``scenario``, the events it took and the decisions it made."""

    def __init__(self, scenario: Scenario) -> None:
        self.header = scenario.setting.header
        self.scheduler = self.header.scheduler()
        self.entries: list[Entry] = []
        self.now = 0.0

    def handle(self, *events: Event) -> None:
        """The moment of these events, and those before it at which the scheduler wants to wake up."""
        while (wake := self.scheduler.wake_at()) is not None and wake < self.now:
            self._handle(wake, (WakeUp(wake),))
        self._handle(self.now, events)
        self.now += _STEP_SECONDS

    def _handle(self, time: float, events: tuple[Event, ...]) -> None:
        self.entries.append(Entry(time, events, self.scheduler.handle(time, events)))

    def act(self, what: str, number: int) -> None:
        """Let a user do this, or let the job's run end as a node reports it."""
        match what:
            case "hold":
                self.handle(JobHeld(self.now, number))
            case "release":
                self.handle(JobReleased(self.now, number))
            case "change":
                self.handle(JobChanged(self.now, number, _CHANGES[number % len(_CHANGES)]))
            case "requeue":
                self.handle(JobRequeued(self.now, number))
                self._stopped(number)
            case _ if (row := self.scheduler.row_of(number)) is not None:
                attempt = int(self.scheduler.state.jobs.attempt[row])
                self.handle(JobFinished(self.now, number, attempt))

    def _stopped(self, number: int) -> None:
        """Let the node report the checkpoint of the run that was requeued."""
        row = self.scheduler.row_of(number)
        if row is not None and self.scheduler.state.jobs.preemptions[row]:
            attempt = int(self.scheduler.state.jobs.attempt[row])
            again = self.scheduler.state.jobs.held[row] > 0.0
            self.handle(JobStopped(self.now, number, attempt - again, 1.0))


def check_user_changes(policy: str, done: list[Act]) -> None:
    """The journal has all changes by users: replays, snapshots and followers get to where they led."""
    cluster = parse_cluster("2x4")
    scenario = Scenario.of(cluster, [], policy=policy, placement="first-free", estimator="declared")
    if scenario.setting.composition.build().policy.shares_gpus:
        scenario = scenario.under(placement="none")
    live = _Live(scenario)
    for number in range(_JOBS):
        spec = linear_job(number, live.now, 1.0 + number % 4, 60.0).spec
        live.handle(
            JobSubmitted(live.now, number, msgspec.structs.replace(spec, estimate_seconds=60.0))
        )
    for act in done:
        live.act(*act)
    half = len(live.entries) // 2
    assert state_of(replay(live.header, live.entries)) == state_of(live.scheduler)
    snapshot = Snapshot.of(replay(live.header, live.entries[:half]), live.header.volvelle)
    resumed, forgetful = snapshot.resume(live.header.composition.build())
    assert not forgetful
    for entry in live.entries[half:]:
        assert resumed.handle(entry.time, entry.events) == entry.decision
    followed = follow(live.header, live.entries)
    assert _held(followed) == _held(live.scheduler)
    np.testing.assert_array_equal(followed.resources.owner, live.scheduler.resources.owner)


def _held(scheduler: Scheduler) -> dict[int, tuple[float, ...]]:
    """By number of each job with GPUs what it holds, how often it started, and what it declares."""
    jobs = scheduler.state.jobs
    counted = (jobs.held, jobs.type, jobs.attempt, jobs.priority, jobs.time_limit)
    return {
        number: tuple(float(column[row]) for column in counted)
        for number, row in scheduler.known.rows.items()
        if jobs.held[row] > 0.0
    }
