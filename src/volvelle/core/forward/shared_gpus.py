"""GPUs of which several jobs hold parts by name: together no more than all of it.

A job that asks for less than a GPU holds a part of one. Its list of slots ends with that GPU, so that one
slot can be in the lists of several jobs. Parts are counted in whole billionths, whose sums are exact in any
order.
"""

from volvelle.core.compiled import kernel
from volvelle.core.state import *

WHOLE = 1_000_000_000


@kernel
def part_of(s: State, row: int) -> int:
    """Billionths of a GPU that the job in ``row`` holds, rounded down: seven sevenths fit on a GPU."""
    return max(int(s.jobs.gpus[row] * WHOLE), 1)


@kernel
def parts_are_named(s: State, rules: Rules) -> bool:
    """Whether a job holds a part of a GPU by name, or gets one by the decision."""
    if rules.places == COUNTED:
        return False
    named = s.count[SHARED_GPUS] > 0
    for i in range(s.count[CHANGED]):
        named = named or s.jobs.gpus[s.changed[i]] < 1.0
    return bool(named)


@kernel
def take_part(s: State, row: int, slot: int) -> None:
    """Let the job in ``row`` hold its part of ``slot``, which is free or has room."""
    slots = s.slots
    if slots.owner[slot] != SHARED:
        slots.owner[slot] = SHARED
        slots.shared[slot] = 0
        slots.next[slot] = -1
        slots.sharing[s.count[SHARED_GPUS]] = slot
        s.count[SHARED_GPUS] += 1
        s.nodes.free[slots.node[slot]] -= 1
    slots.shared[slot] += part_of(s, row)
    s.jobs.slot[row] = slot


@kernel
def leave_part(s: State, row: int, slot: int) -> None:
    """Let the job in ``row`` hold its part of ``slot`` no more."""
    slots = s.slots
    slots.shared[slot] -= part_of(s, row)
    if slots.shared[slot] > 0:
        return
    slots.owner[slot] = -1
    s.nodes.free[slots.node[slot]] += 1
    s.count[SHARED_GPUS] -= 1
    at = 0
    while slots.sharing[at] != slot:
        at += 1
    slots.sharing[at] = slots.sharing[s.count[SHARED_GPUS]]


@kernel
def fullest_with_room(s: State, row: int, gpu_type: int) -> int:
    """The fullest shared GPU of a type with room for the part of the job in ``row``; -1: none.

    This is the best fit, and whole GPUs stay free for jobs that need them. Of equals it is the first.
    """
    slots, part, best = s.slots, part_of(s, row), -1
    for i in range(s.count[SHARED_GPUS]):
        slot = slots.sharing[i]
        node, taken = slots.node[slot], slots.shared[slot]
        if s.nodes.type[node] != gpu_type or s.nodes.up[node] != 1 or taken + part > WHOLE:
            continue
        if best < 0 or taken > slots.shared[best] or (taken == slots.shared[best] and slot < best):
            best = slot
    return best
