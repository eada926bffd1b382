"""Kinds of jobs, and what their arrivals and departures leave in the memory of their pools.

A **kind** of jobs has one pool, one number of GPUs of the same types, one quantum within which its jobs are
believed to end, and may be stopped or not.
"""

from typing import Any

import numpy as np

from volvelle.core.columns import (
    ATTAINED,
    CHECKPOINT,
    COUNT,
    FULL_RATE,
    GPUS,
    MOST,
    PINNED,
    POOL,
    PREEMPTIBLE,
    RESTORE,
    SCALE,
    SUBMIT,
    TIME_LIMIT,
    TOTAL,
    TYPES,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints
from volvelle.systems.anticipatory.memory import (
    BEHIND,
    BOUNDED,
    FIRST,
    HERE,
    KIND_GPUS,
    KIND_MOST,
    KIND_NEXT,
    KIND_POOL,
    KIND_STOPS,
    KIND_TYPES,
    KIND_WITHIN,
    NOTED,
    POOLS,
    PREEMPT,
    ROOM,
    USED,
    Tables,
    past_of,
    tables,
)
from volvelle.systems.anticipatory.past import arrive, end
from volvelle.systems.anticipatory.watch import within

_NOTED = NOTED - COUNT  # among own columns
_DEAR = 0.1
"""A stop and a restart are dear if they take more than this share of a job's time."""


@kernel
def kind_of(columns: Any, own: int, row: int, curve: int, rates: Any, words: Floats) -> int:
    """The kind of a job that enters, as a group; its arrival is noted."""
    known = tables(words)
    if len(known.quanta) == 0:  # another policy may have had the columns
        columns[own + _NOTED][row] = 0.0
        return 0
    pool, gpus = int(columns[POOL][row]), float(columns[GPUS][row])
    if pool >= 0 and columns[own + _NOTED][row] == 0.0:
        past = past_of(words)
        if past.arrivals[pool] == words[ROOM]:
            words[BEHIND] = 1.0
            return 0
        columns[own + _NOTED][row] = 1.0
        known.by_pool[HERE, pool] += 1.0
        arrive(past, pool, columns[SUBMIT][row], gpus)
    seconds = columns[TOTAL][row] * columns[SCALE][row] / columns[FULL_RATE][row]
    until, stops = seconds, 0.0
    if words[BOUNDED] > 0.0:
        until, limit = INFINITY, columns[TIME_LIMIT][row]
        if limit > 0.0:
            until = max(limit - columns[ATTAINED][row], 0.0)
    if words[PREEMPT] > 0.0 and columns[PREEMPTIBLE][row] > 0.0 and columns[PINNED][row] == 0.0:
        cost = columns[CHECKPOINT][row] + columns[RESTORE][row]
        stops = 1.0 if cost <= _DEAR * seconds else 0.0
    most, types, ends = columns[MOST][row], columns[TYPES][row], within(until, known.quanta)
    kinds, kind = known.kinds, int(known.by_pool[FIRST, pool])
    while kind >= 0:
        if (
            kinds[kind, KIND_GPUS] == gpus
            and kinds[kind, KIND_WITHIN] == ends
            and kinds[kind, KIND_TYPES] == types
            and kinds[kind, KIND_MOST] == most
            and kinds[kind, KIND_STOPS] == stops
        ):
            return kind
        kind = int(kinds[kind, KIND_NEXT])
    kind = int(words[USED])
    if kind == len(kinds):
        words[BEHIND] = 1.0
        return 0
    kinds[kind, KIND_POOL], kinds[kind, KIND_GPUS], kinds[kind, KIND_MOST] = pool, gpus, most
    kinds[kind, KIND_TYPES], kinds[kind, KIND_WITHIN], kinds[kind, KIND_STOPS] = types, ends, stops
    kinds[kind, KIND_NEXT], known.by_pool[FIRST, pool] = known.by_pool[FIRST, pool], kind
    words[USED] = kind + 1.0
    return kind


@compiled
def kinds_of(matrix: Floats, now: float, words: Floats) -> Ints:
    """The kind of every job, (jobs); arrivals and departures are noted."""
    found, rates = np.empty(matrix.shape[1], np.int64), np.zeros((0, 0, 0))
    here = np.zeros(int(words[POOLS]) + 1)
    for row in range(len(found)):
        found[row] = kind_of(matrix, COUNT, row, -1, rates, words)
        here[int(matrix[POOL, row])] += 1.0
    if words[BEHIND] == 0.0:
        note_departures(words, tables(words), here, now)
    return found


@kernel
def note_departures(words: Floats, known: Tables, here: Floats, now: float) -> None:
    """Note how many jobs left each pool since the last decision. here: jobs by pool."""
    past = past_of(words)
    for pool in range(len(here) - 1):
        gone = int(known.by_pool[HERE, pool] - here[pool])
        if gone > 0 and past.ends[pool] + gone > words[ROOM]:
            words[BEHIND] = 1.0
            continue
        if gone > 0:
            end(past, pool, now, gone)
        known.by_pool[HERE, pool] = here[pool]
