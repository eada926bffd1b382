"""Reservations: in which slots jobs are to have their GPUs, so that they end by what they are guaranteed.

A **slot** is a best-effort lease. A job with a reservation has the GPUs of its gang, of one type, in each of
its slots; the slots follow one another or not. Its work in a **run** of slots without a break is
their time less a **gap**: what a start or restore costs it, and the wait until GPUs are free. Reservations
are as late as they can be: so they say who has to run now, and leave the next slots to jobs that come with
less time. A job that starts over when it is stopped has one run, of all its work, which begins now once it
runs and there is room for that.

What is reserved fits: in no slot do reservations hold more GPUs than there are, unless GPUs are lost.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled, kernel
from volvelle.model.arrays import BoolColumn, Bools, FloatColumn, Floats, IntColumn
from volvelle.model.tolerances import SAME_MOMENT, WHOLE_ROUND
from volvelle.systems.chronus.standing import Booked

_ROWS, _SLOTS = 64, 256
"""Room for reservations and slots to begin with."""


@dataclass
class Reservations:
    """Rows, one for each job with a reservation or a guarantee, and what they leave free.

    ``slot_seconds``: of each slot; slot k begins at ``k * slot_seconds``. ``first``: the slot of the first
    column. ``free``: (types, slots) GPUs. ``held``: (rows, slots) whether a row's job has its GPUs then.
    By row: ``number`` of the job (-1: unused), ``gpus``, ``type``, ``pool`` (-1: none), ``finish_by`` in
    seconds (infinite: nothing is guaranteed), ``gap`` in seconds, ``fixed`` where its slots are not to
    change, ``some`` where it has any.
    """

    slot_seconds: float
    capacity: FloatColumn
    first: int = 0
    free: Floats = field(init=False)
    held: Bools = field(default_factory=lambda: np.zeros((_ROWS, _SLOTS), dtype=np.bool_))
    number: IntColumn = field(default_factory=lambda: np.full(_ROWS, -1, dtype=np.int64))
    gpus: FloatColumn = field(default_factory=lambda: np.zeros(_ROWS))
    type: IntColumn = field(default_factory=lambda: np.zeros(_ROWS, dtype=np.int64))
    pool: IntColumn = field(default_factory=lambda: np.full(_ROWS, -1, dtype=np.int64))
    finish_by: FloatColumn = field(default_factory=lambda: np.zeros(_ROWS))
    gap: FloatColumn = field(default_factory=lambda: np.zeros(_ROWS))
    fixed: BoolColumn = field(default_factory=lambda: np.zeros(_ROWS, dtype=np.bool_))
    some: BoolColumn = field(default_factory=lambda: np.zeros(_ROWS, dtype=np.bool_))

    def __post_init__(self) -> None:
        if not hasattr(self, "free"):
            self.free = np.repeat(self.capacity[:, None], self.held.shape[1], axis=1)

    @property
    def rows(self) -> IntColumn:
        """The rows that are in use."""
        return np.flatnonzero(self.number >= 0)

    def booked(self, slot: int) -> Booked:
        """The columns for loops over jobs."""
        held = np.ascontiguousarray(self.held[:, slot - self.first])
        return Booked(held, self.number, self.type, self.some, self.fixed)

    def begin(self, slot: int) -> None:
        """Slots before this one are over."""
        self.first = forget_passed(self.free, self.held, self.some, self.capacity, self.first, slot)

    def reach(self, time: float) -> None:
        """Have room for slots until ``time``."""
        self._reach_slot(int(time / self.slot_seconds) + 2)

    def _reach_slot(self, end: int) -> None:
        self.widen(wide_enough(self.held.shape[1], end - self.first))

    def widen(self, width: int) -> None:
        """Have so many slots."""
        more = width - self.held.shape[1]
        if not more:
            return
        self.held = np.pad(self.held, ((0, 0), (0, more)))
        late = np.repeat(self.capacity[:, None], more, axis=1)
        self.free = np.concatenate([self.free, late], axis=1)

    def enter(self, number: int, gpus: float, pool: int) -> int:
        """A row for a job, without slots."""
        row = int(self.number.argmin())
        if self.number[row] >= 0:
            row = rows = len(self.number)
            self.held = np.pad(self.held, ((0, rows), (0, 0)))
            for name in ("number", "gpus", "type", "pool", "finish_by", "gap", "fixed", "some"):
                setattr(self, name, np.pad(getattr(self, name), (0, rows)))
            self.number[rows:] = -1
        self.number[row], self.gpus[row], self.pool[row] = number, gpus, pool
        self.finish_by[row], self.gap[row], self.fixed[row] = np.inf, 0.0, False
        return row

    def leave(self, rows: IntColumn) -> None:
        """These jobs need nothing any more."""
        self.free_all(rows)
        self.number[rows] = -1

    def reserve(
        self,
        row: int,
        gpu_type: int,
        now: float,
        start: int,
        need: float,
        first_gap: float,
        one_run: bool,
    ) -> bool:
        """Let a job have the latest free slots from ``start`` on in which it does ``need`` seconds of work in
        time; whether there are such. Without them it has none afterwards.

        first_gap: what a run that begins with slot ``start`` costs it, seconds: less than its gap where it
        runs on GPUs of this type already. one_run: its slots are to follow one another.
        """
        if self.some[row]:
            give_back(self.free[self.type[row]], self.held[row], self.gpus[row])
        self.reach(self.finish_by[row])
        self.type[row] = gpu_type
        self.some[row] = able = reserve_late(
            self.free[gpu_type],
            self.held[row],
            self.first,
            self.slot_seconds,
            now,
            start,
            self.finish_by[row],
            self.gpus[row],
            need,
            self.gap[row],
            first_gap,
            one_run,
        )
        return able

    def reserve_each(
        self,
        rows: IntColumn,
        now: float,
        start: int,
        need: FloatColumn,
        first_gap: FloatColumn,
        one_run: BoolColumn,
    ) -> BoolColumn:
        """`reserve` for these rows on their types, one after another; (rows,) whether there is room."""
        if len(rows):
            self.reach(float(self.finish_by[rows].max()))
        able = reserve_each_late(
            self.free,
            self.held,
            rows,
            self.type,
            self.first,
            self.slot_seconds,
            now,
            start,
            self.finish_by,
            self.gpus,
            need,
            self.gap,
            first_gap,
            one_run,
        )
        self.some[rows] = able
        return able

    def earliest(
        self,
        gpu_type: int,
        now: float,
        start: int,
        gpus: float,
        need: float,
        gap: float,
        one_run: bool,
    ) -> float:
        """When a job could be through that has GPUs whenever they are free from slot ``start`` on."""
        if gpus > self.capacity[gpu_type]:
            return float(np.inf)
        return earliest_finish(
            self.free[gpu_type], self.first, self.slot_seconds, now, start, gpus, need, gap, one_run
        )

    def reserve_now(self, row: int, gpu_type: int, now: float, seconds: float) -> bool:
        """Let a job that is not interrupted have its GPUs from now on for so long; whether they are free.

        Where they are not, what it had stays.
        """
        self.reach(now + seconds)
        begin = int(now / self.slot_seconds + WHOLE_ROUND)
        end = max(int(np.ceil((now + seconds) / self.slot_seconds - WHOLE_ROUND)), begin + 1)
        slots = slice(begin - self.first, end - self.first)
        own = self.held[row, slots] & (self.type[row] == gpu_type)
        if ((self.free[gpu_type, slots] < self.gpus[row]) & ~own).any():
            return False
        self.free_all(np.array([row]))
        self.type[row] = gpu_type
        self.free[gpu_type, slots] -= self.gpus[row]
        self.held[row, slots] = self.some[row] = True
        return True

    def free_all(self, rows: IntColumn) -> None:
        """Take their slots from these jobs."""
        for row in rows[self.some[rows]].tolist():
            give_back(self.free[self.type[row]], self.held[row], self.gpus[row])
        self.some[rows] = False

    def free_in(self, slot: int, slots: int) -> FloatColumn:
        """(slots,) GPUs of all types that are free from ``slot`` on."""
        self._reach_slot(slot + slots)
        free: FloatColumn = self.free[:, slot - self.first : slot - self.first + slots].sum(axis=0)
        return free

    def share(self, slot: int, until: float) -> float:
        """Which share of the GPUs' time from ``slot`` until then is reserved."""
        slots = max(int(np.ceil(until / self.slot_seconds - WHOLE_ROUND)) - slot, 1)
        there = self.capacity.sum()
        return 1.0 - float(self.free_in(slot, slots).mean() / there) if there else 1.0

    def first_with_room(
        self, slot: int, now: float, earliest: float, work: float, rate: float
    ) -> float:
        """The first time, not before ``earliest``, until which there `has_room`; infinite without one."""
        if not np.isfinite(earliest) or self.has_room(slot, now, earliest, work, rate):
            return earliest
        slots = self.first + self.held.shape[1] - slot
        free = np.cumsum(self.free_in(slot, slots)) / np.arange(1, slots + 1)
        late = (slot + np.arange(1, slots + 1)) * self.slot_seconds
        able = late[(work / (late - now) + rate <= free) & (late >= earliest)]
        return float(able[0]) if len(able) else float(np.inf)

    def has_room(self, slot: int, now: float, until: float, work: float, rate: float) -> bool:
        """Whether ``work`` GPU-seconds and ``rate`` GPUs are free until then; always if rate is 0."""
        if rate == 0.0:
            return True
        free = self.capacity.sum() * (1.0 - self.share(slot, until))
        return until > now and bool(work / (until - now) + rate <= free)

    def resize(self, capacity: FloatColumn) -> bool:
        """Take new numbers of GPUs; whether all reservations still fit."""
        self.free += (capacity - self.capacity)[:, None]
        self.capacity = capacity.copy()
        return bool((self.free >= 0.0).all())


