"""A pool as it would be alone, followed while it is not: whose jobs are later than there.

First come, first served on what the pool owns, with the durations that jobs turn out to have. A job that
started no later than alone ends no later, so how long it takes is known when it would end alone. Of one that
started later it is not; then the clock of the pool alone waits until it is, as far as that matters. Nothing
is believed, and nobody is judged wrongly, but some are judged as much later as jobs are late.
"""

from dataclasses import dataclass, field

from volvelle.model.tolerances import SAME_MOMENT


@dataclass
class Ran:
    """What is known of a job: GPUs, when it came, really started and how long it took; inf: not yet."""

    number: int
    gpus: float
    submit: float
    start: float = float("inf")
    seconds: float = float("inf")
    gone: bool = False


@dataclass
class Alone:
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
        """A job was submitted. One wider than the pool would never start alone."""
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
        """Of the jobs of which that is newly known, how many are late, and how many there are.

        within: seconds that are no delay. Jobs that would start right ``now`` are not judged yet.
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
