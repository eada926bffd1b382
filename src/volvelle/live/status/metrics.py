"""Metrics of the controller: counters and histograms as plain numbers."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAIT_BOUNDS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 86400.0, 7 * 86400.0)
REVOCATION_BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
ERROR_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


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
        """Number of values."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """Add a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class ControllerMetrics:
    """Since the controller started. Seconds, but for ``eta_error``.

    decision: of the scheduler on one cycle. commit: of the store. cycle: from input to orders. revocation:
    from the order to end an attempt at a checkpoint to its end. queue_wait: from a job's submission to its
    first start. forecast: of one forecast of all jobs. eta_error: error of P50 at submission over the JCT.
    ended_jobs: by state. p90_held: P90s at submission by whether they held. store_failures: appends that
    had to be repeated. part_failures: user's own parts that failed.
    """

    decision: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS))
    commit: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS))
    cycle: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS))
    forecast: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS))
    revocation: Histogram = field(default_factory=lambda: Histogram(REVOCATION_BOUNDS))
    queue_wait: Histogram = field(default_factory=lambda: Histogram(WAIT_BOUNDS))
    eta_error: Histogram = field(default_factory=lambda: Histogram(ERROR_BOUNDS))
    ended_jobs: Counter[str] = field(default_factory=Counter)
    p90_held: Counter[bool] = field(default_factory=Counter)
    accepted: int = 0
    preemptions: int = 0
    store_failures: int = 0
    part_failures: int = 0
    solver_gap: float | None = None
