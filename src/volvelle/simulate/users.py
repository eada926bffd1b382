"""Users who submit again when their jobs are through: the world's side of closed loops.

They watch the run. When the last job of a batch has left the system (it ended, or was turned away), the batch
that follows it is submitted after the time its user thinks. A user's next job is unknown before
that: forecasts, which are worlds of their own, have no users.
"""

from collections.abc import Sequence

from volvelle.core.decision import Decision
from volvelle.core.events import Event, JobCancelled, JobFinished, JobSubmitted
from volvelle.core.log import EachMoment
from volvelle.model.job import Job
from volvelle.workload.habits import UserBatch


class Users(EachMoment):
    """Users that submit ``batches``, each when the batch that it follows has ended."""

    def __init__(self, batches: Sequence[UserBatch]) -> None:
        self._batches = batches
        self._followers: dict[int, list[int]] = {}
        for place, batch in enumerate(batches):
            if batch.after is not None:
                self._followers.setdefault(batch.after, []).append(place)
        self._batch_of = {
            job.spec.id: place for place, batch in enumerate(batches) for job in batch.jobs
        }
        self._left = [len(batch.jobs) for batch in batches]
        self._there: dict[int, str] = {}
        self._ready: list[Job] = []

    @property
    def first(self) -> list[Job]:
        """The jobs that follow no other batch, by submission."""
        jobs = [job for batch in self._batches if batch.after is None for job in batch.jobs]
        return sorted(jobs, key=lambda job: job.spec.submit_time)

    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        """One moment: the jobs that have ended, and the batches that follow."""
        through = [one.number for one in decision.rejected]
        through += [one.number for one in decision.concluded]
        for event in events:
            if isinstance(event, JobSubmitted):
                self._there[event.number] = event.spec.id
            elif isinstance(event, (JobFinished, JobCancelled)):
                through.append(event.number)
        for number in through:
            if (name := self._there.pop(number, None)) is None:
                continue
            place = self._batch_of[name]
            self._left[place] -= 1
            if self._left[place] == 0:
                for follower in self._followers.get(place, []):
                    batch = self._batches[follower]
                    self._ready += batch.at(time + batch.think)

    def submit(self) -> list[Job]:
        """The jobs that were decided on since the last time, by submission; they are all to come."""
        ready, self._ready = sorted(self._ready, key=lambda job: job.spec.submit_time), []
        return ready
