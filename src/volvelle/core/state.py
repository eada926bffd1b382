"""The scheduler's state: columns of the jobs in the system, and who holds which GPU.

Policies read `JobView`: the columns as read-only arrays, with what depends on the time computed for the
moment of the decision.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import Column
from volvelle.core.kernels import assign_slots, free_by_node, work_left
from volvelle.core.stock import Stock
from volvelle.model.cluster import Cluster, Node, NodeState

FloatColumn = NDArray[np.float64]
BoolColumn = NDArray[np.bool_]
IntColumn = NDArray[np.int64]


class JobColumns:
    """The matrix of `Column` rows for the jobs in the system, growing and shrinking with them.

    Behind them come ``own`` rows that belong to the policy.
    """

    def __init__(self, own: int = 0) -> None:
        self.matrix = np.zeros((Column.COUNT + own, 64))
        self._own = own
        self.count = 0
        self.row_of: dict[int, int] = {}
        self.order_hint = np.zeros(0, dtype=np.int64)
        """Rows as they were last ranked: makes the next ranking quick, never changes its result."""

    def fork(self) -> "JobColumns":
        """A copy that can go its own way."""
        copy = JobColumns(self._own)
        copy.matrix = self.matrix.copy()
        copy.count = self.count
        copy.row_of = self.row_of.copy()
        copy.order_hint = self.order_hint
        return copy

    def clear_own(self, own: int) -> None:
        """Make room for another policy's own rows, all 0."""
        stored = self.matrix[: Column.COUNT]
        self.matrix = np.concatenate([stored, np.zeros((own, stored.shape[1]))])
        self._own = own

    def add(self, number: int, values: Sequence[float] | FloatColumn) -> None:
        """Append job ``number``; ``values`` in the order of `Column`, the policy's own are 0."""
        row = self.count
        if row == self.matrix.shape[1]:
            self.matrix = np.concatenate([self.matrix, np.zeros_like(self.matrix)], axis=1)
        self.matrix[: Column.COUNT, row] = values
        self.matrix[Column.COUNT :, row] = 0.0
        self.row_of[number] = row
        self.count += 1

    def remove(self, number: int) -> None:
        """Take job ``number`` out; the last job moves into its row."""
        row = self.row_of.pop(number)
        self.count = last = self.count - 1
        if row != last:
            self.matrix[:, row] = self.matrix[:, last]
            self.row_of[int(self.matrix[Column.NUMBER, row])] = row

    def get(self, number: int, column: int) -> float:
        """One value of one job."""
        return float(self.matrix[column, self.row_of[number]])


