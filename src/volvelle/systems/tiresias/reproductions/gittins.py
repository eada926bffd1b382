"""Tiresias with the Gittins index, as its authors' simulator has it (NSDI'19).

The queues are those of ``tiresias-simulator``. The index is that of the first sample above the attained
service, 1 unit below it; D is its ``quantum`` in every queue; E sums whole sizes, not sizes less a, divided
as integers; P has 5 digits and the index 4, halves rounded up (Python 2); ties go to the earlier submission.
"""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from volvelle.core.policy import Kernel, policies
from volvelle.systems.tiresias.gittins import Gittins
from volvelle.systems.tiresias.queues import QUANTUM, observe
from volvelle.systems.tiresias.reproductions.tiresias import LateQueues


@policies.register
class GittinsSimulator(LateQueues, Gittins):
    """Gittins as in the authors' simulator of Tiresias: its queues, and its arithmetic."""

    name: ClassVar[str] = "gittins-simulator"
    source: ClassVar[str] = "the simulator of Tiresias (NSDI'19)"

    quantum: Annotated[float, Field(gt=0)] = Field(
        3250.0, description="GPU-seconds that the index looks ahead"
    )

    @model_validator(mode="after")
    def _look_ahead(self) -> Self:
        self._memory[QUANTUM] = self.quantum
        return self

    def kernel(self, *, named: bool) -> Kernel:
        """That of the queues, and what it learns of ends."""
        return super().kernel(named=named)._replace(learn=observe)
