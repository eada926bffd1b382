"""Every job enters at once."""

import math
from typing import ClassVar

from volvelle.core.parts import Admission, admissions


@admissions.register
class AcceptAll(Admission):
    """Admit every job at its submission."""

    name: ClassVar[str] = "accept-all"

    def limit(self, capacity: float) -> float:
        """No limit."""
        return math.inf
