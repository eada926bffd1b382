"""The plan of `anticipatory-vc` as an array: reservations, virtual clocks of pools, announced arrivals.

The array begins with single numbers. Then come the profile of reservations, those of jobs that wait, the
announced jobs, and the clock of each pool.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from volvelle.core.columns import COUNT, GPUS, HELD, NUMBER, POOL, SUBMIT
from volvelle.core.compiled import compiled, kernel
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.systems.anticipatory.virtual_clock import VirtualClock, first_come_first_served

STATE, START, FROM, UNTIL, PLACE = range(COUNT, COUNT + 5)
"""Own columns: the state of a job in the plan, its virtual start, its reservation, its place among announced
jobs (-1: none)."""
UNKNOWN, BOOKED, FORETOLD, STARTED = 0.0, 1.0, 2.0, 3.0
"""`STATE`: new; reserved; to be reserved as soon as the plan reaches so far; without a reservation."""

(
    BEGINS,  # 1 where the plan is to be made
    PERIOD,  # of the pools' decisions, seconds, 0: at events
    STEPS,  # of the profile
    KEPT,  # reservations of jobs that wait
    ANNOUNCED,  # jobs
    BOOKED_BEFORE,  # announced jobs before this place have their reservations in the profile
    POOLS,
    ROOM,  # jobs that fit
    _HEAD,
) = range(9)
"""Single numbers."""


class LendingPlan(NamedTuple):
    """Views of the array.

    times, reserved: minus the GPUs reserved from each time on (`volvelle.policies.profile`). kept: number,
    begin, end, GPUs of the reservations of jobs that wait, (4, room). starts, ends, gpus: of announced jobs,
    by virtual start; there: 1 until a job has started. numbers: theirs, ascending, and places of these.
    clocks: GPUs owned, last virtual start and virtually running jobs of each pool, (3, pools), whose ends
    and widths are (pools, room), by their ends.
    """

    times: Floats
    reserved: Floats
    kept: Floats
    starts: Floats
    ends: Floats
    gpus: Floats
    there: Floats
    numbers: Floats
    places: Floats
    clocks: Floats
    virtual_ends: Floats
    widths: Floats


@kernel
def _steps_that_fit(announced_jobs: int, room: int) -> int:
    """Steps of the profile: every job and every reservation may add some between two decisions."""
    return 64 + 16 * room + 2 * announced_jobs


@kernel
def plan_of(memory: Floats) -> LendingPlan:
    """The parts of the array."""
    many, pools, room = int(memory[ANNOUNCED]), int(memory[POOLS]), int(memory[ROOM])
    steps = _steps_that_fit(many, room)
    kept = _HEAD + 2 * steps
    jobs = kept + 4 * room
    clocks = jobs + 6 * many
    running = clocks + 3 * pools
    widths = running + pools * room
    of = memory[jobs:clocks].reshape((6, many))
    return LendingPlan(
        memory[_HEAD : _HEAD + steps],
        memory[_HEAD + steps : kept],
        memory[kept:jobs].reshape((4, room)),
        of[0],
        of[1],
        of[2],
        of[3],
        of[4],
        of[5],
        memory[clocks:running].reshape((3, pools)),
        memory[running:widths].reshape((pools, room)),
        memory[widths:].reshape((pools, room)),
    )


def _empty(many: int, pools: int, room: int) -> Floats:
    size = _HEAD + 2 * _steps_that_fit(many, room) + 4 * room + 6 * many + 3 * pools
    memory = np.zeros(size + 2 * pools * room)
    memory[[ANNOUNCED, POOLS, ROOM, STEPS]] = many, pools, room, 1
    return memory


def begin() -> Floats:
    """A plan that is to be made."""
    memory = _empty(0, 0, 0)
    memory[BEGINS] = 1.0
    return memory


def announced(
    now: float,
    period: float,
    clocks: Sequence[VirtualClock],
    jobs: int,
    numbers: FloatColumn,
    starts: FloatColumn,
    seconds: FloatColumn,
    gpus: FloatColumn,
) -> Floats:
    """A plan from ``now`` on without reservations, with these announced arrivals, and room for ``jobs``."""
    known = np.flatnonzero(np.isfinite(starts))
    by_start = known[np.argsort(starts[known], kind="stable")]
    room = 64 + 2 * max([jobs, *(len(clock.ends) for clock in clocks)])
    memory = _empty(len(by_start), len(clocks), room)
    memory[PERIOD] = period
    plan, numbers = plan_of(memory), numbers[by_start]
    plan.times[0] = now
    plan.starts[:], plan.gpus[:], plan.there[:] = starts[by_start], gpus[by_start], 1.0
    plan.ends[:] = plan.starts + seconds[by_start]
    plan.places[:] = np.argsort(numbers)
    plan.numbers[:] = np.sort(numbers)
    for pool, clock in enumerate(clocks):
        running = len(clock.ends)
        plan.clocks[:, pool] = clock.owned, clock.head, running
        plan.virtual_ends[pool, :running], plan.widths[pool, :running] = clock.ends, clock.gpus
    return memory


@kernel
def has_plan_room(memory: Floats, jobs: int) -> bool:
    """Whether a decision about so many jobs has room, whatever it does."""
    many, room, plan = int(memory[ANNOUNCED]), int(memory[ROOM]), plan_of(memory)
    steps = memory[STEPS] + 2 * memory[KEPT] + 8 * jobs + 4 + 2 * (many - memory[BOOKED_BEFORE])
    running = 0.0
    for pool in range(plan.clocks.shape[1]):
        running = max(running, plan.clocks[2, pool])
    return bool(steps <= _steps_that_fit(many, room) and running + jobs <= room)


def with_plan_room(memory: Floats, jobs: int) -> Floats:
    """The same plan with room for twice as much."""
    many, pools, room = memory[[ANNOUNCED, POOLS, ROOM]].astype(np.int64).tolist()
    other = _empty(many, pools, 2 * max(room, jobs))
    other[:ROOM] = memory[:ROOM]
    for mine, old in zip(plan_of(other), plan_of(memory), strict=True):
        mine[tuple(map(slice, old.shape))] = old
    return other


@compiled
def take_in(jobs: Floats, seconds: Floats, now: float, memory: Floats) -> None:
    """Find the virtual starts of jobs that are new."""
    plan = plan_of(memory)
    for row in range(jobs.shape[1]):
        if jobs[STATE, row] != UNKNOWN:
            continue
        pool, gpus = int(jobs[POOL, row]), jobs[GPUS, row]
        at, place = int(np.searchsorted(plan.numbers, jobs[NUMBER, row])), -1
        if at < len(plan.numbers) and plan.numbers[at] == jobs[NUMBER, row]:
            place = int(plan.places[at])
        jobs[PLACE, row] = place
        if jobs[HELD, row] > 0.0:  # it ran before this policy came
            jobs[STATE, row], jobs[START, row] = STARTED, now
            if pool >= 0:
                _occupy(plan, pool, now + seconds[row], gpus)
        elif place >= 0:
            jobs[STATE, row], jobs[START, row] = FORETOLD, plan.starts[place]
        else:
            jobs[STATE, row], jobs[START, row] = STARTED, np.inf  # to be booked
            if pool >= 0:
                starts, count, head = first_come_first_served(
                    np.full(1, max(jobs[SUBMIT, row], now)),
                    np.full(1, gpus),
                    seconds[row : row + 1],
                    plan.clocks[0, pool],
                    memory[PERIOD],
                    plan.clocks[1, pool],
                    plan.virtual_ends[pool],
                    plan.widths[pool],
                    int(plan.clocks[2, pool]),
                )
                jobs[START, row] = starts[0]
                plan.clocks[1, pool], plan.clocks[2, pool] = head, count


@kernel
def _occupy(plan: LendingPlan, pool: int, end: float, gpus: float) -> None:
    """Let a job that runs already do so virtually too, until ``end``."""
    ends, widths, at = plan.virtual_ends[pool], plan.widths[pool], int(plan.clocks[2, pool])
    while at > 0 and ends[at - 1] > end:
        ends[at], widths[at] = ends[at - 1], widths[at - 1]
        at -= 1
    ends[at], widths[at] = end, gpus
    plan.clocks[2, pool] += 1.0
