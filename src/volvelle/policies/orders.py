"""The plain orders: who is served first, by arrival, size or service.

Ties go to the earlier submission. Each takes the parameters of `OrderPolicy`: ``preemptive``,
``strict``, ``elastic``, ``round``.
"""

from typing import ClassVar, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from volvelle.core.order_policy import OrderPolicy
from volvelle.core.orders import Key
from volvelle.core.policy import Period, policies
from volvelle.core.view import JobView

_JOBS_BETWEEN = 2.0**22
"""By which a priority counts more than the next lower one; 1000 of them are exact in a key of 32 digits."""


@policies.register
class Fifo(OrderPolicy):
    """First in, first out within a priority: nobody overtakes the job at the head of the queue."""

    name: ClassVar[str] = "fifo"
    optimises: ClassVar[str] = "predictability"
    starvation_free: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    heeds_priority: ClassVar[bool] = True

    preemptive: bool = Field(False, description="take GPUs from jobs later in the order")
    strict: bool = Field(True, description="stop at the first job that does not fit")

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """The highest priority first; of equals, the job submitted first.

        As one whole number, which is compared more quickly than a priority and then a number. Jobs that wait
        together were not submitted 2^22 jobs apart.
        """
        return jobs.number - jobs.priority * _JOBS_BETWEEN


@policies.register
class FifoSkip(Fifo):
    """First in, first out, but a job that does not fit is skipped (backfill without reservation)."""

    name: ClassVar[str] = "fifo-skip"
    optimises: ClassVar[str] = "utilisation"
    starvation_free: ClassVar[bool] = False
    work_conserving: ClassVar[bool] = True

    strict: bool = Field(False, description="stop at the first job that does not fit")


@policies.register
class ShortestJob(OrderPolicy):
    """Shortest job first: by the time the whole job takes; running jobs are left alone."""

    name: ClassVar[str] = "sjf"
    optimises: ClassVar[str] = "mean JCT"

    preemptive: bool = Field(False, description="take GPUs from jobs later in the order")

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """Seconds of the whole job."""
        return jobs.total_seconds


@policies.register
class SmallestJob(OrderPolicy):
    """Fewest GPUs first."""

    name: ClassVar[str] = "smallest"
    source: ClassVar[str] = "the Tiresias simulator's sjf"
    optimises: ClassVar[str] = "queueing delay of jobs on few GPUs"

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """GPUs requested."""
        return jobs.gpus


@policies.register
class ShortestRemainingTime(OrderPolicy):
    """Shortest remaining time first."""

    name: ClassVar[str] = "srtf"
    source: ClassVar[str] = "Tiresias (NSDI'19)"
    optimises: ClassVar[str] = "mean JCT"

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """Seconds left on the GPUs requested."""
        return jobs.remaining_seconds


@policies.register
class ShortestRemainingService(OrderPolicy):
    """Shortest remaining service first: remaining time x GPUs."""

    name: ClassVar[str] = "srsf"
    source: ClassVar[str] = "Tiresias (NSDI'19); PCS (OSDI'24) section 5.1"
    optimises: ClassVar[str] = "mean JCT"

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """GPU-seconds left on the most GPUs the job can use."""
        return jobs.remaining_seconds * jobs.max_gpus


@policies.register
class LeastAttainedService(OrderPolicy):
    """Least attained service first, in GPU-seconds or in seconds, re-decided every round."""

    name: ClassVar[str] = "las"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Tiresias (NSDI'19); Blox (EuroSys'24) section 4.2"
    optimises: ClassVar[str] = "mean JCT without knowing durations"
    time_varying: ClassVar[bool] = True

    round: Period | None = Field(300.0, description="decide only at multiples of this period")
    service: Literal["gpu-seconds", "seconds"] = Field(
        "gpu-seconds", description="what counts as service"
    )

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """Service attained so far."""
        keys: ArrayLike = self.order_key(jobs, now)
        return keys

    @property
    def order_key(self) -> Key:
        """As the parameter ``service`` says."""
        return _by_gpu_seconds if self.service == "gpu-seconds" else _by_seconds


def _by_gpu_seconds(jobs: JobView, now: float) -> ArrayLike:
    return jobs.attained_gpu_seconds


def _by_seconds(jobs: JobView, now: float) -> ArrayLike:
    return jobs.attained_seconds
