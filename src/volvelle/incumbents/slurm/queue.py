"""The queue of a controller: waiting jobs in their partitions as columns, the first to be served first."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from copy import copy

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.model.arrays import Floats, Ints

(DEMAND, LIMIT, USER, PARTITION, ARRAY, RESERVATION, CLASS, GROUP, JOB) = range(9)
(ELIGIBLE, WATCHED, ASKS, UP, RESERVED, NAMES_NODES) = range(9, 15)
(ACCRUE, ASSOCIATION, SIZE, PARTITION_WEIGHT, QOS, NICE, FIXED) = range(15, 22)
"""Columns of a place; -1 for no array and no reservation.

demand: what the job takes there. class: of jobs that may stop the same others. group: of those that the same
limits bind alike. job: the row of the job's first place. eligible: seconds. watched: 1 where more than time
may keep the job out of question, 2 where it is held. asks: whether Python has to be asked before it starts.
up: whether its partition is. reserved, names nodes: whether the job names a reservation, or nodes. Then the
parts of its priority; fixed is NaN where the priority moves.
"""

NO_REASON, BEGIN_TIME, PRIORITY, RESOURCES, IN_RESERVATION, NOT_AVAILABLE = range(6)
WORDS = "", "BeginTime", "Priority", "Resources", "Reservation", "ReqNodeNotAvail"
"""Reasons that kernels give, in Slurm's words."""

_TIER, _MOST = 1 << 40, (1 << 39) - 1
"""Parts of the number that sorts: a tier, and the most of a priority below it."""


class Queue:
    """Columns of all places, a row each, and the order of those that wait.

    table: (rows, columns). reasons: numbers of words, by the row of a job's first place. order: rows. latest:
    no job is eligible later.
    """

    def __init__(self) -> None:
        self.table: Floats = np.zeros((16, FIXED + 1))
        self.reasons: Ints = np.zeros(16, dtype=np.int64)
        self.order: Ints = np.zeros(0, dtype=np.int64)
        self.latest = -np.inf
        self._first: Ints = np.zeros(16, dtype=np.int64)
        self._then: Ints = np.zeros((16, 3), dtype=np.int64)
        self._unused = list(range(15, -1, -1))

    def fork(self) -> "Queue":
        """A copy that goes its own way."""
        other = copy(self)
        other.table, other.reasons = self.table.copy(), self.reasons.copy()
        other._first, other._then = self._first.copy(), self._then.copy()
        other._unused = self._unused.copy()
        return other

    def add(self, columns: tuple[float, ...], then: tuple[int, int, int]) -> int:
        """The row of a new place. columns: from `DEMAND` on, where `JOB` is -1 for this very row.

        then: by which it sorts among those of equal priority.
        """
        if not self._unused:
            size = len(self.table)
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
            self.reasons = np.concatenate([self.reasons, np.zeros_like(self.reasons)])
            self._first = np.concatenate([self._first, np.zeros_like(self._first)])
            self._then = np.concatenate([self._then, np.zeros_like(self._then)])
            self._unused = list(range(2 * size - 1, size - 1, -1))
        row = self._unused.pop()
        self.table[row] = columns
        if columns[JOB] < 0:
            self.table[row, JOB] = row
        self.reasons[row], self._then[row] = NO_REASON, then
        self.latest = max(self.latest, columns[ELIGIBLE])
        return row

    def drop(self, rows: Iterable[int]) -> None:
        """Forget places that do not wait."""
        self._unused.extend(rows)

    def delay(self, rows: Sequence[int], eligible: float) -> None:
        """Rows are not eligible before a time, from which on their age counts."""
        self.table[rows, ELIGIBLE] = self.table[rows, ACCRUE] = eligible
        self.latest = max(self.latest, eligible)

    def rank(self, rows: Ints, tiers: Ints, priorities: Floats) -> None:
        """Note by what rows sort (``sort_job_queue``): reservations first, then tiers, then priorities."""
        whole = np.clip(priorities, -_MOST, _MOST).astype(np.int64)
        free = 1 - self.table[rows, RESERVED].astype(np.int64)
        self._first[rows] = (free << 60) - tiers * _TIER - whole

    def key(self, row: int) -> tuple[int, ...]:
        """The key by which a row sorts."""
        return int(self._first[row]), *self._then[row].tolist()

    def insert(self, row: int) -> None:
        """A place waits, behind those of the same key."""
        order, key = self.order, self.key(row)
        keys = self._first[order]
        low, high = np.searchsorted(keys, key[0]), np.searchsorted(keys, key[0], "right")
        if low < high:
            low += bisect_right(order[low:high].tolist(), key, key=self.key)
        self.order = np.concatenate([order[:low], [row], order[low:]])

    def remove(self, row: int) -> None:
        """A place waits no more."""
        self.order = self.order[self.order != row]

    def sort(self) -> None:
        """Put the order right after ranks have moved."""
        first, then = self._first[self.order], self._then[self.order]
        self.order = self.order[np.lexsort((then[:, 2], then[:, 1], then[:, 0], first))]


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
