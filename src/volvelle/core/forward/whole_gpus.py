"""Whole GPUs that a decision can name beside parts: free parts of several GPUs do not add up to one.

A decision counts GPUs. Before GPUs are named, `cut_to_names` goes through what it changes, in order, and cuts
each job to what is left for it by name. Places within a GPU type need no look: the count of whole GPUs and
how full each shared one is say all.
"""

import math

from volvelle.core.compiled import kernel
from volvelle.core.forward.serving import keeps
from volvelle.core.forward.shared_gpus import WHOLE, part_of, parts_are_named
from volvelle.core.state import *

_PLACEMENT = int(Reason.PLACEMENT)


@kernel
def refuse(s: State, row: int) -> None:
    """The placement finds no room for the job in ``row``: it gets nothing."""
    s.jobs.target[row] = 0.0
    s.jobs.target_type[row] = -1.0
    s.jobs.reason[row] = _PLACEMENT


@kernel
def cut_to_names(s: State, rules: Rules) -> bool:
    """Cut what the decision gives to what can be named; whether all jobs get what they were given.

    An elastic job gets fewer GPUs, another one none. A job that may not be stopped keeps its fewest.
    Jobs that would go on with as much as they hold are no longer among those that change.
    """
    jobs, count = s.jobs, s.count
    if not parts_are_named(s, rules):
        return True
    as_given = True
    for gpu_type in range(len(s.types.capacity)):
        as_given = _cut_type(s, rules, gpu_type) and as_given
    if as_given:
        return True
    kept = 0
    for i in range(count[CHANGED]):
        row = s.changed[i]
        same = jobs.target[row] == jobs.held[row] and jobs.target_type[row] == jobs.type[row]
        if not same or jobs.held[row] == 0.0:
            s.changed[kept] = row
            kept += 1
    count[CHANGED] = kept
    return False


@kernel
def _cut_type(s: State, rules: Rules, gpu_type: int) -> bool:
    """As `cut_to_names`, for the GPUs of one type."""
    jobs, kind, as_given = s.jobs, float(gpu_type), True
    whole = _count_released(s, gpu_type)
    shared = _list_shared(s, gpu_type)
    reserved = 0
    for i in range(s.count[CHANGED]):
        reserved += _fewest_kept(s, rules, s.changed[i], kind)
    for i in range(s.count[CHANGED]):
        row = s.changed[i]
        if jobs.target_type[row] != kind or jobs.target[row] == 0.0:
            continue
        reserved -= _fewest_kept(s, rules, row, kind)
        room = whole - reserved
        if jobs.gpus[row] < 1.0:
            if _joins(s, row, shared):
                continue
            if room >= 1:
                s.slots.old[shared] = part_of(s, row)
                shared += 1
                whole -= 1
                continue
        elif math.ceil(jobs.target[row]) <= room:
            whole -= math.ceil(jobs.target[row])
            continue
        elif rules.elastic and jobs.least[row] < jobs.most[row] and jobs.least[row] <= room:
            jobs.target[row] = float(room)
            whole, as_given = reserved, False
            continue
        refuse(s, row)
        as_given = False
    return as_given


@kernel
def _count_released(s: State, gpu_type: int) -> int:
    """Whole GPUs of a type that are free once all changed jobs have released theirs.

    `Slots.foreseen` is how much of each shared GPU others hold then.
    """
    jobs, slots, whole = s.jobs, s.slots, s.types.offered[gpu_type]
    for i in range(s.count[SHARED_GPUS]):
        slots.foreseen[slots.sharing[i]] = slots.shared[slots.sharing[i]]
    for i in range(s.count[CHANGED]):
        row = s.changed[i]
        slot = jobs.slot[row]
        while slot >= 0:
            left = True
            if slots.owner[slot] == SHARED:
                slots.foreseen[slot] -= part_of(s, row)
                left = slots.foreseen[slot] == 0
            if left and _is_offered(s, slot, gpu_type):
                whole += 1
            slot = slots.next[slot]
    return int(whole)


@kernel
def _is_offered(s: State, slot: int, gpu_type: int) -> bool:
    """Whether a GPU is of a type, and its node takes jobs."""
    node = s.slots.node[slot]
    return bool(s.nodes.type[node] == gpu_type and s.nodes.up[node] == 1)


@kernel
def _list_shared(s: State, gpu_type: int) -> int:
    """Write to `Slots.old` how much is held of each GPU of a type that stays shared; returns how many."""
    slots, many = s.slots, 0
    for i in range(s.count[SHARED_GPUS]):
        slot = slots.sharing[i]
        if slots.foreseen[slot] > 0 and _is_offered(s, slot, gpu_type):
            slots.old[many] = slots.foreseen[slot]
            many += 1
    return many


@kernel
def _fewest_kept(s: State, rules: Rules, row: int, kind: float) -> int:
    """Whole GPUs of a type that the changed job in ``row`` keeps at least, because it may not be stopped."""
    jobs = s.jobs
    if jobs.held[row] < 1.0 or jobs.target_type[row] != kind or not keeps(jobs, rules, row):
        return 0
    return int(min(jobs.target[row], jobs.held[row], jobs.least[row]))


@kernel
def _joins(s: State, row: int, shared: int) -> bool:
    """Let the job in ``row`` join the fullest with room of the ``shared`` in `Slots.old`; whether one has."""
    taken, part, best = s.slots.old, part_of(s, row), -1
    for i in range(shared):
        if taken[i] + part <= WHOLE and (best < 0 or taken[i] > taken[best]):
            best = i
    if best >= 0:
        taken[best] += part
    return best >= 0
