"""Packing: from the number of slots of each job to the slots themselves.

Jobs are gangs: in a slot a job holds all its GPUs or none. Slots are filled one after another by
**slack**, how many slots a job could still miss: least slack first, wider jobs first among equals. A job
that does not fit into what is left of a slot is passed over.

Least slack alone lets jobs of about equal slack take turns, and each turn is a restart. With ``keep`` a job
that ran in the slot before goes on, as long as no job without slack needs its place. The better of the two
depends on the gangs, so callers try both.
"""

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.model.arrays import Bools, Floats, IntColumn, Ints


def wider_first(gpus: Floats) -> IntColumn:
    """Rows by GPUs, widest first: the order in which `pack` wants jobs."""
    order: IntColumn = np.argsort(-gpus, kind="stable")
    return order


@compiled
def pack(
    order: Ints,
    gpus: Floats,
    slots: Ints,
    deadline: Ints,
    capacity: Floats,
    ran: Bools,
    keep: bool,
    whole: bool,
) -> Bools:
    """The slots in which each job holds its GPUs, (jobs, slots).

    order: the rows to be packed; ties go to the earlier ones. gpus, slots, deadline: by row, GPUs of
    the gang, slots that it is to have, and the number of slots by whose end it has them. capacity: GPUs of
    each slot. ran: whether it runs right before the first slot. whole: a job that cannot have all its slots
    any more gets no further ones.
    """
    held = np.zeros((len(gpus), len(capacity)), dtype=np.bool_)
    left = slots.copy()
    before = ran.copy()
    key = np.zeros(len(order))
    for slot in range(len(capacity)):
        for i in range(len(order)):
            row = order[i]
            slack = float(deadline[row] - slot - left[row])
            key[i] = slack
            if left[row] <= 0 or (whole and slack < 0.0) or deadline[row] <= slot:
                key[i] = np.inf
            elif keep and slack > 0.0:
                key[i] += 1e6 if before[row] else 2e6
        free = capacity[slot]
        now = np.zeros(len(gpus), dtype=np.bool_)
        for i in np.argsort(key, kind="mergesort"):
            row = order[i]
            if key[i] == np.inf or free <= 0.0:
                break
            if gpus[row] <= free:
                now[row] = True
                held[row, slot] = True
                left[row] -= 1
                free -= gpus[row]
        before = now
    return held


@compiled
def in_turn(
    order: Ints, gpus: Floats, counts: Ints, slots: int, capacity: Floats, ran_on: Ints
) -> Bools:
    """The cells in which each job has its rounds, (jobs, slots * types). Jobs with no slot to miss go first,
    the others by ``order``.

    A slot has a cell for each GPU type, cell ``slot * types + type``. counts: (jobs, types) rounds that each
    is to have. capacity: GPUs by type. ran_on: the type that each job holds right before, -1 for none; a
    job with rounds of the type that it had last goes on there.
    """
    jobs, types = counts.shape
    held = np.zeros((jobs, slots * types), dtype=np.bool_)
    left = counts.copy()
    last = ran_on.copy()
    chosen = np.zeros(jobs, dtype=np.int64)
    for slot in range(slots):
        free = capacity.copy()
        chosen[:] = -1
        for urgent in (True, False):
            for row in order:
                total = left[row].sum()
                if total <= 0 or (total >= slots - slot) != urgent:
                    continue
                for kind in range(types):
                    fits = left[row, kind] > 0 and gpus[row] <= free[kind]
                    if fits and (chosen[row] < 0 or kind == last[row]):
                        chosen[row] = kind
                if chosen[row] >= 0:
                    free[chosen[row]] -= gpus[row]
        for row in range(jobs):
            if chosen[row] >= 0:
                left[row, chosen[row]] -= 1
                last[row] = chosen[row]
                held[row, slot * types + chosen[row]] = True
    return held


@compiled
def finish_slots(held: Bools) -> Ints:
    """By the end of how many slots each job has had its last; 0 for those without any."""
    finish = np.zeros(len(held), dtype=np.int64)
    for row in range(len(held)):
        for slot in range(held.shape[1]):
            if held[row, slot]:
                finish[row] = slot + 1
    return finish


@compiled
def complete(
    held: Bools,
    capacity: Floats,
    gpus: Floats,
    slots: Ints,
    deadline: Ints,
    worths: Floats,
    ranked: Ints,
    order: Ints,
) -> None:
    """Take out jobs that end too late, put in those that fit, and move others to better steps; in place.

    deadline, worths, ranked: (jobs, steps) by the end of how many slots a step is reached, what it is
    worth (0: it cannot be reached), and steps from the most valuable on. order: in which jobs are tried.
    """
    free = capacity.copy()
    step = np.full(len(gpus), -1, dtype=np.int64)  # by its place in `ranked`
    for row in range(len(gpus)):
        last, given = 0, 0
        for slot in range(len(capacity)):
            if held[row, slot]:
                if given == slots[row]:
                    held[row, slot] = False
                    continue
                given += 1
                last = slot + 1
                free[slot] -= gpus[row]
        if given == slots[row]:
            for place in range(ranked.shape[1]):
                one = ranked[row, place]
                if worths[row, one] > 0.0 and last <= deadline[row, one]:
                    step[row] = place
                    break
        if step[row] < 0:
            take_out(held, free, row, gpus[row])
    for row in order:
        reached = step[row]
        if reached == 0:
            continue
        before = held[row].copy()
        if reached > 0:
            take_out(held, free, row, gpus[row])
        better = ranked.shape[1] if reached < 0 else reached
        for place in range(better):
            one = ranked[row, place]
            if worths[row, one] <= 0.0:
                continue
            if insert(held, free, row, gpus[row], slots[row], deadline[row, one]):
                step[row] = place
                break
        if step[row] == reached and reached > 0:
            for slot in range(len(capacity)):
                if before[slot]:
                    held[row, slot] = True
                    free[slot] -= gpus[row]


@compiled
def insert(held: Bools, free: Floats, row: int, gpus: float, slots: int, deadline: int) -> bool:
    """Give a job ``slots`` of the slots before ``deadline`` in which its GPUs are free; whether there are.

    The earliest ones; ``held`` and ``free`` (GPUs by slot) are changed in place.
    """
    room = 0
    for slot in range(min(deadline, len(free))):
        if free[slot] >= gpus:
            room += 1
    if room < slots:
        return False
    given = 0
    for slot in range(len(free)):
        if given == slots:
            break
        if free[slot] >= gpus:
            held[row, slot] = True
            free[slot] -= gpus
            given += 1
    return True


@compiled
def take_out(held: Bools, free: Floats, row: int, gpus: float) -> None:
    """Take all its slots from a job, in place."""
    for slot in range(len(free)):
        if held[row, slot]:
            held[row, slot] = False
            free[slot] += gpus


def restarts(held: Bools, ran: Bools) -> int:
    """How often a job begins that did not run in the slot before."""
    before = np.concatenate([ran[:, None], held[:, :-1]], axis=1)
    return int(np.count_nonzero(held & ~before))