@kernel
def wide_enough(width: int, needed: int) -> int:
    """How many slots a book of so many has once it has those that are needed."""
    return width if needed <= width else max(needed, 2 * width)


@compiled
def forget_passed(
    free: Floats, held: Bools, some: Bools, capacity: Floats, first: int, slot: int
) -> int:
    """The slot of the first column once ``slot`` begins; slots that are over are forgotten, in place."""
    passed, width = slot - first, held.shape[1]
    if passed < width // 2:
        return first
    kept = max(width - passed, 0)
    held[:, :kept] = held[:, width - kept :].copy()
    held[:, kept:] = False
    free[:, :kept] = free[:, width - kept :].copy()
    for kind in range(len(free)):
        free[kind, kept:] = capacity[kind]
    for row in range(len(held)):
        some[row] = held[row].any()
    return slot


@compiled
def give_back(free: Floats, held: Bools, gpus: float) -> None:
    """Free the slots of one job, in place."""
    for slot in range(len(held)):
        if held[slot]:
            held[slot] = False
            free[slot] += gpus


@compiled
def reserve_late(
    free: Floats,
    held: Bools,
    first: int,
    slot_seconds: float,
    now: float,
    start: int,
    finish_by: float,
    gpus: float,
    need: float,
    gap: float,
    first_gap: float,
    one_run: bool,
) -> bool:
    """`Reservations.reserve` for a job without slots; in place."""
    done, run = 0.0, 0.0
    slot = int(np.ceil(finish_by / slot_seconds - WHOLE_ROUND)) - 1
    while slot >= start:
        at = slot - first
        usable = min((slot + 1) * slot_seconds, finish_by) - max(slot * slot_seconds, now)
        if usable > 0.0 and free[at] >= gpus:
            held[at] = True
            run += usable
            cost = first_gap if slot == start else gap
            if done + run - cost >= need - SAME_MOMENT:
                for each in range(at, len(held)):
                    if held[each]:
                        free[each] -= gpus
                return True
        elif run > 0.0:
            if run > gap and not one_run:
                done += run - gap
            else:
                each = at + 1
                while each < len(held) and held[each]:
                    held[each] = False
                    each += 1
            run = 0.0
        slot -= 1
    held[:] = False
    return False


