"""Notifications of a cycle: events of jobs and nodes that have targets."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from volvelle.core.events import Event, NodeChanged
from volvelle.live.control.cycle_effects import CycleEffects
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.control.state import ControllerState
from volvelle.live.notifications.settings import NotificationSettings
from volvelle.live.notify import NotifiedEvent
from volvelle.live.scheduler_queries import preemptions
from volvelle.live.status.view import JobState, JobStatusView, StatusView
from volvelle.live.store.rows import Notification
from volvelle.model.cluster import NodeState

_ENDS = {
    JobState.FINISHED: NotifiedEvent.FINISHED,
    JobState.FAILED: NotifiedEvent.FAILED,
    JobState.REJECTED: NotifiedEvent.FAILED,
}
_NOBODY = NotificationSettings()
_TOLD = (
    "number", "identity", "name", "user", "gpus", "submitted", "first_started", "ended", "preemptions",
    "failures", "reason", "array_index",
)  # fmt: skip


class CycleNotifications:
    """Makes the notifications of cycles of ``state``, to those in ``settings`` and those jobs name.

    told: ids of earlier notifications about deadlines at risk, which are not repeated. admit: the
    notifications for which the outbox has room.
    """

    def __init__(
        self,
        state: ControllerState,
        settings: NotificationSettings = _NOBODY,
        told: Iterable[str] = (),
        admit: Callable[[Sequence[Notification]], tuple[Notification, ...]] = tuple,
    ) -> None:
        self.admit = admit
        self._state = state
        self._settings = settings
        self._told = set(told)
        self._time = 0.0
        """That notifications bear, in seconds since the Unix epoch."""

    def of_decision(
        self,
        events: Sequence[Event],
        effects: CycleEffects,
        ended: Sequence[JobStatusView],
        published: StatusView,
    ) -> list[Notification]:
        """Of ends, preemptions and lost nodes. ``published``: the status before the cycle."""
        if not self._settings.any:
            return []
        self._time = self._state.last_wall_time
        found: list[Notification] = []
        for each, job in zip(effects.ended, ended, strict=True):
            if (event := _ENDS.get(job.state)) is not None:
                found += self._of_job(event, each.job, job, "")
        for stop in effects.stops:
            live, before = self._state.jobs.get(stop.number), published.jobs.get(stop.number)
            count = preemptions(self._state.scheduler, stop.number)
            if live is not None and before is not None and count > before.preemptions:
                found += self._of_job(NotifiedEvent.PREEMPTED, live, before, str(count))
        lost = [
            event.name
            for event in events
            if isinstance(event, NodeChanged) and event.state is NodeState.DOWN
        ]
        for node in published.nodes if lost else ():
            if node.name in lost:
                found += self._of_node(node.name, node.jobs, published.jobs)
        return found

    def of_forecasts(
        self, changed: Iterable[int], published: StatusView, now: float
    ) -> list[Notification]:
        """Notifications of deadlines that are at risk by the forecasts of ``changed`` jobs at ``now``."""
        found: list[Notification] = []
        self._time = self._state.epoch + now
        for number in changed if self._settings.any else ():
            job = self._state.jobs[number]
            due = _due(job)
            expected = job.predicted_p50 if job.guessed else job.predicted_p90 or job.predicted_p50
            shown = published.jobs.get(number)
            if due is None or expected is None or expected <= due or shown is None:
                continue
            told = [*self._of_job(NotifiedEvent.DEADLINE_AT_RISK, job, shown, "", due=due)]
            found += [each for each in told if each.id not in self._told]
            self._told.update(each.id for each in told)
        return found

    def _of_node(
        self, node: str, numbers: Sequence[int], shown: Mapping[int, JobStatusView]
    ) -> Iterator[Notification]:
        event, time = NotifiedEvent.NODE_LOST, self._time
        body: dict[str, Any] = {"job": None, "node": node, "jobs": list(numbers)}
        for target in self._operators(event):
            yield self._notification(event, "", target, "", body, (node, repr(time)))
        for number in numbers:
            job = self._state.jobs.get(number)
            if job is not None and number in shown:
                occasion = f"{node} {time!r}"
                yield from self._of_job(
                    event, job, shown[number], occasion, operators=False, node=node
                )

    def _of_job(
        self,
        event: NotifiedEvent,
        job: LiveJob,
        shown: JobStatusView,
        occasion: str,
        *,
        operators: bool = True,
        node: str | None = None,
        due: float | None = None,
    ) -> Iterator[Notification]:
        """Notifications to operators and to the job's targets. ``occasion``: names one of several alike."""
        facts = {name: getattr(shown, name) for name in _TOLD}
        facts |= {
            "state": shown.state.value,
            "predicted_p50": job.predicted_p50,
            "predicted_p90": job.predicted_p90,
            "due": _due(job) if due is None else due,
        }
        body: dict[str, Any] = {"job": facts, "node": node, "jobs": []}
        news = (job.identity or str(job.number), occasion)
        for target in self._operators(event) if operators else ():
            yield self._notification(event, "", target, "", body, news)
        for each in job.request.notify:
            if event in each.events and self._settings.allows(each.to):
                yield self._notification(event, job.user, each.to, each.key, body, news)

    def _operators(self, event: NotifiedEvent) -> Iterator[str]:
        return (each.target for each in self._settings.to if event in each.events)

    def _notification(
        self,
        event: NotifiedEvent,
        account: str,
        target: str,
        key: str,
        body: Mapping[str, Any],
        news: tuple[str, ...],
    ) -> Notification:
        told = json.dumps([event, account, target, *news]).encode()
        identity = hashlib.blake2b(told, digest_size=16).hexdigest()
        text = json.dumps({"id": identity, "event": event, "time": self._time, **body})
        return Notification(
            id=identity,
            event=event,
            account=account,
            target=target,
            key=key,
            body=text,
            created=self._time,
        )


def _due(job: LiveJob) -> float | None:
    """By when it has to be done: what it was guaranteed, or else the last moment worth anything."""
    if job.guarantee is not None and job.guarantee.finish_by is not None:
        return job.guarantee.finish_by
    return job.due
