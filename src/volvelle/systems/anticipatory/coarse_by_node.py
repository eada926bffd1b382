"""`anticipatory` where gangs stand together: the GPUs kept for a pool are GPUs of nodes (section 5.5).

Pools have home nodes (`home_nodes`), as in the isolated reference. A dedicated job runs on home nodes, or, if
its GPUs are lent or their nodes down, on any nodes with room. The GPUs that a pool may need within a quantum
are kept on the nodes where it has most idle GPUs together, so that it finds its largest cells; borrowers run
on the rest, each on the node that it fills best. Jobs are served in the order of `lending`.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import GPUS, HELD, POOL, STARTED, TYPES
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE
from volvelle.core.policy import Allocation
from volvelle.core.state import INFINITY, Reason
from volvelle.core.view import View
from volvelle.model.arrays import Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.by_node import held_by_node, places
from volvelle.systems.anticipatory.home_nodes import lay_out, stand
from volvelle.systems.anticipatory.memory import (
    BORROWED,
    DEDICATED,
    KIND_WITHIN,
    LEVEL,
    NO_ROLE,
    ROLE,
    Tables,
)
from volvelle.systems.anticipatory.watch import open_for, watch

_GPUS_SHORT, _ORDER = float(Reason.GPUS), float(Reason.ORDER)
_QUOTA, _RESERVED = float(Reason.QUOTA), float(Reason.RESERVED)


@dataclass
class NodeLender:
    """One decision. home_nodes: GPUs that each pool owns of each node, (pools + 1, nodes); the last: none.

    kinds: of the jobs (`volvelle.systems.anticipatory.kinds`).
    """

    view: View
    home_nodes: Ints
    known: Tables
    kinds: Ints
    order: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        view, matrix = self.view, self.view.jobs.matrix
        resources = view.resources
        self.sizes, self.held = np.diff(resources.first_slot), held_by_node(view)
        self.idle = np.where(resources.schedulable, resources.free, 0)
        self.types = [resources.node_type == t for t in range(len(resources.types))]
        self.pools = matrix[POOL].astype(np.int64)
        self.needs = matrix[GPUS].astype(np.int64)
        self.owns = np.append(view.owned, max(view.capacity.sum() - view.owned.sum(), 0.0))
        self.left = np.append(view.quota, np.inf)
        self.own, self.running = np.zeros(len(self.owns)), np.zeros(len(self.owns))
        self.pending = np.zeros(len(self.owns))
        self.at_home = self.home_nodes.copy()
        self.given = np.zeros((3, len(view.jobs)))
        self.given[TARGET], self.given[TARGET_TYPE] = matrix[HELD], view.jobs.column("type")
        self.waits: list[int] = []
        for row, pool in enumerate(self.pools.tolist()):
            if matrix[HELD, row] > 0.0:
                self._run(row, pool)
                continue
            matrix[ROLE, row] = NO_ROLE
            wide = self.needs[row] > np.append(view.quota, np.inf)[pool] + SAME_AMOUNT
            self.given[TARGET_REASON, row] = _QUOTA if wide else _ORDER
            if not wide:
                self.waits.append(row)
                self.pending[pool] += self.needs[row]
        self.misfits = {row for row in self.waits if not self._fits_home(row)}
        """Jobs that never fit the home nodes of their pool."""

    def _run(self, row: int, pool: int) -> None:
        matrix = self.view.jobs.matrix
        gpus = matrix[HELD, row]
        self.running[pool] += gpus
        self.left[pool] -= gpus
        if matrix[ROLE, row] == NO_ROLE:  # it ran before this policy came
            fits = self.own[pool] + gpus <= self.owns[pool] + SAME_AMOUNT
            matrix[ROLE, row] = DEDICATED if fits else BORROWED
        if matrix[ROLE, row] == DEDICATED:
            self.own[pool] += gpus
            self.at_home[pool] -= np.minimum(self.held[row], self.at_home[pool])

    def serve(self, due: float) -> Allocation:
        """Figures 7 and 8. due: when predictions are, which matters while jobs wait and GPUs are idle."""
        self._dedicated()
        self.known.kept[:] = 0.0
        ends = self._ends()
        for at in range(len(self.known.quanta)):
            self._spare(at, ends <= at)
        for row in self.waits:
            if self.given[TARGET, row] == 0.0 and self.given[TARGET_REASON, row] != _QUOTA:
                room = self._place(row, self.idle, self.sizes)[0].any()
                self.given[TARGET_REASON, row] = _RESERVED if room else _GPUS_SHORT
        gpus, order = self.given[TARGET], np.array(self.order, dtype=np.int64)
        rest = np.setdiff1d(np.arange(len(gpus)), order)
        unmet = (gpus == 0.0).any() and self.view.capacity.sum() > gpus.sum()
        return Allocation(
            gpus,
            self.given[TARGET_TYPE],
            self.given[TARGET_REASON],
            np.concatenate([order, rest]),
            nodes=places(self.held),
            ask_at=due if unmet else INFINITY,
        )

    def _ends(self) -> Ints:
        """As of which quantum each job counts, as far as borrowers keep to theirs (`watch`)."""
        matrix, quanta = self.view.jobs.matrix, self.known.quanta
        closed = np.zeros((len(quanta), len(self.owns)), dtype=np.bool_)
        believed = self.known.kinds[self.kinds, KIND_WITHIN].astype(np.int64).tolist()
        for row in np.flatnonzero((matrix[HELD] > 0.0) & (matrix[ROLE] == BORROWED)).tolist():
            ran = self.view.now - matrix[STARTED, row]
            watch(closed, believed[row], int(self.pools[row]), ran, quanta)
        counted = [
            open_for(closed, at, pool)
            for at, pool in zip(believed, self.pools.tolist(), strict=True)
        ]
        return np.array(counted, dtype=np.int64)

    def _dedicated(self) -> None:
        """Start jobs of each pool in order of submission on the GPUs that it owns."""
        queues: list[list[int]] = [[] for _ in self.owns]
        for row in reversed(self.waits):
            if row not in self.misfits:
                queues[self.pools[row]].append(row)
        while any(queues):
            ahead = [pool for pool, queue in enumerate(queues) if queue]
            pool = min(ahead, key=lambda each: self.running[each] / self.owns[each])
            row = queues[pool].pop()
            need = self.needs[row]
            within = self.own[pool] + need <= self.owns[pool] + SAME_AMOUNT
            if need > self.left[pool] + SAME_AMOUNT or not within:
                if within:
                    self.given[TARGET_REASON, row] = _QUOTA
                queues[pool] = []
                continue
            mine = np.clip(self.at_home[pool], 0, self.idle)
            nodes, gpu_type = self._place(row, mine, self.home_nodes[pool])
            if (
                not nodes.any()
                and self._place(row, self.at_home[pool], self.home_nodes[pool])[0].any()
            ):
                nodes, gpu_type = self._place(row, self.idle, self.sizes)  # its own are lent
            if not nodes.any():
                queues[pool] = []
                continue
            self._start(row, nodes, gpu_type, DEDICATED)

    def _spare(self, at: int, ends: NDArray[np.bool_]) -> None:
        """Start jobs that end within a quantum on GPUs that no pool may need within it."""
        while True:
            waiting = [row for row in self.waits if self.given[TARGET, row] == 0.0]
            room = self._room(at)
            last = at == len(self.known.quanta) - 1 and self.misfits.issuperset(waiting)
            if not last and not room.any():
                return
            tried: set[tuple[int, float]] = set()
            for row in sorted(waiting, key=self._served):
                alike = int(self.needs[row]), self.view.jobs.matrix[TYPES, row]
                if not (last or ends[row]) or alike in tried:
                    continue
                if self.needs[row] > self.left[self.pools[row]] + SAME_AMOUNT:
                    continue
                nodes, gpu_type = self._place(row, self.idle if last else room, self.sizes)
                if nodes.any():
                    self._start(row, nodes, gpu_type, BORROWED)
                    break
                tried.add(alike)
            else:
                return

    def _served(self, row: int) -> tuple[float, int]:
        """The order of borrowers: the pool with the least of the GPUs it owns first."""
        owns = self.owns[self.pools[row]]
        return (self.running[self.pools[row]] / owns if owns > 0.0 else np.inf, row)

    def _room(self, at: int) -> Ints:
        """GPUs of each node that no pool may need within a quantum; kept GPUs are written to the memory."""
        room, elsewhere = self.idle.copy(), 0
        for pool in range(len(self.owns)):
            unused, soon = max(self.owns[pool] - self.own[pool], 0.0), self.pending[pool]
            if pool < len(self.owns) - 1:
                soon += self.known.expected[at, pool] if self.view.lends[pool] else np.inf
                soon = max(soon, self.known.by_pool[LEVEL, pool] * unused)
                self.known.kept[at, pool] = min(soon, unused)
            kept = int(np.ceil(min(soon, unused) - SAME_AMOUNT))
            elsewhere += keep(room, np.minimum(self.at_home[pool], room), kept)
        keep(room, room, elsewhere)
        return room

    def _fits_home(self, row: int) -> bool:
        home = self.home_nodes[self.pools[row]]
        return bool(self._place(row, home, home)[0].any())

    def _place(self, row: int, idle: Ints, sizes: Ints) -> tuple[Ints, int]:
        """GPUs by node for a job, zeros for none, and their type."""
        wished = int(self.view.jobs.matrix[TYPES, row])
        for gpu_type, there in enumerate(self.types):
            if (wished >> gpu_type) & 1:
                here = np.where(there, idle, 0), np.where(there, sizes, 0)
                if (nodes := stand(*here, int(self.needs[row]))).any():
                    return nodes, gpu_type
        return np.zeros_like(idle), -1

    def _start(self, row: int, nodes: Ints, gpu_type: int, role: float) -> None:
        pool, need = self.pools[row], self.needs[row]
        self.given[TARGET, row], self.given[TARGET_TYPE, row] = need, gpu_type
        self.view.jobs.matrix[ROLE, row] = role
        self.held[row] = nodes
        self.idle -= nodes
        self.running[pool] += need
        self.pending[pool] -= need
        self.left[pool] -= need
        if role == DEDICATED:
            self.own[pool] += need
            self.at_home[pool] -= np.minimum(nodes, self.at_home[pool])
        self.order.append(row)


def home_nodes_of(view: View) -> Ints:
    """The home nodes of the pools, (pools + 1, nodes); the last row: GPUs that no pool owns."""
    sizes = np.diff(view.resources.first_slot)
    home_nodes = lay_out(sizes, view.owned)
    return np.vstack([home_nodes, sizes - home_nodes.sum(axis=0)])


def keep(room: Ints, among: Ints, gpus: int) -> int:
    """Take ``gpus`` off ``room``, (nodes), where ``among`` has most. Returns the GPUs that were missing."""
    for node in np.argsort(-among, kind="stable").tolist():
        if gpus == 0:
            break
        taken = min(int(among[node]), gpus)
        room[node] -= taken
        gpus -= taken
    return gpus
