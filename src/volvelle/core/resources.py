"""Nodes and their GPUs, by name, as policies and placements see them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from volvelle.core.forward.free_nodes import lay_out, note_free
from volvelle.core.state import State
from volvelle.core.stock import Stock
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn, distinct
from volvelle.model.cluster import Cluster, Node, NodeState
from volvelle.model.node import Level, NodeKind


class _Layout(NamedTuple):
    """Facts of nodes that do not change unless a node joins."""

    nodes: tuple[Node, ...]
    kinds: tuple[NodeKind, ...]
    types: tuple[str, ...]
    number: dict[str, int]
    node_type: IntColumn
    first_slot: IntColumn
    slot_node: IntColumn
    largest_node: int
    domains: IntColumn
    """(levels, nodes): the number of each node's domain, the largest domains first."""
    largest_domains: tuple[int, ...]
    """By level: GPUs of the largest domain."""
    slowdowns: Mapping[str, FloatColumn]


class Resources:
    """Nodes and their GPUs. GPUs have cluster-wide numbers (slots), node after node.

    ``named`` is False under a placement that only counts: no job holds a slot then, and the scheduler counts
    GPUs by type.
    """

    def __init__(self, cluster: Cluster, state: State, *, named: bool = True) -> None:
        self.named = named
        self._state = state
        self.levels = cluster.levels
        self._layout = _laid_out((), cluster.kinds, self.levels)
        self.node_states: list[NodeState] = []
        self.stock: Stock | None = None
        """CPUs and memory by node; None where no node says what it has."""
        self.given = np.zeros((2, 0))
        """CPUs and memory that go with each GPU, as a policy divided them; kept where there is a stock."""
        joining = first_changes_to_up(cluster)
        states = [
            NodeState.DOWN if node.name in joining else NodeState.UP for node in cluster.nodes
        ]
        self._append(cluster.nodes, states)

    def fork(self, state: State) -> "Resources":
        """The same of a copy of the state."""
        copy = object.__new__(Resources)
        copy.__dict__.update(self.__dict__)
        copy._state = state
        copy.node_states, copy.given = self.node_states.copy(), self.given.copy()
        return copy

    # ------------------------------------------------------------------ nodes

    @property
    def kinds(self) -> tuple[NodeKind, ...]:
        """The kinds of nodes by number. For policies each is a GPU type of its own."""
        return self._layout.kinds

    @property
    def types(self) -> tuple[str, ...]:
        """The GPU type of each kind of nodes, by number: one type several times where labels differ."""
        return self._layout.types

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes ever known, by number."""
        return self._layout.nodes

    @property
    def index(self) -> dict[str, int]:
        """The numbers of nodes by name."""
        return self._layout.number

    @property
    def node_type(self) -> IntColumn:
        """The number of each node's kind."""
        return self._layout.node_type

    @property
    def first_slot(self) -> IntColumn:
        """The first slot of each node, and behind the last the number of slots."""
        return self._layout.first_slot

    @property
    def node_gpus(self) -> IntColumn:
        """How many GPUs each node has."""
        return np.diff(self.first_slot)

    @property
    def slot_node(self) -> IntColumn:
        """The node of each slot."""
        return self._layout.slot_node

    @property
    def slowdowns(self) -> Mapping[str, FloatColumn]:
        """The slowdown of each slot by variability class; 1 where its node names none."""
        return self._layout.slowdowns

    def change(self, name: str, node_state: NodeState, node: Node | None) -> None:
        """Node ``name`` is in ``node_state`` now; ``node`` describes it where it is new."""
        if name not in self.index:
            if node is None:
                raise ValueError(f"node {name!r} is not known and not described")
            self._append((node,), [node_state])
            return
        at = self.index[name]
        self.node_states[at] = node_state
        self._state.nodes.up[at] = int(node_state is NodeState.UP)
        note_free(self._state, at)

    def _append(self, nodes: tuple[Node, ...], states: list[NodeState]) -> None:
        known = len(self.nodes)
        layout = self._layout = _laid_out((*self.nodes, *nodes), self.kinds, self.levels)
        self.node_states += states
        s, slots = self._state, len(self.slot_node)
        first_new = len(s.slots)
        s.nodes.grow(len(layout.nodes))
        s.slots.grow(slots)
        s.types.grow(len(layout.types))
        for at in range(known, len(layout.nodes)):
            s.nodes.free[at] = layout.nodes[at].gpus
            s.nodes.type[at] = int(layout.node_type[at])
            s.nodes.up[at] = int(self.node_states[at] is NodeState.UP)
            s.nodes.slot[at] = int(layout.first_slot[at])
        for slot in range(first_new, slots):
            s.slots.owner[slot] = s.slots.next[slot] = -1
            s.slots.node[slot] = int(layout.slot_node[slot])
        lay_out(s)
        if any(node.cpus or node.memory_gb for node in layout.nodes):
            self.stock = Stock.of(layout.nodes, np.arange(len(layout.nodes)))
            new = np.zeros((2, slots - self.given.shape[1]))
            self.given = np.concatenate([self.given, new], axis=1)

    def cpus_and_memory(self) -> tuple[float, float]:
        """CPUs and GB of memory of the nodes that take jobs; infinite where none says how much it has."""
        up = [
            node
            for node, state in zip(self.nodes, self.node_states, strict=True)
            if state is NodeState.UP
        ]
        cpus, memory = sum(node.cpus for node in up), sum(node.memory_gb for node in up)
        return cpus or np.inf, memory or np.inf

    # ------------------------------------------------------------------ GPUs

    @property
    def free(self) -> IntColumn:
        """Free GPUs of each node."""
        return np.array(self._state.nodes.free, dtype=np.int64)

    @property
    def schedulable(self) -> BoolColumn:
        """Which nodes take jobs."""
        return np.array(self._state.nodes.up, dtype=np.bool_)

    @property
    def owner(self) -> IntColumn:
        """The number of the job that holds each slot, -1 for none, `SHARED` where jobs hold parts of it."""
        return np.array(self._state.slots.owner, dtype=np.int64)

    def free_for(self, gpu_type: int) -> IntColumn:
        """GPUs that each node can give to a job which wants GPUs of a type; 0 where it takes no jobs."""
        usable: IntColumn = np.where(self.schedulable & (self.node_type == gpu_type), self.free, 0)
        return usable

    def free_slots(self, node: int) -> IntColumn:
        """The free slots of a node, ascending."""
        owner = self._state.slots.owner
        slots = range(int(self.first_slot[node]), int(self.first_slot[node + 1]))
        return np.array([slot for slot in slots if owner[slot] == -1], dtype=np.int64)

    def slots_of(self, row: int) -> list[int]:
        """The GPUs that the job in ``row`` holds by name, ascending."""
        s, slots = self._state, []
        slot = int(s.jobs.slot[row])
        while slot >= 0:
            slots.append(slot)
            slot = int(s.slots.next[slot])
        return slots

    def nodes_of(self, slots: IntColumn) -> IntColumn:
        """The nodes that ``slots`` lie on, each once, ascending."""
        return self.slot_node[slots] if len(slots) == 1 else distinct(self.slot_node[slots])

    @property
    def domains(self) -> IntColumn:
        """(levels, nodes): the number of each node's domain, the largest domains first."""
        return self._layout.domains

    def nodes_apart(self, nodes: IntColumn, gpus: int) -> float:
        """Nodes more as which domains count over which ``nodes`` lie and ``gpus`` GPUs do not need."""
        layout = self._layout
        spanned = zip(self.levels, layout.domains[:, nodes], layout.largest_domains, strict=True)
        return sum(
            level.weight * max(len(distinct(there)) - -(-gpus // largest), 0)
            for level, there, largest in spanned
        )

    def spread_factor(
        self, slowdown: float, gpus: int, nodes: int, nodes_apart: float = 0.0
    ) -> float:
        """The share of its rate left to a job on more ``nodes`` than ``gpus`` GPUs need."""
        if slowdown == 0.0:
            return 1.0
        fewest = max(-(-gpus // self._layout.largest_node), 1)
        return 1.0 / (1.0 + slowdown * (max(nodes - fewest, 0) + nodes_apart))

    def gpus_by_type(self, *, up_only: bool) -> FloatColumn:
        """GPUs of each type: of the nodes that take jobs, or of every node known."""
        counts = np.diff(self.first_slot).astype(np.float64)
        if up_only:
            counts = counts * self.schedulable
        totals: FloatColumn = np.bincount(
            self.node_type, weights=counts, minlength=len(self.types)
        ).astype(np.float64)
        return totals

    # ------------------------------------------------------------------ CPUs and memory

    def stock_by_type(self) -> Stock:
        """CPUs and memory of all nodes of each GPU type together: for GPUs that are only counted."""
        return Stock.of(self.nodes, self.node_type)

    def share_of(self, slots: IntColumn, gpu_type: int) -> tuple[float, float]:
        """The CPUs and memory that go with each GPU of a job in proportion to its GPUs.

        They stand on ``slots``, or somewhere among GPUs of ``gpu_type`` where these are only counted.
        Infinite where the nodes do not say what they have.
        """
        if self.stock is None:
            return np.inf, np.inf
        if len(slots):
            return self.stock.share_at(self.nodes_of(slots))
        return self.stock_by_type().share_at(np.array([gpu_type]))

    def best_amounts(self, gpu_type: int, gpus: float, divided: bool) -> tuple[float, float]:
        """The CPUs and memory per GPU of a job on the richest node of a type.

        In proportion to its ``gpus``, or where they are ``divided`` all that the node has.
        """
        if self.stock is None:
            return np.inf, np.inf
        stock = self.stock.at(np.flatnonzero(self.node_type == gpu_type))
        on_one = np.minimum(stock.gpus, gpus) if divided else stock.gpus
        cpus, memory = (stock.capacity[:, on_one > 0] / on_one[on_one > 0]).max(axis=1).tolist()
        return cpus, memory

    def least_amounts(self, gpu_type: int) -> tuple[float, float]:
        """The CPUs and memory that go with a GPU on the poorest node of a type."""
        if self.stock is None:
            return np.inf, np.inf
        return self.stock.share_at(
            np.flatnonzero((self.node_type == gpu_type) & (self.stock.gpus > 0))
        )

    def spare(self) -> FloatColumn:
        """CPUs and memory that no job holds, (2, nodes); needs `stock`."""
        assert self.stock is not None
        held = self.owner >= 0
        nodes = self.slot_node[held]
        taken = [np.bincount(nodes, given[held], len(self.nodes)) for given in self.given]
        return self.stock.capacity - np.stack(taken)


def _laid_out(
    nodes: tuple[Node, ...], kinds: tuple[NodeKind, ...], levels: tuple[Level, ...]
) -> _Layout:
    kinds = tuple(dict.fromkeys([*kinds, *(node.kind for node in nodes)]))
    number = {kind: at for at, kind in enumerate(kinds)}
    gpus = np.array([node.gpus for node in nodes], dtype=np.int64)
    domains = np.zeros((len(levels), len(nodes)), dtype=np.int64)
    for depth in range(len(levels)):
        found: dict[tuple[str, ...], int] = {}
        for at, node in enumerate(nodes):
            domains[depth, at] = found.setdefault(node.domain[: depth + 1], len(found))
    return _Layout(
        nodes,
        kinds,
        tuple(kind.gpu_type for kind in kinds),
        {node.name: at for at, node in enumerate(nodes)},
        np.array([number[node.kind] for node in nodes], dtype=np.int64),
        np.concatenate([[0], np.cumsum(gpus)]).astype(np.int64),
        np.repeat(np.arange(len(nodes)), gpus),
        int(gpus.max(initial=1)),
        domains,
        tuple(int(np.bincount(there, gpus, 1).max(initial=1)) for there in domains),
        _slowdowns(nodes),
    )


def _slowdowns(nodes: tuple[Node, ...]) -> dict[str, FloatColumn]:
    classes = sorted({name for node in nodes for name, _ in node.slowdowns})
    return {
        name: np.concatenate(
            [np.array(dict(node.slowdowns).get(name, (1.0,) * node.gpus)) for node in nodes]
        )
        for name in classes
    }


def first_changes_to_up(cluster: Cluster) -> set[str]:
    """Names of nodes that are not there at first: their first change is to come up."""
    first: dict[str, NodeState] = {}
    for change in cluster.changes:
        first.setdefault(change.node, change.state)
    return {name for name, state in first.items() if state is NodeState.UP}
