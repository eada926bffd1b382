"""The forward loop as machine code, over the arrays of one state.

To machine code the state is a block of words (`volvelle.core.machine_code.words`), which `Machine` writes.
Kernels of policies and placements are functions of one fixed type each, whose addresses are words too: the
loop is compiled once for all of them.
"""

import struct
from collections.abc import Callable
from functools import cache, lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core import columns
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE
from volvelle.core.forward.advance import advance
from volvelle.core.forward.believe import believe, expect_ends
from volvelle.core.forward.foresee import foresee
from volvelle.core.machine_code.kernels import names_in
from volvelle.core.machine_code.loading import address, called
from volvelle.core.machine_code.words import KERNELS, PLACES, WORD, words_of
from volvelle.core.state import (
    ARRAYS,
    COLUMNS,
    KNOWN_COLUMNS,
    TABLES,
    Cube,
    Floats,
    Ints,
    Jobs,
    Pools,
    Rules,
    State,
    Types,
    array_of,
)

_CURVE = Jobs.float_columns.index("curve")
_ADVANCE = int, State, Rules, float, int
_BELIEVE = None, State
_FORESEE = int, State, State, Rules, Rules, Floats, Ints
"""Signatures of the loops."""
LOOP = advance, _ADVANCE
"""The forward loop, without which nothing runs as machine code."""

_columns = np.arange(KNOWN_COLUMNS)
"""In the place of those that a policy looks at."""


@kernel
def _decide(
    matrix: Any, now: float, capacity: Any, quota: Any, rates: Any, parameters: Any, given: Any
) -> None:
    """In the place of a policy's own (`volvelle.core.policy.Kernel`)."""


def _allocate(
    jobs: Jobs,
    rows: Ints,
    many: int,
    now: float,
    gpu_types: Types,
    pools: Pools,
    rates: Cube,
    parameters: Floats,
) -> None:
    """Hand a policy its arrays, and take what it decides and writes to columns of its own."""
    own = len(jobs.floats) - COLUMNS
    matrix = np.empty((KNOWN_COLUMNS + own, many))
    for i in range(many):
        row = rows[i]
        for place in _columns:
            matrix[place, i] = jobs.floats[place][row]
        for column in range(own):
            matrix[KNOWN_COLUMNS + column, i] = jobs.floats[COLUMNS + column][row]
        matrix[_CURVE, i] = jobs.table[row]
    capacity, quota = np.empty(len(gpu_types.capacity)), np.empty(len(pools.quota))
    for gpu_type in range(len(capacity)):
        capacity[gpu_type] = gpu_types.capacity[gpu_type]
    for pool in range(len(quota)):
        quota[pool] = pools.quota[pool]
    table = np.zeros((0, 0, 0))
    if len(rates) > 0:
        table = array_of(rates)
    given = np.zeros((4, many))
    given[3] = np.arange(many)
    _decide(matrix, now, capacity, quota, table, array_of(parameters), given)
    by_submission = np.empty(many, np.int64)
    for i in range(many):
        row = rows[i]
        by_submission[i] = row
        for column in range(own):
            jobs.floats[COLUMNS + column][row] = matrix[KNOWN_COLUMNS + column, i]
        jobs.target[row] = given[TARGET, i]
        jobs.target_type[row] = given[TARGET_TYPE, i]
        jobs.reason[row] = given[TARGET_REASON, i]
    for i in range(many):
        rows[i] = by_submission[int(given[3, i])]


@cache
def allocating(decide: Any) -> Callable[..., None]:
    """The kernel that lets a policy's ``decide`` allocate."""
    read = names_in(decide)
    looked_at = [place for name, place in vars(columns).items() if name in read and name != "COUNT"]
    names = {**_allocate.__globals__, "_decide": decide, "_columns": np.array(looked_at)}
    made = FunctionType(_allocate.__code__, names, f"{decide.__name__}_allocates")
    made.__module__, made.__qualname__ = decide.__module__, made.__name__
    return kernel(made)


class Machine:
    """Machine code for one state over arrays; to be made anew where an array was replaced."""

    def __init__(self, s: State) -> None:
        self._state = s
        words: list[int] = []
        for name in TABLES:
            table = getattr(s, name)
            for part in (table.floats, table.ints):
                words += [part.ctypes.data, len(part) * WORD]
            words.append(len(table))
        for name in ARRAYS:
            words += words_of(getattr(s, name))
        loops = {name: getattr(s, name, None) for name in KERNELS}  # None: the rules never call it
        words += [address(loop, KERNELS[name]) if loop else 0 for name, loop in loops.items()]
        self._words = np.array(words, dtype=np.int64)
        self._at = self._words.ctypes.data

    def replaced(self, *names: str) -> None:
        """These arrays of the state are others now."""
        for name in names:
            words = words_of(getattr(self._state, name))
            self._words[PLACES[name] : PLACES[name] + len(words)] = words

    def advance(self, rules: Rules, until: float, moments: int) -> int:
        """`volvelle.core.forward.advance.advance` as machine code."""
        written = _written(rules)
        return int(called(advance, _ADVANCE)(self._at, written.ctypes.data, until, moments))

    def believe(self) -> None:
        """`volvelle.core.forward.believe.believe` as machine code."""
        called(believe, _BELIEVE)(self._at)

    def expect_ends(self) -> None:
        """`volvelle.core.forward.believe.expect_ends` as machine code."""
        called(expect_ends, _BELIEVE)(self._at)

    def foresee(
        self, ahead: "Machine", rules: Rules, future: Rules, predicted: Any, told: Any
    ) -> int:
        """`volvelle.core.forward.foresee.foresee` as machine code."""
        now, then = _written(rules), _written(future)
        arrays = *words_of(predicted), *words_of(told)
        at = now.ctypes.data, then.ctypes.data
        return int(called(foresee, _FORESEE)(self._at, ahead._at, *at, *arrays))


_FIELDS = struct.Struct(
    "=" + "".join("d" if kind is float else "q" for kind in Rules.__annotations__.values())
)


@lru_cache(maxsize=64)
def _written(rules: Rules) -> NDArray[np.int64]:
    """The rules as words: numbers as they are, truth as 0 or 1."""
    return np.frombuffer(_FIELDS.pack(*rules), np.int64)
