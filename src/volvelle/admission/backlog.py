"""Every job at once, or a FIFO backlog in front of the scheduler (Blox, EuroSys'24, section 5.1).

Jobs are admitted in order of submission while the GPUs that admitted jobs request stay within
``factor`` times the cluster's GPUs; the others wait in the admission queue and enter as admitted jobs
end. Section 5.2 writes the same as Accept-1.2x: accepted jobs require together at most 1.2
times the cluster. A lower factor lets fewer jobs share the cluster: under LAS mean JCT falls,
responsiveness rises.

The code of Blox tests the threshold before it adds the job, so that its admitted jobs may exceed it by
one; here they never do. A job that alone requests more enters once no other job is admitted. The GPUs
counted are those of nodes that take jobs now.
"""

import math
from typing import Annotated, ClassVar

from pydantic import Field

from volvelle.core.parts import Admission, admissions
from volvelle.model.tolerances import SAME_AMOUNT


@admissions.register
class AcceptAll(Admission):
    """Admit every job at its submission."""

    name: ClassVar[str] = "accept-all"

    def limit(self, capacity: float) -> float:
        """No limit."""
        return math.inf


@admissions.register
class Backlog(Admission):
    """Admit while admitted jobs request at most a multiple of the cluster's GPUs."""

    name: ClassVar[str] = "backlog"
    source: ClassVar[str] = "Blox (EuroSys'24) section 5.1"

    factor: Annotated[float, Field(gt=0)] = Field(
        1.5, description="GPUs requested by admitted jobs, as a multiple of the cluster's"
    )

    def limit(self, capacity: float) -> float:
        """The multiple of ``capacity``."""
        return self.factor * capacity + SAME_AMOUNT
