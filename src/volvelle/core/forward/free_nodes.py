"""Nodes by their free GPUs: which of a type is the first that has so many, without a look at all.

Each GPU type has a segment tree over its nodes, in order of their numbers. An entry of it is a set of counts
of free GPUs, one bit for each, of the nodes below; counts from `MANY` on share a bit.
"""

from volvelle.core.compiled import kernel
from volvelle.core.state import *

MANY = 62
"""Free GPUs from which on counts share a bit."""
ANY = -2
"""The bits of all counts but none."""


@kernel
def bit_of(gpus: int) -> int:
    """The bit of a count of free GPUs."""
    return 1 << min(gpus, MANY)


@kernel
def note_free(s: State, node: int) -> None:
    """Enter what ``node`` has free, nothing where it takes no jobs."""
    nodes, gpu_type = s.nodes, s.nodes.type[node]
    gpus = nodes.free[node] if nodes.up[node] == 1 else 0
    s.types.offered[gpu_type] += gpus - nodes.offered[node]
    nodes.offered[node] = gpus
    _enter(s, node, bit_of(gpus))


@kernel
def pass_over(s: State, node: int) -> None:
    """Let no search find ``node`` until it is noted anew."""
    _enter(s, node, 0)


@kernel
def _enter(s: State, node: int, counts: int) -> None:
    tree, at = s.types.tree[s.nodes.type[node]], s.nodes.leaf[node]
    entries = s.free_nodes.counts
    entries[tree + at] = counts
    while at > 1:
        at = at // 2
        below = entries[tree + 2 * at] | entries[tree + 2 * at + 1]
        if entries[tree + at] == below:
            return
        entries[tree + at] = below


@kernel
def counts_of(s: State, gpu_type: int) -> int:
    """The counts of free GPUs that nodes of a type have, as bits."""
    return int(s.free_nodes.counts[s.types.tree[gpu_type] + 1])


@kernel
def first_node(s: State, gpu_type: int, counts: int, behind: int) -> int:
    """The first node of a type with one of these counts, behind node ``behind`` (-1: of all); -1: none."""
    tree, entries = s.types.tree[gpu_type], s.free_nodes.counts
    at = 1
    if behind >= 0:
        at = s.nodes.leaf[behind]
        while at > 1 and (at % 2 == 1 or entries[tree + at + 1] & counts == 0):
            at = at // 2
        if at <= 1:
            return -1
        at += 1
    if entries[tree + at] & counts == 0:
        return -1
    while at < s.types.leaves[gpu_type]:
        at = 2 * at
        if entries[tree + at] & counts == 0:
            at += 1
    return int(s.free_nodes.node[tree + at])


def lay_out(s: State) -> None:
    """Plant the trees anew, as nodes are there now."""
    nodes, types = s.nodes, s.types
    of_type: list[list[int]] = [[] for _ in range(len(types))]
    for node in range(len(nodes)):
        of_type[nodes.type[node]].append(node)
    leaves = [1 << (len(there) - 1).bit_length() if there else 1 for there in of_type]
    s.free_nodes.grow(2 * sum(leaves))
    entries, first = s.free_nodes, 0
    for gpu_type, there in enumerate(of_type):
        types.tree[gpu_type], types.leaves[gpu_type] = first, leaves[gpu_type]
        types.offered[gpu_type], types.sizes[gpu_type] = 0, 0
        for place in range(first, first + 2 * leaves[gpu_type]):
            entries.counts[place] = entries.node[place] = 0
        for place, node in enumerate(there, leaves[gpu_type]):
            nodes.leaf[node], nodes.offered[node] = place, 0
            entries.node[first + place] = node
            types.sizes[gpu_type] |= bit_of(size_of(s, node))
            note_free(s, node)
        first += 2 * leaves[gpu_type]


@kernel
def size_of(s: State, node: int) -> int:
    """The GPUs of ``node``, free or not."""
    end = s.nodes.slot[node + 1] if node + 1 < len(s.nodes.slot) else len(s.slots.owner)
    return int(end - s.nodes.slot[node])
