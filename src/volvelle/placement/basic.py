"""The first placements: only counting, first free, consolidated."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.core.parts import Placement, placements
from volvelle.core.resources import IntColumn, Resources
from volvelle.core.state import Ints


@placements.register
class Counted(Placement):
    """Count GPUs and ignore where they are."""

    name: ClassVar[str] = "none"
    names_gpus: ClassVar[bool] = False


class _ByFreeGpus(Placement):
    """Base of placements that go by the free GPUs of nodes alone: subclasses name their `take`."""

    take: ClassVar[Callable[[Ints, int, Ints], bool]]

    @property
    def kernel(self) -> Callable[..., bool] | None:
        """`take`, unless a subclass chooses otherwise."""
        kind = type(self)
        same = all(
            getattr(kind, name) is getattr(_ByFreeGpus, name)
            for name in ("choose", "choose_for", "pick")
        )
        return kind.take if same else None

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """As `take` says."""
        return taken(type(self).take, free, gpus)


def taken(take: Callable[[Ints, int, Ints], bool], free: IntColumn, gpus: int) -> IntColumn:
    """GPUs of each node that a kernel takes; there are enough."""
    nodes = np.flatnonzero(free)
    picked = [0] * len(nodes)
    take(free[nodes].tolist(), gpus, picked)
    all_picked = np.zeros(len(free), dtype=np.int64)
    all_picked[nodes] = picked
    return all_picked


@kernel
def take_first(usable: Ints, gpus: int, picked: Ints) -> bool:
    """Take the first free GPUs, node after node."""
    for node in range(len(usable)):
        picked[node] = min(usable[node], gpus)
        gpus -= picked[node]
    return gpus == 0


@kernel
def take_fewest_nodes(usable: Ints, gpus: int, picked: Ints) -> bool:
    """Take the emptiest nodes whole until one node can hold the rest, which goes where it fits best."""
    while gpus > 0:
        best, emptiest = -1, -1
        for node in range(len(usable)):
            free = usable[node]
            if free == 0 or picked[node] > 0:
                continue
            if free >= gpus and (best < 0 or free < usable[best]):
                best = node
            if emptiest < 0 or free > usable[emptiest]:
                emptiest = node
        node = best if best >= 0 else emptiest
        if node < 0:
            return False
        picked[node] = min(usable[node], gpus)
        gpus -= picked[node]
    return True


@placements.register
class FirstFree(_ByFreeGpus):
    """The first free GPUs, node after node."""

    name: ClassVar[str] = "first-free"
    take = take_first


@placements.register
class Consolidated(_ByFreeGpus):
    """The fewest nodes, best fit: whole nodes first, then the node that leaves least over."""

    name: ClassVar[str] = "consolidated"
    source: ClassVar[str] = "Tiresias (NSDI'19); Blox (EuroSys'24) section 4.3"
    take = take_fewest_nodes


def consolidate(free: IntColumn, gpus: int) -> IntColumn:
    """GPUs to take on each node so that ``gpus`` stand on the fewest nodes, the last the best fit."""
    return taken(take_fewest_nodes, free, gpus)
