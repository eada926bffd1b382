"""The inner loop of a direct run: scheduler and simulated world in one, compiled.

One moment after another, exactly as `World.run` and `Scheduler.handle` do it, with the same kernels on the
same columns: ends, submissions, admission, the order, the fill, what changes. What `simulate.direct` lets
in keeps it short: jobs that scale linearly and never fail, GPUs that are only counted, stops that cost
nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import Column
from volvelle.core.compiled import compiled
from volvelle.core.kernels import (
    TARGET,
    TARGET_REASON,
    TARGET_TYPE,
    apply,
    fill,
    note_reasons,
    serve_all,
    settle_ties,
    sort_again,
    unit_rates,
)
from volvelle.core.keys import keys_of
from volvelle.policies.afs import share_by_length

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# What is true of a job stands behind the scheduler's columns of it, and moves with them.
WORK = Column.COUNT  # units in all
PER_GPU = Column.COUNT + 1  # units per second and GPU
DONE = Column.COUNT + 2  # units done at SINCE
SINCE = Column.COUNT + 3  # when progress at RATE began or begins
RATE = Column.COUNT + 4
END = Column.COUNT + 5  # when it will have done its work
WIDTH = Column.COUNT + 6

# Whole numbers that change, in `Ahead.count`.
ROWS, NEXT, DOOR, DIRTY, LOGGED, ACTIVE, TURNS, ACTIVE_SUM = range(8)
MOMENTS, EVENTS, TRACKED, NEEDED, COUNTERS = range(8, 13)
# Times and sums that change, in `Ahead.clock`.
NOW, WAKE, DEMAND = range(3)

THROUGH, PAUSED, LOG_FULL, ROWS_FULL, ENDED_EARLY, ENOUGH = range(6)
"""Why `advance` returned."""

ADMITTED, OBSTACLE, NO_PROGRESS = range(3)
"""What becomes of a job at the door: it enters, cannot run here, or is believed to make no progress."""

WAITING, FINISHED, REJECTED = range(3)
"""How a job ended, in `Ahead.ended`."""

_NUMBER = Column.NUMBER
_GPUS = Column.GPUS
_LEAST = Column.LEAST
_MOST = Column.MOST
_HELD = Column.HELD
_START_GAP = Column.START_GAP
_SUBMIT = Column.SUBMIT
_RESIZE = Column.RESIZE
_COLUMNS = Column.COUNT


class Rules(NamedTuple):
    """What does not change while time passes.

    key: a `Key`. contested: shares are contested instead, with ``rates`` by (curve, GPU type, GPUs), of
    equals the ``later`` submission first. round: seconds, 0 where decisions follow events. limit: the
    most GPUs admitted jobs may request together. tick: ends are noticed at multiples of it, 0 for at
    once. until: the end of time.
    """

    key: int
    contested: bool
    later: bool
    rates: NDArray[np.float64]
    preemptive: bool
    strict: bool
    elastic: bool
    round: float
    time_varying: bool
    limit: float
    tick: float
    until: float
    capacity: Floats
    quota: Floats


class Log(NamedTuple):
    """Who holds how many GPUs from when on, as `HoldingLog` keeps it; filled up to LOGGED."""

    job: Ints
    time: Floats
    gpus: Floats
    attempt: Ints


class Ahead(NamedTuple):
    """What the loop reads and writes; job numbers index the arrays of the second group.

    matrix: (WIDTH, rows). newcomers: (jobs, Column.COUNT), a row for each job as it enters.
    """

    matrix: Floats
    tally: Ints
    clock: Floats
    newcomers: Floats
    verdict: Ints
    work: Floats
    per_gpu: Floats
    tracked: NDArray[np.bool_]
    row_of: Ints
    finish: Floats
    ended: Ints
    contention: Floats
    turns_before: Ints
    active_before: Ints
    log: Log


@compiled
def advance(ahead: Ahead, rules: Rules, moments: int) -> int:
    """Let time pass for at most ``moments`` moments; says why it stopped."""
    tally, clock, jobs = ahead.tally, ahead.clock, len(ahead.newcomers)
    hint = np.zeros(0, np.int64)
    for _ in range(moments):
        everybody_left = tally[NEXT] == jobs and tally[DOOR] == jobs and tally[ROWS] == 0
        next_end = _next_end(ahead.matrix, tally[ROWS])
        now = min(next_end, clock[WAKE], _next_submission(ahead))
        if everybody_left or tally[TRACKED] == 0 or now == np.inf:
            return THROUGH
        if now > rules.until:
            return ENDED_EARLY
        arrivals = _arrivals(ahead, now)
        room = _room(ahead, arrivals)
        if room != ENOUGH:
            return room
        clock[NOW] = now
        if next_end <= now:
            _end_jobs(ahead, now)
        _open_the_door(ahead, rules, arrivals)
        if clock[WAKE] <= now:
            clock[WAKE] = np.inf
            tally[EVENTS] += 1
        if _due(ahead, rules, now):
            tally[DIRTY] = 0
            hint = _decide(ahead, rules, hint, now)
        clock[WAKE] = np.inf
        if rules.round > 0.0 and _something_may_change(ahead, rules):
            clock[WAKE] = _boundary(now, rules.round, True)
        tally[MOMENTS] += 1
    return PAUSED


@compiled
def _next_end(matrix: Floats, jobs: int) -> float:
    """When the next job will have done its work."""
    first = second = third = fourth = np.inf  # four chains: a processor can follow them at once
    row = 0
    while row + 4 <= jobs:
        first = min(first, matrix[END, row])
        second = min(second, matrix[END, row + 1])
        third = min(third, matrix[END, row + 2])
        fourth = min(fourth, matrix[END, row + 3])
        row += 4
    while row < jobs:
        first = min(first, matrix[END, row])
        row += 1
    return float(min(first, second, third, fourth))


@compiled
def _next_submission(ahead: Ahead) -> float:
    """When the next job is submitted."""
    following = ahead.tally[NEXT]
    if following == len(ahead.newcomers):
        return np.inf
    return float(ahead.newcomers[following, _SUBMIT])


@compiled
def _arrivals(ahead: Ahead, now: float) -> int:
    """How many jobs are submitted now."""
    following = ahead.tally[NEXT]
    while following < len(ahead.newcomers) and ahead.newcomers[following, _SUBMIT] <= now:
        following += 1
    return int(following - ahead.tally[NEXT])


@compiled
def _room(ahead: Ahead, arrivals: int) -> int:
    """Whether all that can happen now finds room; what is needed stands in NEEDED where not."""
    tally = ahead.tally
    at_most = tally[ROWS] + tally[NEXT] + arrivals - tally[DOOR]
    if at_most > ahead.matrix.shape[1]:
        tally[NEEDED] = at_most
        return ROWS_FULL
    if tally[LOGGED] + 2 * at_most > len(ahead.log.job):
        tally[NEEDED] = 2 * at_most
        return LOG_FULL
    return ENOUGH


@compiled
def _end_jobs(ahead: Ahead, now: float) -> None:
    """Take out the jobs that have done their work, in order of submission."""
    matrix, tally = ahead.matrix, ahead.tally
    ending = np.empty(tally[ROWS])
    many = 0
    for row in range(tally[ROWS]):
        if matrix[END, row] <= now:
            ending[many] = matrix[_NUMBER, row]
            many += 1
    ending = ending[:many]
    for i in np.argsort(ending):
        number = int(ending[i])
        row, last = ahead.row_of[number], tally[ROWS] - 1
        ahead.clock[DEMAND] -= matrix[_GPUS, row]
        ahead.finish[number] = now
        _leave(ahead, number, FINISHED, now)
        for column in range(WIDTH):
            matrix[column, row] = matrix[column, last]
        ahead.row_of[int(matrix[_NUMBER, row])] = row
        tally[ROWS] = last
        tally[DIRTY] = 1
        tally[EVENTS] += 1


@compiled
def _leave(ahead: Ahead, number: int, how: int, now: float) -> None:
    """Note that a job is through: as `Recorder` does."""
    tally = ahead.tally
    ahead.ended[number] = how
    log, at = ahead.log, tally[LOGGED]
    log.job[at], log.time[at] = number, now
    log.gpus[at], log.attempt[at] = 0.0, -1
    tally[LOGGED] = at + 1
    turns = tally[TURNS] - ahead.turns_before[number]
    ahead.contention[number] = (tally[ACTIVE_SUM] - ahead.active_before[number]) / turns
    _turn(tally, -1)
    if ahead.tracked[number]:
        tally[TRACKED] -= 1


@compiled
def _turn(tally: Ints, change: int) -> None:
    """One more or less active job: what PCS' contention is summed from."""
    tally[ACTIVE] += change
    tally[TURNS] += 1
    tally[ACTIVE_SUM] += tally[ACTIVE]


