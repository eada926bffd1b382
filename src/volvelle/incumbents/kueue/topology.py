"""Places of pods in a topology: as few domains as possible on each level, from blocks and racks to nodes.

Pods that require a level find a place within one domain of it, or none. Pods that prefer one may be in a
larger domain, at last in several. Others go where least is free. Source: Kueue's documentation on topology
aware scheduling (profile BestFit, and LeastFreeCapacity for pods that say nothing).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from volvelle.incumbents.kueue.objects import Topology
from volvelle.incumbents.kueue.pods import TopologyAssignment, TopologyRequest

Domain = tuple[str, ...]
"""A domain by the values of its levels' labels, the largest first; the last may be the name of a node."""

HOST = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Tree:
    """The levels of a topology, and the domains of each node, itself the last."""

    levels: tuple[str, ...]
    nodes: dict[str, Domain]

    @classmethod
    def of(cls, topology: Topology, labels: Mapping[str, Mapping[str, str]]) -> "Tree":
        """The tree of the nodes that have all labels. labels: of each node."""
        levels = tuple(one.get("nodeLabel", "") for one in topology.levels)
        above = tuple(level for level in levels if level != HOST)
        nodes = {
            name: (*(has[level] for level in above), name)
            for name, has in labels.items()
            if has.keys() >= set(above)
        }
        return cls((*above, HOST), nodes)

    @cached_property
    def below(self) -> dict[Domain, list[Domain]]:
        """The domains within each, those of the next level; of all nodes together: within ``()``."""
        found: dict[Domain, dict[Domain, None]] = {}
        for path in self.nodes.values():
            for depth in range(len(path)):
                found.setdefault(path[:depth], {})[path[: depth + 1]] = None
        return {domain: list(within) for domain, within in found.items()}

    @cached_property
    def of_level(self) -> list[list[Domain]]:
        """The domains of each level, the largest first."""
        found = [self.below.get((), [])]
        for _ in self.levels[1:]:
            found.append([one for above in found[-1] for one in self.below[above]])
        return found

    def totals(self, room: Mapping[str, int]) -> dict[Domain, int]:
        """Pods that fit into each domain. room: pods by node."""
        total: Counter[Domain] = Counter()
        for name, fits in room.items():
            path = self.nodes.get(name, ())
            for depth in range(len(path) + 1):
                total[path[:depth]] += fits
        return dict(total)

    def within(self, levels: Sequence[str], values: Sequence[str]) -> list[str]:
        """The nodes of a domain that is named by these levels' values."""
        if levels[-1:] == [HOST] and values:
            return [values[-1]] if values[-1] in self.nodes else []
        at = [self.levels.index(level) for level in levels if level in self.levels]
        return [
            name
            for name, path in self.nodes.items()
            if len(at) == len(values) and [path[depth] for depth in at] == list(values)
        ]


def place(
    tree: Tree, total: Mapping[Domain, int], count: int, request: TopologyRequest
) -> dict[str, int]:
    """Pods by node; empty where they find no place. total: pods that fit, by domain."""
    wanted = request.required or request.preferred
    if total.get((), 0) < count or (wanted and wanted not in tree.levels):
        return {}
    level = tree.levels.index(wanted) if wanted else len(tree.levels) - 1
    chosen = _fewest(total, tree.of_level[level], count, spread=not wanted)
    while len(chosen) != 1 and request.preferred and not request.required and level > 0:
        level -= 1
        chosen = _fewest(total, tree.of_level[level], count)
    if request.required and len(chosen) != 1:
        return {}
    for _ in range(level + 1, len(tree.levels)):
        chosen = _fewest(total, (one for above in chosen for one in tree.below[above]), count)
    return {domain[-1]: pods for domain, pods in chosen.items()}


def _fewest(
    room: Mapping[Domain, int], domains: Iterable[Domain], count: int, *, spread: bool = False
) -> dict[Domain, int]:
    """Pods by domain in as few as possible, the last a tight one; empty where not all fit.

    spread: the domains with the least room first.
    """
    there = (one for one in domains if room.get(one, 0) > 0)
    order = sorted(there, key=lambda one: (room[one] if spread else -room[one], one))
    chosen: dict[Domain, int] = {}
    for at, domain in enumerate(order):
        if not spread and room[domain] >= count:
            enough = [one for one in order[at:] if room[one] >= count]
            return chosen | {min(enough, key=lambda one: (room[one], one)): count}
        chosen[domain] = min(room[domain], count)
        count -= chosen[domain]
        if count == 0:
            return chosen
    return {}


