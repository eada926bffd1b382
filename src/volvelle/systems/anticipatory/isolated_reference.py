"""The isolated reference of a pool: when each of its jobs would start if the pool shared no GPUs.

The reference serves jobs first come, first served on the GPUs that the pool owns, with their true durations.
The duration of a job that started no later than in the reference is known by the time it would end there. If
a job started later, the clock of the reference waits for its end, as far as that matters. No estimate enters,
and no verdict is wrong; verdicts are delayed by as much as jobs are late.
"""

from dataclasses import dataclass, field

from volvelle.model.tolerances import SAME_MOMENT


@dataclass
class Ran:
    """A job: GPUs, time of submission, of its real start, and its duration; infinite while unknown."""

    number: int
    gpus: float
    submit: float
    start: float = float("inf")
    seconds: float = float("inf")
    gone: bool = False


@dataclass
class IsolatedReference:
    """A pool that owns ``owned`` GPUs."""

    owned: float
    jobs: dict[int, Ran] = field(default_factory=dict)
    _queue: list[Ran] = field(default_factory=list)
    _running: list[tuple[float, Ran]] = field(default_factory=list)
    """Virtual starts and jobs."""
    _head: float = float("-inf")

    def __post_init__(self) -> None:
        self._queue = [self.jobs.get(job.number, job) for job in self._queue]
        self._running = [(at, self.jobs.get(job.number, job)) for at, job in self._running]

    def come(self, number: int, gpus: float, submit: float) -> None:
        """Add a job that was submitted. A job wider than the pool never starts in the reference."""
        if gpus <= self.owned:
            self.jobs[number] = job = Ran(number, gpus, submit)
            self._queue.append(job)

    def start(self, number: int, now: float) -> None:
        """A job starts."""
        if number in self.jobs:
            self.jobs[number].start = now

    def end(self, number: int, now: float) -> None:
        """A job is gone: it ended, or was cancelled."""
        if (job := self.jobs.pop(number, None)) is not None:
            job.gone, job.seconds = True, max(now - job.start, 0.0)

    def judge(self, now: float, within: float = 0.0) -> tuple[int, int]:
        """Count the jobs with a new verdict: (late, all).

        within: the tolerance for a delay, seconds. Jobs that would start at ``now`` are not judged yet.
        """
        late = known = 0
        while self._queue and (start := self._next_start(self._queue[0], now)) is not None:
            job = self._queue.pop(0)
            self._head = start
            self._running = [one for one in self._running if one[0] + one[1].seconds > start]
            self._running.append((start, job))
            if job.gone and job.start == float("inf"):
                self._running.pop()  # cancelled before it started: as if it had not come
                continue
            known += 1
            late += job.start > start + max(within, SAME_MOMENT)
        return late, known

    def _next_start(self, job: Ran, now: float) -> float | None:
        """When the first of the queue would start; None where that is not known, or is to come."""
        start = max(job.submit, self._head)
        left = sorted(
            (at + min(one.seconds, max(now - one.start, 0.0)), one.seconds < float("inf"), one.gpus)
            for at, one in self._running
            if at + one.seconds > start
        )
        free = self.owned - sum(gpus for _, _, gpus in left)
        for end, is_known, gpus in left:
            if free >= job.gpus:
                break
            if not is_known:
                return None
            start, free = max(start, end), free + gpus
        return start if start < now and free >= job.gpus else None
