"""Chronus' local search over the places of a batch of gangs (SoCC'21, section 3.4.2, algorithm 1).

A gang earns its GPUs times the share of its rate that a place leaves it (equation 7). Its potential is what
it can lose (equation 8), by what is believed of it: its throughput model by nodes and its
``spread_slowdown``. The gangs of the greatest potential are tried in all places together, as many of them as
have no more than ``space`` combinations; the others follow by potential, each on the fewest nodes there are
then. The best combination is taken. Gangs of two nodes and more are placed before, as by ``round-up``, but
none of them waits.

The paper leaves open what a place is. Only how many nodes a gang has decides its rate; here its places are a
node with 4, 5, ... GPUs free, of each number one, and all ways to split it, 3 + 1 say, over the nodes that
these parts fit best. Gangs that lose nothing are not searched: they earn the same everywhere. Of equal
combinations the first counts, where the paper takes the last: gangs stand together where it makes no
difference. Nothing is drawn at random, and no job that runs is moved.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from volvelle.core.compiled import compiled, kernel
from volvelle.core.facets import PlacesBatches
from volvelle.core.parts import Gang, KnownJob, Placement, placements
from volvelle.core.resources import Resources
from volvelle.model.arrays import Floats, IntColumn, Ints
from volvelle.placement.basic import consolidate, largest_node
from volvelle.systems.chronus.round_up import packed, scatter


@placements.register
class LocalSearch(Placement, PlacesBatches):
    """Gangs of a decision placed together: those that lose most apart are tried in all combinations."""

    name: ClassVar[str] = "local-search"
    source: ClassVar[str] = "Chronus (SoCC'21) section 3.4.2, algorithm 1"
    goes_by_spread: ClassVar[bool] = True

    space: Annotated[int, Field(ge=1)] = Field(
        100_000, description="|S|, the most combinations of places that are tried"
    )

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """The place of a gang alone: the fewest nodes, best fit."""
        return consolidate(free, gpus)

    def choose_batch(
        self, gangs: Sequence[Gang], free: IntColumn, resources: Resources
    ) -> list[IntColumn | None]:
        """Places for all of ``gangs`` that there are GPUs for."""
        node = largest_node(free, resources)
        large = [i for i, gang in enumerate(gangs) if gang.gpus >= 2 * node]
        small = [i for i, gang in enumerate(gangs) if gang.gpus < 2 * node]
        chosen: dict[int, IntColumn | None] = {}
        if large:
            wide = [gangs[i] for i in large]
            places = packed(wide, free, resources)
            scatter(wide, places, free)
            chosen.update(zip(large, places, strict=True))
            for place in places:
                free = free if place is None else free - place
        ends = np.cumsum([gangs[i].gpus for i in small])
        small = small[: int(np.searchsorted(ends, free.sum(), side="right"))]
        together = [sized(gangs[i], free, resources) for i in small]
        chosen.update(zip(small, self._searched(together, free, node), strict=True))
        return [chosen.get(i) for i in range(len(gangs))]

    def _searched(self, gangs: list["Sized"], free: IntColumn, node: int) -> list[IntColumn]:
        """A place for each gang, by algorithm 1."""
        order = sorted(range(len(gangs)), key=lambda i: -gangs[i].potential)  # line 1
        room = np.bincount(free, minlength=node + 1)
        sensitive = [gangs[i] for i in order if gangs[i].potential > 0.0]
        best = quasi_consolidated(room, sensitive)
        searched: list[Place] = []
        if best < sum(gang.most for gang in sensitive):
            searched = self._search(room, sensitive, node, int(np.count_nonzero(free)))
        stands: dict[int, IntColumn] = {}
        left = free.copy()
        for rank, i in enumerate(order):
            gpus = gangs[i].gpus
            taken = searched[rank].take(left) if rank < len(searched) else consolidate(left, gpus)
            stands[i] = taken
            left -= taken
        return [stands[i] for i in range(len(gangs))]

    def _search(self, room: Ints, gangs: list["Sized"], node: int, nodes: int) -> list["Place"]:
        """The places of the first of ``gangs``, as many as can be searched."""
        many, combinations = 0, 1
        while many < len(gangs):  # line 2
            combinations *= count_places(gangs[many].gpus, node, nodes)
            if combinations > self.space:
                break
            many += 1
        if many == 0:
            return []
        options = [gang.places(node, nodes) for gang in gangs[:many]]
        first = np.cumsum([0, *map(len, options)])
        flat = [place for some in options for place in some]
        parts = np.zeros((len(flat), max(gang.gpus for gang in gangs[:many])), dtype=np.int64)
        for row, place in enumerate(flat):
            parts[row, : len(place.split)] = place.split
        on = np.array([place.on for place in flat])
        earned = (
            gang.reward(len(place.split))
            for gang, some in zip(gangs, options, strict=False)
            for place in some
        )
        chosen = search(room, first, parts, on, np.array([*earned]), *table(gangs[many:]))
        return [flat[row] for row in chosen.tolist()]


# ---------------------------------------------------------------------- what a gang earns


class Sized(NamedTuple):
    """A gang, and what it earns on 1, 2, ... nodes (equation 7); on too few for it as on enough."""

    gpus: int
    rewards: tuple[float, ...]

    def reward(self, nodes: int) -> float:
        """The gang's reward on so many nodes."""
        return self.rewards[nodes - 1]

    def places(self, node: int, nodes: int) -> list["Place"]:
        """All its places on up to ``nodes`` nodes of ``node`` GPUs, those where it earns most first."""
        every = places(self.gpus, node, nodes)
        return sorted(every, key=lambda place: -self.reward(len(place.split)))

    @property
    def most(self) -> float:
        """The gang's highest reward."""
        return max(self.rewards)

    @property
    def potential(self) -> float:
        """The most that the gang can lose by its place (equation 8)."""
        return max(self.rewards) - min(self.rewards)


