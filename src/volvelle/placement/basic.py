"""Placements by the free GPUs of nodes: only counting, first free, most free, consolidated."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.core.facets import PlacesAnew
from volvelle.core.forward.free_nodes import ANY, MANY, bit_of, counts_of, first_node
from volvelle.core.parts import Placement, placements, take_in_turn
from volvelle.core.resources import Resources
from volvelle.core.state import State
from volvelle.model.arrays import IntColumn


@placements.register
class Counted(Placement):
    """Count GPUs and ignore where they are."""

    name: ClassVar[str] = "none"
    names_gpus: ClassVar[bool] = False


class _ByFreeGpus(Placement):
    """Base of placements that go by the free GPUs of nodes alone: subclasses name their `following`."""

    following: ClassVar[Callable[[State, int, int], int]]

    @property
    def kernel(self) -> Callable[..., int] | None:
        """`following`, unless a subclass chooses otherwise than it."""
        kind = type(self)
        base = next(each for each in kind.__mro__ if "following" in vars(each))
        same = all(
            getattr(kind, name) is getattr(base, name) for name in ("choose", "choose_for", "pick")
        )
        return kind.following if same else None


@kernel
def next_free(s: State, gpu_type: int, gpus: int) -> int:
    """The first node with free GPUs."""
    return first_node(s, gpu_type, ANY, -1)


@kernel
def next_of_fewest(s: State, gpu_type: int, gpus: int) -> int:
    """The node with the fewest free GPUs of those that have enough, or else the emptiest."""
    there = counts_of(s, gpu_type)
    for count in range(gpus, MANY):
        if there & bit_of(count) != 0:
            return first_node(s, gpu_type, bit_of(count), -1)
    if there & bit_of(MANY) == 0:
        for count in range(MANY - 1, 0, -1):
            if there & bit_of(count) != 0:
                return first_node(s, gpu_type, bit_of(count), -1)
        return -1
    offered, best, emptiest = s.nodes.offered, -1, -1
    node = first_node(s, gpu_type, bit_of(MANY), -1)
    while node >= 0:
        if offered[node] >= gpus and (best < 0 or offered[node] < offered[best]):
            best = node
        if emptiest < 0 or offered[node] > offered[emptiest]:
            emptiest = node
        node = first_node(s, gpu_type, bit_of(MANY), node)
    return best if best >= 0 else emptiest


@placements.register
class FirstFree(_ByFreeGpus):
    """The first free GPUs, node after node."""

    name: ClassVar[str] = "first-free"
    following = next_free

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """As `next_free` says."""
        return take_in_turn(free, np.arange(len(free)), gpus)


@placements.register
class Consolidated(_ByFreeGpus):
    """The fewest nodes, best fit: whole nodes first, then the node that leaves least over."""

    name: ClassVar[str] = "consolidated"
    source: ClassVar[str] = "Tiresias (NSDI'19); Blox (EuroSys'24) section 4.3"
    following = next_of_fewest

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """As `next_of_fewest` says."""
        return consolidate(free, gpus)


def consolidate(free: IntColumn, gpus: int) -> IntColumn:
    """GPUs to take on each node so that ``gpus`` stand on the fewest nodes, the last the best fit."""
    emptiest = np.argsort(-free, kind="stable")
    there = free[emptiest]
    rests = gpus - (np.cumsum(there) - there)
    whole = int(np.argmax(rests <= there))
    enough = int(np.count_nonzero(there >= rests[whole]))
    fits = there[enough - 1]
    taken = np.zeros_like(free)
    taken[emptiest[:whole]] = there[:whole]
    taken[emptiest[max(whole, int(np.argmax(there == fits)))]] = rests[whole]
    return taken


@placements.register
class ConsolidatedStrict(Placement):
    """The fewest nodes on which the job could ever run, for which it waits.

    The other reading of Blox' consolidated placement (Philly's, before it relaxes locality). The fewest nodes
    are counted over the nodes of the GPU type that take jobs, as if all were empty; GPUs that a job waits for
    may stay idle meanwhile.
    """

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


@placements.register
class MostFree(Placement, PlacesAnew):
    """The nodes with the most free GPUs first, of equals the first.

    Wide jobs get whole nodes, narrow ones an emptier node than they need, so that later ones find less room
    together: the baselines of Pollux' simulator. A job that gets fewer GPUs is placed anew too, rather than
    on some of its own.
    """

    name: ClassVar[str] = "most-free"
    source: ClassVar[str] = "Pollux (OSDI'21), simulator of the artifact"

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """Take the emptiest nodes whole until the rest fits on one."""
        return take_in_turn(free, np.argsort(-free, kind="stable"), gpus)