@compiled
def _open_the_door(ahead: Ahead, rules: Rules, arrivals: int) -> None:
    """Let in those who come and those who waited, as far as the limit on their demand goes."""
    tally, clock, now = ahead.tally, ahead.clock, ahead.clock[NOW]
    for number in range(tally[NEXT], tally[NEXT] + arrivals):
        ahead.turns_before[number] = tally[TURNS] - 1
        ahead.active_before[number] = tally[ACTIVE_SUM] - tally[ACTIVE] - 1
        _turn(tally, 1)
    first = tally[NEXT]
    tally[NEXT] += arrivals
    tally[EVENTS] += arrivals
    # Those who cannot run here are turned away before anybody enters.
    for number in range(first, tally[NEXT]):
        if ahead.verdict[number] == OBSTACLE:
            _leave(ahead, number, REJECTED, now)
    while tally[DOOR] < tally[NEXT]:
        number = tally[DOOR]
        if ahead.verdict[number] != OBSTACLE:
            gpus = ahead.newcomers[number, _GPUS]
            if clock[DEMAND] + gpus > rules.limit and clock[DEMAND] > 1e-9:
                return
            if ahead.verdict[number] == NO_PROGRESS:
                _leave(ahead, number, REJECTED, now)
            else:
                _enter(ahead, number)
        tally[DOOR] += 1


