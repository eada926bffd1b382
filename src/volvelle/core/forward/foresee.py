"""A whole run with a prediction for every job at its submission, by machine code alone."""

from typing import Any

from volvelle.core.compiled import kernel
from volvelle.core.forward.advance import advance
from volvelle.core.forward.believe import believe, expect_ends, fall_silent
from volvelle.core.forward.jobs import leave
from volvelle.core.forward.moments import begin_moment, wake_at
from volvelle.core.state import *

_NUMBER = PLACE["number"]


@kernel
def foresee(s: State, ahead: State, rules: Rules, future: Rules, predicted: Any, told: Any) -> int:
    """Let time pass in ``s``, which pauses when jobs come; says why it returns.

    ahead: another state of the same size, in which what is believed is played out under the rules ``future``
    until the job in question is through. predicted: when each job will finish, by its place among the
    arrivals. told[0]: for how many of them that is known. All jobs are admitted at once.
    """
    while True:
        while told[0] < s.count[COME]:
            i = told[0]
            full = _begin_play_out(s, ahead, future, i)
            if full == AHEAD:
                full = advance(ahead, future, INFINITY, 1 << 62)
            if full == ROWS_FULL:
                return ROWS_FULL
            if ahead.count[TRACKED] == 0:
                predicted[i] = ahead.clock[NOW]
            told[0] = i + 1
        why = advance(s, rules, INFINITY, 1 << 62)
        if why != PAUSED:
            return why


@kernel
def _begin_play_out(s: State, ahead: State, future: Rules, i: int) -> int:
    """Begin with what is believed once job ``i`` of the arrivals has come, and no job after it."""
    _become(ahead, s)
    count = ahead.count
    number = s.arrivals[_NUMBER][i]
    now = ahead.clock[NOW]
    later = False
    row = count[YOUNGEST]
    while row >= 0 and ahead.jobs.number[row] > number:
        older = ahead.jobs.older[row]
        leave(ahead, future, row)
        row, later = older, True
    count[COME] = count[QUEUED] = 0
    fall_silent(ahead)
    count[TRACKED] = 1
    count[TRACKED_FIRST] = count[TRACKED_LAST] = int(number)
    if later:
        begin_moment(ahead, now)
        count[DIRTY], count[PHASE] = 1, ADMISSION
        advance(ahead, future, now, 1)
    believe(ahead)
    if count[EXPECTED] + count[JOBS] + 8 > len(ahead.expected.at):
        return ROWS_FULL
    expect_ends(ahead)
    count[PHASE] = AHEAD
    ahead.clock[WAKE] = wake_at(ahead, future)
    return AHEAD


@kernel
def _become(s: State, other: State) -> None:
    """Have the numbers of another state of the same size, for a play-out without arrivals."""
    count, row = other.count, other.count[OLDEST]
    while row >= 0:
        _copy(s.jobs.floats, other.jobs.floats, row, row + 1)
        _copy(s.jobs.ints, other.jobs.ints, row, row + 1)
        row = other.jobs.younger[row]
    _copy(s.classes.floats, other.classes.floats, 0, count[CLASSES])
    _copy(s.classes.ints, other.classes.ints, 0, count[CLASSES])
    _copy(s.groups.floats, other.groups.floats, 0, len(s.groups.demand))
    _copy(s.groups.ints, other.groups.ints, 0, len(s.groups.demand))
    _copy(s.expected.floats, other.expected.floats, 0, count[EXPECTED])
    _copy(s.releases.floats, other.releases.floats, 0, count[RELEASES])
    _copy(s.types.floats, other.types.floats, 0, len(s.types.free))
    _copy(s.types.ints, other.types.ints, 0, len(s.types.free))
    _copy(s.free_nodes.ints, other.free_nodes.ints, 0, len(s.free_nodes.node))
    _copy(s.pools.floats, other.pools.floats, 0, len(s.pools.left))
    _copy(s.pools.ints, other.pools.ints, 0, len(s.pools.left))
    _copy(s.tournament.floats, other.tournament.floats, 0, len(s.tournament.need))
    _copy(s.tournament.ints, other.tournament.ints, 0, len(s.tournament.need))
    _copy(s.nodes.ints, other.nodes.ints, 0, len(s.nodes.free))
    _copy(s.slots.floats, other.slots.floats, 0, len(s.slots.free_at))
    _copy(s.slots.ints, other.slots.ints, 0, len(s.slots.free_at))
    _copy_one(s.count, count, len(count))
    _copy_one(s.clock, other.clock, len(s.clock))
    _copy_one(s.memory, other.memory, len(s.memory))
    _copy(s.blocks.ints, other.blocks.ints, 0, len(s.blocks.jobs))
    for place in range(count[BLOCKS]):
        first = other.blocks.number[place] * BLOCK
        _copy(s.ranks.floats, other.ranks.floats, first, first + BLOCK)
        _copy(s.ranks.ints, other.ranks.ints, first, first + BLOCK)


@kernel
def _copy(columns: Any, others: Any, first: int, last: int) -> None:
    for row in range(first, last):
        for column in range(len(columns)):
            columns[column][row] = others[column][row]


@kernel
def _copy_one(column: Any, other: Any, last: int) -> None:
    for row in range(last):
        column[row] = other[row]