def sized(gang: Gang, free: IntColumn, resources: Resources) -> Sized:
    """``gang`` with what it earns on the GPU type that ``free`` offers."""
    gpu_type = resources.types[resources.node_type[int(np.argmax(free))]]
    fewest = -(-gang.gpus // largest_node(free, resources))
    together = rate(gang.job, gang.gpus, gpu_type, fewest, resources)
    rewards = []
    for nodes in range(1, min(gang.gpus, int(np.count_nonzero(free))) + 1):
        apart = rate(gang.job, gang.gpus, gpu_type, max(nodes, fewest), resources)
        rewards.append(gang.gpus * apart / together if together > 0.0 else float(gang.gpus))
    return Sized(gang.gpus, tuple(rewards))


def rate(job: KnownJob, gpus: int, gpu_type: str, nodes: int, resources: Resources) -> float:
    """Units per second believed of ``job`` on so many GPUs and nodes."""
    believed = job.believed
    spread = resources.spread_factor(believed.spread_slowdown, gpus, nodes)
    return believed.rate(gpus, gpu_type, nodes) * spread


# ---------------------------------------------------------------------- places


class Place(NamedTuple):
    """GPUs on each of some nodes, the most first; on: of one node how many it has free, 0: what fits best."""

    split: tuple[int, ...]
    on: int = 0

    def take(self, free: IntColumn) -> IntColumn:
        """The GPUs of each node, of which so many are ``free``; of nodes that are alike the first."""
        taken = np.zeros_like(free)
        for part in self.split:
            fits = free == self.on if self.on else (free >= part) & (taken == 0)
            taken[np.argmin(np.where(fits, free, np.iinfo(np.int64).max))] = part
        return taken


@lru_cache(maxsize=256)
def places(gpus: int, node: int, nodes: int) -> tuple[Place, ...]:
    """The places of a gang on up to ``nodes`` nodes of ``node`` GPUs, those on few nodes first."""
    together = [Place((gpus,), free) for free in range(gpus, node + 1)]
    apart = [Place(split) for split in splits(gpus, node, nodes) if len(split) > 1]
    return (*together, *sorted(apart, key=lambda place: len(place.split)))


def splits(gpus: int, most: int, nodes: int) -> list[tuple[int, ...]]:
    """All ways to have ``gpus`` GPUs on up to ``nodes`` nodes, up to ``most`` on each, the most first."""
    if gpus == 0:
        return [()]
    if nodes == 0:
        return []
    return [
        (part, *rest)
        for part in range(min(gpus, most), 0, -1)
        for rest in splits(gpus - part, part, nodes - 1)
    ]


def count_places(gpus: int, node: int, nodes: int) -> int:
    """How many `places` there are."""
    return count_splits(gpus, node, nodes) + max(node - gpus, 0)


@lru_cache(maxsize=4096)
def count_splits(gpus: int, most: int, nodes: int) -> int:
    """How many `splits` there are."""
    if gpus == 0:
        return 1
    if nodes == 0 or gpus > most * nodes:
        return 0
    return sum(count_splits(gpus - part, part, nodes - 1) for part in range(1, min(gpus, most) + 1))


def table(gangs: Sequence[Sized]) -> tuple[Ints, Floats]:
    """The GPUs of gangs, and what each earns by nodes: row, nodes - 1."""
    widest = max((gang.gpus for gang in gangs), default=1)
    rewards = np.zeros((len(gangs), widest))
    for row, gang in enumerate(gangs):
        rewards[row, : len(gang.rewards)] = gang.rewards
    return np.array([gang.gpus for gang in gangs], dtype=np.int64), rewards


def quasi_consolidated(room: Ints, gangs: Sequence[Sized]) -> float:
    """Rewards of gangs when each in turn stands on the fewest nodes."""
    left = room.copy()
    return sum(gang.reward(stand_on_fewest(left, gang.gpus)) for gang in gangs)


# ---------------------------------------------------------------------- the search

# Nodes with as many free GPUs are alike: ``room[f]`` is how many have f.


@kernel
def stand_on_fewest(room: Ints, gpus: int) -> int:
    """Take GPUs from the emptiest nodes until one can hold the rest, best fit; returns how many nodes."""
    nodes = 0
    while gpus > 0:
        fits, emptiest = 0, 0
        for free in range(len(room) - 1, 0, -1):
            if room[free] > 0:
                emptiest = max(emptiest, free)
                if free >= gpus:
                    fits = free
        free = fits if fits > 0 else emptiest
        if free == 0:
            return 0
        part = min(free, gpus)
        room[free] -= 1
        room[free - part] += 1
        gpus -= part
        nodes += 1
    return nodes


@kernel
def stand_at(room: Ints, split: Ints, on: int, left: Ints) -> bool:
    """Take the GPUs of a `Place`, each part from another node; whether there were such nodes.

    left: room to work in.
    """
    nodes = 0
    while nodes < len(split) and split[nodes] > 0:
        free = max(split[nodes], on)
        while free < len(room) and room[free] == 0:
            free += 1
        if free == len(room) or (on > 0 and free > on):
            return False
        room[free] -= 1
        left[nodes] = free - split[nodes]
        nodes += 1
    for node in range(nodes):
        room[left[node]] += 1
    return True


@compiled
def search(
    room: Ints,
    first: Ints,
    splits: Ints,
    on: Ints,
    rewards: Floats,
    rest: Ints,
    rest_rewards: Floats,
) -> Ints:
    """The rows of ``splits`` and ``on`` that are best together, one for each gang (lines 5 to 12).

    Gang i has those from ``first[i]`` to ``first[i + 1]``, the best first. The gangs in ``rest`` follow them,
    each on the fewest nodes there are then. Combinations that cannot be better than the best are left out.
    """
    many = len(first) - 1
    most = np.zeros(many + 1)
    for gang in range(len(rest)):
        most[many] += np.max(rest_rewards[gang])
    for gang in range(many - 1, -1, -1):
        most[gang] = most[gang + 1] + rewards[first[gang]]
    rooms, left = np.zeros((many + 1, len(room)), np.int64), np.zeros(splits.shape[1], np.int64)
    rooms[0] = room
    sums, best = np.zeros(many + 1), -1.0
    at, chosen = first.copy(), first[:many].copy()
    gang = 0
    while gang >= 0:
        if gang == many:
            total = sums[many]
            for other in range(len(rest)):
                nodes = stand_on_fewest(rooms[many], rest[other])
                total += rest_rewards[other, nodes - 1]
            if total > best:
                best = total
                chosen[:] = at[:many] - 1
            gang -= 1
        elif at[gang] == first[gang + 1] or sums[gang] + rewards[at[gang]] + most[gang + 1] <= best:
            gang -= 1
        else:
            rooms[gang + 1] = rooms[gang]
            sums[gang + 1] = sums[gang] + rewards[at[gang]]
            row = at[gang]
            at[gang] += 1
            if stand_at(rooms[gang + 1], splits[row], on[row], left):
                gang += 1
                at[gang] = first[gang]
    return chosen
