"""The queue of a controller: waiting jobs in their partitions as columns, the first to be served first."""

import math
from bisect import bisect_right
from copy import copy
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.incumbents.slurm.fair_share import priority
from volvelle.model.arrays import Floats, Ints

(DEMAND, LIMIT, USER, PARTITION, ARRAY, RESERVATION, CLASS, GROUP, JOB) = range(9)
(ELIGIBLE, WATCHED, ASKS, UP, RESERVED, NAMES_NODES) = range(9, 15)
(ACCRUE, ASSOCIATION, SIZE, PARTITION_WEIGHT, QOS, NICE, COLUMNS) = range(15, 22)
"""Columns of a place; -1 for no array and no reservation.

demand: what the job takes there. class: of jobs that may stop the same others. group: of those that the same
limits bind alike. job: the row of the job's first place. eligible: seconds. watched: 1 where more than time
may keep the job out of question, 2 where it is held. asks: whether Python has to be asked before it starts.
up: whether its partition is. reserved, names nodes: whether the job names a reservation, or nodes. Then the
parts of its priority.
"""

NO_REASON, BEGIN_TIME, PRIORITY, RESOURCES, IN_RESERVATION, NOT_AVAILABLE = range(6)
WORDS = "", "BeginTime", "Priority", "Resources", "Reservation", "ReqNodeNotAvail"
"""Reasons that kernels give, in Slurm's words."""

_FREE, _TIER, _MOST = 1 << 60, 1 << 40, (1 << 39) - 1
"""Parts of the number that sorts: of jobs without a reservation, of a tier, and the most of a priority."""
_ROOM = 16
_BY_ROW = "reasons", "fixed", "first", "then"


@dataclass(eq=False)
class Queue:
    """Columns of all places, a row each, and the order of those that wait.

    rows: of the places of each job, by its number. order: rows. reasons: numbers of words, by the row of a
    job's first place. fixed: priorities that do not move, NaN for others. latest: no job is eligible later.
    table: (rows, columns), of what can be derived.
    """

    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    order: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    reasons: Ints = field(default_factory=lambda: np.zeros(_ROOM, dtype=np.int64))
    fixed: Floats = field(default_factory=lambda: np.zeros(_ROOM))
    latest: float = -math.inf
    first: Ints = field(default_factory=lambda: np.zeros(_ROOM, dtype=np.int64))
    then: Ints = field(default_factory=lambda: np.zeros((_ROOM, 3), dtype=np.int64))

    def __post_init__(self) -> None:
        self.table: Floats = np.zeros((len(self.reasons), COLUMNS))
        self.watched = False
        """Whether there was any job whose coming into question Python has to watch."""
        self.asks = False
        """Whether there was any job about whose start Python has to be asked."""
        used = {row for rows in self.rows.values() for row in rows}
        self._unused = [row for row in range(len(self.reasons)) if row not in used]
        """A heap, so that which row is next follows from those in use, also after a snapshot."""

    def fork(self) -> "Queue":
        """A copy that goes its own way."""
        other = copy(self)
        for name in ("table", *_BY_ROW):
            setattr(other, name, getattr(self, name).copy())
        other.rows, other._unused = self.rows.copy(), self._unused.copy()
        return other

    def add(self, number: int, places: int, turn: tuple[int, int, int], fixed: float) -> None:
        """A job has so many places. turn: by which they sort among those of equal priority."""
        while len(self._unused) < places:
            size = len(self.table)
            for name in ("table", *_BY_ROW):
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
            self._unused += range(size, 2 * size)
        rows = self.rows[number] = tuple(heappop(self._unused) for _ in range(places))
        for row in rows:
            self.reasons[row], self.then[row], self.fixed[row] = NO_REASON, turn, fixed

    def describe(self, row: int, columns: tuple[float, ...]) -> None:
        """Note the columns of a place."""
        self.table[row] = columns
        self.latest = max(self.latest, columns[ELIGIBLE])
        self.watched = self.watched or columns[WATCHED] > 0.0
        self.asks = self.asks or columns[ASKS] > 0.0

    def drop(self, number: int) -> tuple[int, ...]:
        """Forget the places of a job, which does not wait; their rows."""
        rows = self.rows.pop(number)
        for row in rows:
            heappush(self._unused, row)
        return rows

    def delay(self, number: int, eligible: float) -> None:
        """A job is not eligible before a time, from which on its age counts."""
        rows = list(self.rows[number])
        self.table[rows, ELIGIBLE] = self.table[rows, ACCRUE] = eligible
        self.latest = max(self.latest, eligible)

    def rank(self, rows: Ints, tiers: Ints, factors: Floats, weights: Floats, now: float) -> None:
        """Note by what rows sort (``sort_job_queue``): reservations first, then tiers, then priorities.

        tiers: of partitions. factors: of associations. weights: as `priority` has them.
        """
        _rank(self.table, rows, self.fixed, tiers, factors, weights, now, self.first)

    def key(self, row: int) -> tuple[int, ...]:
        """The key by which a row sorts."""
        return int(self.first[row]), *self.then[row].tolist()

    def insert(self, row: int) -> None:
        """A place waits, behind those of the same key."""
        order, key = self.order, self.key(row)
        keys = self.first[order]
        low, high = np.searchsorted(keys, key[0]), np.searchsorted(keys, key[0], "right")
        if low < high:
            low += bisect_right(order[low:high].tolist(), key, key=self.key)
        self.order = np.concatenate([order[:low], [row], order[low:]])

    def remove(self, row: int) -> None:
        """A place waits no more."""
        self.order = self.order[self.order != row]

    def sort(self) -> None:
        """Put the order right after ranks have moved."""
        first, then = self.first[self.order], self.then[self.order]
        self.order = self.order[np.lexsort((then[:, 2], then[:, 1], then[:, 0], first))]


@compiled
def _rank(
    table: Floats,
    rows: Ints,
    fixed: Floats,
    tiers: Ints,
    factors: Floats,
    weights: Floats,
    now: float,
    first: Ints,
) -> None:
    for at in range(len(rows)):
        row = rows[at]
        value = fixed[row]
        if np.isnan(value):
            factor = factors[int(table[row, ASSOCIATION])]
            standing = table[row, SIZE : QOS + 1]
            value = priority(weights, now - table[row, ACCRUE], factor, standing, table[row, NICE])
        whole = int(min(max(value, -float(_MOST)), float(_MOST)))
        free = 1 - int(table[row, RESERVED])
        first[row] = free * _FREE - tiers[int(table[row, PARTITION])] * _TIER - whole


@compiled
def come_into_question(table: Floats, order: Ints, now: float, reasons: Ints, rows: Ints) -> int:
    """Write to ``rows`` those of the order that come into question now, and reasons of all; how many.

    Reasons of watched jobs are there already.
    """
    count = 0
    for at in range(len(order)):
        row = order[at]
        job = int(table[row, JOB])
        if table[row, WATCHED] == 0.0:
            reasons[job] = BEGIN_TIME if table[row, ELIGIBLE] > now else NO_REASON
        if reasons[job] == NO_REASON and table[row, UP] != 0.0:
            rows[count] = row
            count += 1
    return count