_Asked = tuple[str, int, int]


@dataclass
class Places:
    """The nodes of flavours that have a topology, with what is taken of their GPUs."""

    trees: dict[str, Tree]
    """By flavour."""
    kinds: dict[str, int]
    """The kind of each node: pods of a workload run on one."""
    gpus: dict[str, int]
    """Of each node, in thousandths; 0 of a node that takes no pods."""
    taken: dict[str, int] = field(default_factory=dict)
    _room: dict[_Asked, dict[Domain, int]] = field(default_factory=dict)
    """Pods that fit, by domain, of each flavour, kind and size that was asked for."""
    _whole: dict[_Asked, dict[Domain, int]] = field(default_factory=dict)
    """The same as if nothing ran."""

    def fork(self) -> "Places":
        """The same nodes, of which nothing is taken."""
        return Places(self.trees, self.kinds, self.gpus, _whole=self._whole)

    def find(
        self,
        flavor: str,
        pods: int,
        size: int,
        request: TopologyRequest,
        bits: int,
        *,
        empty: bool = False,
    ) -> dict[str, int]:
        """GPUs by node, in thousandths, for so many pods of ``size``; nothing where they find no place.

        bits: the kinds of nodes that will do. empty: as if nothing ran.
        """
        tree = self.trees[flavor]
        for kind in sorted({self.kinds[name] for name in tree.nodes}):
            if bits >> kind & 1:
                total = (self.whole if empty else self.room)(flavor, kind, size)
                if found := place(tree, total, pods, request):
                    return {name: each * size for name, each in found.items()}
        return {}

    def room(self, flavor: str, kind: int, size: int) -> Mapping[Domain, int]:
        """Pods of a size that fit, by domain, on a flavour's nodes of a kind."""
        if (flavor, kind, size) not in self._room:
            self._room[flavor, kind, size] = self._totals(flavor, kind, size, self.taken)
        return self._room[flavor, kind, size]

    def whole(self, flavor: str, kind: int, size: int) -> Mapping[Domain, int]:
        """The same as if nothing ran."""
        if (flavor, kind, size) not in self._whole:
            self._whole[flavor, kind, size] = self._totals(flavor, kind, size, {})
        return self._whole[flavor, kind, size]

    def _totals(
        self, flavor: str, kind: int, size: int, taken: Mapping[str, int]
    ) -> dict[Domain, int]:
        tree = self.trees[flavor]
        return tree.totals(
            {
                name: max(self.gpus[name] - taken.get(name, 0), 0) // size
                for name in tree.nodes
                if self.kinds[name] == kind
            }
        )

    def are_free(self, nodes: Mapping[str, int]) -> bool:
        """Whether these GPUs are free."""
        return all(
            self.gpus[name] - self.taken.get(name, 0) >= each for name, each in nodes.items()
        )

    def take(self, nodes: Mapping[str, int], sign: int = 1) -> None:
        """Count GPUs as taken, or as free again."""
        for name, each in nodes.items():
            free = self.gpus[name] - self.taken.get(name, 0)
            self.taken[name] = self.taken.get(name, 0) + sign * each
            for (flavor, kind, size), room in self._room.items():
                path = self.trees[flavor].nodes.get(name)
                change = max(free - sign * each, 0) // size - max(free, 0) // size
                if path is not None and kind == self.kinds[name] and change:
                    for depth in range(len(path) + 1):
                        room[path[:depth]] += change

    def resize(self, gpus: dict[str, int]) -> bool:
        """Let nodes have so many GPUs, in thousandths. Returns whether they had other numbers."""
        if changed := gpus != self.gpus:
            self.gpus, self._room, self._whole = gpus, {}, {}
        return changed

    def assigned(self, flavor: str, size: int, assignment: TopologyAssignment) -> dict[str, int]:
        """GPUs by node, in thousandths, of pods of ``size`` as they were assigned to a flavour's domains.

        Where a domain is larger than a node, its nodes are filled one after another.
        """
        found: Counter[str] = Counter()
        if (tree := self.trees.get(flavor)) is None or size <= 0:
            return {}
        for values, pods in assignment.domains_with_pods:
            left = pods
            for name in tree.within(assignment.levels, values):
                free = self.gpus[name] - self.taken.get(name, 0) - found[name]
                fits = min(max(free, 0) // size, left)
                found[name] += fits * size
                left -= fits
        return {name: each for name, each in found.items() if each}
