"""The forward loop as machine code, over the arrays of one state.

To machine code the state is a block of words (`volvelle.core.machine_code.words`), which `Machine` writes.
Kernels of policies and placements are functions of one fixed type each, whose addresses are words too: the
loop is compiled once for all of them.
"""

import ctypes
import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import HELD, LEAST, MOST
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow
from volvelle.core.forward.advance import advance
from volvelle.core.forward.believe import believe, expect_ends
from volvelle.core.forward.foresee import foresee
from volvelle.core.forward.groups import by_groups
from volvelle.core.machine_code.kernels import completed
from volvelle.core.machine_code.kinds import HEADER
from volvelle.core.machine_code.loading import address, called
from volvelle.core.machine_code.words import KERNELS, WORD, words_of
from volvelle.core.mistakes import is_own
from volvelle.core.policy import Kernel, beyond_gang, columns_read
from volvelle.core.state import (
    ARRAYS,
    COLUMNS,
    CPUS,
    JOBS,
    KNOWN_COLUMNS,
    MEMORY,
    NODES_NAMED,
    NOW,
    PLACE,
    TABLES,
    Floats,
    Ints,
    Reason,
    Rules,
    State,
    array_of,
)
from volvelle.model.tolerances import GRANTED

_CURVE = PLACE["curve"]
_ADVANCE = int, State, Rules, float, int
_BELIEVE = None, State
_FORESEE = int, State, State, Rules, Rules, Floats, Ints
"""Signatures of the loops."""
LOOP = advance, _ADVANCE
"""The forward loop, without which nothing runs as machine code."""
PREDICTING_LOOP = foresee, _FORESEE
"""The forward loop with a prediction at each arrival."""

_POLICY = float(Reason.POLICY)

_columns = np.arange(KNOWN_COLUMNS)
"""In the place of the columns that a policy looks at."""
_checked = False
"""In the place of whether it may have mistakes: a user's own, which gives whole GPUs."""
_names = False
"""In the place of whether it chooses nodes."""


@kernel
def _decide(jobs: Any, cluster: ClusterNow, memory: Any, out: Any) -> float:
    """In the place of a policy's own (`volvelle.core.policy.Kernel`)."""
    return np.inf


def _allocate(s: State) -> float:
    """Give a policy its arrays, take what it decides and writes to columns of its own; when to ask again."""
    jobs, rows, many = s.jobs, s.order, s.count[JOBS]
    own = len(jobs.floats) - COLUMNS
    matrix = np.empty((KNOWN_COLUMNS + own, many))
    for i in range(many):
        row = rows[i]
        for place in _columns:
            matrix[place, i] = jobs.floats[place][row]
        for column in range(own):
            matrix[KNOWN_COLUMNS + column, i] = jobs.floats[COLUMNS + column][row]
        matrix[_CURVE, i] = jobs.table[row]
    capacity, pools = np.empty(len(s.types.capacity)), np.empty((3, len(s.pools.quota)))
    for gpu_type in range(len(capacity)):
        capacity[gpu_type] = s.types.capacity[gpu_type]
    for pool in range(pools.shape[1]):
        pools[0, pool] = s.pools.quota[pool]
        pools[1, pool], pools[2, pool] = s.pools.owned[pool], s.pools.lends[pool]
    table = np.zeros((0, 0, 0))
    if len(s.rates) > 0:
        table = array_of(s.rates)
    given = np.zeros((4, many))
    for i in range(many):
        given[3, i] = i
    clock = s.clock
    up, places = np.empty(len(s.nodes.up) if _names else 0), np.empty((3, 1))
    if _names:
        places = np.empty((3, len(s.slots.owner) + 1))
        for node in range(len(up)):
            up[node] = s.nodes.up[node]
    places[0, 0] = -1.0
    cluster = ClusterNow(
        clock[NOW],
        capacity,
        pools[0],
        pools[1],
        pools[2],
        table,
        clock[CPUS],
        clock[MEMORY],
        up,
        places,
    )
    ask_at = float(_decide(matrix, cluster, array_of(s.memory), given))
    if _checked and (
        given[TARGET].sum() > capacity.sum() + GRANTED
        or beyond_gang(given[TARGET], matrix[LEAST], matrix[MOST], matrix[HELD]).any()
    ):
        raise ValueError("asked again, interpreted, it is told which job")
    if _names:
        named = 0
        while places[0, named] >= 0.0:
            s.slots.named_row[named] = rows[int(places[0, named])]
            s.slots.named_node[named] = int(places[1, named])
            s.slots.named_gpus[named] = int(places[2, named])
            named += 1
        s.count[NODES_NAMED] = named + 1
    by_submission = np.empty(many, np.int64)
    for i in range(many):
        row = rows[i]
        by_submission[i] = row
        for column in range(own):
            jobs.floats[COLUMNS + column][row] = matrix[KNOWN_COLUMNS + column, i]
        jobs.target[row] = given[TARGET, i]
        if given[TARGET, i] > 0.0:
            jobs.target_type[row], jobs.reason[row] = given[TARGET_TYPE, i], given[TARGET_REASON, i]
        else:
            jobs.target_type[row] = -1.0
            jobs.reason[row] = given[TARGET_REASON, i] or _POLICY
    for i in range(many):
        rows[i] = by_submission[int(given[3, i])]
    return ask_at


