"""Figures 7 and 8 over queues that are kept: `lending.share` for many jobs that wait.

Whoever waits in the same pool for as many GPUs, and is believed to end within the same quantum, is served in
order of submission. Such jobs are in one queue, and only the first of each that waits has to be looked at.
Nobody is stopped here, and what kept jobs waiting is not said.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import (
    COUNT,
    FULL_RATE,
    GPUS,
    HELD,
    LEAST,
    MOST,
    NUMBER,
    POOL,
    SCALE,
    STARTED,
    SUBMIT,
    TOTAL,
    TYPES,
)
from volvelle.core.compiled import kernel
from volvelle.core.fill import ClusterNow
from volvelle.core.groups import Changes, Grouped, change
from volvelle.core.state import INFINITY
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.memory import (
    ASK_AT,
    BORROWED,
    DEDICATED,
    HERE,
    LANE,
    LENDS,
    LEVEL,
    MOST_QUEUES,
    NO_LANE,
    NOTED,
    NOTES,
    OWNED,
    POOLS,
    QUANTA,
    ROOM,
    STRANGE,
    USED,
    Tables,
    tables,
)
from volvelle.systems.anticipatory.watch import open_for, watch, within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FULL = MOST_QUEUES
"""From so many queues on Python decides; a test lowers it."""
_POOL, _GPUS, _WITHIN = range(3)  # of `Tables.by_queue`
_NOTED, _LANE = NOTED - COUNT, LANE - COUNT  # among own columns


@kernel
def queue_of(columns: Any, own: int, row: int, curve: int, rates: Any, words: Floats) -> int:
    """The queue of a job that enters; that it came is noted."""
    pools, quanta = int(words[POOLS]), int(words[QUANTA])
    if quanta == 0:
        return 0  # Python begins
    pool, gpus, known = columns[POOL][row], columns[GPUS][row], tables(words)
    if pool >= 0.0 and columns[own + _NOTED][row] == 0.0:
        if words[NOTES] + 1 + pools > words[ROOM]:
            words[ASK_AT] = -INFINITY
        else:
            columns[own + _NOTED][row] = 1.0
            known.by_pool[HERE, int(pool)] += 1.0
            _note(words, known, pool, columns[SUBMIT][row], gpus)
    seconds = columns[TOTAL][row] * columns[SCALE][row] / columns[FULL_RATE][row]
    ends = within(seconds, known.quanta)
    used, by_queue = int(words[USED]), known.by_queue
    alike = columns[LEAST][row] == gpus and columns[MOST][row] == gpus
    if not alike or int(columns[TYPES][row]) & 1 == 0:
        words[STRANGE], words[ASK_AT] = 1.0, -INFINITY
        return 0
    for queue in range(used):
        if (
            by_queue[_POOL, queue] == pool
            and by_queue[_GPUS, queue] == gpus
            and by_queue[_WITHIN, queue] == ends
        ):
            return queue
    if used == _FULL:
        words[STRANGE], words[ASK_AT] = 1.0, -INFINITY
        return 0
    by_queue[_POOL, used], by_queue[_GPUS, used] = pool, gpus
    by_queue[_WITHIN, used] = ends
    words[USED] = used + 1.0
    return used


@kernel
def _note(words: Floats, known: Tables, pool: float, time: float, gpus: float) -> None:
    notes, at = known.notes, int(words[NOTES])
    notes[at, 0], notes[at, 1], notes[at, 2] = pool, time, gpus
    words[NOTES] += 1.0


@kernel
def decide(jobs: Grouped, cluster: ClusterNow, words: Floats, out: Changes) -> float:
    """As `lending.share` serves who waits; when to look again."""
    columns, now = jobs.columns, cluster.now
    pools, quanta, used = int(words[POOLS]), int(words[QUANTA]), int(words[USED])
    if quanta == 0 or words[STRANGE] > 0.0:
        return -INFINITY  # Python decides
    known = tables(words)
    by_queue, by_pool = known.by_queue, known.by_pool
    running = np.zeros(used, dtype=np.int64)
    held, own, owns = np.zeros(pools + 1), np.zeros(pools + 1), np.zeros(pools + 1)
    owns[pools] = cluster.capacity[0]
    for pool in range(pools):
        owns[pool] = by_pool[OWNED, pool]
        owns[pools] -= owns[pool]
    owns[pools] = max(owns[pools], 0.0)
    lane = columns[jobs.own + _LANE]
    closed = np.zeros((quanta, pools + 1), dtype=np.bool_)  # kinds that were outlived
    for i in range(jobs.runs):
        row = jobs.running[i]
        pool, gpus = int(columns[POOL][row]), columns[HELD][row]
        running[jobs.group[row]] += 1
        held[pool] += gpus
        if lane[row] == NO_LANE:  # it ran before this policy came
            lane[row] = DEDICATED if own[pool] + gpus <= owns[pool] + SAME_AMOUNT else BORROWED
        if lane[row] == DEDICATED:
            own[pool] += gpus
            continue
        at, ran = int(by_queue[_WITHIN, jobs.group[row]]), now - columns[STARTED][row]
        watch(closed, at, pool, ran, known.quanta)
    here, pending = np.zeros(pools + 1), np.zeros(pools + 1)
    waiting, head = np.zeros(used, dtype=np.int64), np.full(used, -1)
    others = 0  # jobs that wait and could run on what their pools own
    for queue in range(used):
        pool, gpus = int(by_queue[_POOL, queue]), by_queue[_GPUS, queue]
        many = int(jobs.demand[queue] / gpus + 0.5)
        here[pool] += many
        waiting[queue] = many - running[queue]
        if waiting[queue] == 0 or (pool >= 0 and gpus > cluster.quota[pool] + SAME_AMOUNT):
            continue
        head[queue] = _first_waiting(jobs, jobs.first[queue])
        pending[pool] += gpus * waiting[queue]
        if gpus <= owns[pool] + SAME_AMOUNT:
            others += waiting[queue]
    for pool in range(pools):
        before = by_pool[HERE, pool]
        if before > here[pool]:
            _note(words, known, float(pool), now, here[pool] - before)
        by_pool[HERE, pool] = here[pool]
    if words[NOTES] + 1 + pools > words[ROOM]:
        words[ASK_AT] = -INFINITY
    if now >= words[ASK_AT]:
        return -INFINITY
    free = cluster.capacity[0] - held.sum()
    left = np.full(pools + 1, np.inf)
    for pool in range(pools):
        left[pool] = cluster.quota[pool] - held[pool]
    spent = np.zeros(pools + 1, dtype=np.bool_)
    while True:  # figure 7: dedicated
        best, least = -1, np.inf
        for pool in range(pools + 1):
            if spent[pool] or not (best < 0 or held[pool] < least * owns[pool]):
                continue
            queue = _first_of(columns, by_queue, head, pool, pools, owns[pool])
            if queue < 0:
                spent[pool] = True
                continue
            best, least = queue, held[pool] / owns[pool]
        if best < 0:
            break
        pool, gpus = int(by_queue[_POOL, best]), by_queue[_GPUS, best]
        if (
            own[pool] + gpus > owns[pool] + SAME_AMOUNT
            or gpus > left[pool] + SAME_AMOUNT
            or gpus > free + SAME_AMOUNT
        ):
            spent[pool] = True
            continue
        _start(jobs, best, head, waiting, gpus, DEDICATED, out)
        free -= gpus
        own[pool] += gpus
        held[pool] += gpus
        pending[pool] -= gpus
        left[pool] -= gpus
        others -= 1
    for at in range(quanta):  # figure 8: spare
        while True:
            usable = _usable(known, at, owns, own, pending, free)
            alone = at == quanta - 1 and others == 0
            if free <= SAME_AMOUNT or (usable <= SAME_AMOUNT and not alone):
                break
            best, least = -1, np.inf
            for queue in range(used):
                if head[queue] < 0:
                    continue
                pool, gpus = int(by_queue[_POOL, queue]), by_queue[_GPUS, queue]
                last_resort = alone and gpus > owns[pool] + SAME_AMOUNT
                ends = open_for(closed, int(by_queue[_WITHIN, queue]), pool)
                if ends > at and not last_resort:
                    continue
                room = free if last_resort else usable
                if gpus > room + SAME_AMOUNT or gpus > left[pool] + SAME_AMOUNT:
                    continue
                ratio = held[pool] / owns[pool] if owns[pool] > 0.0 else np.inf
                if best >= 0 and ratio == least:
                    earlier = columns[NUMBER][head[queue]] < columns[NUMBER][head[best]]
                else:
                    earlier = best < 0 or ratio < least
                if earlier:
                    best, least = queue, ratio
            if best < 0:
                break
            pool, gpus = int(by_queue[_POOL, best]), by_queue[_GPUS, best]
            _start(jobs, best, head, waiting, gpus, BORROWED, out)
            free -= gpus
            held[pool] += gpus
            pending[pool] -= gpus
            left[pool] -= gpus
            others -= int(gpus <= owns[pool] + SAME_AMOUNT)
    waits = waiting.sum() > 0 and free > SAME_AMOUNT
    return float(words[ASK_AT]) if waits else INFINITY


@kernel
def _first_waiting(jobs: Grouped, row: int) -> int:
    """The first job of a queue, from ``row`` on, that holds nothing; -1 for none."""
    while row >= 0 and jobs.columns[HELD][row] > 0.0:
        row = jobs.next[row]
    return row


@kernel
def _first_of(
    columns: Any, by_queue: Floats, head: Ints, pool: int, pools: int, owned: float
) -> int:
    """The queue of the first job of a pool that waits and fits what the pool owns; -1 for none."""
    found, wanted = -1, pool if pool < pools else -1
    for queue in range(len(head)):
        if head[queue] < 0 or int(by_queue[_POOL, queue]) != wanted:
            continue
        if by_queue[_GPUS, queue] > owned + SAME_AMOUNT:
            continue
        if found < 0 or columns[NUMBER][head[queue]] < columns[NUMBER][head[found]]:
            found = queue
    return found


@kernel
def _usable(
    known: Tables, at: int, owns: Floats, own: Floats, pending: Floats, free: float
) -> float:
    """What is idle and not kept for a quantum."""
    usable, pools = free, known.by_pool.shape[1]
    for pool in range(pools + 1):
        unused, soon = max(owns[pool] - own[pool], 0.0), pending[pool]
        if pool < pools:
            lends = known.by_pool[LENDS, pool] > 0.0
            soon += known.expected[at, pool] if lends else np.inf
            soon = max(soon, known.by_pool[LEVEL, pool] * unused)
        usable -= min(soon, unused)
    return min(usable, free)


@kernel
def _start(
    jobs: Grouped,
    queue: int,
    head: Ints,
    waiting: Ints,
    gpus: float,
    lane: float,
    out: Changes,
) -> None:
    """Let the first of a queue start."""
    row = head[queue]
    out.gpus[row], out.gpu_type[row] = gpus, 0.0
    jobs.columns[jobs.own + _LANE][row] = lane
    change(out, row)
    waiting[queue] -= 1
    head[queue] = _first_waiting(jobs, jobs.next[row]) if waiting[queue] > 0 else -1
