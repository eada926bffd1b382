"""Publishes a new status view after each cycle, and keeps the latest change events."""

from collections import Counter, deque
from dataclasses import dataclass

from volvelle.live.status.forecast_history import ForecastHistory
from volvelle.live.status.load_history import LoadHistory
from volvelle.live.status.view import (
    ChangeEvent,
    JobState,
    JobStatusView,
    LoadPoint,
    NodeStatusView,
    StateChange,
    StatusView,
)

_MAX_EVENTS = 10_000
"""Change events that are kept."""


@dataclass(frozen=True)
class StatusUpdate:
    """Changes of one cycle. ``jobs``: changed, by number. ``ended``: last views of jobs that are over.

    nodes: all nodes. seq: of the journal entry.
    """

    seq: int
    time: float
    policy: str
    admission: str
    jobs: tuple[JobStatusView, ...]
    ended: tuple[JobStatusView, ...]
    nodes: tuple[NodeStatusView, ...]


class StatusPublisher:
    """Publishes views, the first of which is made of ``initial``."""

    def __init__(self, initial: StatusUpdate) -> None:
        self.events: deque[ChangeEvent] = deque(maxlen=_MAX_EVENTS)
        self.forecasts = ForecastHistory()
        self.load = LoadHistory()
        self._waiting = sum(map(_waits, initial.jobs))
        self._job_counts = Counter(job.user for job in initial.jobs)
        self.view = self._view(0, {job.number: job for job in initial.jobs}, initial)

    def publish(self, update: StatusUpdate) -> None:
        """Replace the view, and record state changes as an event."""
        jobs = self.view.jobs.copy()
        changes: list[StateChange] = []
        for last in update.ended:
            if (gone := jobs.pop(last.number, None)) is not None:
                self._job_counts[last.user] -= 1
                self._waiting -= _waits(gone)
            self.forecasts.end(last.number)
            changes.append(_change(last))
        for job in update.jobs:
            before = jobs.get(job.number)
            jobs[job.number] = job
            self._job_counts[job.user] += before is None
            self._waiting += _waits(job) - (before is not None and _waits(before))
            self.forecasts.add(update.time, job)
            if before is None or before.state is not job.state:
                changes.append(_change(job))
        if changes:
            event = ChangeEvent(seq=update.seq, time=update.time, changes=tuple(changes))
            self.events.append(event)
        self.view = self._view(self.view.version + 1, jobs, update)

    def events_after(self, seq: int) -> list[ChangeEvent]:
        """The kept events after journal entry ``seq``. May be called from any thread."""
        if not self.events or self.events[-1].seq <= seq:
            return []  # many listeners ask often
        return [event for event in list(self.events) if event.seq > seq]

    @property
    def is_full(self) -> bool:
        """Whether older events may have been dropped."""
        return len(self.events) == self.events.maxlen

    def _view(
        self, version: int, jobs: dict[int, JobStatusView], update: StatusUpdate
    ) -> StatusView:
        held = sum(node.gpus - node.free for node in update.nodes)
        self.load.add(LoadPoint(update.time, held, self._waiting))
        return StatusView(
            version=version,
            time=update.time,
            policy=update.policy,
            admission=update.admission,
            jobs=jobs,
            job_counts=+self._job_counts,
            nodes=update.nodes,
        )


def _waits(job: JobStatusView) -> bool:
    return job.state is JobState.WAITING


def _change(job: JobStatusView) -> StateChange:
    return StateChange(number=job.number, user=job.user, state=job.state, reason=job.reason)
