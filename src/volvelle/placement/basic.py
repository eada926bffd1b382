"""The first placements: only counting, first free, consolidated."""

from typing import ClassVar

import numpy as np

from volvelle.core.compiled import compiled
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
    source: ClassVar[str] = "Tiresias (NSDI'19); Blox (EuroSys'24) section 4.3"

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """Take the emptiest nodes whole until one node can hold the rest, which goes where it fits best."""
        return consolidate(free, gpus)


@compiled
def consolidate(free: IntColumn, gpus: int) -> IntColumn:
    """GPUs to take on each node so that ``gpus`` stand on the fewest nodes, the last the best fit."""
    taken = np.zeros(len(free), np.int64)
    rest = gpus
    while rest > 0:
        best, emptiest = -1, -1
        for node in range(len(free)):
            if taken[node] > 0:
                continue
            if free[node] >= rest and (best < 0 or free[node] < free[best]):
                best = node
            if emptiest < 0 or free[node] > free[emptiest]:
                emptiest = node
        node = best if best >= 0 else emptiest
        taken[node] = min(free[node], rest)
        rest -= taken[node]
    return taken
