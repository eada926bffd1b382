"""Tiresias with the Gittins index, as its authors' simulator has it (NSDI'19).

The queues are those of ``tiresias-simulator``. The index is that of the first sample above the attained
service, 1 unit below it; D is its ``quantum`` in every queue; E sums whole sizes, not sizes less a, divided
as integers; P has 5 digits and the index 4, halves rounded up (Python 2); ties go to the earlier submission.
"""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.policy import policies
from volvelle.core.view import FloatColumn, IntColumn, JobView
from volvelle.systems.tiresias.gittins import Gittins, ServiceDistribution
from volvelle.systems.tiresias.policy import Attained
from volvelle.systems.tiresias.reproductions.tiresias import LateQueues


@policies.register
class GittinsSimulator(LateQueues, Gittins):
    """Gittins as in the authors' simulator of Tiresias: its queues, and its arithmetic."""

    name: ClassVar[str] = "gittins-simulator"
    source: ClassVar[str] = "the simulator of Tiresias (NSDI'19)"

    quantum: Annotated[float, Field(gt=0)] = Field(
        3250.0, description="GPU-seconds that the index looks ahead"
    )

    def merit(self, jobs: JobView, attained: Attained, queue: IntColumn) -> tuple[FloatColumn, ...]:
        """The greatest index first, then by submission."""
        if not len(self._services.samples):
            return ()
        return (jobs.submit_time, -index(self._services, attained.service, self.quantum))


def index(services: ServiceDistribution, attained: FloatColumn, quantum: float) -> FloatColumn:
    """The index of jobs by the service they attained."""
    first = np.searchsorted(services.samples, attained, side="right")
    index: FloatColumn = np.append(_at_samples(services, quantum), 0.0)[first]
    return index


def _at_samples(services: ServiceDistribution, quantum: float) -> FloatColumn:
    """The index at each sample."""
    samples, sums = services.samples, services.sums
    count = len(samples)
    age = np.floor(samples) - 1
    alive = np.searchsorted(samples, age, side="right")
    late = np.searchsorted(samples, age + quantum, side="right")
    late = np.where(age + quantum > samples[-1] - 1, count - 1, late)
    sizes = sums[late] - sums[alive] + quantum * (count - late)
    expected = np.floor(sizes / (count - alive))
    chance = _half_up((late - alive) / (count - alive), 5)
    return _half_up(chance * 1e6 / expected, 4)


def _half_up(numbers: FloatColumn, digits: int) -> FloatColumn:
    """``numbers``, none negative, to ``digits`` digits; a half is rounded up, as in Python 2."""
    unit = 10.0**digits
    rounded: FloatColumn = np.floor(numbers * unit + 0.5) / unit
    return rounded
