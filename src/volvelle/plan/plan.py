"""A plan: the GPUs of each job in each slot of a window.

A **slot** is a round or a lease: a stretch of time in which holdings do not change. A **window** is some
slots, one after another.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import BoolColumn, FloatColumn, IntColumn
from volvelle.model.tolerances import WHOLE_NUMBER, WHOLE_ROUND

BoolTable = NDArray[np.bool_]
Numbers = NDArray[np.int64 | np.float64]
IntTable = NDArray[np.int64]


class Window(NamedTuple):
    """``slots`` slots of ``slot_seconds`` each, from ``start`` (seconds) on."""

    start: float
    slot_seconds: float
    slots: int

    @property
    def end(self) -> float:
        """When the last slot is over, seconds."""
        return self.begin(self.slots)

    def begin(self, slot: int) -> float:
        """When ``slot`` begins, seconds; the first is 0."""
        return self.start + slot * self.slot_seconds

    def slot(self, when: float) -> int:
        """The slot in which ``when`` is: below 0 before the window, `slots` or more after it."""
        return int(np.floor((when - self.start) / self.slot_seconds + WHOLE_NUMBER))


@dataclass(eq=False)
class Plan:
    """GPUs by job and slot of ``window``.

    number: (jobs,) the jobs. gpus: (jobs, slots) GPUs of each in each slot. types: (jobs, slots) of which
    GPU type, -1 where none are held; None where there is one type, or it does not matter. All are read-only
    afterwards, so that copies of a plan (a fork of a scheduler has one) are the plan itself. Raises
    ValueError where shapes do not fit together, a number of GPUs is negative, or a job is there twice.
    """

    window: Window
    number: Numbers
    gpus: FloatColumn
    types: IntTable | None = None

    def __post_init__(self) -> None:
        window, number, gpus, types = self.window, self.number, self.gpus, self.types
        if gpus.shape != (len(number), window.slots):
            raise ValueError(
                f"a plan of {len(number)} jobs and {window.slots} slots needs as many numbers of GPUs, "
                f"not {gpus.shape}"
            )
        if types is not None and types.shape != gpus.shape:
            raise ValueError(f"a plan of {gpus.shape} has types of {types.shape}")
        if not (gpus >= 0.0).all():
            raise ValueError("a plan cannot give fewer than no GPUs")
        self.number = number.astype(np.int64)
        self.gpus = gpus.astype(np.float64)
        self.types = None if types is None else types.astype(np.int64)
        self._order = np.argsort(self.number, kind="stable")
        ascending = self.number[self._order]
        if (ascending[1:] == ascending[:-1]).any():
            raise ValueError("a plan has a row for each job, and a job is in it twice")
        self.number.flags.writeable = self.gpus.flags.writeable = False
        if self.types is not None:
            self.types.flags.writeable = False

    @classmethod
    def of_cells(
        cls, window: Window, number: Numbers, gpus: FloatColumn, held: BoolTable
    ) -> "Plan":
        """A plan by who holds the ``gpus`` of its gang in which cells, (jobs, slots * types).

        A slot has a cell for each GPU type, cell ``slot * types + type``. With one type a plan names none.
        """
        if held.shape[1] == window.slots:
            return cls(window, number, held * gpus[:, None])
        cells = held.reshape(len(held), window.slots, -1)
        some = cells.any(axis=2)
        return cls(window, number, some * gpus[:, None], np.where(some, cells.argmax(axis=2), -1))

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __len__(self) -> int:
        return len(self.number)

    def covers(self, when: float) -> bool:
        """Whether ``when`` is in the plan's window."""
        return 0 <= self.window.slot(when) < self.window.slots

    def held_at(self, slot: int) -> FloatColumn:
        """(jobs,) GPUs in ``slot``, in the order of `number`. Raises IndexError outside the window."""
        if not 0 <= slot < self.window.slots:
            raise IndexError(f"slot {slot} of a plan of {self.window.slots} slots")
        held: FloatColumn = self.gpus[:, slot]
        return held

    def rows_of(self, number: Numbers) -> IntColumn:
        """(len(number),) the rows of these jobs; -1 where the plan has no row of one."""
        rows = np.full(len(number), -1, dtype=np.int64)
        if len(self.number):
            ascending = self.number[self._order]
            at = np.minimum(np.searchsorted(ascending, number), len(ascending) - 1)
            rows = np.where(ascending[at] == number, self._order[at], -1)
        return rows

    def held_by(self, number: Numbers, slot: int) -> FloatColumn:
        """(len(number),) GPUs that these jobs hold in ``slot``; 0 for those not in the plan."""
        rows = self.rows_of(number)
        held = np.zeros(len(number))
        held[rows >= 0] = self.held_at(slot)[rows[rows >= 0]]
        return held

    def types_by(self, number: Numbers, slot: int) -> IntColumn:
        """(len(number),) of which GPU type; -1 for those without GPUs, and where the plan names none."""
        rows = self.rows_of(number)
        types = np.full(len(number), -1, dtype=np.int64)
        if self.types is not None:
            types[rows >= 0] = self.types[rows[rows >= 0], slot]
        return types

    def rounds_by_type(self, types: int) -> IntTable:
        """(jobs, types) slots in which each holds GPUs of each type; of one, where the plan names none."""
        held = [self.gpus > 0.0]
        if self.types is not None:
            held = [self.types == kind for kind in range(types)]
        rounds: IntTable = np.stack([one.sum(axis=1) for one in held], axis=1)
        return rounds

    def over(self, window: Window, number: Numbers) -> FloatColumn:
        """(len(number), window.slots) GPUs that these jobs hold in the slots of another window.

        0 where this plan says nothing. Slots of both are as long, and begin at the same times. Raises
        ValueError where they do not.
        """
        shift = (window.start - self.window.start) / self.window.slot_seconds
        first = round(shift)
        if window.slot_seconds != self.window.slot_seconds or abs(shift - first) > WHOLE_ROUND:
            raise ValueError(f"the slots of {window} are not those of {self.window}")
        gpus = np.zeros((len(number), window.slots))
        rows = self.rows_of(number)
        begin, end = max(first, 0), min(first + window.slots, self.window.slots)
        if begin < end and len(self):
            known = rows >= 0
            gpus[known, begin - first : end - first] = self.gpus[rows[known], begin:end]
        return gpus

    def next_change(self, slot: int) -> int:
        """The first slot after ``slot`` with other holdings; the window's end if none."""
        after: BoolColumn = (self.gpus[:, slot + 1 :] != self.gpus[:, slot, None]).any(axis=0)
        if self.types is not None:
            after |= (self.types[:, slot + 1 :] != self.types[:, slot, None]).any(axis=0)
        changes = np.flatnonzero(after)
        return slot + 1 + int(changes[0]) if len(changes) else self.window.slots

    def check(self, capacity: FloatColumn | float) -> None:
        """Raise ValueError where a slot has more GPUs than ``capacity`` (one number, or one by slot)."""
        taken, there = self.gpus.sum(axis=0), np.broadcast_to(capacity, self.window.slots)
        over = np.flatnonzero(taken > there)
        if len(over):
            slot = int(over[0])
            raise ValueError(f"slot {slot} of a plan has {taken[slot]:g} of {there[slot]:g} GPUs")
