"""The nodes with the most free GPUs first, as the baselines of Pollux' simulator place (OSDI'21, artifact).

Wide jobs get whole nodes, narrow ones an emptier node than they need, so that later ones find less room
together. A job that gets fewer GPUs is placed anew too, rather than on some of its own.
"""

from typing import ClassVar

import numpy as np

from volvelle.core.facets import PlacesAnew
from volvelle.core.parts import Placement, placements, take_in_turn
from volvelle.core.resources import Resources
from volvelle.model.arrays import IntColumn


@placements.register
class MostFree(Placement, PlacesAnew):
    """The nodes with the most free GPUs first, of equals the first."""

    name: ClassVar[str] = "most-free"
    source: ClassVar[str] = "Pollux (OSDI'21), simulator of the artifact"

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """Take the emptiest nodes whole until the rest fits on one."""
        return take_in_turn(free, np.argsort(-free, kind="stable"), gpus)