@compiled
def reserve_each_late(
    free: Floats,
    held: Bools,
    rows: NDArray[np.int64],
    types: NDArray[np.int64],
    first: int,
    slot_seconds: float,
    now: float,
    start: int,
    finish_by: Floats,
    gpus: Floats,
    need: Floats,
    gap: Floats,
    first_gap: Floats,
    one_run: Bools,
) -> Bools:
    """`Reservations.reserve_each`; ``need``, ``first_gap`` and ``one_run`` are of ``rows`` only."""
    able = np.zeros(len(rows), dtype=np.bool_)
    for i in range(len(rows)):
        row = rows[i]
        of_type = free[types[row]]
        end = int(np.ceil(finish_by[row] / slot_seconds - WHOLE_ROUND)) - first
        before = held[row, : max(end, 0)]  # it has no other slots
        give_back(of_type, before, gpus[row])
        able[i] = reserve_late(
            of_type,
            before,
            first,
            slot_seconds,
            now,
            start,
            finish_by[row],
            gpus[row],
            need[i],
            gap[row],
            first_gap[i],
            one_run[i],
        )
    return able


@compiled
def earliest_finish(
    free: Floats,
    first: int,
    slot_seconds: float,
    now: float,
    start: int,
    gpus: float,
    need: float,
    gap: float,
    one_run: bool,
) -> float:
    """`Reservations.earliest`."""
    done, begun = 0.0, np.inf
    for slot in range(start, first + len(free)):
        if free[slot - first] < gpus:
            if begun < np.inf:
                done += 0.0 if one_run else max(slot * slot_seconds - begun - gap, 0.0)
                begun = np.inf
            continue
        begun = min(begun, max(slot * slot_seconds, now))
        if done + (slot + 1) * slot_seconds - begun - gap >= need:
            return float(begun + gap + need - done)
    begun = min(begun, max((first + len(free)) * slot_seconds, start * slot_seconds, now))
    return float(begun + gap + need - done)