@compiled
def _enter(ahead: Ahead, number: int) -> None:
    """A row for a new job."""
    matrix, row = ahead.matrix, ahead.tally[ROWS]
    for column in range(_COLUMNS):
        matrix[column, row] = ahead.newcomers[number, column]
    matrix[WORK, row] = ahead.work[number]
    matrix[PER_GPU, row] = ahead.per_gpu[number]
    matrix[DONE, row] = 0.0
    matrix[SINCE, row] = 0.0
    matrix[RATE, row] = 0.0
    matrix[END, row] = np.inf
    ahead.row_of[number] = row
    ahead.tally[ROWS] = row + 1
    ahead.tally[DIRTY] = 1
    ahead.clock[DEMAND] += matrix[_GPUS, row]


@compiled
def _due(ahead: Ahead, rules: Rules, now: float) -> bool:
    """Whether the policy is to be asked now."""
    if rules.round == 0.0:
        return bool(ahead.tally[DIRTY] == 1)
    if now != _boundary(now, rules.round, False):
        return False
    return _something_may_change(ahead, rules)


@compiled
def _something_may_change(ahead: Ahead, rules: Rules) -> bool:
    """Whether the policy could decide otherwise than the last time."""
    if ahead.tally[DIRTY] == 1:
        return True
    if not rules.time_varying:
        return False
    runs, short = False, False
    for row in range(ahead.tally[ROWS]):
        held = ahead.matrix[_HELD, row]
        runs = runs or held > 0.0
        short = short or held < ahead.matrix[_MOST, row]
    return runs and short


@compiled
def _boundary(now: float, period: float, after: bool) -> float:
    """The first multiple of ``period`` at or, where it says so, after ``now``."""
    index = np.floor(now / period)
    while index * period < now or (after and index * period <= now):
        index += 1.0
    return float(index * period)


@compiled
def _decide(ahead: Ahead, rules: Rules, hint: Ints, now: float) -> Ints:
    """Ask the policy and let what changes happen; returns the order of the rows."""
    matrix, jobs = ahead.matrix, ahead.tally[ROWS]
    least = matrix[_LEAST] if rules.elastic else matrix[_GPUS]
    most = matrix[_MOST] if rules.elastic else matrix[_GPUS]
    order, served = hint, np.zeros((3, 0))
    if len(rules.capacity) == 1 and len(rules.quota) == 0:
        served = serve_all(matrix, jobs, most, rules.capacity[0])
    if served.shape[1] < jobs and rules.contested:
        served, order = share_by_length(
            matrix, jobs, rules.rates, now, rules.capacity, rules.quota, hint, rules.later
        )
    elif served.shape[1] < jobs:
        keys = keys_of(rules.key, matrix, jobs, now)
        order, sorted_ = sort_again(hint, keys, matrix)
        if not sorted_:
            order = np.argsort(keys)
            settle_ties(order, keys, matrix)
        served = fill(
            matrix,
            order,
            least,
            most,
            rules.capacity,
            rules.quota,
            rules.preemptive,
            rules.strict,
        )
    gpus, types = served[TARGET], served[TARGET_TYPE]
    rows, _ = note_reasons(matrix, gpus, types, served[TARGET_REASON])
    if len(rows):
        _change(ahead, rules, rows, gpus[rows], types[rows], now)
    return order


@compiled
def _change(
    ahead: Ahead, rules: Rules, rows: Ints, gpus: Floats, types: Floats, now: float
) -> None:
    """Start, stop and resize: in the state, in the log and in truth."""
    matrix, tally, log = ahead.matrix, ahead.tally, ahead.log
    gaps = np.empty(len(rows))
    for i in range(len(rows)):
        row = rows[i]
        gaps[i] = matrix[_RESIZE, row] if matrix[_HELD, row] > 0.0 else matrix[_START_GAP, row]
    numbers, rates, _ = unit_rates(matrix, rows, gpus)
    attempts = apply(matrix, rows, gpus, types, rates, now)
    for i in range(len(rows)):
        row, at = rows[i], tally[LOGGED]
        log.job[at], log.time[at] = numbers[i], now
        log.gpus[at], log.attempt[at] = gpus[i], attempts[i]
        tally[LOGGED] = at + 1
        matrix[DONE, row] += matrix[RATE, row] * max(now - matrix[SINCE, row], 0.0)
        matrix[RATE, row] = matrix[PER_GPU, row] * gpus[i]
        matrix[SINCE, row] = now + gaps[i]
        matrix[END, row] = np.inf
        if matrix[RATE, row] > 0.0:
            left = matrix[WORK, row] - matrix[DONE, row]
            end = matrix[SINCE, row] + left / matrix[RATE, row]
            if rules.tick > 0.0:
                end = np.ceil(end / rules.tick) * rules.tick
            matrix[END, row] = end
