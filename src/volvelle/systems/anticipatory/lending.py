"""Figures 7 and 8 of anticipatory scheduling: which jobs start, and whether as dedicated ones or borrowers.

A **kind** of jobs has one pool, one number of GPUs of the same types, one quantum within which its jobs are
believed to end, and may be stopped or not. Jobs of a kind are served in order of submission, so that only the
first of each kind that waits matters.
"""

from typing import Any, NamedTuple

import numpy as np

from volvelle.core.columns import (
    ATTAINED,
    CHECKPOINT,
    COUNT,
    FULL_RATE,
    GPUS,
    HELD,
    MOST,
    NUMBER,
    PINNED,
    POOL,
    PREEMPTIBLE,
    RESTORE,
    SCALE,
    STARTED,
    SUBMIT,
    TIME_LIMIT,
    TOTAL,
    TYPE,
    TYPES,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import ClusterNow
from volvelle.core.groups import Changes, Grouped, change
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.coming import forecast
from volvelle.systems.anticipatory.memory import (
    ASK_AT,
    BEHIND,
    BORROWED,
    BOUNDED,
    DEDICATED,
    FIRST,
    HERE,
    KIND_GPUS,
    KIND_MOST,
    KIND_NEXT,
    KIND_POOL,
    KIND_STOPS,
    KIND_TYPES,
    KIND_WITHIN,
    LEVEL,
    NO_ROLE,
    NOTED,
    POOLS,
    PREEMPT,
    ROLE,
    ROOM,
    USED,
    Tables,
    past_of,
    tables,
)
from volvelle.systems.anticipatory.past import arrive, end
from volvelle.systems.anticipatory.watch import open_for, watch, within

_QUOTA = float(Reason.QUOTA)
_NOTED, _ROLE = NOTED - COUNT, ROLE - COUNT  # among own columns
_DEAR = 0.1
"""A stop and a restart are dear if they take more than this share of a job's time."""


class Ledger(NamedTuple):
    """GPUs and jobs in the course of one decision.

    By pool, the last for jobs of no pool. owns: GPUs. held: by its jobs. own: by its dedicated jobs. pending:
    requested by its jobs that wait. left: of its quota. turn: the number of its last job that may start as a
    dedicated one. closed: quanta that borrowers outlived, (quanta, pools + 1). free: idle GPUs by type.
    stoppable: GPUs of borrowers that may be stopped, one number. waiting, head: by kind, jobs that wait and
    the row of the first (-1: none, or none that may ever start). stopped: by running job.
    """

    owns: Floats
    held: Floats
    own: Floats
    pending: Floats
    left: Floats
    turn: Floats
    closed: Bools
    free: Floats
    stoppable: Floats
    waiting: Ints
    head: Ints
    stopped: Bools


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
        _note_departures(words, tables(words), here, now)
    return found


@kernel
def _note_departures(words: Floats, known: Tables, here: Floats, now: float) -> None:
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


@kernel
def decide(jobs: Grouped, cluster: ClusterNow, words: Floats, out: Changes) -> float:
    """Figures 7 and 8 (`volvelle.core.policy.Kernel`): stop and start jobs; when predictions are due.

    Groups are kinds. -inf where Python is to predict now, or the memory needs more room.
    """
    known = tables(words)
    if len(known.quanta) == 0 or words[BEHIND] > 0.0:
        return -INFINITY
    kinds, demand, used = known.kinds, jobs.demand, int(words[USED])
    waiting, here = np.empty(used, dtype=np.int64), np.zeros(known.by_pool.shape[1])
    for kind in range(used):
        waiting[kind] = int(demand[kind] / kinds[kind, KIND_MOST] + 0.5)
        here[int(kinds[kind, KIND_POOL])] += waiting[kind]
    _note_departures(words, known, here, cluster.now)
    if words[BEHIND] > 0.0 or (cluster.now >= words[ASK_AT] and not forecast(words, cluster.now)):
        return -INFINITY
    preempt = words[PREEMPT] > 0.0
    ledger = _look(jobs, cluster, known, waiting)
    if preempt:
        _take_turns(jobs, known, ledger)
    if waiting.sum() == 0:
        return INFINITY
    _dedicate(jobs, known, ledger, preempt, out)
    if ledger.free.sum() > SAME_AMOUNT:
        _spare(jobs, cluster.lends, known, ledger, preempt, out)
    waits = waiting.sum() > 0
    for i in range(jobs.runs if preempt else 0):
        if ledger.stopped[i]:
            waits = True
            change(out, jobs.running[i])
    return float(words[ASK_AT]) if waits and ledger.free.sum() > SAME_AMOUNT else INFINITY


@kernel
def _look(jobs: Grouped, cluster: ClusterNow, known: Tables, waiting: Ints) -> Ledger:
    """The ledger before a decision. waiting: jobs by kind, of which those that run are taken away."""
    columns, running, group, first = jobs.columns, jobs.running, jobs.group, jobs.first
    role, held_by, following = columns[jobs.own + _ROLE], columns[HELD], jobs.next
    type_of, started, quota = columns[TYPE], columns[STARTED], cluster.quota
    kinds, quanta, now, pools = known.kinds, known.quanta, cluster.now, len(cluster.quota)
    held, own, pending = np.zeros(pools + 1), np.zeros(pools + 1), np.zeros(pools + 1)
    owns, left = np.zeros(pools + 1), np.full(pools + 1, INFINITY)
    free, stoppable = np.zeros(len(cluster.capacity)), np.zeros(1)
    for gpu_type in range(len(free)):
        free[gpu_type] = cluster.capacity[gpu_type]
    for pool in range(pools):
        owns[pool], left[pool] = cluster.owned[pool], quota[pool]
    owns[pools] = max(free.sum() - owns.sum(), 0.0)
    closed = np.zeros((len(quanta), pools + 1), dtype=np.bool_)
    for i in range(jobs.runs):
        row = running[i]
        kind, gpus = group[row], held_by[row]
        pool = int(kinds[kind, KIND_POOL])
        free[int(type_of[row])] -= gpus
        held[pool] += gpus
        left[pool] -= gpus
        waiting[kind] -= 1
        if role[row] == NO_ROLE:  # it ran before this policy came
            role[row] = DEDICATED if own[pool] + gpus <= owns[pool] + SAME_AMOUNT else BORROWED
        if role[row] == DEDICATED:
            own[pool] += gpus
        elif kinds[kind, KIND_STOPS] > 0.0:
            stoppable[0] += gpus
        else:
            watch(closed, int(kinds[kind, KIND_WITHIN]), pool, now - started[row], quanta)
    head = np.full(len(waiting), -1)
    for kind in range(len(waiting)):
        pool, gpus = int(kinds[kind, KIND_POOL]), kinds[kind, KIND_GPUS]
        if waiting[kind] > 0 and (pool < 0 or gpus <= quota[pool] + SAME_AMOUNT):
            head[kind] = _first_waiting(held_by, following, first[kind])
            pending[pool] += gpus * waiting[kind]
    stopped, turn = np.zeros(jobs.runs, dtype=np.bool_), np.full(pools + 1, INFINITY)
    return Ledger(
        owns, held, own, pending, left, turn, closed, free, stoppable, waiting, head, stopped
    )


@kernel
def _first_waiting(held_by: Any, following: Any, row: int) -> int:
    """The first job of a kind, from ``row`` on, that holds nothing; -1 for none."""
    while row >= 0 and held_by[row] > 0.0:
        row = following[row]
    return row


@kernel
def _take_turns(jobs: Grouped, known: Tables, ledger: Ledger) -> None:
    """Make borrowers dedicated whose turn has come in their own pools, so that they are not stopped.

    `Ledger.turn` is written.
    """
    columns, unused, turn = jobs.columns, ledger.owns - ledger.own, ledger.turn
    role, row = columns[jobs.own + _ROLE], jobs.oldest
    while row >= 0:
        kind, runs = jobs.group[row], columns[HELD][row] > 0.0
        pool, gpus = int(known.kinds[kind, KIND_POOL]), known.kinds[kind, KIND_GPUS]
        may = ledger.head[kind] >= 0
        if runs:
            may = known.kinds[kind, KIND_STOPS] > 0.0 and role[row] == BORROWED
        if may and turn[pool] == INFINITY and gpus <= ledger.owns[pool] + SAME_AMOUNT:
            if runs and gpus <= unused[pool] + SAME_AMOUNT:
                role[row] = DEDICATED
                ledger.own[pool] += gpus
                ledger.stoppable[0] -= gpus
            if (runs and role[row] == BORROWED) or unused[pool] - gpus < -SAME_AMOUNT:
                turn[pool] = columns[NUMBER][row]
            unused[pool] -= gpus
        row = jobs.younger[row]


@kernel
def _dedicate(jobs: Grouped, known: Tables, ledger: Ledger, preempt: bool, out: Changes) -> None:
    """Figure 7: jobs of each pool in order of submission on its own GPUs, the pool with least first."""
    owns, held, own, left, free = ledger.owns, ledger.held, ledger.own, ledger.left, ledger.free
    numbers, kinds, head, turn = jobs.columns[NUMBER], known.kinds, ledger.head, ledger.turn
    pools, first = len(owns), known.by_pool[FIRST]
    front = np.empty(pools, dtype=np.int64)
    for pool in range(pools):
        front[pool] = _front(numbers, kinds, head, int(first[pool]), owns[pool], turn[pool])
    while True:
        best, least = -1, INFINITY
        for pool in range(pools):
            if front[pool] >= 0 and (best < 0 or held[pool] < least * owns[pool]):
                best, least = pool, held[pool] / owns[pool]
        if best < 0:
            return
        kind, front[best] = front[best], -1
        gpus = kinds[kind, KIND_GPUS]
        if gpus > left[best] + SAME_AMOUNT and not preempt:
            out.reason[head[kind]] = _QUOTA
            continue
        if own[best] + gpus > owns[best] + SAME_AMOUNT:
            continue
        gpu_type = _type_for(kinds, kind, free)
        if gpu_type < 0 and preempt:
            _stop(jobs, known, ledger, kind, out)
            gpu_type = _type_for(kinds, kind, free)
        if gpu_type < 0 or gpus > left[best] + SAME_AMOUNT:  # its GPUs are lent
            continue
        _start(jobs, known, ledger, kind, gpu_type, DEDICATED, out)
        own[best] += gpus
        front[best] = _front(numbers, kinds, head, int(first[best]), owns[best], turn[best])


@kernel
def _front(numbers: Any, kinds: Floats, head: Ints, kind: int, owned: float, last: float) -> int:
    """Of ``kind`` and those behind it the kind of the first job that fits ``owned`` GPUs; -1 for none.

    last: the number of the last job that may start.
    """
    found = -1
    while kind >= 0:
        row = head[kind]
        if row >= 0 and kinds[kind, KIND_GPUS] <= owned + SAME_AMOUNT and numbers[row] <= last:
            found, last = kind, numbers[row]
        kind = int(kinds[kind, KIND_NEXT])
    return found


@kernel
def _spare(
    jobs: Grouped, lends: Any, known: Tables, ledger: Ledger, preempt: bool, out: Changes
) -> None:
    """Figure 8: borrowers that end within each quantum, the shortest first, on GPUs not kept for it."""
    owns, held, left, free = ledger.owns, ledger.held, ledger.left, ledger.free
    numbers, kinds, head, closed = jobs.columns[NUMBER], known.kinds, ledger.head, ledger.closed
    first, pools, last = known.by_pool[FIRST], len(owns), len(known.quanta) - 1
    for at in range(last + 1):
        while True:
            usable, idle = _usable(lends, known, ledger, at), free.sum()
            last_resort = at == last and not _some_fit_in_their_pools(kinds, head, owns)
            if idle <= SAME_AMOUNT or (usable <= SAME_AMOUNT and not preempt and not last_resort):
                break
            best, least, oldest = -1, INFINITY, INFINITY
            for pool in range(pools):
                owned, kind = owns[pool], int(first[pool])
                ratio = held[pool] / owned if owned > 0.0 else INFINITY
                if best >= 0 and ratio > least:
                    continue
                while kind >= 0:
                    one, gpus = kind, kinds[kind, KIND_GPUS]
                    kind = int(kinds[kind, KIND_NEXT])
                    if head[one] < 0 or gpus > left[pool] + SAME_AMOUNT:
                        continue
                    if not (
                        last_resort and gpus > owned + SAME_AMOUNT
                    ):  # else it runs as a last resort
                        if open_for(closed, int(kinds[one, KIND_WITHIN]), pool) > at:
                            continue
                        if kinds[one, KIND_STOPS] == 0.0 and gpus > usable + SAME_AMOUNT:
                            continue
                    number = numbers[head[one]]
                    if best >= 0 and ratio == least and number > oldest:
                        continue
                    if _type_for(kinds, one, free) >= 0:
                        best, least, oldest = one, ratio, number
            if best < 0:
                break
            gpu_type = _type_for(kinds, best, free)
            _start(jobs, known, ledger, best, gpu_type, BORROWED, out)


@kernel
def _usable(lends: Any, known: Tables, ledger: Ledger, at: int) -> float:
    """GPUs that are idle and not kept for a quantum; the GPUs kept are written to the memory."""
    by_pool, expected, kept = known.by_pool, known.expected, known.kept
    owns, own, pending, idle = ledger.owns, ledger.own, ledger.pending, ledger.free.sum()
    usable, pools = idle, len(owns) - 1
    for pool in range(pools + 1):
        unused, soon = max(owns[pool] - own[pool], 0.0), pending[pool]
        if pool < pools:
            soon += expected[at, pool] if lends[pool] > 0.0 else INFINITY
            soon = max(soon, by_pool[LEVEL, pool] * unused)
            kept[at, pool] = min(soon, unused)
        usable -= min(soon, unused)
    return float(min(usable + ledger.stoppable[0], idle))


@kernel
def _some_fit_in_their_pools(kinds: Floats, head: Ints, owns: Floats) -> bool:
    """Whether a job waits that could run on what its pool owns."""
    for kind in range(len(head)):
        owned = owns[int(kinds[kind, KIND_POOL])]
        if head[kind] >= 0 and kinds[kind, KIND_GPUS] <= owned + SAME_AMOUNT:
            return True
    return False


@kernel
def _type_for(kinds: Floats, kind: int, free: Floats) -> int:
    """The first GPU type that will do of which enough is free; -1 for none."""
    gpus, wished = kinds[kind, KIND_GPUS], int(kinds[kind, KIND_TYPES])
    for gpu_type in range(len(free)):
        if (wished >> gpu_type) & 1 and free[gpu_type] + SAME_AMOUNT >= gpus:
            return gpu_type
    return -1


@kernel
def _start(
    jobs: Grouped,
    known: Tables,
    ledger: Ledger,
    kind: int,
    gpu_type: int,
    role: float,
    out: Changes,
) -> None:
    """Let the first job of a kind that waits start."""
    row, gpus = ledger.head[kind], known.kinds[kind, KIND_GPUS]
    pool = int(known.kinds[kind, KIND_POOL])
    out.gpus[row], out.gpu_type[row] = gpus, float(gpu_type)
    jobs.columns[jobs.own + _ROLE][row] = role
    change(out, row)
    ledger.free[gpu_type] -= gpus
    ledger.held[pool] += gpus
    ledger.pending[pool] -= gpus
    ledger.left[pool] -= gpus
    if role == BORROWED and known.kinds[kind, KIND_STOPS] > 0.0:
        ledger.stoppable[0] += gpus
    ledger.waiting[kind] -= 1
    ledger.head[kind] = -1
    if ledger.waiting[kind] > 0:
        ledger.head[kind] = _first_waiting(jobs.columns[HELD], jobs.next, jobs.next[row])


@kernel
def _stop(jobs: Grouped, known: Tables, ledger: Ledger, kind: int, out: Changes) -> None:
    """Stop borrowers of one GPU type, the latest first, until a job of ``kind`` has its GPUs, or none."""
    columns, gpus = jobs.columns, known.kinds[kind, KIND_GPUS]
    for gpu_type in range(len(ledger.free)):
        if (int(known.kinds[kind, KIND_TYPES]) >> gpu_type) & 1 == 0:
            continue
        enough = ledger.free[gpu_type]
        for i in range(jobs.runs):
            if _may_stop(jobs, known, ledger, i, gpu_type):
                enough += columns[HELD][jobs.running[i]]
        if enough + SAME_AMOUNT < gpus:
            continue
        while ledger.free[gpu_type] + SAME_AMOUNT < gpus:
            latest, since = -1, -INFINITY
            for i in range(jobs.runs):
                started = columns[STARTED][jobs.running[i]]
                if started > since and _may_stop(jobs, known, ledger, i, gpu_type):
                    latest, since = i, started
            if latest < 0:
                return
            row = jobs.running[latest]
            pool, freed = int(known.kinds[jobs.group[row], KIND_POOL]), columns[HELD][row]
            out.gpus[row], out.gpu_type[row], ledger.stopped[latest] = 0.0, -1.0, True
            ledger.free[gpu_type] += freed
            ledger.held[pool] -= freed
            ledger.left[pool] += freed
            ledger.stoppable[0] -= freed
        return


@kernel
def _may_stop(jobs: Grouped, known: Tables, ledger: Ledger, i: int, gpu_type: int) -> bool:
    """Whether the ``i``-th job that runs is a borrower on a GPU type that may be stopped."""
    row = jobs.running[i]
    borrows = jobs.columns[jobs.own + _ROLE][row] == BORROWED and not ledger.stopped[i]
    stops = known.kinds[jobs.group[row], KIND_STOPS] > 0.0
    return bool(borrows and stops and jobs.columns[TYPE][row] == gpu_type)
