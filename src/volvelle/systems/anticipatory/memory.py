"""The memory of `anticipatory` beside the jobs: one array of numbers, and the names of its parts.

The array begins with single numbers. Then come the quanta, the kinds of jobs seen so far, numbers of each
pool, expected GPUs, and notes of arrivals and departures, which are read at the next prediction.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from volvelle.core.columns import COUNT
from volvelle.core.compiled import kernel
from volvelle.model.arrays import Floats

NOTED, ROLE = COUNT, COUNT + 1
"""Own columns: whether the arrival of the job is noted; the role of a running job."""
NO_ROLE, DEDICATED, BORROWED = 0.0, 1.0, 2.0

ASK_AT, BEHIND, PREEMPT, BOUNDED, POOLS, QUANTA, KINDS, USED, ROOM, NOTES = range(10)
"""When predictions are due; 1 where kinds or notes need more room; two parameters of the policy; how many
pools, quanta, kinds that fit, kinds, notes that fit and notes there are."""
HEAD = NOTES + 1

KIND_POOL, KIND_GPUS, KIND_MOST, KIND_TYPES, KIND_WITHIN, KIND_STOPS, KIND_NEXT = range(7)
"""Of a kind: pool, GPUs, the most that its jobs could use, GPU types, the place of the quantum within which
they end, whether its jobs may be stopped, the next kind of its pool (-1: none)."""
LEVEL, HERE, FIRST = range(3)
"""Of a pool: its level, its jobs at the last decision, its first kind."""
_KINDS, _ROOM = 512, 1024


class Tables(NamedTuple):
    """Views of the array. kinds: (kinds, 7). by_pool: (3, pools + 1), the last for jobs of no pool.

    expected, kept: GPUs, (quanta, pools). notes: (room, 3), pool, time, and GPUs of an arrival or minus the
    number of departures.
    """

    quanta: Floats
    kinds: Floats
    by_pool: Floats
    expected: Floats
    kept: Floats
    notes: Floats


@kernel
def tables(words: Floats) -> Tables:
    """The parts of the array."""
    pools, quanta = int(words[POOLS]), int(words[QUANTA])
    kinds = HEAD + quanta
    by_pool = kinds + 7 * int(words[KINDS])
    expected = by_pool + 3 * (pools + 1)
    kept = expected + quanta * pools
    notes = kept + quanta * pools
    return Tables(
        words[HEAD:kinds],
        words[kinds:by_pool].reshape((int(words[KINDS]), 7)),
        words[by_pool:expected].reshape((3, pools + 1)),
        words[expected:kept].reshape((quanta, pools)),
        words[kept:notes].reshape((quanta, pools)),
        words[notes:].reshape((int(words[ROOM]), 3)),
    )


def _words(pools: int, quanta: int, kinds: int, room: int) -> Floats:
    size = HEAD + quanta + 7 * kinds + 3 * (pools + 1) + 2 * quanta * pools + 3 * room
    words = np.zeros(size)
    words[[POOLS, QUANTA, KINDS, ROOM]] = pools, quanta, kinds, room
    return words


@dataclass
class Memory:
    """The array as Python has it. ``words`` is another one where it had to grow."""

    words: Floats = field(default_factory=lambda: _words(0, 0, _KINDS, 0))

    def begin(self, quanta: Floats, pools: int, preempt: bool, bounded: bool) -> None:
        """Nothing is noted yet, and nothing expected."""
        self.words = _words(pools, len(quanta), _KINDS, _ROOM + 2 * pools)
        self.words[[PREEMPT, BOUNDED]] = preempt, bounded
        known = self.tables
        known.quanta[:] = quanta
        known.by_pool[FIRST] = -1.0

    @property
    def tables(self) -> Tables:
        """Its parts."""
        return tables(self.words)

    @property
    def kinds(self) -> int:
        """How many kinds fit."""
        return int(self.words[KINDS])

    def take(self) -> Floats:
        """The notes since the last call, (notes, 3); twice the room afterwards where that did not suffice."""
        many, behind = int(self.words[NOTES]), self.words[BEHIND] > 0.0
        notes = self.tables.notes[:many].copy() if many or behind else np.zeros((0, 3))
        self.words[NOTES] = 0.0
        if behind:
            before = self.words
            pools, quanta, kinds, room = before[[POOLS, QUANTA, KINDS, ROOM]].astype(int).tolist()
            self.words = _words(pools, quanta, 2 * kinds, 2 * room)
            self.words[[ASK_AT, PREEMPT, BOUNDED, USED]] = before[[ASK_AT, PREEMPT, BOUNDED, USED]]
            for mine, old in zip(self.tables, tables(before), strict=True):
                mine[: len(old)] = old
        return notes
