"""Slots chosen anew, one after another: what counting rounds loses where gangs are wide for the GPUs.

Rounds of jobs that fit into a window by their sum need not fit as gangs, and a list rule does not know what
its losses are worth. Here a slot is emptied and given to the gangs that gain most in it, all other slots
staying as they are: a knapsack of the slot's GPUs, solved exactly by dynamic programming. Slots are gone
through until none gets better. A round gains what it adds to its job's gains, on average over the piece of
their concave envelope, and what it takes from the half of the makespan's bound that binds.
"""

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.plan.packing import Bools, Floats, Ints

_SWEEPS = 20
"""Times that all slots are gone through at most."""


@compiled
def exchange(
    held: Bools,
    gpus: Ints,
    gain: Floats,
    envelope: Floats,
    most: Ints,
    seconds: Floats,
    slot_seconds: float,
    there: int,
    makespan_weight: float,
) -> None:
    """Make a schedule better, slot by slot, in place.

    held: (jobs, slots). gpus: of each gang. gain, envelope: (jobs, slots) what the first, the second ...
    round adds, and the same on its concave envelope. most: rounds that a job can use. seconds: that each
    has left. there: GPUs of a slot. makespan_weight: what a second of the makespan's bound costs.
    """
    jobs, slots = held.shape
    rounds = np.zeros(jobs, dtype=np.int64)
    for row in range(jobs):
        for slot in range(slots):
            if held[row, slot]:
                rounds[row] += 1
    now = _value(rounds, gpus, gain, seconds, slot_seconds, there, makespan_weight)
    worth = np.zeros(jobs)
    best = np.zeros(there + 1)
    taken = np.zeros((jobs, there + 1), dtype=np.bool_)
    other = rounds.copy()
    unchanged = 0
    for turn in range(_SWEEPS * slots):
        slot = turn % slots
        for row in range(jobs):
            other[row] = rounds[row] - int(held[row, slot])
        _worths(worth, other, gpus, envelope, most, seconds, slot_seconds, there, makespan_weight)
        best[:] = 0.0
        for row in range(jobs):
            taken[row, :] = False
            if worth[row] <= 0.0:
                continue
            for room in range(there, gpus[row] - 1, -1):
                with_it = best[room - gpus[row]] + worth[row]
                if with_it > best[room] + 1e-12:
                    best[room] = with_it
                    taken[row, room] = True
        room = there
        for row in range(jobs - 1, -1, -1):
            if taken[row, room]:
                room -= gpus[row]
                other[row] += 1
        then = _value(other, gpus, gain, seconds, slot_seconds, there, makespan_weight)
        if then > now + 1e-9 * abs(now):
            now = then
            unchanged = 0
            for row in range(jobs):
                held[row, slot] = other[row] - rounds[row] + int(held[row, slot]) > 0
                rounds[row] = other[row]
        else:
            unchanged += 1
            if unchanged >= slots:
                break


@compiled
def _left(row: int, rounds: Ints, seconds: Floats, slot_seconds: float) -> float:
    return float(max(seconds[row] - rounds[row] * slot_seconds, 0.0))


@compiled
def _value(
    rounds: Ints,
    gpus: Ints,
    gain: Floats,
    seconds: Floats,
    slot_seconds: float,
    there: int,
    makespan_weight: float,
) -> float:
    """What so many rounds gain, less what the makespan's bound costs."""
    value, spread, longest = 0.0, 0.0, 0.0
    for row in range(len(rounds)):
        for one in range(rounds[row]):
            value += gain[row, one]
        left = _left(row, rounds, seconds, slot_seconds)
        spread += gpus[row] * left / there
        longest = max(longest, left)
    return value - makespan_weight * max(spread, longest)


@compiled
def _worths(
    worth: Floats,
    rounds: Ints,
    gpus: Ints,
    envelope: Floats,
    most: Ints,
    seconds: Floats,
    slot_seconds: float,
    there: int,
    makespan_weight: float,
) -> None:
    """What one more round of each job is worth, by itself."""
    spread, longest = 0.0, 0.0
    for row in range(len(rounds)):
        left = _left(row, rounds, seconds, slot_seconds)
        spread += gpus[row] * left / there
        longest = max(longest, left)
    for row in range(len(rounds)):
        if rounds[row] >= most[row]:
            worth[row] = 0.0
            continue
        worth[row] = envelope[row, rounds[row]]
        left = _left(row, rounds, seconds, slot_seconds)
        if spread - slot_seconds >= longest:
            worth[row] += makespan_weight * gpus[row] * min(left, slot_seconds) / there
        elif left > longest - slot_seconds:
            worth[row] += makespan_weight * min(left, slot_seconds)