class JobView:
    """The jobs in the system as a policy sees them at ``now``: read-only columns, one entry a job.

    Entries are in no particular order; `number` is the order of submission. What is believed (work,
    rates, remaining time) comes from the configured estimator.
    """

    def __init__(self, columns: JobColumns, now: float) -> None:
        self.columns = columns
        self._matrix = columns.matrix[:, : columns.count]
        self._matrix.flags.writeable = False
        self.now = now

    def __len__(self) -> int:
        return int(self._matrix.shape[1])

    @property
    def matrix(self) -> FloatColumn:
        """All columns, with spare entries at the end: for compiled loops."""
        return self.columns.matrix

    @property
    def own(self) -> FloatColumn:
        """The policy's own columns (`Policy.columns` of them), for it to write; 0 for a new job."""
        return self.columns.matrix[Column.COUNT :, : len(self)]

    @property
    def curve(self) -> IntColumn:
        """Where in `View.rates` each job's rates are; only to be read after asking for these."""
        return self.column(Column.CURVE).astype(np.int64)

    def column(self, which: int) -> FloatColumn:
        """A stored column as it is."""
        view: FloatColumn = self._matrix[which]
        return view

    @property
    def number(self) -> FloatColumn:
        """The order of submission: 0 for the first job of the run."""
        return self.column(Column.NUMBER)

    @property
    def submit_time(self) -> FloatColumn:
        """Seconds."""
        return self.column(Column.SUBMIT)

    @property
    def gpus(self) -> FloatColumn:
        """GPUs requested: the gang, or for an elastic job the number it would like."""
        return self.column(Column.GPUS)

    @property
    def min_gpus(self) -> FloatColumn:
        """The fewest GPUs each job runs on."""
        return self.column(Column.LEAST)

    @property
    def max_gpus(self) -> FloatColumn:
        """The most GPUs each job can use."""
        return self.column(Column.MOST)

    @property
    def held(self) -> FloatColumn:
        """GPUs held now."""
        return self.column(Column.HELD)

    @property
    def weight(self) -> FloatColumn:
        """The share a job's user declared for it; 1 unless said otherwise."""
        return self.column(Column.WEIGHT)

    @property
    def pool(self) -> IntColumn:
        """Index of the job's pool, -1 without one."""
        return self.column(Column.POOL).astype(np.int64)

    @property
    def first_start(self) -> FloatColumn:
        """When it first held a GPU, seconds; NaN before that."""
        return self.column(Column.FIRST_START)

    @property
    def preemptions(self) -> FloatColumn:
        """How often the scheduler took its GPUs away."""
        return self.column(Column.PREEMPTIONS)

    @property
    def running(self) -> BoolColumn:
        """Which jobs hold GPUs."""
        return self.held > 0

    @property
    def attained_seconds(self) -> FloatColumn:
        """Seconds with GPUs held so far."""
        m = self._matrix
        held_for = np.where(self.running, np.maximum(self.now - m[Column.STARTED], 0.0), 0.0)
        held_for += m[Column.ATTAINED]
        return held_for

    @property
    def attained_gpu_seconds(self) -> FloatColumn:
        """GPU-seconds held so far: the service Tiresias counts (NSDI'19)."""
        m = self._matrix
        service: FloatColumn = np.maximum(self.now - m[Column.STARTED], 0.0)
        service *= m[Column.HELD]
        service += m[Column.ATTAINED_GPU]
        return service

    @property
    def work_done(self) -> FloatColumn:
        """Units of work believed done."""
        m = self._matrix
        done: FloatColumn = np.maximum(self.now - m[Column.PROGRESS_FROM], 0.0)
        done *= m[Column.RATE]
        done += m[Column.DONE]
        return done

    @property
    def remaining_work(self) -> FloatColumn:
        """Units of work believed left, never negative."""
        return work_left(self.columns.matrix, len(self), self.now)

    @property
    def remaining_seconds(self) -> FloatColumn:
        """Seconds believed left on the GPUs the job requests (its most, where it is elastic)."""
        seconds: FloatColumn = self.remaining_work / self._matrix[Column.FULL_RATE]
        return seconds

    @property
    def seconds_to_end(self) -> FloatColumn:
        """Seconds until the job is believed to end: on what it holds, or else on what it requests.

        What a start or restore still costs is counted.
        """
        m = self._matrix
        restoring = np.maximum(m[Column.PROGRESS_FROM] - self.now, 0.0)
        gap = np.where(self.running, restoring, m[Column.START_GAP])
        rate = np.where(self.running, m[Column.RATE], m[Column.REQUEST_RATE])
        seconds: FloatColumn = gap + self.remaining_work / rate
        return seconds

    @property
    def total_seconds(self) -> FloatColumn:
        """Seconds the whole job is believed to take on the GPUs it requests, uninterrupted."""
        m = self._matrix
        seconds: FloatColumn = m[Column.TOTAL] * m[Column.SCALE] / m[Column.FULL_RATE]
        return seconds


