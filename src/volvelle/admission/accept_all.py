"""Every job enters at once."""

import math
from typing import ClassVar

from volvelle.core.parts import Admission, Verdict, admissions
from volvelle.model.job import JobSpec


@admissions.register
class AcceptAll(Admission):
    """Admit every job at its submission."""

    name: ClassVar[str] = "accept-all"

    def judge(self, spec: JobSpec, demand: float, capacity: float) -> Verdict:
        """Always admit."""
        return Verdict.ADMIT

    def limit(self, capacity: float) -> float:
        """There is none."""
        return math.inf
