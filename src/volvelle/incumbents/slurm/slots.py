"""The plan of a backfill pass: slots of time, and which nodes are kept in each, as sets of bits."""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.incumbents.slurm.lines import Reserved
from volvelle.model.arrays import Bools, Floats, Ints

(NOW, RESOLUTION, WINDOW, DEPTH, USER_DEPTH, PARTITION_DEPTH, ARRAY_DEPTH) = range(7)
"""Numbers of a `Plan`: seconds, and how many jobs are looked at, in all and of each; 0: no bound."""

WORD = 63
"""Nodes of a set that a word holds, a bit each; the sign is not used."""


class Plan(NamedTuple):
    """Slots: where each begins, and which nodes are kept in it, as sets of `WORD` nodes a word.

    order: the rows of ``kept`` and ``points`` by time. points: nodes kept for no time at all. covers: unions
    of slots. sizes: how many slots there are. passed: by line, where too few nodes are left in all slots
    before. alike: the line before of the same demand and class; latest: by these, the last line. too_long: by
    demand, the limit from which on too few nodes are left now.
    """

    numbers: Floats
    times: Floats
    order: Ints
    kept: Ints
    points: Ints
    covers: Ints
    sizes: Ints
    passed: Floats
    alike: Ints
    latest: Ints
    too_long: Floats


@kernel
def new_plan(numbers: Floats, reserved: Reserved, lines: int, kinds: int) -> Plan:
    """An empty plan with room for so many lines of so many demands and classes."""
    reservations, nodes = reserved.nodes.shape
    room = 1 + 2 * reservations + 2 * lines
    sets = room, -(-nodes // WORD)
    plan = Plan(
        numbers,
        np.zeros(room),
        np.zeros(room, dtype=np.int64),
        np.zeros(sets, dtype=np.int64),
        np.zeros(sets, dtype=np.int64),
        np.zeros(sets, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(lines),
        np.zeros(lines, dtype=np.int64),
        np.zeros(kinds, dtype=np.int64),
        np.zeros(kinds),
    )
    plan.times[0], plan.sizes[0] = numbers[NOW], 1
    for row in range(room):
        plan.order[row] = row
    for one in range(reservations):
        _cut(plan, reserved.begins[one])
        _cut(plan, reserved.ends[one])
    forget(plan)
    return plan


@kernel
def forget(plan: Plan) -> None:
    """Forget of which lines too few nodes are left, since nodes may have become free."""
    for kind in range(len(plan.latest)):
        plan.latest[kind], plan.too_long[kind] = -1, np.inf


@kernel
def words_of(nodes: Bools) -> Ints:
    """A set of nodes, `WORD` of them a word."""
    words = np.zeros((len(nodes) + WORD - 1) // WORD, dtype=np.int64)
    for node in range(len(nodes)):
        if nodes[node]:
            words[node // WORD] |= 1 << (node % WORD)
    return words


@kernel
def keep(plan: Plan, begin: float, end: float, nodes: Bools) -> None:
    """Keep nodes from one time to another; where these are the same, for no time at all."""
    slot, words = _cut(plan, begin), words_of(nodes)
    if begin == end:
        for word in range(len(words)):
            plan.points[plan.order[slot], word] |= words[word]
        return
    behind = _cut(plan, end)
    for at in range(slot, behind):
        for word in range(len(words)):
            plan.kept[plan.order[at], word] |= words[word]


@kernel
def first_from(plan: Plan, time: float) -> int:
    """The first slot that begins at a time or later."""
    low, high = 0, plan.sizes[0]
    while low < high:
        middle = (low + high) // 2
        if plan.times[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _cut(plan: Plan, time: float) -> int:
    """The slot that begins at ``time``, which is made where there is none; the first for what is past."""
    times, order, size = plan.times, plan.order, plan.sizes[0]
    low = first_from(plan, time)
    if time <= times[0] or (low < size and times[low] == time):
        return low
    row = order[size]
    for at in range(size, low, -1):
        times[at], order[at] = times[at - 1], order[at - 1]
    times[low], order[low] = time, row
    for word in range(plan.kept.shape[1]):
        plan.kept[row, word] = plan.kept[order[low - 1], word]
    plan.sizes[0] = size + 1
    return low


@kernel
def unite(plan: Plan, first: int, behind: int) -> None:
    """Write the unions of the slots from each one on, of those from ``first`` up to ``behind``.

    The window of slots that a limit spans moves on: its union is that of the rest of these, and of slots that
    came since (a queue of two stacks).
    """
    for at in range(behind - 1, first - 1, -1):
        row = plan.order[at]
        for word in range(plan.kept.shape[1]):
            plan.covers[at, word] = plan.kept[row, word] | plan.points[row, word]
            if at + 1 < behind:
                plan.covers[at, word] |= plan.covers[at + 1, word]


@kernel
def overlaps(plan: Plan, begin: float, end: float, nodes: Bools) -> bool:
    """Whether one of the nodes is kept for another between two times."""
    slot, words = first_from(plan, begin), words_of(nodes)
    if slot == plan.sizes[0] or (slot > 0 and plan.times[slot] > begin):
        slot -= 1
    for at in range(slot, plan.sizes[0]):
        time, row = plan.times[at], plan.order[at]
        if at > slot and time >= end:
            break
        for word in range(len(words)):
            kept = plan.kept[row, word]
            if begin < time < end:
                kept |= plan.points[row, word]
            if words[word] & kept != 0:
                return True
    return False
