"""What machine code of these policies knows beside the jobs: numbers in one array.

A kernel (`volvelle.core.policy.Kernel`) that hands over begins it with when to ask Python. Then come what the
pools own, what is expected, and notes of who came and who left, which are taken when Python is asked next.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import COUNT, GPUS, POOL, SUBMIT
from volvelle.core.compiled import compiled, kernel
from volvelle.core.state import ASK_AT, MOST_JOBS, WANTED_WAKE

Floats = NDArray[np.float64]

NOTED = COUNT
"""Own column: whether it is noted that the job came."""

_POOLS, _QUANTA, PREEMPT, _NOTES, _HEAD = range(3, 8)
OWNED, LENDS, LEVEL, _HERE = range(4)
_ROOM = 1024
_NOTE = 3  # pool, time, and GPUs of who came or minus how many left


class Tables(NamedTuple):
    """Views of the array. by_pool: GPUs owned, whether it lends, level, jobs when it was last looked.

    expected, kept: GPUs, (quanta, pools). notes: (3, room), the first ``words[_NOTES]`` count.
    """

    quanta: Floats
    by_pool: Floats
    expected: Floats
    kept: Floats
    notes: Floats


@kernel
def tables(words: Floats) -> Tables:
    """What stands where."""
    pools, quanta = int(words[_POOLS]), int(words[_QUANTA])
    first = _HEAD + quanta
    second = first + 4 * pools
    third = second + quanta * pools
    last = third + quanta * pools
    return Tables(
        words[_HEAD:first],
        words[first:second].reshape((4, pools)),
        words[second:third].reshape((quanta, pools)),
        words[third:last].reshape((quanta, pools)),
        words[last:].reshape((_NOTE, (len(words) - last) // _NOTE)),
    )


class Memory:
    """The array as Python has it. ``words`` is another one where it had to grow."""

    def __init__(self) -> None:
        self.words = np.array([-np.inf, 0.0, np.inf])

    def begin(self, quanta: Floats, owned: Floats, lends: NDArray[np.bool_], preempt: bool) -> None:
        """Nothing is noted yet, and nothing expected."""
        pools, many = len(owned), len(quanta)
        fixed = _HEAD + many + 4 * pools + 2 * many * pools
        self.words = np.zeros(fixed + _NOTE * _ROOM)
        self.words[[ASK_AT, WANTED_WAKE]] = np.inf
        self.words[[_POOLS, _QUANTA, PREEMPT]] = pools, many, preempt
        known = self.tables
        known.quanta[:] = quanta
        known.by_pool[OWNED], known.by_pool[LENDS] = owned, lends

    @property
    def tables(self) -> Tables:
        """Its parts."""
        return tables(self.words)

    def noted(self, matrix: Floats, now: float) -> Floats:
        """Who came and who left since this was last asked, (3, notes), as in `Tables.notes`."""
        needed = int(self.words[_NOTES]) + 2 * (matrix.shape[1] + len(self.tables.by_pool[0])) + 1
        if (room := self.tables.notes.shape[1]) < needed:
            self._widen(2 * needed - room)
        note(matrix, now, self.words)
        many = int(self.words[_NOTES])
        self.words[_NOTES] = 0.0
        self.words[MOST_JOBS] += many
        return self.tables.notes[:, :many].copy()

    def _widen(self, more: int) -> None:
        notes = self.tables.notes
        wider = np.concatenate([notes, np.zeros((_NOTE, more))], axis=1)
        self.words = np.concatenate([self.words[: -notes.size], wider.ravel()])

    def __repr__(self) -> str:
        return f"Memory({self.words[: -self.tables.notes.size]!r})" if len(self.words) > 3 else ""


@compiled
def note(matrix: Floats, now: float, words: Floats) -> None:
    """Note who came and who left since the last look; `NOTED` is written."""
    known = tables(words)
    here, notes, many = known.by_pool[_HERE], known.notes, int(words[_NOTES])
    for row in range(matrix.shape[1]):
        pool = int(matrix[POOL, row])
        if matrix[NOTED, row] == 0.0:
            matrix[NOTED, row] = 1.0
            if pool >= 0:
                here[pool] += 1.0
                notes[0, many], notes[1, many] = pool, matrix[SUBMIT, row]
                notes[2, many] = matrix[GPUS, row]
                many += 1
        if pool >= 0:
            here[pool] -= 1.0
    for pool in range(len(here)):  # left over: who was there and is no more
        if here[pool] > 0.0:
            notes[0, many], notes[1, many], notes[2, many] = pool, now, -here[pool]
            many += 1
        here[pool] = 0.0
    for row in range(matrix.shape[1]):
        if matrix[POOL, row] >= 0.0:
            here[int(matrix[POOL, row])] += 1.0
    words[_NOTES] = many
    words[MOST_JOBS] = notes.shape[1] - many - len(here)
