"""Guarantees that are kept: what Chronus remembers between its decisions, and reservations made anew."""

import copy
import math
from dataclasses import dataclass, field

import numpy as np

from volvelle.core.columns import GPUS, HELD, POOL, TYPE
from volvelle.core.decision import Promise
from volvelle.core.policy import SolverGaps
from volvelle.core.promises import Margin, keeps
from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.systems.chronus.look import GIVEN, ROW, Look
from volvelle.systems.chronus.recent import RecentWork
from volvelle.systems.chronus.reservations import Reservations
from volvelle.systems.chronus.standing import (
    at_most,
    believed_left,
    lateness,
    measure,
    to_renew,
    to_reserve,
    without_jobs,
)
from volvelle.systems.chronus.terms import Terms
from volvelle.systems.hived.cells import round_up

_PACES, _ENOUGH = 1000, 20
"""Jobs of which the pace, or how late they started, is remembered, and from how many on a pace says something
about others."""
_HAIR, _HAIR_SECONDS = 0.01, 1.0
"""Share of what is believed left of a job, and seconds at least, by which a guarantee may seem missed where
starts take what they take: that is less than an estimate says."""


@dataclass
class Memory:
    """book: reservations. slot: the last one decided. wait: seconds until GPUs taken away are free.

    elsewhere: whether a guaranteed job runs on another GPU type than its reservation's.
    paces: how many seconds a believed second took, of the last jobs seen. pace: what is reserved for others.
    lates: by how many seconds real starts came late, of the last that did. late: what is reserved for that.
    """

    book: Reservations
    recent: RecentWork
    margin: Margin
    slot: int = -1
    wait: float = 0.0
    elsewhere: bool = False
    gaps: SolverGaps = field(default_factory=SolverGaps)
    paces: list[float] = field(default_factory=list)
    pace: float = 1.0
    lates: list[float] = field(default_factory=list)
    late: float = 0.0

    def learn_paces(self, seen: FloatColumn, most: float) -> None:
        """Know how slow all but the share ``most`` of the jobs are against what is believed of them."""
        if len(seen):
            self.paces = [*self.paces, *seen.tolist()][-_PACES:]
        if len(seen) and len(self.paces) >= _ENOUGH:
            self.pace = max(_all_but(most, self.paces), 1.0)

    def learn_starts(self, late: FloatColumn, most: float) -> None:
        """Know how late all but the share ``most`` of the starts are that are late."""
        if len(late):
            self.lates = [*self.lates, *late.tolist()][-_PACES:]
            self.late = _all_but(most, self.lates)


def _all_but(most: float, values: list[float]) -> float:
    """The value that no more than the share ``most`` of them exceed."""
    return sorted(values)[math.ceil((len(values) - 1) * (1.0 - most))]


