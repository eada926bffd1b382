"""Chronus' consolidation with round-up: a batch of gangs packed in cells (SoCC'21, section 3.4.1).

A gang is counted with 1, 2, 4, ... GPUs or with whole nodes (`volvelle.systems.hived.cells.round_up`). The
largest are placed first, each on one node that has so many GPUs left, or on whole nodes. So all gangs stand
on the fewest nodes wherever they could, counted like that (Proposition 1): with m free nodes of 8 GPUs,
whenever the counts add up to no more than 8m. A node of another number of GPUs is taken apart into powers of
two: 6 = 4 + 2.

A gang holds the GPUs that it asks for, no more. Further GPUs of its cell go to gangs that find no cell of
their own, if they can stand together there. The paper places all jobs of a cycle and does not say whether
those whose lease is renewed may be moved. Here they stay where they are, unless ``move`` lets them.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.facets import PlacesBatches
from volvelle.core.parts import Gang, KnownJob, Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import IntColumn
from volvelle.model.job import JobSpec, Truth
from volvelle.placement.basic import consolidate, fewest_nodes, largest_node
from volvelle.systems.hived.cells import round_up


@placements.register
class RoundUp(Placement, PlacesBatches):
    """Gangs of a decision packed together, as 1, 2, 4, ... GPUs or whole nodes, the largest first."""

    name: ClassVar[str] = "round-up"
    source: ClassVar[str] = "Chronus (SoCC'21) section 3.4.1, Proposition 1"

    wait: bool = Field(True, description="gangs wait until they fit on the fewest nodes")
    move: bool = Field(
        False, description="restart running jobs on other nodes where a gang would wait otherwise"
    )

    def may_spread(self, gpus: int, largest: int) -> bool:
        """Not where gangs wait."""
        return not self.wait

    @property
    def moves(self) -> bool:
        """As the parameter ``move`` says."""
        return self.move

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """The place of a gang alone."""
        return self.choose_batch([Gang(_ANY, gpus)], free, resources)[0]

    def choose_batch(
        self, gangs: Sequence[Gang], free: IntColumn, resources: Resources
    ) -> list[IntColumn | None]:
        """Places on the fewest nodes; for those that find none, if they do not wait, on as few as can be."""
        chosen = packed(gangs, free, resources)
        if not self.wait:
            scatter(gangs, chosen, free)
        return chosen


_ANY = KnownJob(JobSpec(id="", submit_time=0.0), Truth(work=0.0))
"""A job of which nothing is known."""


def packed(gangs: Sequence[Gang], free: IntColumn, resources: Resources) -> list[IntColumn | None]:
    """GPUs on each node for each of ``gangs``, on the fewest nodes that could hold it; None: there are none.

    Gangs that hold GPUs stay on their nodes if that takes no place from others.
    """
    size = largest_node(free, resources)
    chosen: list[IntColumn | None] = [None] * len(gangs)
    room, left = free.copy(), free.copy()
    staying = np.sum([_held(gang, free) for gang in gangs], axis=0)
    by_size = sorted(
        range(len(gangs)), key=lambda i: (-round_up(gangs[i].gpus, size), gangs[i].nodes is None)
    )
    for i in by_size:
        staying -= _held(gangs[i], free)
        cells = _cells(gangs[i], room, staying, size)
        if cells is not None:
            taken = _within(cells, gangs[i])
            chosen[i] = taken
            room -= cells
            left -= taken
    for i, gang in enumerate(gangs):
        if chosen[i] is None:
            chosen[i] = together = _together(gang, left, resources)
            left -= 0 if together is None else together
    return chosen


def scatter(gangs: Sequence[Gang], chosen: list[IntColumn | None], free: IntColumn) -> None:
    """Give those of ``gangs`` that are not placed yet the fewest nodes there are now, as far as GPUs go."""
    left = free - np.sum([np.zeros_like(free), *(c for c in chosen if c is not None)], axis=0)
    for i, gang in enumerate(gangs):
        if chosen[i] is None and int(left.sum()) >= gang.gpus:
            chosen[i] = taken = consolidate(left, gang.gpus)
            left -= taken


def _held(gang: Gang, free: IntColumn) -> IntColumn:
    return np.zeros_like(free) if gang.nodes is None else gang.nodes


def _cells(gang: Gang, room: IntColumn, staying: IntColumn, size: int) -> IntColumn | None:
    """As many GPUs of each node as ``gang`` is counted with; where it stands, or where fewest others stand.

    room: outside of the cells of others; staying: held by those that have no cell yet.
    """
    rounded = round_up(gang.gpus, size)
    each, nodes = (rounded, 1) if rounded <= size else (size, rounded // size)
    cells = np.zeros_like(room)
    if gang.nodes is not None:
        own = np.flatnonzero(gang.nodes)
        if len(own) == nodes and (room[own] >= each).all():
            cells[own] = each
            return cells
    fits = np.flatnonzero(room >= each)
    if len(fits) < nodes:
        return None
    best = fits[np.lexsort((room[fits], staying[fits]))[:nodes]]
    cells[best] = each
    return cells


def _within(cells: IntColumn, gang: Gang) -> IntColumn:
    """The GPUs of ``cells`` that ``gang`` holds: those it has, if it stays; else the first."""
    if gang.nodes is not None and (gang.nodes <= cells).all():
        return gang.nodes
    taken: IntColumn = np.minimum(cells, np.maximum(gang.gpus - (np.cumsum(cells) - cells), 0))
    return taken


def _together(gang: Gang, left: IntColumn, resources: Resources) -> IntColumn | None:
    """Where ``gang`` stands, or the fewest nodes that could hold it; None where they are taken."""
    if gang.nodes is not None and (gang.nodes <= left).all():
        return gang.nodes
    if int(left.sum()) < gang.gpus:
        return None
    taken = consolidate(left, gang.gpus)
    return taken if np.count_nonzero(taken) <= fewest_nodes(left, gang.gpus, resources) else None
