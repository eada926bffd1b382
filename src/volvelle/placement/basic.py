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
        """Take the emptiest nodes whole until one node can hold the rest, which goes where it fits best."""
        emptiest = np.argsort(-free, kind="stable")
        within = np.cumsum(free[emptiest])
        whole = emptiest[: int(np.searchsorted(within, gpus))]
        taken = np.zeros(len(free), dtype=np.int64)
        taken[whole] = free[whole]
        rest = gpus - int(taken.sum())
        fits = np.where((free >= rest) & (taken == 0), free, np.iinfo(np.int64).max)
        taken[int(np.argmin(fits))] = rest
        return taken
