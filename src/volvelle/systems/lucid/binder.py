"""Lucid's binder (ASPLOS'23): GPUs of a partner or of its own for each job in order, in one decision."""

import math
from typing import NamedTuple

import numpy as np

from volvelle.core.policy import Allocation
from volvelle.core.state import Reason
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.tolerances import SAME_AMOUNT

UNKNOWN = math.inf
"""The sharing score of a job without a measurement beside others."""


class Limits(NamedTuple):
    """The parameters of `Lucid` by which two jobs may share GPUs."""

    capacity: int
    widest: float
    longer: float


class Binder:
    """The decision about the jobs of ``view``, which have these sharing ``scores``.

    Jobs that run keep what they hold; where a partner is gone, the other has its GPUs too. Those that wait
    are served by their expected service, the least first.
    """

    def __init__(self, view: View, scores: FloatColumn, limits: Limits) -> None:
        jobs = view.jobs
        self._view, self._scores, self._limits = view, scores, limits
        self._width, self._pool = jobs.gpus, jobs.pool
        self._types = jobs.column("types").astype(np.int64)
        seconds = jobs.column("total") * jobs.column("scale") / jobs.column("request_rate")
        self._service = seconds * self._width
        self._gpus, self._partner = jobs.held, jobs.column("partner")
        self._type, self._reason = jobs.column("type"), np.full(len(jobs), float(Reason.GPUS))
        self._part()
        waiting = self._waiting
        self._order = waiting[np.argsort(self._service[waiting], kind="stable")]
        running, began = np.flatnonzero(self._gpus > 0.0), jobs.first_start
        self._served = running[np.argsort(began[running], kind="stable")]
        """Jobs with GPUs, in the order in which they started."""
        self._free, self._left = view.capacity.copy(), view.quota.copy()
        self._book(running)

    def _part(self) -> None:
        """Give a job whose partner holds nothing any more all of their GPUs."""
        self._partner[self._gpus == 0.0] = -1.0
        there = self._view.jobs.number[self._gpus > 0.0]
        gone = (self._partner >= 0.0) & ~np.isin(self._partner, there)
        self._gpus[gone], self._partner[gone] = self._width[gone], -1.0

    def _book(self, rows: IntColumn) -> None:
        np.subtract.at(self._free, self._type[rows].astype(np.int64), self._gpus[rows])
        pooled = rows[self._pool[rows] >= 0]
        np.subtract.at(self._left, self._pool[pooled], self._gpus[pooled])

    @property
    def allocation(self) -> Allocation:
        """The GPUs of every job; starts are placed in the order in which jobs were served."""
        order = np.concatenate([self._served, self._waiting])
        return Allocation(self._gpus, self._type, self._reason, order, self._partner)

    @property
    def _waiting(self) -> IntColumn:
        return np.flatnonzero(self._gpus == 0.0)

    # ------------------------------------------------------------------ where few jobs come

    def serve_in_order(self) -> None:
        """Let jobs start until the first that does not fit."""
        for row in self._order.tolist():
            if not self._start(row):
                behind = self._waiting
                self._reason[behind[behind != row]] = float(Reason.ORDER)
                return

    def _start(self, row: int) -> bool:
        """Give the job in ``row`` GPUs of its own, if there are enough."""
        if not self._may_start(np.array([row]))[0]:
            return False
        enough = self._free >= self._width[row] - SAME_AMOUNT
        fits = enough & ((self._types[row] >> np.arange(len(enough))) & 1 == 1)
        self._gpus[row], self._type[row] = self._width[row], np.flatnonzero(fits)[0]
        self._served = np.append(self._served, row)
        self._book(self._served[-1:])
        return True

    def _may_start(self, rows: IntColumn) -> BoolColumn:
        """Whether there are GPUs for each of these jobs, within its pool's quota."""
        needed, pool = self._width[rows] - SAME_AMOUNT, self._pool[rows]
        may = np.zeros(len(rows), dtype=np.bool_)
        for gpu_type, free in enumerate(self._free.tolist()):
            may |= (needed <= free) & ((self._types[rows] >> gpu_type) & 1 == 1)
        within = needed <= np.append(self._left, np.inf)[pool]  # -1, no pool, is the last
        self._reason[rows[may & ~within]] = float(Reason.QUOTA)
        return may & within

    # ------------------------------------------------------------------ where jobs share GPUs

    def pack(self) -> None:
        """Let each job share the GPUs of a running one, or else start, or else wait."""
        rest = self._order
        while len(rest):
            may = self._may_start(rest) | self._may_join(rest)
            for place in np.flatnonzero(may).tolist():
                row = int(rest[place])
                if self._join(row) or self._start(row):
                    rest = rest[place + 1 :]
                    break
            else:
                return

    def _may_join(self, rows: IntColumn) -> BoolColumn:
        """Whether some job may be the partner of each of these, memory aside."""
        alone = self._alone
        alike = np.stack([self._width[alone], self._pool[alone], self._scores[alone]])
        kinds, kind = np.unique(alike, axis=1, return_inverse=True)
        most = np.zeros(kinds.shape[1])
        np.maximum.at(most, kind.reshape(-1), self._service[alone])
        may = np.zeros(len(rows), dtype=np.bool_)
        for (width, pool, score), service in zip(kinds.T.tolist(), most.tolist(), strict=True):
            fits = (self._width[rows] == width) & (self._pool[rows] == pool)
            fits &= self._scores[rows] <= self._limits.capacity - score
            may |= fits & (self._service[rows] <= self._limits.longer * service)
        return may

    @property
    def _alone(self) -> IntColumn:
        """The jobs that may have a partner, in the order in which they started."""
        rows, limits = self._served, self._limits
        width = self._width[rows]
        may = (self._partner[rows] < 0.0) & (self._gpus[rows] == width) & (width <= limits.widest)
        found: IntColumn = rows[may & (self._scores[rows] <= limits.capacity)]
        return found

    def _join(self, row: int) -> bool:
        """Let the job in ``row`` share the GPUs of the earliest started one with which it may."""
        alone, limits = self._alone, self._limits
        may = (self._width[alone] == self._width[row]) & (self._pool[alone] == self._pool[row])
        may &= self._scores[alone] + self._scores[row] <= limits.capacity
        may &= self._service[row] <= limits.longer * self._service[alone]
        number = self._view.jobs.number
        for other in alone[may].tolist():
            if self._fit(row, other):
                self._partner[row], self._partner[other] = number[other], number[row]
                self._gpus[row] = self._gpus[other] = self._width[row] / 2.0
                self._type[row] = self._type[other]
                self._served = np.append(self._served, row)
                return True
        return False

    def _fit(self, row: int, other: int) -> bool:
        """Whether it was measured how fast each of two is beside the other, on the GPUs of the second."""
        kind, number = int(self._type[other]), self._view.jobs.number
        if (self._types[row] >> kind) & 1 == 0:
            return False
        one, two = int(number[row]), int(number[other])
        return self._view.beside(one, two)[kind] > 0.0 and self._view.beside(two, one)[kind] > 0.0
