"""The state as a block of words: where the words of each table, array and kernel are.

Of a table: the address and the step in bytes of its columns of floats and of ints, and its length. Of an
array: its address, then length and step of each dimension. Of a kernel: the address of its machine code.
"""

from typing import Any

from volvelle.core.state import (
    ARRAYS,
    TABLES,
    Floats,
    Ints,
    Jobs,
    State,
)

WORD = 8
"""Bytes of a word, as of every number."""
TABLE_WORDS = 5
"""Words of a table."""

KERNELS: dict[str, tuple[Any, ...]] = {
    "key": (None, Jobs, Ints, int, int, float, Floats),
    "group": (int, State, int),
    "decide": (float, State),
    "place": (int, State, int, int),
    "learn": (int, State, int),
}
"""Signatures of the kernels of policies and placements: `volvelle.core.policy`, `volvelle.core.parts`."""


def _places() -> dict[str, int]:
    places, at = {}, 0
    for name in TABLES:
        places[name], at = at, at + TABLE_WORDS
    for name, (_, _, dimensions) in ARRAYS.items():
        places[name], at = at, at + 1 + 2 * dimensions
    for name in KERNELS:
        places[name], at = at, at + 1
    return places


PLACES = _places()
"""Where the words of each begin."""


def words_of(array: Any) -> list[int]:
    """The words of an array of NumPy."""
    words = [array.ctypes.data]
    for size, step in zip(array.shape, array.strides, strict=True):
        words += [size, step]
    return words