class Guarantees:
    """The guarantees at one decision. ``told``: those that it makes or changes."""

    def __init__(self, policy: Terms, memory: Memory, look: Look) -> None:
        self.policy, self.memory, self.look, self.view = policy, memory, look, look.view
        self.told: list[Promise] = []
        self.counted = self._counted()
        """GPUs that each gang is counted with."""

    @property
    def book(self) -> Reservations:
        """Reservations; another object where all were made anew and that was taken back."""
        return self.memory.book

    def forget_those_that_left(self) -> None:
        """Free the reservations of jobs that are through, and see how many GPUs there are."""
        gone = without_jobs(self.look.matrix, self.book.number)
        if len(gone):
            for finish_by in self.book.finish_by[gone].tolist():
                self._learn(finish_by, kept=True)
            self.book.leave(gone)
        if (self.view.capacity != self.book.capacity).any():
            fits = self.book.resize(self.view.capacity)
            if not fits:
                rows = self.book.rows
                rows = rows[~self.book.fixed[rows]]
                self.book.free_all(rows)
                self._reserve(rows, self.look.places(len(self.book.number)))

    def learn_starts(self) -> None:
        """See how late jobs started that were given GPUs since the last lease."""
        self.memory.learn_starts(lateness(self.look.matrix, self.memory.wait), self.policy.broken)

    def renew(self) -> None:
        """A lease ended: reserve what guaranteed jobs still need; see who can still be kept."""
        memory = self.memory
        look = self.look
        seen = measure(look.matrix, look.seconds, self.view.now)
        memory.learn_paces(seen, self.policy.broken)
        self.learn_starts()
        self.look.matrix[GIVEN] = 0.0
        self.book.begin(self.look.slot)
        self._adapt_to_checkpoints()
        place = self.look.places(len(self.book.number))
        rows = self.book.rows
        for row in rows[self.book.finish_by[rows] < self.view.now].tolist():
            if not keeps(self.view.now, self.book.finish_by[row]):
                self._learn(float(self.book.finish_by[row]), kept=False)
                self._drop(row, int(place[row]))
        self._reserve(to_renew(look.matrix, self.book.booked(look.slot), place), place)

    def _reserve(self, rows: IntColumn, place: IntColumn) -> None:
        """Reserve anew for these rows, least time first.

        Jobs without one keep their guarantee as long as it is not impossible: they are served right after
        those that have one.
        """
        if not len(rows):
            return
        rows = rows[np.argsort(self.book.finish_by[rows], kind="stable")]
        rows = rows[~self._reserve_each(rows, place)]
        if not self._reserve_each(rows, place).all():
            self.arrange()
        for row in rows[~self.book.some[rows]].tolist():
            if not self._able(row, int(place[row]), int(self.book.type[row])):
                reason = "it cannot be through by then any more"
                self.told.append(Promise(int(self.book.number[row]), reason=reason))
                self._learn(float(self.book.finish_by[row]), kept=False)
                self._drop(row, int(place[row]))

    def _able(self, row: int, at: int, gpu_type: int) -> bool:
        """Whether a job can still be through in time on this type, if nothing stops it."""
        seconds = float(self.look.seconds[gpu_type, at])
        hair = max(_HAIR * seconds, _HAIR_SECONDS) if self.memory.late > 0.0 else 0.0
        return keeps(self.view.now + seconds - hair, float(self.book.finish_by[row]))

    def arrange(self) -> None:
        """Reserve for all anew, the earliest guarantee first, if that has room for all or for more.

        Reservations are as late as they can be, longer than is believed, and made one after another: a job
        may find no room beside those of others that could be elsewhere, or shorter. Without a reservation it
        would be stopped for them.
        """
        before = copy.deepcopy(self.book)
        rows = self.book.rows[~self.book.fixed[self.book.rows]]
        rows = rows[np.argsort(self.book.finish_by[rows], kind="stable")]
        place = self.look.places(len(self.book.number))
        for spare in (1.0, 0.0):
            self.book.free_all(rows)
            able = self._reserve_each(rows, place, spare=spare)
            if able.all() or (not spare and able.sum() > before.some[rows].sum()):
                return
        self.memory.book = before

    def _reserve_each(self, rows: IntColumn, place: IntColumn, *, spare: float = 1.0) -> BoolColumn:
        """Reserve anew for these rows, one after another; (rows,) whether there is room.

        spare: the part of the time beyond what is believed (`_need`) that is reserved. Running jobs that
        start over go first, as what they have done is lost if they do not run on.
        """
        if not len(rows):
            return np.zeros(0, dtype=np.bool_)
        look, book, at = self.look, self.book, place[rows]
        over = look.starts_over[at]
        able = np.zeros(len(rows), dtype=np.bool_)
        for i in np.flatnonzero(over).tolist():
            able[i] = self._runs_on(int(rows[i]), int(at[i]), spare)
        rows, at, over = rows[~able], at[~able], over[~able]
        book.gap[rows] = self.gap(at)
        terms = np.array([self.memory.pace, self.memory.margin.now, spare])
        need, starting = to_reserve(
            look.matrix, look.anew, look.starting, at, book.type[rows], terms
        )
        first_gap = np.where(starting >= 0.0, starting, book.gap[rows])
        able[~able] = book.reserve_each(rows, self.view.now, look.slot, need, first_gap, over)
        return able

    def _runs_on(self, row: int, at: int, spare: float = 1.0) -> bool:
        """Reserve GPUs for a running job until it is through, if it can be in time and there is room."""
        look, memory, kind = self.look, self.memory, int(self.look.matrix[TYPE, at])
        if look.matrix[HELD, at] == 0.0 or not self._able(row, at, kind):
            return False
        starting, seconds = float(look.starting[at]), float(look.seconds[kind, at])
        left = seconds - starting
        more = at_most(look.matrix, at, left, memory.pace, memory.margin.now) - left
        return any(
            self.book.reserve_now(row, kind, self.view.now, seconds + part * more)
            for part in (spare, 0.0)
        )

    def gap(self, at: IntColumn) -> FloatColumn:
        """Seconds from when these jobs are given GPUs until they work on them."""
        gap: FloatColumn = self.look.gap[at] + self.memory.wait + self.memory.late
        return gap

    def gap_of(self, at: int) -> float:
        """The same of one job."""
        return float(self.look.gap[at] + self.memory.wait + self.memory.late)

    def need_of(self, gpu_type: int, at: int) -> float:
        """Seconds of work to be reserved for a job on this type."""
        look, memory = self.look, self.memory
        seconds, starting = float(look.anew[gpu_type, at]), float(look.starting[at])
        believed = believed_left(look.matrix, seconds, starting, at, gpu_type)
        return at_most(look.matrix, at, believed, memory.pace, memory.margin.now)

    def _drop(self, row: int, at: int) -> None:
        self.book.leave(np.array([row]))
        self.look.matrix[ROW, at] = 0.0

    def _learn(self, finish_by: float, *, kept: bool) -> None:
        """Adapt the margin: a guarantee was kept or broken."""
        if finish_by < np.inf:
            self.memory.margin.learn(kept=kept)

    def _adapt_to_checkpoints(self) -> None:
        """Know of the longest checkpoint of the jobs here, if all guarantees can be kept with it.

        Jobs with longer ones do not run: to take their GPUs away would take too long.
        """
        memory, longest = self.memory, self.look.longest_checkpoint
        if longest == memory.wait:
            return
        rows = self.book.rows
        rows = rows[~self.book.fixed[rows]]
        if longest < memory.wait or not len(rows):
            memory.wait = longest if not len(rows) else memory.wait
            return
        book, wait, memory.wait = copy.deepcopy(self.book), memory.wait, longest
        place = self.look.places(len(self.book.number))
        if not self._reserve_each(rows, place).all():
            memory.wait, memory.book = wait, book

    def reserve(self, at: int, row: int, finish_by: float) -> bool:
        """Reserve what a job needs to be through by then, on the first type where that is possible."""
        self.book.finish_by[row] = finish_by
        self.book.gap[row] = self.gap_of(at)
        over = bool(self.look.starts_over[at])
        if over and self._runs_on(row, at):
            return True
        for gpu_type in self.look.types(at):
            start = self.first_slot(at)
            goes_on = start == self.look.slot and self.look.runs_on(at, gpu_type)
            first_gap = float(self.look.starting[at] if goes_on else self.book.gap[row])
            need = self.need_of(gpu_type, at)
            if self.book.reserve(row, gpu_type, self.view.now, start, need, first_gap, over):
                return True
        return False

    def first_slot(self, at: int) -> int:
        """From which slot on a job can have GPUs: of a pool, from the next lease on if not now."""
        return (
            self.look.slot
            if self.look.fresh or self.look.matrix[POOL, at] < 0.0
            else self.look.slot + 1
        )

    def enter(self, at: int) -> int:
        """The row of a job that enters the book."""
        matrix = self.look.matrix
        return self.book.enter(self.look.number(at), float(self.counted[at]), int(matrix[POOL, at]))

    def _counted(self) -> FloatColumn:
        gpus: FloatColumn = self.look.matrix[GPUS]
        if not self.policy.rounded or not len(gpus):
            return gpus
        largest = int(self.view.resources.node_gpus.max())
        return np.array([float(round_up(math.ceil(wide), largest)) for wide in gpus.tolist()])