@cache
def deciding(
    decide: Any, divisible: bool = False, names_nodes: bool = False
) -> Callable[..., float]:
    """The state's kernel for a policy that decides by columns of all jobs (`volvelle.core.policy.Kernel`).

    Only those columns are gathered that it names; all, where it is a user's own, whose numbers of GPUs are
    checked unless the policy is ``divisible``.
    """
    found: Callable[..., float] = completed(
        _allocate,
        _decide=decide,
        _columns=np.array(columns_read(decide)),
        _checked=is_own(decide) and not divisible,
        _names=names_nodes,
    )
    return found


@kernel
def _learn(memory: Any, gpu_seconds: float, gpus: float, own: Any) -> bool:
    """In the place of a policy's own (`volvelle.core.policy.Kernel`)."""
    return False


def _note_end(s: State, row: int) -> int:
    """Let the policy learn that the job in ``row`` has ended; whether it did."""
    jobs = s.jobs
    last_run = s.clock[NOW] - jobs.started[row] if jobs.held[row] > 0.0 else 0.0
    service = jobs.attained_gpu[row] + last_run * jobs.held[row]
    own = np.empty(len(jobs.floats) - COLUMNS)
    for column in range(len(own)):
        own[column] = jobs.floats[COLUMNS + column][row]
    return int(_learn(array_of(s.memory), service, jobs.gpus[row], own))


@cache
def learning(learn: Any) -> Callable[..., int]:
    """The state's kernel for a policy that learns of ends (`volvelle.core.policy.Kernel`)."""
    found: Callable[..., int] = completed(_note_end, _learn=learn)
    return found


def kernels_of(
    kernel: Kernel, *, divisible: bool = False
) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The state's kernels for a policy that decides by ``kernel``, with their signatures."""
    if kernel.group is None:
        made = [(deciding(kernel.decide, divisible, kernel.names_nodes), KERNELS["decide"])]
        learn = kernel.learn
        return made if learn is None else [*made, (learning(learn), KERNELS["learn"])]
    group, decide = by_groups(kernel.group, kernel.decide)
    return [(group, KERNELS["group"]), (decide, KERNELS["decide"])]


def address_of(array: Any) -> int:
    """The address of an array's numbers: the first word of its object behind the header."""
    found: int = ctypes.c_int64.from_address(id(array) + HEADER).value
    return found


class Machine:
    """Machine code for one state over arrays; to be made anew where an array was replaced."""

    def __init__(self, s: State) -> None:
        words: list[int] = []
        for name in TABLES:
            table = getattr(s, name)
            for part in (table.floats, table.ints):
                words += [address_of(part), len(part) * WORD]
            words.append(len(table))
        for name in ARRAYS:
            words += words_of(getattr(s, name))
        loops = {name: getattr(s, name, None) for name in KERNELS}  # None: the rules never call it
        words += [address(loop, KERNELS[name]) if loop else 0 for name, loop in loops.items()]
        self._words = np.array(words, dtype=np.int64)
        self._at = address_of(self._words)

    def advance(self, rules: Rules, until: float, moments: int) -> int:
        """`volvelle.core.forward.advance.advance` as machine code."""
        written = _written(rules)
        return int(called(advance, _ADVANCE)(self._at, address_of(written), until, moments))

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
        at = address_of(now), address_of(then)
        return int(called(*PREDICTING_LOOP)(self._at, ahead._at, *at, *arrays))


_FIELDS = struct.Struct(
    "=" + "".join("d" if kind is float else "q" for kind in Rules.__annotations__.values())
)


@lru_cache(maxsize=64)
def _written(rules: Rules) -> NDArray[np.int64]:
    """The rules as words: numbers as they are, truth as 0 or 1."""
    return np.frombuffer(_FIELDS.pack(*rules), np.int64)
