"""Gangs near each other: within a node, else a rack, else a block, by the levels that the cluster has.

A gang stands in one domain of the lowest level that has room for it, of several where it leaves least over,
and there in as few domains of each lower level as possible. Kueue calls this topology aware scheduling, and
the choice of a domain BestFit. On a cluster without levels it is `consolidated`.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from volvelle.core.parts import Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import IntColumn
from volvelle.placement.basic import consolidate


@placements.register
class TopologyAware(Placement):
    """One node, else one rack, else one block: the lowest level with enough free GPUs, best fit."""

    name: ClassVar[str] = "topology-aware"
    source: ClassVar[str] = "Kueue's documentation (topology aware scheduling, BestFit)"

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """GPUs within one domain of the lowest level that has room; over several where none has."""
        levels = [*resources.domains, np.arange(len(free))]
        with_room = (at for at, of in enumerate(levels) if np.bincount(of, free).max() >= gpus)
        return _within(free, gpus, levels[max(with_room, default=0) : -1])


def _within(free: IntColumn, gpus: int, levels: Sequence[IntColumn]) -> IntColumn:
    """GPUs to take on each node, in as few domains as possible of each level, the largest first."""
    if not levels:
        return consolidate(free, gpus)
    taken = np.zeros_like(free)
    there = np.bincount(levels[0], free).astype(np.int64)
    for domain, count in enumerate(consolidate(there, gpus).tolist()):
        if count:
            taken += _within(np.where(levels[0] == domain, free, 0), count, levels[1:])
    return taken
