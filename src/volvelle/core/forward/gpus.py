"""The GPUs that jobs hold, and when GPUs that were given up are free in fact.

GPUs have names (slots) where a placement chooses them. A job's slots are a list, linked in ascending order; a
job that asks for less than a GPU has a part of one (`shared_gpus`).
Where GPUs are only counted, GPUs that stopping jobs still hold come free later: a job that has to wait for
some takes what comes free last before its start, so that the next job can have what is free already.
"""

from volvelle.core.compiled import kernel
from volvelle.core.forward.free_nodes import first_node, note_free, pass_over, size_of
from volvelle.core.forward.shared_gpus import fullest_with_room, leave_part, take_part
from volvelle.core.state import *
from volvelle.model.tolerances import SAME_AMOUNT

# ---------------------------------------------------------------------- named GPUs


@kernel
def release(s: State, row: int) -> None:
    """Free the slots of the job in ``row``."""
    slot = s.jobs.slot[row]
    while slot >= 0:
        node = s.slots.node[slot]
        if s.slots.owner[slot] == SHARED:
            leave_part(s, row, slot)
        else:
            s.slots.owner[slot] = -1
            s.nodes.free[node] += 1
        note_free(s, node)
        slot = s.slots.next[slot]
    s.jobs.slot[row] = -1


@kernel
def delay(s: State, row: int, time: float) -> None:
    """Let the slots of the job in ``row`` be free in fact only at ``time``, or later as they are already."""
    slot = s.jobs.slot[row]
    while slot >= 0:
        s.slots.free_at[slot] = max(s.slots.free_at[slot], time)
        slot = s.slots.next[slot]


@kernel
def hold_slot(s: State, row: int, last: int, slot: int) -> int:
    """Let the job in ``row`` hold ``slot`` behind ``last``, its last one so far (-1: none); returns it."""
    if s.jobs.gpus[row] < 1.0:
        take_part(s, row, slot)
    else:
        _own(s, row, last, slot)
    note_free(s, s.slots.node[slot])
    return slot


@kernel
def _own(s: State, row: int, last: int, slot: int) -> int:
    """As `hold_slot`, without a note of what its node has free."""
    s.slots.owner[slot] = int(s.jobs.number[row])
    s.nodes.free[s.slots.node[slot]] -= 1
    s.slots.next[slot] = -1
    if last < 0:
        s.jobs.slot[row] = slot
    else:
        s.slots.next[last] = slot
    return slot


@kernel
def keep_in_mind(s: State, row: int, at: int) -> int:
    """Note the slots of the job in ``row`` in `Slots.old` from ``at`` on; returns where they end.

    Of a job with a part of a GPU, `Jobs.old_slots` is that GPU.
    """
    slot = s.jobs.slot[row]
    if s.jobs.gpus[row] < 1.0:
        s.jobs.old_slots[row] = slot
        return at
    s.jobs.old_slots[row] = at
    while slot >= 0:
        s.slots.old[at] = slot
        at += 1
        slot = s.slots.next[slot]
    return at


@kernel
def place(s: State, rules: Rules, row: int) -> bool:
    """Choose the slots of the job in ``row`` for what it is to hold; whether there is room for it.

    A job that held some keeps the first of these, where they are enough.
    """
    gpus, gpu_type = int(s.jobs.target[row]), int(s.jobs.target_type[row])
    if s.jobs.gpus[row] < 1.0:
        return _place_part(s, row, gpu_type)
    if s.jobs.exclusive[row] == 1.0:
        return take_whole_nodes(s, row, gpus, gpu_type)
    if rules.keeps_place and s.jobs.held[row] > 0.0 and keep_some(s, row, gpus, gpu_type):
        return True
    if s.types.offered[gpu_type] < gpus:
        return False
    picked, many, rest = s.nodes.picked, 0, gpus
    while rest > 0:
        node = s.place(s, gpu_type, rest)
        if node < 0:
            break
        picked[many] = node
        many += 1
        rest -= s.nodes.offered[node]
        pass_over(s, node)
    if rest <= 0:
        _hold_picked(s, row, many, rest)
    for i in range(many):
        note_free(s, picked[i])
    return rest <= 0


@kernel
def place_as_named(s: State, row: int) -> bool:
    """Let the job in ``row`` hold the first free GPUs of the nodes that the policy has named.

    False where it is to have whole nodes, and these are others'.
    """
    slots, last, named = s.slots, -1, s.count[NODES_NAMED] - 1
    for i in range(named if s.jobs.exclusive[row] == 1.0 else 0):
        if slots.named_row[i] == row and slots.named_gpus[i] < size_of(s, slots.named_node[i]):
            return False
    for i in range(named):
        if slots.named_row[i] == row:
            node, wanted = slots.named_node[i], slots.named_gpus[i]
            first = s.nodes.slot[node]
            for slot in range(first, first + size_of(s, node)):
                if wanted > 0 and slots.owner[slot] == -1:
                    last = hold_slot(s, row, last, slot)
                    wanted -= 1
    return True


@kernel
def _place_part(s: State, row: int, gpu_type: int) -> bool:
    """Choose the GPU of a job that holds a part of one; whether there is room for it."""
    slot = fullest_with_room(s, row, gpu_type)
    if slot < 0 and s.types.offered[gpu_type] > 0:
        node = s.place(s, gpu_type, 1)
        if node >= 0:
            slot = s.nodes.slot[node]
            while s.slots.owner[slot] != -1:
                slot += 1
    if slot >= 0:
        hold_slot(s, row, -1, slot)
    return bool(slot >= 0)


