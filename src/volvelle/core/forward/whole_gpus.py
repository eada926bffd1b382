"""Whole GPUs that a decision can name beside parts: free parts of several GPUs do not add up to one.

A decision counts GPUs. Before GPUs are named, `cut_to_names` goes through what it changes, in order, and cuts
each job to what is left for it by name. Places within a GPU type need no look: the count of whole GPUs and
how full each shared one is say all.
"""

import math

from volvelle.core.compiled import kernel
from volvelle.core.forward.decide import keeps
from volvelle.core.forward.shared_gpus import WHOLE, part_of
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
    parts = count[SHARED_GPUS] > 0
    for i in range(count[CHANGED]):
        parts = parts or jobs.gpus[s.changed[i]] < 1.0
    if not parts:
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
    reserved = 0
    for i in range(s.count[CHANGED]):
        reserved += _fewest_kept(s, rules, s.changed[i], kind)
    shared = s.count[SHARED_GPUS]
    for i in range(s.count[CHANGED]):
        row = s.changed[i]
        if jobs.target_type[row] != kind or jobs.target[row] == 0.0:
            continue
        reserved -= _fewest_kept(s, rules, row, kind)
        room = whole - reserved
        if jobs.gpus[row] < 1.0:
            if _joins(s, row, gpu_type, shared):
                continue
            if room >= 1:
                shared = _begin(s, row, shared)
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
            node = slots.node[slot]
            if left and s.nodes.type[node] == gpu_type and s.nodes.up[node] == 1:
                whole += 1
            slot = slots.next[slot]
    return int(whole)


@kernel
def _fewest_kept(s: State, rules: Rules, row: int, kind: float) -> int:
    """Whole GPUs of a type that the changed job in ``row`` keeps at least, because it may not be stopped."""
    jobs = s.jobs
    if jobs.held[row] < 1.0 or jobs.target_type[row] != kind or not keeps(jobs, rules, row):
        return 0
    return int(min(jobs.target[row], jobs.held[row], jobs.least[row]))


@kernel
def _joins(s: State, row: int, gpu_type: int, shared: int) -> bool:
    """Let the job in ``row`` join the fullest of ``shared`` GPUs that has room; whether one has."""
    slots, part, best = s.slots, part_of(s, row), -1
    for i in range(shared):
        slot = slots.sharing[i]
        node, taken = slots.node[slot], slots.foreseen[slot]
        if i < s.count[SHARED_GPUS] and (s.nodes.type[node] != gpu_type or s.nodes.up[node] != 1):
            continue
        if taken == 0 or taken + part > WHOLE:
            continue
        if best < 0 or taken > slots.foreseen[best]:
            best = slot
    if best >= 0:
        slots.foreseen[best] += part
    return best >= 0


@kernel
def _begin(s: State, row: int, shared: int) -> int:
    """Let the job in ``row`` be the first on a GPU behind ``shared`` others; returns how many there are then.

    Any GPU that is not shared yet stands for the one that will be named.
    """
    slots = s.slots
    slot = slots.sharing[shared - 1] + 1 if shared > s.count[SHARED_GPUS] else 0
    while slots.owner[slot] == SHARED:
        slot += 1
    slots.sharing[shared] = slot
    slots.foreseen[slot] = part_of(s, row)
    return shared + 1
