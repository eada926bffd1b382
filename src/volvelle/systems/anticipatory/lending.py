"""Figures 7 and 8 of anticipatory scheduling: which jobs start, and whether as dedicated ones or borrowers.

Jobs of a kind (`kinds`) are served in order of submission, so that only the first of each kind that waits
matters.
"""

from typing import Any, NamedTuple

import numpy as np

from volvelle.core.columns import COUNT, HELD, NUMBER, STARTED, TYPE
from volvelle.core.compiled import kernel
from volvelle.core.fill import ClusterNow
from volvelle.core.groups import Changes, Grouped, change
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.coming import forecast
from volvelle.systems.anticipatory.gangs import gang_type
from volvelle.systems.anticipatory.kinds import note_departures
from volvelle.systems.anticipatory.memory import (
    ASK_AT,
    BEHIND,
    BORROWED,
    DEDICATED,
    FIRST,
    KIND_GPUS,
    KIND_MOST,
    KIND_NEXT,
    KIND_POOL,
    KIND_STOPS,
    KIND_TYPES,
    KIND_WITHIN,
    LEVEL,
    NO_ROLE,
    PREEMPT,
    ROLE,
    USED,
    Tables,
    tables,
)
from volvelle.systems.anticipatory.watch import open_for, watch

_QUOTA = float(Reason.QUOTA)
_ROLE = ROLE - COUNT  # among own columns


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
    note_departures(words, known, here, cluster.now)
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
        gpu_type = gang_type(kinds[kind, KIND_GPUS], kinds[kind, KIND_TYPES], free)
        if gpu_type < 0 and preempt:
            _stop(jobs, known, ledger, kind, out)
            gpu_type = gang_type(kinds[kind, KIND_GPUS], kinds[kind, KIND_TYPES], free)
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
                    if gang_type(kinds[one, KIND_GPUS], kinds[one, KIND_TYPES], free) >= 0:
                        best, least, oldest = one, ratio, number
            if best < 0:
                break
            gpu_type = gang_type(kinds[best, KIND_GPUS], kinds[best, KIND_TYPES], free)
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
