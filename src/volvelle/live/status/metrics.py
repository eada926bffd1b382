"""Counts and distributions of what the controller does, as plain numbers for whoever publishes them."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAITS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 86400.0, 7 * 86400.0)
REVOCATIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass
class Histogram:
    """How often a value was at most each of ``bounds``, and above them all."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    @property
    def count(self) -> int:
        """Values in all."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class Figures:
    """Since the controller began. Seconds, but for ``eta_error``.

    decision: of the scheduler on one cycle. commit: of the store. cycle: from taking in to having ordered.
    lease: from the order to end an attempt at a checkpoint to its end. queue_wait: from a job's submission
    to its first start. forecast: of one look ahead. eta_error: how far off the promised finish was, over
    what the job took. ends: jobs by how they ended. kept: promised P90s by whether they held. failures:
    appends that had to be tried again.
    """

    decision: Histogram = field(default_factory=lambda: Histogram(LATENCIES))
    commit: Histogram = field(default_factory=lambda: Histogram(LATENCIES))
    cycle: Histogram = field(default_factory=lambda: Histogram(LATENCIES))
    forecast: Histogram = field(default_factory=lambda: Histogram(LATENCIES))
    lease: Histogram = field(default_factory=lambda: Histogram(REVOCATIONS))
    queue_wait: Histogram = field(default_factory=lambda: Histogram(WAITS))
    eta_error: Histogram = field(default_factory=lambda: Histogram(ERRORS))
    ends: Counter[str] = field(default_factory=Counter)
    kept: Counter[bool] = field(default_factory=Counter)
    accepted: int = 0
    preemptions: int = 0
    failures: int = 0
    solver_gap: float | None = None
