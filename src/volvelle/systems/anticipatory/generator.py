"""Bursts into queues, from the anticipatory-scheduling paper (SIA, appendix A.1 and appendix C).

Every queue owns GPUs and gets bursts of jobs whose total width is uniform in [1, queue size]; the
gaps between bursts are exponential and meet a load that is drawn for each queue from U(0.6, 0.95).
Durations are uniform on [sqrt(10), 10^2] minutes with probability 0.8 and on [10^2, 10^3] minutes
otherwise; widths are 1, 2, 4, 8 with 0.7, 0.1, 0.15, 0.05.

The variations of appendix C are values of ``durations`` and ``widths``, ``load_factor`` (1.05
higher, 0.75 lower) and ``queues`` (8 more, 2 less).

Where the paper leaves room: ranges of duration are uniform as written, although their ends are
Gavel's exponents of 10. A burst takes jobs until its total width is reached, so its last job may
reach over it: cutting that job would bend the published widths. The load counts the widths drawn.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from volvelle.model.arrays import FloatColumn
from volvelle.model.units import DAY, MINUTE
from volvelle.model.validation import Seconds
from volvelle.workload.generators.base import Generator, JobColumns, generators, workload_of
from volvelle.workload.generators.declarations import Declarations
from volvelle.workload.generators.mixes import GAVEL_WIDTHS, discrete, uniform_ranges
from volvelle.workload.workload import Workload

_SHORTEST = 10**0.5

DURATIONS: dict[str, tuple[tuple[float, float, float], ...]] = {
    "base": ((0.8, _SHORTEST, 100.0), (0.2, 100.0, 1000.0)),
    "more-skewed": ((0.9, _SHORTEST, 100.0), (0.1, 100.0, 2000.0)),
    "less-skewed": ((1.0, _SHORTEST, 300.0),),
}
"""Ranges in minutes, each with its probability; all three have a mean of about 151 minutes."""

WIDTHS: dict[str, dict[float, float]] = {
    "base": GAVEL_WIDTHS,
    "more-wide": {1: 0.25, 2: 0.25, 4: 0.25, 8: 0.25},
    "fewer-wide": {1: 0.9, 2: 0.033, 4: 0.05, 8: 0.017},
}
"""Probability of each number of GPUs."""


@generators.register
class AnticipatoryPools(Declarations, Generator):
    """Bursts of jobs into queues of equal size, each queue with a load of its own."""

    name: ClassVar[str] = "anticipatory"
    source: ClassVar[str] = "Anticipatory scheduling (SIA), appendix A.1 and appendix C"

    queues: Annotated[int, Field(gt=0, description="queues, each a pool with its own GPUs")] = 4
    queue_gpus: Annotated[int, Field(gt=0, description="GPUs of each queue")] = 8
    length: Annotated[Seconds, Field(gt=0, description="time over which jobs are submitted")] = (
        14 * DAY
    )
    durations: Annotated[
        Literal["base", "more-skewed", "less-skewed"], Field(description="skew of durations")
    ] = "base"
    widths: Annotated[
        Literal["base", "more-wide", "fewer-wide"], Field(description="skew of widths")
    ] = "base"
    least_load: Annotated[float, Field(gt=0, description="lower end of a queue's load")] = 0.6
    most_load: Annotated[float, Field(gt=0, description="upper end of a queue's load")] = 0.95
    load_factor: Annotated[float, Field(gt=0, description="multiplies every queue's load")] = 1.0

    def generate(self, rng: np.random.Generator) -> Workload:
        """Draw every queue with a stream of its own, so that more queues leave the first as is."""
        streams = rng.spawn(self.queues)
        drawn = [self._queue(stream) for stream in streams]
        times, gpus, seconds = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        owners = np.repeat(np.arange(self.queues), [len(submitted) for submitted, _, _ in drawn])
        order = np.argsort(times, kind="stable")
        columns = JobColumns(
            times[order],
            gpus[order],
            (gpus * seconds)[order],
            pools=[f"queue-{owner + 1}" for owner in owners[order].tolist()],
        )
        return workload_of(self.declare(rng, columns), self.name)

    def _queue(self, rng: np.random.Generator) -> tuple[FloatColumn, FloatColumn, FloatColumn]:
        """Submission times, GPUs and durations of one queue's jobs."""
        load = rng.uniform(self.least_load, max(self.least_load, self.most_load)) * self.load_factor
        wanted = self.length * load * self.queue_gpus  # GPU-seconds
        count = int(wanted / (_mean_width(self.widths) * _mean_seconds(self.durations)) * 1.5) + 64
        gpus = np.minimum(discrete(rng, count, WIDTHS[self.widths]), self.queue_gpus)
        seconds = uniform_ranges(rng, count, DURATIONS[self.durations]) * MINUTE
        firsts = _burst_starts(rng, gpus, self.queue_gpus)
        # The mean burst of the stream, not of the jobs kept: the load must not depend on the cut.
        gap = float((gpus * seconds).sum()) / len(firsts) / (load * self.queue_gpus)
        bursts = np.cumsum(rng.exponential(gap, len(firsts)))
        times = np.repeat(bursts, np.diff(np.append(firsts, count)))
        kept = times < self.length
        return times[kept], gpus[kept], seconds[kept]


def _burst_starts(rng: np.random.Generator, gpus: FloatColumn, queue_gpus: int) -> NDArray[np.intp]:
    """Index of the first job of each burst, its total width drawn from {1, ..., queue size}."""
    reached = np.cumsum(gpus)
    wanted = rng.integers(1, queue_gpus + 1, len(gpus)).tolist()
    starts, first, before = [0], 0, 0.0
    for width in wanted:
        first = int(np.searchsorted(reached, before + width)) + 1
        if first >= len(gpus):
            break
        starts.append(first)
        before = float(reached[first - 1])
    return np.array(starts, dtype=np.intp)


def _mean_width(widths: str) -> float:
    shares = WIDTHS[widths]
    return sum(width * share for width, share in shares.items()) / sum(shares.values())


def _mean_seconds(durations: str) -> float:
    return sum(share * (low + high) / 2 for share, low, high in DURATIONS[durations]) * MINUTE
