"""Home nodes: the GPUs of each node that a pool owns, and where its gangs run in the isolated reference.

A gang that fits one home node runs on one; a wider gang takes whole nodes, and one more for the rest. Pools
get their home nodes once, in order: whole nodes first, then the rest of each pool on the fullest node that
has room, so that as few pools as possible share a node. Cells within a node (HiveD's smaller ones) are not
distinguished here; a placement may keep them.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.core.forward.moments import boundary
from volvelle.model.arrays import FloatColumn, IntColumn, Ints
from volvelle.model.tolerances import WHOLE_NUMBER


def lay_out(sizes: IntColumn, owned: FloatColumn) -> Ints:
    """GPUs that each pool owns of each node, (pools, nodes); whole nodes as far as possible."""
    homes = np.zeros((len(owned), len(sizes)), dtype=np.int64)
    left = np.floor(owned + WHOLE_NUMBER).astype(np.int64)
    room = sizes.copy()
    for pool in range(len(owned)):
        for node in np.argsort(-sizes, kind="stable").tolist():
            if 0 < sizes[node] == room[node] <= left[pool]:
                homes[pool, node] = sizes[node]
                room[node], left[pool] = 0, left[pool] - sizes[node]
    for pool in np.argsort(-left, kind="stable").tolist():
        while left[pool] > 0 and room.any():
            enough = np.where(room >= left[pool], room, np.iinfo(np.int64).max)
            node = int(enough.argmin() if (room >= left[pool]).any() else room.argmax())
            taken = min(int(left[pool]), int(room[node]))
            homes[pool, node] += taken
            room[node], left[pool] = room[node] - taken, left[pool] - taken
    return homes


@compiled
def stand(idle: Ints, sizes: Ints, gpus: int) -> Ints:
    """GPUs to take of each node for a gang, given ``idle`` GPUs and ``sizes``; zeros if it does not fit.

    A gang that fits one node takes the fullest such node. A gang wider than the largest node takes nodes that
    are wholly idle, the largest first, and its rest as a gang of its own.
    """
    taken = np.zeros_like(idle)
    left = gpus
    while left > 0:
        best, widest = -1, sizes[taken == 0].max() if (taken == 0).any() else 0
        for node in range(len(sizes)):
            if taken[node] > 0:
                continue
            if left > widest:
                fits = sizes[node] > 0 and idle[node] == sizes[node]
                better = best < 0 or sizes[node] > sizes[best]
            else:
                fits = idle[node] >= left
                better = best < 0 or idle[node] < idle[best]
            if fits and better:
                best = node
        if best < 0:
            return np.zeros_like(idle)
        taken[best] = min(left, sizes[best])
        left -= taken[best]
    return taken


@dataclass
class HomeClock:
    """The virtual clock of a pool on its home nodes. period: of its decisions, seconds (0: at events).

    home: GPUs that the pool owns of each node. running: end, place among equals and GPUs by node of jobs that
    run virtually, a heap. head: the last virtual start.
    """

    home: Ints
    period: float = 0.0
    head: float = -np.inf
    running: list[tuple[float, int, list[int]]] = field(default_factory=list)
    count: int = 0
    idle: Ints = field(init=False)

    def __post_init__(self) -> None:
        if not hasattr(self, "idle"):
            self.idle = self.home.copy()

    def occupy(self, end: float, nodes: Ints) -> None:
        """A job that runs already does so virtually too, until ``end``, on ``nodes`` of its pool."""
        taken = np.minimum(nodes, self.idle)
        self.idle -= taken
        self.count += 1
        heappush(self.running, (end, self.count, taken.tolist()))

    def widen(self, nodes: int) -> None:
        """So many nodes joined; the pool owns nothing of them."""
        self.home, self.idle = np.pad(self.home, (0, nodes)), np.pad(self.idle, (0, nodes))
        self.running = [(end, at, taken + [0] * nodes) for end, at, taken in self.running]

    def start(self, submit: float, gpus: int, seconds: float) -> tuple[float, Ints]:
        """When the job that comes next would start, infinite for never, and the GPUs of each node."""
        if not stand(self.home, self.home, gpus).any():
            return np.inf, np.zeros_like(self.home)
        start = max(submit, self.head)
        taken = self._place(start, gpus)
        while not taken.any():
            start = max(start, self.running[0][0])
            taken = self._place(start, gpus)
        if self.period > 0.0 and start < boundary(start, self.period, False):
            start = boundary(start, self.period, False)
            taken = self._place(start, gpus)
        self.head = start
        self.occupy(start + seconds, taken)
        return start, taken

    def _place(self, now: float, gpus: int) -> Ints:
        while self.running and self.running[0][0] <= now:
            self.idle += np.array(heappop(self.running)[2], dtype=np.int64)
        return stand(self.idle, self.home, gpus)
