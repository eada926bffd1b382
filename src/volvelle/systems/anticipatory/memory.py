"""What machine code of `anticipatory` knows beside the jobs: numbers in one array.

It begins with when to ask Python (`volvelle.core.policy.Kernel`, yields). Then come what
their jobs have in common, what pools own, what is expected, and notes of who came and who left, which are
taken in when Python is asked.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import COUNT, GPUS, POOL, SUBMIT
from volvelle.core.compiled import compiled, kernel

Floats = NDArray[np.float64]

NOTED, LANE = COUNT, COUNT + 1
"""Own columns: whether it is noted that the job came; the lane of a job that runs."""
NO_LANE, DEDICATED, BORROWED = 0.0, 1.0, 2.0

ASK_AT, WANTED_WAKE, POOLS, QUANTA, NOTES, ROOM, USED, STRANGE = range(8)
"""From when on Python decides; when it is to be woken; how many pools, quanta, notes, notes that fit and
queues there are; 1 once there was a job that no queue can hold."""
HEAD = STRANGE + 1
MOST_QUEUES = 512
"""The most queues: each of one pool, number of GPUs and quantum within which its jobs end."""
OWNED, LENDS, LEVEL, HERE = range(4)
_ROOM = 1024
NOTE = 3  # pool, time, and GPUs of who came or minus how many left


class Tables(NamedTuple):
    """Views of the array. by_pool: GPUs owned, whether it lends, level, jobs when it was last looked.

    by_queue: pool, GPUs, place of the quantum. expected, kept: GPUs, (quanta, pools). notes: (room, 3).
    """

    quanta: Floats
    by_queue: Floats
    by_pool: Floats
    expected: Floats
    kept: Floats
    notes: Floats


@kernel
def tables(words: Floats) -> Tables:
    """What stands where."""
    pools, quanta, room = int(words[POOLS]), int(words[QUANTA]), int(words[ROOM])
    queues = HEAD + quanta
    by_pool = queues + 3 * MOST_QUEUES
    expected = by_pool + 4 * pools
    kept = expected + quanta * pools
    notes = kept + quanta * pools
    return Tables(
        words[HEAD:queues],
        words[queues:by_pool].reshape((3, MOST_QUEUES)),
        words[by_pool:expected].reshape((4, pools)),
        words[expected:kept].reshape((quanta, pools)),
        words[kept:notes].reshape((quanta, pools)),
        words[notes : notes + NOTE * room].reshape((room, NOTE)),
    )


def _nothing() -> Floats:
    words = np.zeros(HEAD)
    words[ASK_AT] = -np.inf
    return words


@dataclass
class Memory:
    """The array as Python has it. ``words`` is another one where it had to grow."""

    words: Floats = field(default_factory=_nothing)

    def begin(self, quanta: Floats, owned: Floats, lends: NDArray[np.bool_]) -> None:
        """Nothing is noted yet, and nothing expected."""
        pools, many = len(owned), len(quanta)
        fixed = HEAD + many + 3 * MOST_QUEUES + (4 + 2 * many) * pools
        self.words = np.zeros(fixed + NOTE * _ROOM)
        self.words[[ASK_AT, WANTED_WAKE]] = np.inf
        self.words[[POOLS, QUANTA, ROOM]] = pools, many, _ROOM
        known = self.tables
        known.quanta[:] = quanta
        known.by_pool[OWNED], known.by_pool[LENDS] = owned, lends

    @property
    def tables(self) -> Tables:
        """Its parts."""
        return tables(self.words)

    def noted(self, matrix: Floats, now: float) -> Floats:
        """Who came and who left since this was last asked, (notes, 3)."""
        needed = int(self.words[NOTES]) + 2 * (matrix.shape[1] + int(self.words[POOLS])) + 1
        if (room := int(self.words[ROOM])) < needed:
            self.words = np.concatenate([self.words, np.zeros(NOTE * (2 * needed - room))])
            self.words[ROOM] = 2 * needed
        note(matrix, now, self.words)
        return self.take()

    @property
    def behind(self) -> bool:
        """Whether somebody may have come who is not noted, or is in no queue of their own."""
        full = self.words[NOTES] + 1 + self.words[POOLS] > self.words[ROOM]
        return bool(full or self.words[STRANGE] > 0.0)

    def take(self) -> Floats:
        """What was noted since this was last asked, (notes, 3)."""
        many = int(self.words[NOTES])
        self.words[NOTES] = 0.0
        return self.tables.notes[:many].copy()


@compiled
def note(matrix: Floats, now: float, words: Floats) -> None:
    """Note who came and who left since the last look; `NOTED` is written."""
    known = tables(words)
    here, notes, many = known.by_pool[HERE], known.notes, int(words[NOTES])
    for row in range(matrix.shape[1]):
        pool = int(matrix[POOL, row])
        if matrix[NOTED, row] == 0.0:
            matrix[NOTED, row] = 1.0
            if pool >= 0:
                here[pool] += 1.0
                notes[many, 0], notes[many, 1] = pool, matrix[SUBMIT, row]
                notes[many, 2] = matrix[GPUS, row]
                many += 1
        if pool >= 0:
            here[pool] -= 1.0
    for pool in range(len(here)):  # left over: who was there and is no more
        if here[pool] > 0.0:
            notes[many, 0], notes[many, 1], notes[many, 2] = pool, now, -here[pool]
            many += 1
        here[pool] = 0.0
    for row in range(matrix.shape[1]):
        if matrix[POOL, row] >= 0.0:
            here[int(matrix[POOL, row])] += 1.0
    words[NOTES] = many
