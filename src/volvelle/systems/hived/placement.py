"""Buddy cells: gangs of one node stand on cells that split into halves (HiveD, OSDI'20, section 4).

A gang that one node can hold gets a cell of 1, 2, 4, ... GPUs; the smallest block that is large enough is
split for it. The rest of its cell stays empty, so that halves are one cell again when nobody is on them. As
long as the gangs of each size are no more than the cluster was divided into, none of them waits because GPUs
are free in the wrong places. A gang of more GPUs takes nodes that are free as a whole, and a cell for the
rest of it.

With ``lanes`` jobs on borrowed GPUs stand apart (anticipatory scheduling, SIA, section 5.5): on the last
cells, and never in the buddy of a cell in which a job on its own pool's GPUs stands, so that pools find
larger cells when their own jobs end, though nobody is preempted; wider ones only on nodes that are free as
a whole. A guest for which there is no such cell waits. The choice of guests follows from what pools own
(`volvelle.core.lanes`).

Cells are read from who holds which GPUs, so that nothing has to be kept; a gang that was placed otherwise
counts as it stands.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.facets import PlacesByLane
from volvelle.core.lanes import Lane
from volvelle.core.parts import Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import BoolColumn, IntColumn
from volvelle.placement.basic import largest_node
from volvelle.systems.hived.cells import Cell, Cells, Grid, level_of


@placements.register
class Buddy(Placement, PlacesByLane):
    """Cells of 1, 2, 4, ... GPUs that split into halves, larger jobs on whole nodes; or they wait."""

    name: ClassVar[str] = "buddy"
    source: ClassVar[str] = "HiveD (OSDI'20) section 4; anticipatory scheduling, section 5.5"

    lanes: bool = Field(
        False, description="jobs on borrowed GPUs are kept apart from those on GPUs of their pool"
    )

    def may_spread(self, gpus: int, largest: int) -> bool:
        """Only where the cell is wider than the node."""
        return 1 << level_of(gpus) > largest

    @property
    def by_lane(self) -> bool:
        """As the parameter ``lanes`` says."""
        return self.lanes

    def choose_slots(
        self, free: IntColumn, gpus: int, resources: Resources, lane: Lane
    ) -> IntColumn | None:
        """As `choose` and `pick` for dedicated jobs; guests apart from these."""
        if lane.guest and 1 << level_of(gpus) <= largest_node(free, resources):
            return _apart(free, gpus, resources, lane.dedicated)
        if lane.guest:
            free = np.where(free == np.diff(resources.first_slot), free, 0)
            if free.sum() < gpus:
                return None
        taken = self.choose(free, gpus, resources)
        if taken is None:
            return None
        parts = [
            self.pick(resources.free_slots(node), int(taken[node]), node, resources)
            for node in np.flatnonzero(taken).tolist()
        ]
        return np.concatenate(parts)

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """A cell, or whole nodes with a cell for the rest; None where there are none."""
        nodes, largest = np.flatnonzero(free), largest_node(free, resources)
        cells = free_cells(resources, nodes)
        sizes = np.diff(resources.first_slot)[nodes]
        whole = np.where(free[nodes] == sizes, sizes, 0)
        taken = np.zeros_like(free)
        while gpus > 0:
            cell = cells.find(level_of(gpus))
            if cell is not None:
                place = cell.node
            else:
                narrow = 1 << level_of(gpus) <= largest and not taken.any()
                place = -1 if narrow else _whole_node(whole, gpus)
            if place < 0:
                return None
            taken[nodes[place]] = here = min(gpus, int(free[nodes[place]]))
            gpus -= here
            whole[place] = 0
            cells.hold(Cell(place, 0, cells.levels - 1))
        return taken

    def pick(self, slots: IntColumn, count: int, node: int, resources: Resources) -> IntColumn:
        """The first GPUs of the cell; of a node that is taken as a whole, its first."""
        cell = free_cells(resources, np.array([node])).find(level_of(count))
        if cell is None:
            return slots[:count]
        return int(resources.first_slot[node]) + cell.first + np.arange(count)


def free_cells(resources: Resources, nodes: IntColumn) -> Cells:
    """The cells of some nodes on which nobody stands; a gang stands on all of its cell.

    It is on both halves of the cell, side by side, whatever it leaves of the second.
    """
    first = resources.first_slot
    sizes = np.diff(first)[nodes]
    places = np.arange(1 << level_of(int(sizes.max(initial=1))))
    there = places < sizes[:, None]
    owner = np.full(there.shape, -2)
    owner[there] = resources.owner[(first[nodes][:, None] + places)[there]]
    free: Grid = owner == -1
    for level in range(1, level_of(len(places)) + 1):
        halves = owner.reshape(len(nodes), -1, 1 << level)
        left, right = halves[:, :, (1 << level - 1) - 1], halves[:, :, 1 << level - 1]
        free &= ~np.repeat((left == right) & (left >= 0), 1 << level, axis=1)
    return Cells(free)


def _apart(
    free: IntColumn, gpus: int, resources: Resources, dedicated: BoolColumn
) -> IntColumn | None:
    """The first slots of a cell whose buddy no ``dedicated`` job is in, in the smallest such block."""
    nodes = np.flatnonzero(free)
    cells = free_cells(resources, nodes)
    first, width = resources.first_slot[nodes], cells.free.shape[1]
    places = first[:, None] + np.arange(width)
    there = np.arange(width) < np.diff(resources.first_slot)[nodes][:, None]
    others = np.zeros(there.shape, dtype=np.bool_)
    others[there] = dedicated[places[there]]
    found = cells.find_apart(level_of(gpus), others)
    if not found:
        return None
    slots: IntColumn = int(first[found[0].node]) + found[0].first + np.arange(gpus)
    return slots


def _whole_node(whole: IntColumn, gpus: int) -> int:
    """The smallest of the nodes that are free as a whole with ``gpus`` GPUs, else the largest; -1: none."""
    enough = np.flatnonzero(whole >= gpus)
    if len(enough):
        return int(enough[np.argmin(whole[enough])])
    return int(np.argmax(whole)) if whole.any() else -1
