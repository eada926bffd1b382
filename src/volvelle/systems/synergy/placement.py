"""Synergy's packing: where GPUs, CPUs and memory all fit, and least is left over (OSDI'22).

A job is placed by its **demand**: the CPUs and memory per GPU with which it runs at full rate. Of the nodes
where the whole gang fits with its demand it goes to the one with the fewest free GPUs, of these to the one
with the least CPUs and memory left (their shares of what the node has added up), so that little is
fragmented. A gang that fits on no node is spread over as few as possible, with CPUs and memory on each in
proportion to its GPUs there, unless it is believed to be slower that way. Where the demand does not fit, the
least that is no slower than the proportional share is tried in the same way, and at last the GPUs count
alone: the policy takes back what others have beyond their share.

What others hold is what the policy last gave them. Under a policy that does not divide CPUs and memory
(`synergy-tune` and `synergy-opt` do) that is the proportional share, and this is ``consolidated`` with a
preference for nodes rich in CPUs and memory.

Departures: nobody is moved; the authors pack all jobs anew in every round. A gang that would lose by
standing on more nodes is not spread for the sake of CPUs.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from volvelle.core.demand import Amounts, Declared, Wants, wants_of
from volvelle.core.facets import ClaimsAmounts
from volvelle.core.parts import KnownJob, Placement, placements
from volvelle.core.resources import Resources
from volvelle.core.stock import Stock
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.tolerances import SAME_SHARE
from volvelle.placement.basic import consolidate


@placements.register
class MultiResource(Placement, ClaimsAmounts):
    """Best fit over GPUs, CPUs and memory; a gang of several nodes has these in proportion to its GPUs."""

    name: ClassVar[str] = "multi-resource"
    source: ClassVar[str] = "Synergy (OSDI'22)"

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """The place of a job of which nothing is known: the fewest nodes, best fit."""
        return consolidate(free, gpus)

    def choose_for(
        self, job: KnownJob, free: IntColumn, gpus: int, resources: Resources
    ) -> IntColumn | None:
        """Where its demand fits, else its fallback, else its GPUs."""
        stock = resources.stock
        if stock is None:
            return consolidate(free, gpus)
        spare = resources.spare()
        wants = _wants(job, gpus, stock, np.flatnonzero(free))
        together = np.count_nonzero(consolidate(free, gpus))
        for amounts in dict.fromkeys((wants.demand, wants.fallback)):
            usable = _usable(free, spare, stock, amounts)
            if int(usable.sum()) < gpus:
                continue
            if (usable >= gpus).any():
                return _best_fit(free, _unused(spare, stock), usable >= gpus, gpus)
            taken = consolidate(usable, gpus)
            if np.count_nonzero(taken) == together or not _slower_apart(job, gpus):
                return taken
        return consolidate(free, gpus)

    def claim(self, job: KnownJob, slots: IntColumn, resources: Resources) -> Amounts:
        """Its demand where all nodes of ``slots`` have that left, else its fallback."""
        stock = resources.stock
        assert stock is not None
        nodes, counts = np.unique(resources.slot_node[slots], return_counts=True)
        wants = _wants(job, len(slots), stock, nodes)
        usable = _usable(counts, resources.spare()[:, nodes], stock.at(nodes), wants.demand)
        return wants.demand if np.array_equal(usable, counts) else wants.fallback


def _wants(job: KnownJob, gpus: int, stock: Stock, nodes: IntColumn) -> Wants:
    """The demand of ``job`` on ``nodes``: its share is that of the poorest, its most that of the richest."""
    capacity, there = stock.capacity[:, nodes], stock.gpus[nodes]
    most = (capacity / np.minimum(there, gpus)).max(axis=1, keepdims=True)
    share = np.array([stock.share_at(nodes)]).T
    declared = Declared.of([(job.spec, job.believed.sensitivity)])
    return next(wants_of(declared, share, most).each())


def _usable(free: IntColumn, spare: FloatColumn, stock: Stock, amounts: Amounts) -> IntColumn:
    """How many of each node's free GPUs can have ``amounts``."""
    usable = free.astype(np.float64)
    for kind, amount in enumerate(amounts):
        if amount > 0.0:
            with_it = (spare[kind] * (1.0 + SAME_SHARE) + SAME_SHARE) / amount
            usable = np.minimum(usable, np.floor(with_it))
    return np.maximum(usable, 0.0).astype(np.int64)


def _unused(spare: FloatColumn, stock: Stock) -> FloatColumn:
    """CPUs and memory left on each node, as shares of what it has, added up."""
    known = np.isfinite(stock.capacity)
    shares = np.divide(spare, stock.capacity, out=np.zeros_like(spare), where=known)
    unused: FloatColumn = shares.sum(axis=0)
    return unused


def _best_fit(
    free: IntColumn, unused: FloatColumn, fits: NDArray[np.bool_], gpus: int
) -> IntColumn:
    """All GPUs on the node that ``fits`` and has the fewest free, then the least unused."""
    candidates = np.flatnonzero(fits)
    taken = np.zeros(len(free), dtype=np.int64)
    taken[candidates[np.lexsort((unused[candidates], free[candidates]))[0]]] = gpus
    return taken


def _slower_apart(job: KnownJob, gpus: int) -> bool:
    """Whether ``job`` is believed to be slower on more nodes."""
    believed = job.believed
    if believed.spread_slowdown:
        return True
    gpu_type = job.spec.gpu_types[0] if job.spec.gpu_types else ""
    return believed.rate(gpus, gpu_type, 2) < believed.rate(gpus, gpu_type, 1)
