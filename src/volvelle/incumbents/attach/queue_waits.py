"""The naive time of a start: a job waits as long as the latest of its queue did, on average."""

from collections import defaultdict, deque

from volvelle.incumbents.attach.incumbent import Job

_LATEST = 20
"""Starts of a queue that are averaged (a moving average a queue, as Kueue's users propose)."""


class QueueWaits:
    """The latest waits of each queue, in seconds."""

    def __init__(self) -> None:
        self._waits: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_LATEST))

    def started(self, job: Job, start: float) -> None:
        """A job started."""
        self._waits[job.queue].append(max(start - (job.eligible or job.submit), 0.0))

    def start(self, job: Job, now: float) -> float | None:
        """The start of a job that waits, at once where it is overdue; None before any other started."""
        waits = self._waits.get(job.queue)
        if not waits:
            return None
        return max((job.eligible or job.submit) + sum(waits) / len(waits), now)
