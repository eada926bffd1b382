"""Termination by epochs, a job's own end, or by loss (Blox, EuroSys'24, section 5.3).

Users ask for more epochs than their models need: around 75 % of Philly's jobs come within 0.1 % of their
lowest loss after 40 % of their epochs (Jeon et al., ATC'19, as quoted there). A job ends once its loss is
within ``threshold`` of the lowest, relative to it.

Which loss is the lowest is the user's word (`JobSpec.lowest_loss`), as in the paper, whose trace holds it;
a job that declares none runs to its end. The loss is what the job's script reports every ``every`` seconds,
by default once in a round of Blox; the simulated world reports what the job's true loss curve says.
The job writes a last checkpoint and counts as finished.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from volvelle.core.parts import Termination, terminations
from volvelle.core.policy import Period
from volvelle.model.job import JobSpec


@terminations.register
class Completion(Termination):
    """A job ends when all its work is done."""

    name: ClassVar[str] = "completion"


@terminations.register
class LossTermination(Termination):
    """End a job once its loss is within a threshold of the lowest that its user expects."""

    name: ClassVar[str] = "loss"
    source: ClassVar[str] = "Blox (EuroSys'24) section 5.3"

    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.001, description="how near to the lowest loss is near enough, as a share of it"
    )
    every: Period = Field(300.0, description="time between a job's reports of its loss")

    @property
    def loss_every(self) -> float | None:
        """As the parameter ``every`` says."""
        return self.every

    def lacks(self, spec: JobSpec) -> str:
        """The lowest loss."""
        if spec.lowest_loss is not None:
            return ""
        return (
            f"termination {self.name!r} goes by its lowest_loss, and it declares none: "
            "it runs to its end"
        )

    def judge(self, spec: JobSpec, work_done: float, loss: float) -> str:
        """Whether ``loss`` is low enough."""
        lowest = spec.lowest_loss
        if lowest is None or loss > lowest + self.threshold * abs(lowest):
            return ""
        return f"its loss is {loss:.6g}, within {100 * self.threshold:g} % of {lowest:g}"
