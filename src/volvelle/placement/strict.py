"""Consolidated without fallback: a gang waits until it fits on the fewest nodes that can hold it.

The other reading of Blox' consolidated placement (EuroSys'24, section 4.3; Philly's, ATC'19, before it
relaxes locality). The fewest nodes are counted over the nodes of the GPU type that take jobs, as if all
were empty; GPUs that a job waits for may stay idle meanwhile.
"""

from typing import ClassVar

import numpy as np

from volvelle.core.parts import Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import IntColumn
from volvelle.placement.basic import consolidate


@placements.register
class ConsolidatedStrict(Placement):
    """The fewest nodes the gang could ever stand on, or wait for them."""

    name: ClassVar[str] = "consolidated-strict"
    source: ClassVar[str] = "Blox (EuroSys'24) section 4.3; Philly (ATC'19)"

    def may_spread(self, gpus: int, largest: int) -> bool:
        """It waits."""
        return False

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """As `consolidate`, where that takes no node too many."""
        return consolidate_or_wait(free, gpus, resources)


def consolidate_or_wait(free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
    """GPUs on the fewest nodes that could hold ``gpus`` when empty; None where they are taken."""
    taken = consolidate(free, gpus)
    if np.count_nonzero(taken) > fewest_nodes(free, gpus, resources):
        return None
    return taken


def fewest_nodes(free: IntColumn, gpus: int, resources: Resources) -> int:
    """How many nodes of the type that ``free`` offers hold ``gpus`` GPUs when nobody else is there."""
    sizes = np.sort(_sizes(free, resources))[::-1]
    return int(np.searchsorted(np.cumsum(sizes), gpus)) + 1


def largest_node(free: IntColumn, resources: Resources) -> int:
    """GPUs of the largest node of the type that ``free`` offers, where that takes jobs."""
    return int(_sizes(free, resources).max(initial=1))


def _sizes(free: IntColumn, resources: Resources) -> IntColumn:
    """GPUs of each node of the type that ``free`` offers."""
    gpu_type = resources.node_type[int(np.argmax(free))]
    usable = resources.schedulable & (resources.node_type == gpu_type)
    sizes: IntColumn = np.diff(resources.first_slot)[usable]
    return sizes