class Resources:
    """Nodes and their GPUs. GPUs have cluster-wide numbers (slots), node after node.

    ``owner[slot]`` is the number of the job that holds it, -1 if free. ``named`` is False under a
    placement that only counts: every slot is left free, `free` is unused and the scheduler counts GPUs
    by type.
    """

    def __init__(self, cluster: Cluster, *, named: bool = True) -> None:
        self.named = named
        self.types: tuple[str, ...] = cluster.gpu_types
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.state: list[NodeState] = []
        self.node_type = np.zeros(0, dtype=np.int64)
        self.schedulable = np.zeros(0, dtype=np.bool_)
        self.free = np.zeros(0, dtype=np.int64)
        self.first_slot = np.zeros(1, dtype=np.int64)
        self.slot_node = np.zeros(0, dtype=np.int64)
        self.owner = np.zeros(0, dtype=np.int64)
        joining = first_changes_to_up(cluster)
        for node in cluster.nodes:
            self._append(node, NodeState.DOWN if node.name in joining else NodeState.UP)
        self.stock: Stock | None = None
        """CPUs and memory by node; None where no node says what it has."""
        self.given = np.zeros((2, 0))
        """CPUs and memory that go with each GPU, as a policy divided them; kept where there is a stock."""
        self._count_stock()

    def _append(self, node: Node, state: NodeState) -> None:
        if node.gpu_type not in self.types:
            self.types = (*self.types, node.gpu_type)
        self.index[node.name] = len(self.names)
        self.names.append(node.name)
        self.nodes.append(node)
        self.state.append(state)
        self.node_type = np.append(self.node_type, self.types.index(node.gpu_type))
        self.schedulable = np.append(self.schedulable, state is NodeState.UP)
        self.free = np.append(self.free, node.gpus)
        self.first_slot = np.append(self.first_slot, self.first_slot[-1] + node.gpus)
        self.slot_node = np.append(
            self.slot_node, np.full(node.gpus, len(self.names) - 1, dtype=np.int64)
        )
        self.owner = np.append(self.owner, np.full(node.gpus, -1, dtype=np.int64))

    def fork(self) -> "Resources":
        """A copy that can go its own way; nodes themselves are frozen and shared."""
        copy = object.__new__(Resources)
        for name, value in self.__dict__.items():
            copied = value.copy() if isinstance(value, (np.ndarray, list, dict)) else value
            copy.__dict__[name] = copied
        return copy

    def change(self, name: str, state: NodeState, node: Node | None) -> None:
        """Node ``name`` is in ``state`` now; ``node`` describes it where it is new."""
        if name not in self.index:
            if node is None:
                raise ValueError(f"node {name!r} is not known and not described")
            self._append(node, state)
            self._count_stock()
            return
        at = self.index[name]
        self.state[at] = state
        self.schedulable[at] = state is NodeState.UP

    def _count_stock(self) -> None:
        if any(node.cpus or node.memory_gb for node in self.nodes):
            self.stock = Stock.of(self.nodes, np.arange(len(self.nodes)))
            new = np.zeros((2, len(self.owner) - self.given.shape[1]))
            self.given = np.concatenate([self.given, new], axis=1)

    def stock_by_type(self) -> Stock:
        """CPUs and memory of all nodes of each GPU type together: for GPUs that are only counted."""
        return Stock.of(self.nodes, self.node_type)

    def share_of(self, slots: IntColumn, gpu_type: int) -> tuple[float, float]:
        """The CPUs and memory that go with each GPU of a job in proportion to its GPUs.

        They stand on ``slots``, or somewhere among those of ``gpu_type`` where they are only counted.
        Infinite where nobody says what there is.
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
        """CPUs and memory that nobody holds, (2, nodes); needs `stock`."""
        assert self.stock is not None
        held = self.owner >= 0
        nodes = self.slot_node[held]
        taken = [np.bincount(nodes, given[held], len(self.nodes)) for given in self.given]
        return self.stock.capacity - np.stack(taken)

    def take(self, slots: IntColumn, number: int) -> None:
        """Job ``number`` holds ``slots`` now."""
        assign_slots(self.owner, self.free, self.slot_node, slots, number)

    def release(self, slots: IntColumn) -> None:
        """Nobody holds ``slots`` any more."""
        assign_slots(self.owner, self.free, self.slot_node, slots, -1)

    def free_for(self, gpu_type: int) -> IntColumn:
        """What each node can give to a job that wants GPUs of a type; 0 where it takes no jobs."""
        return free_by_node(self.free, self.schedulable, self.node_type, gpu_type)

    def free_slots(self, node: int) -> IntColumn:
        """The free slots of a node, ascending."""
        first, last = self.first_slot[node : node + 2]
        slots: IntColumn = first + (self.owner[first:last] == -1).nonzero()[0]
        return slots

    def nodes_of(self, slots: IntColumn) -> IntColumn:
        """The nodes that ``slots`` lie on, each once, ascending."""
        if len(slots) == 1:
            return self.slot_node[slots]
        return np.unique(self.slot_node[slots])

    def spread_factor(self, slowdown: float, gpus: int, nodes: int) -> float:
        """The share of its rate left to a job on more ``nodes`` than ``gpus`` GPUs need."""
        if slowdown == 0.0:
            return 1.0
        fewest = max(-(-gpus // max(node.gpus for node in self.nodes)), 1)
        return 1.0 / (1.0 + slowdown * max(nodes - fewest, 0))

    def gpus_by_type(self, *, up_only: bool) -> FloatColumn:
        """GPUs of each type: of the nodes that take jobs, or of every node known."""
        counts = np.diff(self.first_slot).astype(np.float64)
        if up_only:
            counts = counts * self.schedulable
        totals: FloatColumn = np.bincount(
            self.node_type, weights=counts, minlength=len(self.types)
        ).astype(np.float64)
        return totals


def first_changes_to_up(cluster: Cluster) -> set[str]:
    """Names of nodes that are not there at first: their first change is to come up."""
    first: dict[str, NodeState] = {}
    for change in cluster.changes:
        first.setdefault(change.node, change.state)
    return {name for name, state in first.items() if state is NodeState.UP}
