"""The first placements: only counting, first free, consolidated."""

from typing import ClassVar

import numpy as np

from volvelle.core.parts import Placement, placements, take_in_turn
from volvelle.core.state import IntColumn, Resources


@placements.register
class Counted(Placement):
    """Count GPUs and ignore where they are."""

    name: ClassVar[str] = "none"
    names_gpus: ClassVar[bool] = False


@placements.register
class FirstFree(Placement):
    """The first free GPUs, node after node."""

    name: ClassVar[str] = "first-free"

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """Nodes in the order of the cluster."""
        return take_in_turn(free, np.arange(len(free)), gpus)


@placements.register
class Consolidated(Placement):
    """The fewest nodes, best fit: whole nodes first, then the node that leaves least over."""

    name: ClassVar[str] = "consolidated"
    source: ClassVar[str] = "Tiresias (NSDI'19) section 3.3; Blox (EuroSys'24) section 4.3"

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """Take the fullest nodes until the rest fits on one, then that one which fits best."""
        taken = np.zeros(len(free), dtype=np.int64)
        left = gpus
        if left > (most := int(free.max())):
            fullest = np.argsort(-free, kind="stable")
            given = np.cumsum(free[fullest])
            # The fewest nodes: as many of the fullest as leave no more than one node can hold.
            whole = int(np.searchsorted(given + most, left))
            while whole < len(free) and left - given[whole - 1] > free[fullest[whole]]:
                whole += 1
            chosen = fullest[:whole]
            taken[chosen] = free[chosen]
            left -= int(given[whole - 1])
        rest = np.where((free - taken >= left) & (taken == 0), free, np.iinfo(np.int64).max)
        taken[int(np.argmin(rest))] = left
        return taken
