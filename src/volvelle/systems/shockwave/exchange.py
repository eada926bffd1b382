"""Slots chosen anew, one after another: what counting rounds loses where gangs are wide for the GPUs.

Rounds of jobs that fit into a window by their sum need not fit as gangs, and a list rule does not know what
its losses are worth. Here a slot is emptied and given to the gangs that gain most in it, all other slots
staying as they are: a knapsack of the slot's GPUs, solved exactly by dynamic programming. Slots are gone
through until none gets better. A round gains what it adds to its job's gains, on average over the piece of
their concave envelope, and what it takes from the half of the makespan's bound that binds.

With several GPU types a slot has a **cell** for each type, cell ``slot * types + type``, and cells are chosen
anew. A job holds one cell of a slot at most; it may leave a slower one for the cell that is chosen.
"""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import WHOLE_NUMBER

_SWEEPS = 20
"""Times that all slots are gone through at most."""


class Cells(NamedTuple):
    """Jobs, and the GPUs of a slot that they are to share.

    gpus: of each gang. speed: (jobs, types) rounds on the quickest type that a round counts as. gain,
    envelope: (jobs, slots) what the first, the second ... such round adds, and the same on its concave
    envelope. most: such rounds that a job can use. seconds: that each has left. there: GPUs of a slot by
    type. makespan_weight: what a second of the makespan's bound costs.
    """

    gpus: Ints
    speed: Floats
    gain: Floats
    envelope: Floats
    most: Ints
    seconds: Floats
    slot_seconds: float
    there: Ints
    makespan_weight: float


@compiled
def exchange(held: Bools, case: Cells) -> None:
    """Make a schedule better, cell by cell, in place. held: (jobs, cells)."""
    gpus, speed, there = case.gpus, case.speed, case.there
    jobs, cells = held.shape
    types = speed.shape[1]
    work = np.zeros(jobs)
    for row in range(jobs):
        for cell in range(cells):
            if held[row, cell]:
                work[row] += speed[row, cell % types]
    now = _value(work, case)
    worth, step = np.zeros(jobs), np.zeros(jobs)
    best = np.zeros(there.max() + 1)
    taken = np.zeros((jobs, len(best)), dtype=np.bool_)
    other = work.copy()
    leaves = np.zeros(jobs, dtype=np.int64)
    chosen = np.zeros(jobs, dtype=np.bool_)
    unchanged = 0
    for turn in range(_SWEEPS * cells):
        cell = turn % cells
        kind = cell % types
        for row in range(jobs):
            other[row] = work[row]
            step[row] = speed[row, kind]
            leaves[row] = -1
            if held[row, cell]:
                other[row] -= step[row]
                continue
            for one in range(types):
                if held[row, cell - kind + one]:
                    leaves[row] = cell - kind + one
                    step[row] -= speed[row, one]
        _worths(worth, other, step, case)
        best[:] = 0.0
        for row in range(jobs):
            taken[row, :] = False
            if worth[row] <= 0.0:
                continue
            for room in range(there[kind], gpus[row] - 1, -1):
                with_it = best[room - gpus[row]] + worth[row]
                if with_it > best[room] + 1e-12:
                    best[room] = with_it
                    taken[row, room] = True
        room = there[kind]
        for row in range(jobs - 1, -1, -1):
            chosen[row] = taken[row, room]
            if chosen[row]:
                room -= gpus[row]
                other[row] += step[row]
        then = _value(other, case)
        if then > now + 1e-9 * abs(now):
            now = then
            unchanged = 0
            for row in range(jobs):
                held[row, cell] = chosen[row]
                if chosen[row] and leaves[row] >= 0:
                    held[row, leaves[row]] = False
                work[row] = other[row]
        else:
            unchanged += 1
            if unchanged >= cells:
                break


@compiled
def gained(gain: Floats, row: int, before: float, step: float) -> float:
    """A job's gain by ``step`` rounds, at most one, after ``before``; a part of a round in proportion."""
    first = int(before + WHOLE_NUMBER)
    if first >= gain.shape[1]:
        return 0.0
    room = first + 1.0 - before
    if step <= room + WHOLE_NUMBER:
        return float(gain[row, first] * step)
    total = gain[row, first] * room
    if first + 1 < gain.shape[1]:
        total += gain[row, first + 1] * (step - room)
    return float(total)


@compiled
def _left(row: int, work: Floats, case: Cells) -> float:
    return float(max(case.seconds[row] - work[row] * case.slot_seconds, 0.0))


@compiled
def _spread_and_longest(work: Floats, case: Cells) -> tuple[float, float]:
    """Both halves of the makespan's bound after so much work."""
    spread, longest, everywhere = 0.0, 0.0, case.there.sum()
    for row in range(len(work)):
        left = _left(row, work, case)
        spread += case.gpus[row] * left / everywhere
        longest = max(longest, left)
    return spread, longest


@compiled
def _value(work: Floats, case: Cells) -> float:
    """The gain of so many rounds, less the cost of the makespan's bound."""
    value = 0.0
    for row in range(len(work)):
        used = min(work[row], float(case.most[row]))
        whole = int(used + WHOLE_NUMBER)
        for one in range(whole):
            value += case.gain[row, one]
        if used - whole > WHOLE_NUMBER:
            value += case.gain[row, whole] * (used - whole)
    spread, longest = _spread_and_longest(work, case)
    return value - case.makespan_weight * max(spread, longest)


@compiled
def _worths(worth: Floats, work: Floats, step: Floats, case: Cells) -> None:
    """The worth of ``step`` more of a round of each job, by itself."""
    spread, longest = _spread_and_longest(work, case)
    slot_seconds, everywhere = case.slot_seconds, case.there.sum()
    for row in range(len(work)):
        if work[row] + WHOLE_NUMBER >= case.most[row] or step[row] <= 0.0:
            worth[row] = 0.0
            continue
        worth[row] = gained(case.envelope, row, work[row], step[row])
        left = _left(row, work, case)
        saved, weight = min(left, step[row] * slot_seconds), case.makespan_weight
        if spread - slot_seconds >= longest:
            worth[row] += weight * case.gpus[row] * saved / everywhere
        elif left > longest - slot_seconds:
            worth[row] += weight * saved
