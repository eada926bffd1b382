"""Which GPUs of a node: those with the best links among them (Blox, EuroSys'24, section 5.3).

GPUs of one node are not equally near: on a p3.8xlarge some pairs are joined by two NVLinks, others by
one (Blink, MLSys'20). Nodes are chosen as by ``consolidated``; on each, the job gets the free GPUs whose
pairs have the greatest bandwidth together, and of equal choices the one that leaves the greatest bandwidth
among the GPUs that stay free, so that narrow jobs do not part a good pair without need. A node without
`Node.bandwidth_gbps` gives its first free GPUs. ``consolidated-random`` is the baseline of table 4.
"""

import itertools
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from volvelle.core.parts import placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.placement.basic import Consolidated


@placements.register
class BandwidthAware(Consolidated):
    """Consolidated; on each node the free GPUs with the best links among them."""

    name: ClassVar[str] = "bandwidth-aware"
    source: ClassVar[str] = "Blox (EuroSys'24) section 5.3, table 4"

    def pick(self, slots: IntColumn, count: int, node: int, resources: Resources) -> IntColumn:
        """The subset of ``slots`` of the greatest bandwidth."""
        matrix = resources.nodes[node].bandwidth_gbps
        if matrix is None or count == len(slots):
            return slots[:count]
        local = slots - resources.first_slot[node]
        between = np.array(matrix)[np.ix_(local, local)]
        return slots[best_linked(between, count)]


@placements.register
class ConsolidatedRandom(Consolidated):
    """Consolidated; on each node any of the free GPUs."""

    name: ClassVar[str] = "consolidated-random"
    source: ClassVar[str] = "Blox (EuroSys'24) table 4, the baseline"

    seed: int = Field(0, description="of the choice of GPUs")
    _picks: int = PrivateAttr(0)

    def pick(self, slots: IntColumn, count: int, node: int, resources: Resources) -> IntColumn:
        """A random subset of ``slots``; each pick draws anew, however the run was forked."""
        self._picks += 1
        draw = np.random.default_rng((self.seed, self._picks))
        return np.sort(draw.choice(slots, count, replace=False))


def best_linked(between: FloatColumn, count: int) -> IntColumn:
    """The ``count`` GPUs, ascending, of the greatest bandwidth among them; then of that left over.

    ``between[i, j]`` is what GPUs i and j exchange; the diagonal does not count.
    """
    links = between - np.diag(np.diag(between))
    chosen = _subsets(len(between), count)
    inside = (chosen @ links * chosen).sum(axis=1)
    outside = ((1 - chosen) @ links * (1 - chosen)).sum(axis=1)
    best: IntColumn = chosen[np.lexsort((-outside, -inside))[0]].nonzero()[0]
    return best


@lru_cache(maxsize=256)
def _subsets(size: int, count: int) -> NDArray[np.int64]:
    """Every choice of ``count`` out of ``size`` as a row of zeros and ones, the first GPUs first."""
    chosen = [
        [int(i in some) for i in range(size)]
        for some in map(set, itertools.combinations(range(size), count))
    ]
    return np.array(chosen, dtype=np.int64)
