"""Estimates from the iterations that live jobs report, after a first belief.

The duration of a job is settled by measuring it (Blox, EuroSys'24, section 7, collects
per-iteration times through its client library): once a job says how many iterations it has, the remaining
time is that of the other iterations, each as long as the latest. A live world passes on no report of so few
iterations of an attempt that they may be its warm-up (`volvelle.live.control.progress_reports`). On
another number of GPUs the rate follows as the job's declared throughput says.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from volvelle.core.events import JobSubmitted, ProgressReported
from volvelle.core.parts import Belief, estimators
from volvelle.estimate.basic import History, lasting
from volvelle.model.job import JobSpec


@estimators.register
class Measured(History):
    """The user's estimate, else the past of jobs like it; then what the job's own iterations say."""

    name: ClassVar[str] = "measured"
    source: ClassVar[str] = "Blox (EuroSys'24) section 7"

    tolerance: Annotated[float, Field(ge=0)] = Field(
        0.05, description="relative change of what is left from which on it counts"
    )

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The user's declaration, or the belief of `History`."""
        if job.spec.estimate_seconds is not None:
            return Belief(lasting(job.spec, job.spec.estimate_seconds))
        return super().believe(job, seed)

    def guesses(self, spec: JobSpec) -> bool:
        """Of a job that declares nothing, before one of its user and name has finished."""
        return spec.estimate_seconds is None and super().guesses(spec)

    def measure(self, report: ProgressReported, seconds_left: float) -> float | None:
        """The iterations that are left, each as long as of late; None where that is no news."""
        if not report.total_iterations or report.iteration_seconds <= 0.0:
            return None
        left = max(report.total_iterations - report.iterations, 0) * report.iteration_seconds
        news = abs(left - seconds_left)
        return left if news > self.tolerance * max(left, seconds_left) else None
