"""Estimates from profiles, measured on a partition on which jobs run first.

Chronus (SoCC'21, section 3.2): a job runs for a few minutes, an iteration of it is timed, and the iterations
that its user declared say how long it takes. `volvelle.model.cluster.Profiling` says where.
"""

import random
from typing import Annotated, ClassVar

from pydantic import Field

from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Belief, estimators
from volvelle.estimate.basic import lasting
from volvelle.estimate.measured import Measured


@estimators.register
class ProfiledRunTimes(Measured):
    """The measurement of the job's profile; without one, or without iterations in it, as `measured`."""

    name: ClassVar[str] = "profiled"
    source: ClassVar[str] = "Chronus (SoCC'21) section 3.2"

    error: Annotated[float, Field(ge=0)] = Field(
        0.0, description="relative deviation of a random error besides that of the measurement"
    )

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The seconds that were measured, times a factor 1 + error x N(0, 1) drawn once for each job."""
        if job.profile is None or job.profile.seconds is None:
            return super().believe(job, seed)
        noise = random.Random((seed << 32) ^ job.number).gauss() if self.error else 0.0
        scale = max(1.0 + self.error * noise, 0.01)
        return Belief(lasting(job.spec, job.profile.seconds), scale)
