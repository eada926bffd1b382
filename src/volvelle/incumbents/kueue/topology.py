"""Places of pods in a topology: as few domains as possible on each level, from blocks and racks to nodes.

Pods that require a level find a place within one domain of it, or none. Pods that prefer one may be in a
larger domain, at last in several. Others go where least is free. Source: Kueue's documentation on topology
aware scheduling (profile BestFit, and LeastFreeCapacity for pods that say nothing).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from volvelle.incumbents.kueue.objects import Topology
from volvelle.incumbents.kueue.pods import TopologyRequest

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


def place(
    tree: Tree, room: Mapping[str, int], count: int, request: TopologyRequest
) -> dict[str, int]:
    """Pods by node; empty where they find no place. room: pods that fit, by node."""
    wanted = request.required or request.preferred
    if wanted and wanted not in tree.levels:
        return {}
    total: Counter[Domain] = Counter()
    for name, fits in room.items():
        path = tree.nodes.get(name, ())
        for depth in range(len(path)):
            total[path[: depth + 1]] += fits
    level = tree.levels.index(wanted) if wanted else len(tree.levels) - 1
    chosen = _fewest(
        total, (one for one in total if len(one) == level + 1), count, spread=not wanted
    )
    while len(chosen) != 1 and request.preferred and not request.required and level > 0:
        level -= 1
        chosen = _fewest(total, (one for one in total if len(one) == level + 1), count)
    if request.required and len(chosen) != 1:
        return {}
    for depth in range(level + 1, len(tree.levels)):
        below = (one for one in total if len(one) == depth + 1 and one[:-1] in chosen)
        chosen = _fewest(total, below, count)
    return {domain[-1]: pods for domain, pods in chosen.items()}


def _fewest(
    room: Mapping[Domain, int], domains: Iterable[Domain], count: int, *, spread: bool = False
) -> dict[Domain, int]:
    """Pods by domain in as few as possible, the last a tight one; empty where not all fit.

    spread: the domains with the least room first.
    """
    order = sorted(domains, key=lambda one: (room[one] if spread else -room[one], one))
    chosen: dict[Domain, int] = {}
    for at, domain in enumerate(order):
        if not spread and room[domain] >= count:
            enough = [one for one in order[at:] if room[one] >= count]
            return chosen | {min(enough, key=lambda one: (room[one], one)): count}
        if taken := min(room[domain], count):
            chosen[domain] = taken
            count -= taken
        if count == 0:
            return chosen
    return {}


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
                room = {
                    name: max(self.gpus[name] - (0 if empty else self.taken.get(name, 0)), 0)
                    // size
                    for name in tree.nodes
                    if self.kinds[name] == kind
                }
                if found := place(tree, room, pods, request):
                    return {name: each * size for name, each in found.items()}
        return {}

    def are_free(self, nodes: Mapping[str, int]) -> bool:
        """Whether these GPUs are free."""
        return all(
            self.gpus[name] - self.taken.get(name, 0) >= each for name, each in nodes.items()
        )

    def take(self, nodes: Mapping[str, int], sign: int = 1) -> None:
        """Count GPUs as taken, or as free again."""
        for name, each in nodes.items():
            self.taken[name] = self.taken.get(name, 0) + sign * each