@kernel
def _hold_picked(s: State, row: int, many: int, rest: int) -> None:
    """Let the job in ``row`` hold what the picked nodes have free, but for -``rest`` GPUs of the last."""
    nodes, picked, last = s.nodes, s.nodes.picked, -1
    left = picked[many - 1]
    for i in range(1, many):
        node, at = picked[i], i
        while at > 0 and picked[at - 1] > node:
            picked[at] = picked[at - 1]
            at -= 1
        picked[at] = node
    for i in range(many):
        node = picked[i]
        wanted, slot = nodes.offered[node], nodes.slot[node]
        if node == left:
            wanted += rest
        while wanted > 0:
            if s.slots.owner[slot] == -1:
                last = _own(s, row, last, slot)
                wanted -= 1
            slot += 1


@kernel
def take_whole_nodes(s: State, row: int, gpus: int, gpu_type: int) -> bool:
    """Let the job in ``row`` hold all GPUs of the first nodes of a kind that are free; whether it can.

    Nodes of that kind have the same number of GPUs, of which ``gpus`` is a multiple.
    """
    picked, many, node = s.nodes.picked, 0, -1
    while gpus > 0:
        node = first_node(s, gpu_type, s.types.sizes[gpu_type], node)
        if node < 0:
            return False
        if s.nodes.offered[node] == size_of(s, node):
            picked[many] = node
            many += 1
            gpus -= s.nodes.offered[node]
    last = -1
    for i in range(many):
        first = s.nodes.slot[picked[i]]
        for slot in range(first, first + s.nodes.offered[picked[i]]):
            last = hold_slot(s, row, last, slot)
    return True


@kernel
def keep_some(s: State, row: int, gpus: int, gpu_type: int) -> bool:
    """Let the job in ``row`` hold the first of the slots it held before, where these are enough."""
    first = s.jobs.old_slots[row]
    end = first + int(s.jobs.held[row])
    kept, node = 0, -1
    for i in range(first, end):
        slot = s.slots.old[i]
        if s.slots.owner[slot] == -1:
            kept += 1
            if node < 0:
                node = s.slots.node[slot]
    if kept < gpus or s.nodes.type[node] != gpu_type:
        return False
    last = -1
    for i in range(first, end):
        if gpus > 0 and s.slots.owner[s.slots.old[i]] == -1:
            last = hold_slot(s, row, last, s.slots.old[i])
            gpus -= 1
    return True


@kernel
def slots_free_at(s: State, row: int, now: float) -> float:
    """When the slots of the job in ``row`` are free in fact, not before ``now``."""
    slot = s.jobs.slot[row]
    while slot >= 0:
        now = max(now, s.slots.free_at[slot])
        slot = s.slots.next[slot]
    return now


# ---------------------------------------------------------------------- counted GPUs


@kernel
def free_later(s: State, time: float, gpus: float, gpu_type: float, claim: float) -> None:
    """Let ``gpus`` GPUs come free at ``time``, for the job with the number ``claim`` (-1: for any job)."""
    releases, i = s.releases, s.count[RELEASES]
    s.count[RELEASES] = i + 1
    while i > 0 and releases.at[i - 1] > time:
        for column in range(len(releases.floats)):
            releases.floats[column][i] = releases.floats[column][i - 1]
        i -= 1
    releases.at[i] = time
    releases.gpus[i] = gpus
    releases.type[i] = gpu_type
    releases.claim[i] = claim


@kernel
def claim_no_more(s: State, number: float) -> None:
    """Leave to others the GPUs for which the job with this number still waits."""
    for i in range(s.count[RELEASES]):
        if s.releases.claim[i] == number:
            s.releases.claim[i] = -1.0


@kernel
def wait_for_gpus(s: State, now: float, gpu_type: int, number: float, gpus: float) -> float:
    """When ``gpus`` GPUs that a job is given, counted in `State.used` already, are free in fact."""
    releases = s.releases
    _drop_passed(s, now)
    over = s.types.used[gpu_type] - s.types.capacity[gpu_type]
    for i in range(s.count[RELEASES]):
        if releases.type[i] == gpu_type and releases.claim[i] < 0.0:
            over += releases.gpus[i]
    start, last = now, -1
    for i in range(s.count[RELEASES]):
        if over <= SAME_AMOUNT:
            break
        if releases.type[i] == gpu_type and releases.claim[i] < 0.0:
            start = releases.at[i]
            over -= releases.gpus[i]
            last = i
    while last >= 0 and gpus > 0.0:
        if releases.type[last] == gpu_type and releases.claim[last] < 0.0:
            taken = min(gpus, releases.gpus[last])
            gpus -= taken
            if taken < releases.gpus[last]:
                releases.gpus[last] -= taken
                free_later(s, releases.at[last], taken, gpu_type, number)
            else:
                releases.claim[last] = number
        last -= 1
    return float(start)


@kernel
def _drop_passed(s: State, now: float) -> None:
    releases, kept = s.releases, 0
    for i in range(s.count[RELEASES]):
        if releases.at[i] > now:
            if kept < i:
                for column in range(len(releases.floats)):
                    releases.floats[column][kept] = releases.floats[column][i]
            kept += 1
    s.count[RELEASES] = kept
