"""QSSF (Helios, SC'21): the least expected GPU time first."""

from typing import ClassVar

from numpy.typing import ArrayLike
from pydantic import Field

from volvelle.core.order_policy import OrderPolicy
from volvelle.core.policy import policies
from volvelle.core.view import JobView


@policies.register
class QuasiShortestService(OrderPolicy):
    """The least expected GPU time first, without preemption; the head of the queue is not overtaken."""

    name: ClassVar[str] = "qssf"
    source: ClassVar[str] = "Helios (SC'21)"
    optimises: ClassVar[str] = "mean JCT where run times are predicted"
    work_conserving: ClassVar[bool] = False

    preemptive: bool = Field(False, description="take GPUs from jobs later in the order")
    strict: bool = Field(True, description="stop at the first job that does not fit")
    elastic: bool = Field(
        False, description="let elastic jobs use more or fewer GPUs than they ask"
    )

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """Seconds of the whole job times GPUs requested."""
        return jobs.total_seconds * jobs.gpus
