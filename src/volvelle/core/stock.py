"""CPUs and memory: what nodes have of them, and where the GPUs stand that they are for.

A `Stock` holds them by **place**: a node or, where GPUs are only counted, all nodes of a GPU type together.
A node that does not say how many CPUs (or how much memory) it has counts as having enough for any job.
Amounts are given out per GPU: each of a job's GPUs comes with the same, wherever it stands.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.cluster import Node

CPUS, MEMORY = 0, 1
"""Rows of every array of amounts."""


class Stock(NamedTuple):
    """CPUs and GB of memory at each place (2, places), infinite where nodes do not say; and its GPUs."""

    capacity: FloatColumn
    gpus: FloatColumn

    @classmethod
    def of(cls, nodes: Sequence[Node], place: IntColumn) -> "Stock":
        """The stock of ``nodes``, each of which is at (or is) a ``place``."""
        places = int(place.max(initial=-1)) + 1
        capacity, gpus = np.zeros((2, places)), np.zeros(places)
        for node, at in zip(nodes, place.tolist(), strict=True):
            if node.gpus:
                capacity[CPUS, at] += node.cpus or np.inf
                capacity[MEMORY, at] += node.memory_gb or np.inf
                gpus[at] += node.gpus
        return cls(capacity, gpus)

    def at(self, places: IntColumn) -> "Stock":
        """Some of the places."""
        return Stock(self.capacity[:, places], self.gpus[places])

    def share_at(self, places: IntColumn) -> tuple[float, float]:
        """The proportional share per GPU of a job at ``places``: that of the poorest of them."""
        cpus, memory = (self.capacity[:, places] / self.gpus[places]).min(axis=1).tolist()
        return cpus, memory


class Standing(NamedTuple):
    """Which jobs have GPUs where: ``gpus[k]`` at ``place[k]`` for k from ``first[j]`` to ``first[j + 1]``.

    Jobs are in the order in which they are served.
    """

    first: IntColumn
    place: IntColumn
    gpus: FloatColumn
