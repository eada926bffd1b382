"""Figures 7 and 8 over queues that are kept: `lending.share` for many jobs that wait.

Whoever waits in the same pool for as many GPUs, and is believed to end within the same quantum, is served in
order of submission. Such jobs are in one queue, and only the first of each that waits has to be looked at.
Nobody is stopped here, and what kept jobs waiting is not said.
"""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import kernel
from volvelle.core.forward.decide import change
from volvelle.core.state import (
    COLUMNS,
    INFINITY,
    JOBS,
    NAMED_WAKE,
    NOW,
    RANKED,
    Cube,
    Jobs,
    State,
    array_of,
)
from volvelle.core.state import Floats as Numbers
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.memory import (
    ASK_AT,
    BORROWED,
    DEDICATED,
    HERE,
    LENDS,
    LEVEL,
    MOST_QUEUES,
    NO_LANE,
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
_NOTED, _LANE = COLUMNS, COLUMNS + 1  # as in `memory`, among the columns of the state


@kernel
def queue_of(jobs: Jobs, row: int, rates: Cube, words: Numbers) -> int:
    """The queue of a job that enters; that it came is noted."""
    pools, quanta = int(words[POOLS]), int(words[QUANTA])
    if quanta == 0:
        return 0  # Python begins
    pool, gpus, known = jobs.pool[row], jobs.gpus[row], tables(array_of(words))
    if pool >= 0.0 and jobs.floats[_NOTED][row] == 0.0:
        if words[NOTES] + 1 + pools > words[ROOM]:
            words[ASK_AT] = -INFINITY
        else:
            jobs.floats[_NOTED][row] = 1.0
            known.by_pool[HERE, int(pool)] += 1.0
            _note(words, known, pool, jobs.submit[row], gpus)
    seconds = jobs.total[row] * jobs.scale[row] / jobs.full_rate[row]
    ends = within(seconds, known.quanta)
    used, by_queue = int(words[USED]), known.by_queue
    for queue in range(used):
        if (
            by_queue[_POOL, queue] == pool
            and by_queue[_GPUS, queue] == gpus
            and by_queue[_WITHIN, queue] == ends
        ):
            return queue
    alike = jobs.least[row] == gpus and jobs.most[row] == gpus and int(jobs.types[row]) & 1 == 1
    if used == _FULL or not alike:
        words[STRANGE], words[ASK_AT] = 1.0, -INFINITY
        return 0
    by_queue[_POOL, used], by_queue[_GPUS, used] = pool, gpus
    by_queue[_WITHIN, used] = ends
    words[USED] = used + 1.0
    return used


@kernel
def _note(words: Numbers, known: Tables, pool: float, time: float, gpus: float) -> None:
    notes, at = known.notes, int(words[NOTES])
    notes[at, 0], notes[at, 1], notes[at, 2] = pool, time, gpus
    words[NOTES] += 1.0


@kernel
def serve(s: State) -> None:
    """As `lending.share` serves who waits; when to look again."""
    words, jobs = s.memory, s.jobs
    pools, quanta, used = int(words[POOLS]), int(words[QUANTA]), int(words[USED])
    if quanta == 0 or words[STRANGE] > 0.0:
        return  # Python decides
    known = tables(array_of(words))
    by_queue, by_pool = known.by_queue, known.by_pool
    running = np.zeros(used, dtype=np.int64)
    held, own, owns = np.zeros(pools + 1), np.zeros(pools + 1), np.zeros(pools + 1)
    owns[pools] = s.types.capacity[0]
    for pool in range(pools):
        owns[pool] = by_pool[OWNED, pool]
        owns[pools] -= owns[pool]
    owns[pools] = max(owns[pools], 0.0)
    lane = jobs.floats[_LANE]
    closed = np.zeros((quanta, pools + 1), dtype=np.bool_)  # kinds that were outlived
    for i in range(s.count[RANKED]):
        row = s.ranked[i]
        pool, gpus = int(jobs.pool[row]), jobs.held[row]
        running[jobs.kind[row]] += 1
        held[pool] += gpus
        if lane[row] == NO_LANE:  # it ran before this policy came
            lane[row] = DEDICATED if own[pool] + gpus <= owns[pool] + SAME_AMOUNT else BORROWED
        if lane[row] == DEDICATED:
            own[pool] += gpus
            continue
        at, ran = int(by_queue[_WITHIN, jobs.kind[row]]), s.clock[NOW] - jobs.started[row]
        watch(closed, at, pool, ran, known.quanta)
    here, pending = np.zeros(pools + 1), np.zeros(pools + 1)
    waiting, head = np.zeros(used, dtype=np.int64), np.full(used, -1)
    others = 0  # jobs that wait and could run on what their pools own
    for queue in range(used):
        pool, gpus = int(by_queue[_POOL, queue]), by_queue[_GPUS, queue]
        many = int(s.queues.demand[queue] / gpus + 0.5)
        here[pool] += many
        waiting[queue] = many - running[queue]
        if waiting[queue] == 0 or (pool >= 0 and gpus > s.pools.quota[pool] + SAME_AMOUNT):
            continue
        head[queue] = _first_waiting(jobs, s.queues.first[queue])
        pending[pool] += gpus * waiting[queue]
        if gpus <= owns[pool] + SAME_AMOUNT:
            others += waiting[queue]
    for pool in range(pools):
        before = by_pool[HERE, pool]
        if before > here[pool]:
            _note(words, known, float(pool), s.clock[NOW], here[pool] - before)
        by_pool[HERE, pool] = here[pool]
    if words[NOTES] + 1 + pools > words[ROOM]:
        words[ASK_AT] = -INFINITY
    if s.clock[NOW] >= words[ASK_AT]:
        return
    free, started = s.types.capacity[0] - s.types.used[0], 0
    left = np.full(pools + 1, np.inf)
    for pool in range(pools):
        left[pool] = s.pools.quota[pool] - s.pools.taken[pool]
    spent = np.zeros(pools + 1, dtype=np.bool_)
    while True:  # figure 7: dedicated
        best, least = -1, np.inf
        for pool in range(pools + 1):
            if spent[pool] or not (best < 0 or held[pool] < least * owns[pool]):
                continue
            queue = _first_of(s, by_queue, head, pool, pools, owns[pool])
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
        _start(s, best, head, waiting, gpus, DEDICATED)
        free -= gpus
        own[pool] += gpus
        held[pool] += gpus
        pending[pool] -= gpus
        left[pool] -= gpus
        others -= 1
        started += 1
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
                    earlier = jobs.number[head[queue]] < jobs.number[head[best]]
                else:
                    earlier = best < 0 or ratio < least
                if earlier:
                    best, least = queue, ratio
            if best < 0:
                break
            pool, gpus = int(by_queue[_POOL, best]), by_queue[_GPUS, best]
            _start(s, best, head, waiting, gpus, BORROWED)
            free -= gpus
            held[pool] += gpus
            pending[pool] -= gpus
            left[pool] -= gpus
            others -= int(gpus <= owns[pool] + SAME_AMOUNT)
            started += 1
    waits = s.count[JOBS] - s.count[RANKED] > started
    s.clock[NAMED_WAKE] = words[ASK_AT] if waits and free > SAME_AMOUNT else INFINITY


@kernel
def _first_waiting(jobs: Jobs, row: int) -> int:
    """The first job of a queue, from ``row`` on, that holds nothing; -1 for none."""
    while row >= 0 and jobs.held[row] > 0.0:
        row = jobs.next[row]
    return row


@kernel
def _first_of(s: State, by_queue: Floats, head: Ints, pool: int, pools: int, owned: float) -> int:
    """The queue of the first job of a pool that waits and fits what the pool owns; -1 for none."""
    found, wanted = -1, pool if pool < pools else -1
    for queue in range(len(head)):
        if head[queue] < 0 or int(by_queue[_POOL, queue]) != wanted:
            continue
        if by_queue[_GPUS, queue] > owned + SAME_AMOUNT:
            continue
        if found < 0 or s.jobs.number[head[queue]] < s.jobs.number[head[found]]:
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
def _start(s: State, queue: int, head: Ints, waiting: Ints, gpus: float, lane: float) -> None:
    """Let the first of a queue start."""
    row = head[queue]
    s.jobs.target[row], s.jobs.target_type[row] = gpus, 0.0
    s.jobs.floats[_LANE][row] = lane
    change(s, row)
    waiting[queue] -= 1
    head[queue] = _first_waiting(s.jobs, s.jobs.next[row]) if waiting[queue] > 0 else -1
