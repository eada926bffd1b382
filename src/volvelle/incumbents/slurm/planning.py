"""The plan of a backfill pass as a kernel: when each job could start, by limits, beside the jobs before it.

Slurm's plan keeps whole nodes from a start to the limit's end ("Scheduling Configuration Guide", "Backfill
Scheduling"; ``bf_resolution``, ``bf_window``). Time is divided into slots, at each of which other nodes are
kept: a job looks for the first slot from which on enough nodes are left for as long as its limit.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import compiled, kernel
from volvelle.incumbents.slurm.choosing import (
    LEAST,
    Ground,
    fill_tasks,
    find_among,
    suffices,
    tasks_at,
)
from volvelle.incumbents.slurm.lines import Lines, Reserved, take_reserved
from volvelle.incumbents.slurm.queue import (
    ARRAY,
    CLASS,
    DEMAND,
    GROUP,
    JOB,
    LIMIT,
    PARTITION,
    RESERVATION,
    RESERVED,
    USER,
)
from volvelle.incumbents.slurm.shapes import CPUS, GPUS, MEMORY
from volvelle.incumbents.slurm.slots import (
    ARRAY_DEPTH,
    DEPTH,
    NOW,
    PARTITION_DEPTH,
    RESOLUTION,
    USER_DEPTH,
    WINDOW,
    WORD,
    Plan,
    first_from,
    keep,
    overlaps,
    unite,
)
from volvelle.model.arrays import Bools, Floats, Ints

NEVER = float("inf")

(NODE, HELD_CPUS, HELD_MEMORY, HELD_GPUS, END) = range(5)
"""Rows of what running jobs hold: a column for each job and node; its end by limit, at least in a second."""


class Running(NamedTuple):
    """Running jobs and what they leave free.

    free: (3, nodes). up: by node. held: (5, shares), by end. gone: (classes, shares), those that jobs of a
    class may stop.
    """

    free: Floats
    up: Bools
    held: Floats
    gone: Bools


class _Room(NamedTuple):
    """Space to plan a line in: what is free later, and nodes as sets of bits."""

    free: Floats
    tasks: Floats
    usable: Bools
    able: Ints
    taken: Ints
    rest: Ints


@kernel
def _room(nodes: int, words: int) -> _Room:
    return _Room(
        np.empty((3, nodes)),
        np.empty(nodes),
        np.empty(nodes, dtype=np.bool_),
        np.empty(words, dtype=np.int64),
        np.empty(words, dtype=np.int64),
        np.empty(words, dtype=np.int64),
    )


@compiled
def next_start(
    ground: Ground,
    lines: Lines,
    running: Running,
    reserved: Reserved,
    plan: Plan,
    may_stop: Bools,
    chosen: Bools,
    at: int,
    last: int,
    late: float,
) -> int:
    """The next line, from ``at`` to ``last``, of a job that may start now, on ``chosen``; -1: none is left.

    Lines before it are planned, as long as there is one behind them that may start beside them. may_stop:
    classes of jobs that may stop others. late: when the job in line ``at``, which did not start on ``chosen``
    after all, is planned to start; infinite where that line is new.
    """
    numbers, table = plan.numbers, lines.table
    now = numbers[NOW]
    if late < NEVER:
        _keep(lines, plan, at, late, chosen)
        at += 1
    nodes, words = len(running.up), plan.kept.shape[1]
    room, again = _room(nodes, words), _room(nodes, words)
    tested, grown = 0, True
    for job in range(len(lines.tested)):
        tested += int(lines.tested[job])
    for line in range(at, last + 1):
        while grown and last >= line:
            grown = not _may_start(ground, lines, last, running, plan, may_stop)
            last -= int(grown)
        if line > last:
            break
        row = lines.rows[line]
        job, limit = int(table[row, JOB]), lines.limits[int(table[row, GROUP])]
        if lines.state[line] != 0:
            continue
        if limit < 0:
            continue
        if tested >= numbers[DEPTH] and not lines.tested[job]:
            break
        user, partition = int(table[row, USER]), int(table[row, PARTITION])
        array = int(table[row, ARRAY])
        if numbers[USER_DEPTH] > 0 and lines.users[user] >= numbers[USER_DEPTH]:
            continue
        if numbers[PARTITION_DEPTH] > 0 and lines.partitions[partition] >= numbers[PARTITION_DEPTH]:
            continue
        if array >= 0 and lines.arrays[array] >= numbers[ARRAY_DEPTH]:
            continue
        if not lines.tested[job]:
            lines.tested[job] = True
            tested += 1
        lines.users[user] += 1
        lines.partitions[partition] += 1
        slots = plan.sizes[0] if line < last else 1
        start = _earliest(ground, lines, line, running, reserved, plan, slots, room, again, chosen)
        if start > now:
            _keep(lines, plan, line, start, chosen)
            end = now + table[lines.rows[last], LIMIT]
            grown = start - numbers[RESOLUTION] < end  # else nothing is kept that long before it
        elif limit == 0:
            return line
    return -1


@kernel
def _may_start(
    ground: Ground, lines: Lines, line: int, running: Running, plan: Plan, may_stop: Bools
) -> bool:
    """Whether nothing is known to keep a line's job from starting now: its limit, or what is kept so far."""
    table, row = lines.table, lines.rows[line]
    if lines.state[line] != 0 or lines.limits[int(table[row, GROUP])] != 0:
        return False
    if may_stop[int(table[row, CLASS])]:
        return True
    demand, limit = int(table[row, DEMAND]), table[row, LIMIT]
    if limit >= plan.too_long[demand]:
        return False
    end = plan.numbers[NOW] + limit
    kept = np.zeros(plan.kept.shape[1], dtype=np.int64)
    for slot in range(plan.sizes[0]):
        if slot > 0 and plan.times[slot] >= end:
            break
        for word in range(len(kept)):
            kept[word] |= plan.kept[plan.order[slot], word]
    tasks, usable = np.zeros(len(running.up)), np.zeros(len(running.up), dtype=np.bool_)
    for node in range(len(usable)):
        usable[node] = running.up[node] and (kept[node // WORD] >> (node % WORD)) & 1 == 0
    fill_tasks(ground, demand, running.free, usable, tasks)
    if suffices(ground, demand, running.free, tasks, usable):
        return True
    plan.too_long[demand] = limit
    return False


@kernel
def _keep(lines: Lines, plan: Plan, line: int, start: float, nodes: Bools) -> None:
    """Keep nodes for a job from its start on, if that is within the window."""
    numbers, table, row = plan.numbers, lines.table, lines.rows[line]
    if start > numbers[NOW] + numbers[WINDOW]:
        return
    array = int(table[row, ARRAY])
    if array >= 0:
        lines.arrays[array] += 1
    resolution = numbers[RESOLUTION]
    begin = start // resolution * resolution
    end = (start + table[row, LIMIT]) // resolution * resolution
    if end <= numbers[NOW]:
        return
    keep(plan, begin, end, nodes)


@kernel
def _earliest(
    ground: Ground,
    lines: Lines,
    line: int,
    running: Running,
    reserved: Reserved,
    plan: Plan,
    slots: int,
    room: _Room,
    again: _Room,
    chosen: Bools,
) -> float:
    """When the job of a line could start, by limits and beside the plan, on ``chosen``.

    Infinite: never, or not in the first ``slots``.

    At each slot the job looks at nodes that are kept for nobody from there to its limit's end. Free
    resources on them when the next slot begins, by limits, have to suffice; then `_will_run` says whether
    they do. Slots at which too few of all nodes could serve the job are passed over.
    """
    held, times, order, size = running.held, plan.times, plan.order, plan.sizes[0]
    table, row = lines.table, lines.rows[line]
    demand, limit, of = int(table[row, DEMAND]), table[row, LIMIT], int(table[row, CLASS])
    nodes, words = len(running.up), plan.kept.shape[1]
    free, tasks, usable, able, taken, rest = room
    _copy(running.free, free)
    for share in range(held.shape[1]):
        if running.gone[of, share]:
            _release(held, share, free)
    share, turn = 0, _first_slot(lines, line, running, plan)
    while 0 < turn < size and share < held.shape[1] and held[END, share] <= times[turn]:
        if not running.gone[of, share]:
            _release(held, share, free)
        share += 1
    fill_tasks(ground, demand, free, running.up, tasks)
    able[:], rest[:] = 0, 0
    for node in range(nodes):
        if tasks[node] > 0.0:
            able[node // WORD] |= 1 << (node % WORD)
    behind = turn
    for slot in range(turn, slots):
        at = times[slot]
        end, later = at + limit, times[slot + 1] if slot + 1 < size else NEVER
        while share < held.shape[1] and held[END, share] <= later:
            if not running.gone[of, share]:
                _release(held, share, free)
                node = int(held[NODE, share])
                if ground.allowed[demand, node]:
                    tasks[node] = tasks_at(ground, demand, free, node)
                    if tasks[node] > 0.0:
                        able[node // WORD] |= 1 << (node % WORD)
            share += 1
        while behind < size and (behind <= slot or times[behind] < end):
            for word in range(words):
                rest[word] |= plan.kept[order[behind], word] | plan.points[order[behind], word]
            behind += 1
        if slot + 1 > turn:
            unite(plan, slot + 1, behind)
            rest[:] = 0
            turn = behind
        for word in range(words):
            taken[word] = plan.kept[order[slot], word] | rest[word]
            if slot + 1 < turn:
                taken[word] |= plan.covers[slot + 1, word]
        if not _are_left(able, taken, ground.demands[demand, LEAST]):
            continue
        for node in range(nodes):
            usable[node] = running.up[node] and (taken[node // WORD] >> (node % WORD)) & 1 == 0
        take_reserved(reserved, int(table[row, RESERVATION]), at, end, usable)
        if not suffices(ground, demand, free, tasks, usable):
            continue
        plan.passed[line] = min(plan.passed[line], at)
        found = _will_run(ground, demand, of, running, plan, usable, again, later, chosen)
        start = max(found, at)
        if start < NEVER and start <= later and not overlaps(plan, start, start + limit, chosen):
            return float(start)
    return NEVER


@kernel
def _first_slot(lines: Lines, line: int, running: Running, plan: Plan) -> int:
    """The first slot in which enough nodes may be left to a line, by lines before it.

    In slots in which too few were left to the like job of a line before, no more are left to one that runs as
    long or longer: what is kept only grows.
    """
    table, row = lines.table, lines.rows[line]
    if table[row, RESERVED] != 0.0:
        return 0
    kind = int(table[row, DEMAND]) * len(running.gone) + int(table[row, CLASS])
    before, bound = plan.latest[kind], plan.times[0]
    plan.passed[line], plan.alike[line], plan.latest[kind] = NEVER, before, line
    while before >= 0:
        if table[lines.rows[before], LIMIT] <= table[row, LIMIT]:
            bound = max(bound, plan.passed[before])
        before = plan.alike[before]
    return first_from(plan, bound)


@kernel
def _are_left(able: Ints, taken: Ints, least: float) -> bool:
    """Whether so many nodes, one at least, are in one set and not in another."""
    count = 0
    for word in range(len(able)):
        left = able[word] & ~taken[word]
        while left != 0:
            left &= left - 1
            count += 1
            if count >= least:
                return True
    return False


@kernel
def _will_run(
    ground: Ground,
    demand: int,
    of: int,
    running: Running,
    plan: Plan,
    usable: Bools,
    room: _Room,
    later: float,
    chosen: Bools,
) -> float:
    """When a job would find nodes if running jobs end with their limits; which (``will_run_test``).

    Jobs that it may stop, being ``of`` a class, are counted as gone. Ends are looked at in groups, whose
    width doubles from 30 s. Infinite: not by the time ``later``.
    """
    held, gone, now = running.held, running.gone, plan.numbers[NOW]
    free, tasks = room.free, room.tasks
    _copy(running.free, free)
    fill_tasks(ground, demand, free, usable, tasks)
    if find_among(ground, demand, free, tasks, usable, chosen):
        return float(now)
    stops = False
    for share in range(held.shape[1]):
        if gone[of, share]:
            _release(held, share, free)
            stops = True
    if stops:
        fill_tasks(ground, demand, free, usable, tasks)
        if find_among(ground, demand, free, tasks, usable, chosen):
            return float(now)
    width, share, last = 60.0, 0, NEVER
    while share < held.shape[1]:
        first = NEVER
        while share < held.shape[1] and (first == NEVER or held[END, share] <= first + width):
            node = int(held[NODE, share])
            if usable[node] and ground.allowed[demand, node] and not gone[of, share]:
                last = held[END, share]
                if first == NEVER:
                    first = last
                _release(held, share, free)
                tasks[node] = tasks_at(ground, demand, free, node)
            share += 1
        width *= 2.0
        if first > later:
            break
        if first < NEVER and find_among(ground, demand, free, tasks, usable, chosen):
            return float(last)
    return NEVER


@kernel
def _copy(free: Floats, to: Floats) -> None:
    for resource in range(3):
        for node in range(free.shape[1]):
            to[resource, node] = free[resource, node]


@kernel
def _release(held: Floats, share: int, free: Floats) -> None:
    node = int(held[NODE, share])
    free[CPUS, node] += held[HELD_CPUS, share]
    free[MEMORY, node] += held[HELD_MEMORY, share]
    free[GPUS, node] += held[HELD_GPUS, share]
