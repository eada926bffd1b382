"""The keys of the plain orders as a compiled loop computes them, for policies that offer it.

Each equals what the policy's `key` says in NumPy over `JobView`, to the last bit; a test holds them together.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import Column
from volvelle.core.compiled import compiled

Floats = NDArray[np.float64]

TIE_SECONDS = 1e-6
"""Remaining service is equal below this many seconds a GPU."""


class Key(IntEnum):
    """What an order sorts by, smallest first."""

    SUBMISSION = 0
    GPUS = 1
    TOTAL_SECONDS = 2
    REMAINING_SECONDS = 3
    REMAINING_SERVICE = 4
    ATTAINED_SECONDS = 5
    ATTAINED_SERVICE = 6


# Numba folds module-level integers into the code; it cannot read class attributes.
_SUBMISSION = int(Key.SUBMISSION)
_BY_GPUS = int(Key.GPUS)
_TOTAL_SECONDS = int(Key.TOTAL_SECONDS)
_REMAINING_SECONDS = int(Key.REMAINING_SECONDS)
_REMAINING_SERVICE = int(Key.REMAINING_SERVICE)
_ATTAINED_SECONDS = int(Key.ATTAINED_SECONDS)
_NUMBER = Column.NUMBER
_GPUS = Column.GPUS
_MOST = Column.MOST
_HELD = Column.HELD
_STARTED = Column.STARTED
_PROGRESS_FROM = Column.PROGRESS_FROM
_ATTAINED = Column.ATTAINED
_ATTAINED_GPU = Column.ATTAINED_GPU
_DONE = Column.DONE
_RATE = Column.RATE
_TOTAL = Column.TOTAL
_SCALE = Column.SCALE
_FULL_RATE = Column.FULL_RATE


@compiled
def keys_of(key: int, matrix: Floats, jobs: int, now: float) -> Floats:
    """The `Key` called ``key`` of the first ``jobs`` jobs of ``matrix`` at ``now``."""
    keys = np.empty(jobs)
    for row in range(jobs):
        if key == _SUBMISSION:
            keys[row] = matrix[_NUMBER, row]
        elif key == _BY_GPUS:
            keys[row] = matrix[_GPUS, row]
        elif key == _TOTAL_SECONDS:
            keys[row] = matrix[_TOTAL, row] * matrix[_SCALE, row] / matrix[_FULL_RATE, row]
        elif key in (_REMAINING_SECONDS, _REMAINING_SERVICE):
            worked = max(now - matrix[_PROGRESS_FROM, row], 0.0)
            done = matrix[_DONE, row] + worked * matrix[_RATE, row]
            left = max(matrix[_TOTAL, row] - done, 0.0) * matrix[_SCALE, row]
            seconds = left / matrix[_FULL_RATE, row]
            if key == _REMAINING_SERVICE:
                seconds = (seconds + TIE_SECONDS) * matrix[_MOST, row]
            keys[row] = seconds
        else:
            held_for = max(now - matrix[_STARTED, row], 0.0)
            if key == _ATTAINED_SECONDS:
                running = held_for if matrix[_HELD, row] > 0.0 else 0.0
                keys[row] = running + matrix[_ATTAINED, row]
            else:
                keys[row] = held_for * matrix[_HELD, row] + matrix[_ATTAINED_GPU, row]
    return keys
