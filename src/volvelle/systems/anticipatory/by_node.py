"""`anticipatory-vc` where gangs stand together: the plan has a row for each node (section 5.1 with 5.5).

The isolated reference runs each pool on its home nodes (`home_nodes`). A reservation holds the GPUs on which
its job runs in the reference, from the virtual start on. A job starts early on any nodes whose GPUs, beside
running jobs, no other reservation claims while it runs; the job then gives up its own reservation.

**Theorem 1** holds on each node: running jobs and reservations fit at any time. At first these are the
isolated references; an early start takes only GPUs without reservations; and a job whose virtual start has
come finds its own GPUs.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from volvelle.core.columns import GPUS, HELD, NUMBER, POOL, SUBMIT, TYPES
from volvelle.core.compiled import compiled
from volvelle.core.events import ArrivalsAnnounced
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE
from volvelle.core.policy import Allocation
from volvelle.core.state import Reason
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.home_nodes import HomeClock, lay_out, stand

_GPUS_SHORT = int(Reason.GPUS)
_ORDER = int(Reason.ORDER)
_QUOTA = int(Reason.QUOTA)
_RESERVED = int(Reason.RESERVED)


class Reservation(NamedTuple):
    """GPUs of each node from ``start`` on; ``nodes`` is empty where the reference never starts the job."""

    start: float
    seconds: float
    nodes: tuple[int, ...]


@dataclass
class NodePlan:
    """The plan by node. period: decisions are made at multiples of it, seconds (0: at events).

    sizes: GPUs of each node. home_nodes: GPUs that each pool owns, (pools, nodes).
    reserved: reservations of jobs that have not started, by number. virtual: of jobs in the system that have.
    """

    period: float
    sizes: Ints
    home_nodes: Ints
    clocks: list[HomeClock] = field(default_factory=list)
    reserved: dict[int, Reservation] = field(default_factory=dict)
    virtual: dict[int, Reservation] = field(default_factory=dict)

    @classmethod
    def of(cls, view: View, period: float) -> "NodePlan":
        """The plan of a cluster without expected jobs."""
        sizes = np.diff(view.resources.first_slot)
        plan = cls(period, sizes, lay_out(sizes, view.owned))
        plan.clocks = [HomeClock(home, period) for home in plan.home_nodes]
        return plan

    def foretell(self, view: View, told: ArrivalsAnnounced) -> None:
        """Plan for the announced arrivals; reservations of jobs in the system stay."""
        here = view.jobs.row_of
        self.clocks = [HomeClock(home, self.period) for home in self.home_nodes]
        known = {n: one for n, one in (self.reserved | self.virtual).items() if n in here}
        for number, one in sorted(known.items(), key=lambda each: each[1].start):
            pool = int(view.jobs.matrix[POOL, here[number]])
            if one.nodes:
                self.clocks[pool].occupy(one.start + one.seconds, np.array(one.nodes))
                self.clocks[pool].head = max(self.clocks[pool].head, one.start)
        self.reserved = {n: one for n, one in self.reserved.items() if n in here}
        for number, submit, gpus, seconds, pool in zip(
            told.numbers, told.submit, told.gpus, told.seconds, told.pools, strict=True
        ):
            if number not in known:
                self._reserve(number, pool, submit, gpus, seconds)

    def _reserve(self, number: int, pool: int, submit: float, gpus: float, seconds: float) -> None:
        start, nodes = np.inf, np.zeros(0, dtype=np.int64)
        if pool >= 0:
            start, nodes = self.clocks[pool].start(submit, int(gpus), seconds)
        if start == np.inf:
            nodes = nodes[:0]
        self.reserved[number] = Reservation(float(start), seconds, tuple(nodes.tolist()))

    def decide(self, view: View, seconds: FloatColumn) -> tuple[Allocation, float | None]:
        """Start jobs that delay no reservation, by virtual start. Returns the next virtual start as well."""
        matrix, now, resources = view.jobs.matrix, view.now, view.resources
        numbers = matrix[NUMBER].astype(np.int64).tolist()
        held = held_by_node(view)
        self._widen(np.diff(resources.first_slot))
        self._take_in(view, numbers, held, seconds)
        given = np.zeros((3, len(numbers)))
        given[TARGET], given[TARGET_TYPE] = matrix[HELD], view.jobs.column("type")
        waits = np.flatnonzero(matrix[HELD] == 0.0).tolist()
        runs = np.flatnonzero(matrix[HELD] > 0.0).tolist()
        self._delay(numbers, waits, now, seconds)
        use = self._use(numbers, waits, runs, held, now, seconds)
        idle = resources.free
        left = np.append(view.quota, np.inf)
        np.subtract.at(left, matrix[POOL, runs].astype(np.int64), matrix[HELD, runs])
        kept = self._kept_back(matrix, held, view)
        first = {n: self.virtual[n] if n in self.virtual else self.reserved[n] for n in numbers}
        order = sorted(waits, key=lambda row: (first[numbers[row]].start, row))
        for row in order:
            number, need, pool = numbers[row], int(matrix[GPUS, row]), int(matrix[POOL, row])
            given[TARGET_REASON, row] = _GPUS_SHORT
            if need > left[pool] + SAME_AMOUNT:
                given[TARGET_REASON, row] = _QUOTA
                continue
            due = first[number].start <= now
            if not due and pool >= 0 and not view.lends[pool]:
                given[TARGET_REASON, row] = _RESERVED
                continue
            own = np.array(first[number].nodes, dtype=np.int64)
            at = use.place.get(number, -1)
            until = now + float(seconds[row])
            for gpu_type in range(len(resources.types)):
                if not (int(matrix[TYPES, row]) >> gpu_type) & 1:
                    continue
                there = resources.schedulable & (resources.node_type == gpu_type)
                here, sizes = np.where(there, idle, 0), np.where(there, use.sizes, 0)
                if due and (here >= own).all():
                    nodes = own
                else:
                    lendable = here if due else np.maximum(here - kept[pool], 0)
                    room = spare(lendable, use.begin, use.end, use.gpus, at, now, until, use.sizes)
                    at_home = len(own) > 0 and bool((room >= own).all())
                    nodes = own if at_home else stand(room, sizes, need)
                if nodes.any():
                    given[TARGET, row], given[TARGET_TYPE, row] = need, gpu_type
                    held[row] = nodes
                    idle = idle - nodes
                    left[pool] -= need
                    use.start(number, now, until, nodes)
                    self.virtual[number] = first[number]
                    self.reserved.pop(number, None)
                    break
                if stand(here, sizes, need).any():
                    given[TARGET_REASON, row] = _RESERVED
        starts = (first[numbers[row]].start for row in waits if given[TARGET, row] == 0.0)
        wake = min((start for start in starts if now < start < np.inf), default=None)
        answer = Allocation(
            given[TARGET],
            given[TARGET_TYPE],
            given[TARGET_REASON],
            np.array(order + runs, dtype=np.int64),
            nodes=places(held),
        )
        return answer, wake

    def _widen(self, sizes: Ints) -> None:
        """Add nodes that joined; no pool owns GPUs of them."""
        new, self.sizes = len(sizes) - len(self.sizes), sizes
        if new > 0:
            self.home_nodes = np.pad(self.home_nodes, ((0, 0), (0, new)))
            for clock in self.clocks:
                clock.widen(new)
            for known in (self.reserved, self.virtual):
                for number, one in known.items():
                    if one.nodes:
                        known[number] = one._replace(nodes=(*one.nodes, *[0] * new))

    def _take_in(self, view: View, numbers: list[int], held: Ints, seconds: FloatColumn) -> None:
        """Reserve for jobs that were not announced; drop reservations of jobs that left."""
        matrix, now = view.jobs.matrix, view.now
        self.virtual = {n: one for n, one in self.virtual.items() if n in view.jobs.row_of}
        last = max(numbers, default=-1)
        self.reserved = {
            n: one for n, one in self.reserved.items() if n > last or n in view.jobs.row_of
        }
        for row, number in enumerate(numbers):
            pool = int(matrix[POOL, row])
            if matrix[HELD, row] > 0.0:
                if number not in self.virtual:  # it ran before this policy came
                    lasts, nodes = float(seconds[row]), held[row]
                    self.virtual[number] = Reservation(now, lasts, tuple(nodes.tolist()))
                    if pool >= 0:
                        self.clocks[pool].occupy(now + lasts, nodes)
                self.reserved.pop(number, None)
            elif number in self.virtual:  # it was stopped: what its virtual start was, it is
                self.reserved.setdefault(number, self.virtual[number])
            elif number not in self.reserved:
                submit = max(float(matrix[SUBMIT, row]), now)
                gpus, lasts = float(matrix[GPUS, row]), float(seconds[row])
                self._reserve(number, pool, submit, gpus, lasts)

    def _delay(
        self, numbers: list[int], waits: list[int], now: float, seconds: FloatColumn
    ) -> None:
        """Move reservations whose start has passed to now."""
        for row in waits:
            one = self.reserved[numbers[row]]
            if one.start < now:
                self.virtual.setdefault(numbers[row], one)
                self.reserved[numbers[row]] = Reservation(now, float(seconds[row]), one.nodes)

    def _use(
        self,
        numbers: list[int],
        waits: list[int],
        runs: list[int],
        held: Ints,
        now: float,
        seconds: FloatColumn,
    ) -> "_Use":
        """Running jobs, and reservations before the latest end of a waiting job that would start now."""
        reach = now + max((float(seconds[row]) for row in waits), default=0.0)
        mine = {numbers[row] for row in waits}
        near = [
            (number, one)
            for number, one in self.reserved.items()
            if one.nodes and (one.start < reach or number in mine)
        ]
        begin = np.array([now] * len(runs) + [one.start for _, one in near])
        end = np.array(
            [now + float(seconds[row]) for row in runs]
            + [one.start + one.seconds for _, one in near]
        )
        rows = [held[row] for row in runs] + [np.array(one.nodes) for _, one in near]
        gpus = np.array(rows, dtype=np.int64).reshape(len(rows), held.shape[1])
        place = {number: len(runs) + at for at, (number, _) in enumerate(near)}
        return _Use(self.sizes, begin, end, gpus, place)

    def _kept_back(self, matrix: Floats, held: Ints, view: View) -> Ints:
        """GPUs by pool (the last row: none) and node that its jobs leave to pools that do not lend."""
        pools = len(view.owned)
        found = np.zeros((pools + 1, held.shape[1]), dtype=np.int64)
        for pool in np.flatnonzero(~view.lends).tolist():
            mine = held[matrix[POOL] == pool].sum(axis=0)
            idle = np.maximum(self.home_nodes[pool] - mine, 0)
            found[:-1] += idle
            found[pool] -= idle
        return found


def serve_isolated(view: View, strict: bool) -> Allocation:
    """The isolated reference: every pool on its home nodes, first come, first served.

    strict: a job that does not fit holds back the jobs of its pool behind it. Jobs of no pool, and jobs that
    never fit the home nodes of their pool (as by GPU type), are served last, on idle GPUs.
    """
    matrix, resources = view.jobs.matrix, view.resources
    sizes, held = np.diff(resources.first_slot), held_by_node(view)
    home_nodes = np.pad(lay_out(sizes, view.owned), ((0, 1), (0, 0)))  # of no pool: nothing
    pools = matrix[POOL].astype(np.int64)
    idle, free = home_nodes.copy(), resources.free
    np.subtract.at(idle, pools, held)
    left = np.append(view.owned, np.inf)
    np.subtract.at(left, pools, matrix[HELD])
    given = np.zeros((3, len(view.jobs)))
    given[TARGET], given[TARGET_TYPE] = matrix[HELD], view.jobs.column("type")
    types = [
        resources.schedulable & (resources.node_type == t) for t in range(len(resources.types))
    ]
    wished = [
        [t for t in range(len(types)) if (int(word) >> t) & 1] for word in matrix[TYPES].tolist()
    ]

    def misfits(row: int) -> bool:
        if pools[row] < 0:
            return True
        of_type = ((resources.node_type == t) * home_nodes[pools[row]] for t in wished[row])
        return not any(stand(home, home, int(matrix[GPUS, row])).any() for home in of_type)

    blocked = np.zeros(len(home_nodes), dtype=np.bool_)
    last = [matrix[HELD, row] == 0.0 and misfits(row) for row in range(len(pools))]
    order = sorted(range(len(pools)), key=lambda row: (last[row], row))
    for row in order:
        need, pool = int(matrix[GPUS, row]), pools[row]
        if matrix[HELD, row] > 0.0:
            continue
        given[TARGET_REASON, row] = _GPUS_SHORT
        if blocked[pool] and not last[row]:
            given[TARGET_REASON, row] = _ORDER
            continue
        if need > left[pool] + SAME_AMOUNT:
            given[TARGET_REASON, row] = _QUOTA
            blocked[pool] |= strict and not last[row]
            continue
        for t in wished[row]:
            mine, size = (
                (free, sizes) if last[row] else (np.clip(idle[pool], 0, free), home_nodes[pool])
            )
            nodes = stand(np.where(types[t], mine, 0), np.where(types[t], size, 0), need)
            if nodes.any():
                given[TARGET, row], given[TARGET_TYPE, row] = need, t
                held[row] = nodes
                idle[pool] -= nodes
                free = free - nodes
                left[pool] -= need
                break
        blocked[pool] |= strict and given[TARGET, row] == 0.0 and not last[row]
    return Allocation(
        given[TARGET],
        given[TARGET_TYPE],
        given[TARGET_REASON],
        np.array(order, dtype=np.int64),
        nodes=places(held),
    )


def places(held: Ints) -> Ints:
    """GPUs by job and node, (jobs, nodes), as `Allocation.nodes` has them."""
    jobs, nodes = held.nonzero()
    return np.stack([jobs, nodes, held[jobs, nodes]])


def held_by_node(view: View) -> Ints:
    """GPUs that each job holds on each node, (jobs, nodes)."""
    resources, row_of = view.resources, view.jobs.row_of
    held = np.zeros((len(view.jobs), len(resources.nodes)), dtype=np.int64)
    owner = resources.owner
    slots = np.flatnonzero(owner >= 0)
    rows = np.array([row_of[number] for number in owner[slots].tolist()], dtype=np.int64)
    np.add.at(held, (rows, resources.slot_node[slots]), 1)
    return held


@compiled
def spare(
    idle: Ints,
    begin: Floats,
    end: Floats,
    gpus: Ints,
    mine: int,
    now: float,
    until: float,
    sizes: Ints,
) -> Ints:
    """GPUs of each node that are idle and neither used nor reserved at any time from ``now`` to ``until``.

    begin, end, gpus: running jobs and reservations, (entries) and (entries, nodes). mine: an entry to ignore.
    """
    found = np.zeros_like(idle)
    near = np.empty(len(begin), dtype=np.int64)
    for node in range(len(sizes)):
        if idle[node] == 0:
            continue
        count = 0
        for one in range(len(begin)):
            if one != mine and gpus[one, node] > 0 and begin[one] < until and end[one] > now:
                near[count] = one
                count += 1
        most = 0
        for at in range(count):  # use is highest where an entry begins
            when, used = max(begin[near[at]], now), 0
            for one in near[:count]:
                if begin[one] <= when and end[one] > when:
                    used += gpus[one, node]
            most = max(most, used)
        found[node] = min(idle[node], max(sizes[node] - most, 0))
    return found


@dataclass
class _Use:
    """When GPUs are used or reserved: begin, end (entries), GPUs (entries, nodes).

    sizes: of the nodes. place: the entries of reservations, by number of the job.
    """

    sizes: Ints
    begin: Floats
    end: Floats
    gpus: Ints
    place: dict[int, int]

    def start(self, number: int, now: float, until: float, nodes: Ints) -> None:
        """Start a job on ``nodes``; its reservation ends."""
        at = self.place.pop(number, -1)
        if at < 0:
            at = len(self.begin)
            self.begin, self.end = np.append(self.begin, 0.0), np.append(self.end, 0.0)
            self.gpus = np.concatenate([self.gpus, nodes[None, :]])
        self.begin[at], self.end[at], self.gpus[at] = now, until, nodes
