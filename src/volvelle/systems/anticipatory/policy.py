"""Anticipatory scheduling with exact knowledge of arrivals (section 5.1, figure 6; the paper's SIA_VC).

Every job has a **virtual start**: its start in the isolated reference of its pool (`virtual_clock`). A plan
holds a reservation for each job that has not started, from its virtual start for as long as it takes. A job
starts early where it touches no reservation of a job whose virtual start is before its own.

**Theorem 1**: no job finishes later than in the isolated reference (``fcfs-pools``), where durations and
arrivals are known. All reservations together are the references, which fit. A job that starts early takes
GPUs from now to its virtual start in addition, where the plan has room, and gives up the end of its
reservation. So running jobs and reservations always fit, and a job whose virtual start has come can start.

Departures. Figure 6 works virtual starts out anew at every event from the running jobs; a job that runs early
then pushes back wider ones of its own pool, whose reservations move behind their place in the reference, and
the theorem does not hold (docs/decisions/0036). Here virtual starts are those of the reference, and fixed.
Since an early start adds use before its virtual start only, the plan matters only up to there, and one pass
by virtual starts replaces figure 6's repeated passes. The paper's algorithm needs announced arrivals; the
estimator ``oracle`` has them (`ArrivalsAnnounced`). With others only jobs that wait are protected.

Jobs of no pool, and jobs wider than theirs, have no virtual start: they run where they delay no other job. A
pool that does not lend is served as in its reference. GPUs are counted; with several GPU types, nodes that
fail, or a placement that turns jobs away, the plan is a rule of thumb. With ``locality`` there is a plan for
each node (`volvelle.systems.anticipatory.by_node`), and ``fcfs-pools:locality=true`` is the reference. Where
only some pools lend, a lender may have to wait for GPUs that it lent. Jobs are gangs and run to their end.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from volvelle.core.columns import (
    COUNT,
    GPUS,
    HELD,
    NUMBER,
    POOL,
    REQUEST_RATE,
    SCALE,
    START_GAP,
    SUBMIT,
    TOTAL,
)
from volvelle.core.compiled import compiled
from volvelle.core.events import ArrivalsAnnounced
from volvelle.core.facets import ForeseesArrivals
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, keep_running, seconds_left
from volvelle.core.policy import Allocation, Policy, policies
from volvelle.core.state import Reason
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.policies.profile import add, step_at, write_running
from volvelle.systems.anticipatory.by_node import NodePlan
from volvelle.systems.anticipatory.gangs import gang_type
from volvelle.systems.anticipatory.virtual_clock import VirtualClock

_GPUS_SHORT = int(Reason.GPUS)
_RESERVED = int(Reason.RESERVED)

STATE, START, FROM, UNTIL, PLACE = range(COUNT, COUNT + 5)
"""Own columns: the state of a job in the plan, its virtual start, its reservation, its place among announced
jobs (-1: none)."""
UNKNOWN, BOOKED, FORETOLD, STARTED = 0.0, 1.0, 2.0, 3.0
"""`STATE`: new; reserved; to be reserved as soon as the plan reaches so far; without a reservation."""


@dataclass
class LendingPlan:
    """The reservations, and the announced arrivals.

    times, reserved: minus the GPUs reserved from each time on, the first ``count`` entries
    (`volvelle.policies.profile`). kept: number, begin, end, GPUs of the reservations of jobs that wait.
    starts, ends, gpus, numbers: of announced jobs, by virtual start. there: whether a job has not started.
    Jobs before ``booked`` have their reservations in the profile.
    """

    clocks: list[VirtualClock] = field(default_factory=list)
    times: FloatColumn = field(default_factory=lambda: np.zeros(64))
    reserved: FloatColumn = field(default_factory=lambda: np.zeros(64))
    count: int = 1
    kept: NDArray[np.float64] = field(default_factory=lambda: np.zeros((4, 0)))
    numbers: FloatColumn = field(default_factory=lambda: np.zeros(0))
    starts: FloatColumn = field(default_factory=lambda: np.zeros(0))
    ends: FloatColumn = field(default_factory=lambda: np.zeros(0))
    gpus: FloatColumn = field(default_factory=lambda: np.zeros(0))
    there: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    places: dict[int, int] = field(default_factory=dict)
    booked: int = 0

    def foretell(
        self, numbers: FloatColumn, starts: FloatColumn, seconds: FloatColumn, gpus: FloatColumn
    ) -> None:
        """Keep these jobs as the announced arrivals."""
        known = np.flatnonzero(np.isfinite(starts))
        by_start = known[np.argsort(starts[known], kind="stable")]
        self.numbers, self.starts = numbers[by_start], starts[by_start]
        self.ends, self.gpus = self.starts + seconds[by_start], gpus[by_start]
        self.there = np.ones(len(by_start), dtype=np.bool_)
        self.places = {int(number): place for place, number in enumerate(self.numbers.tolist())}
        self.booked = 0

    def make_room(self, steps: int) -> None:
        """Make room for so many more steps."""
        if self.count + steps > len(self.times):
            more = np.zeros(self.count + steps)
            self.times = np.concatenate([self.times[: self.count], more])
            self.reserved = np.concatenate([self.reserved[: self.count], more])


@policies.register
class AnticipatoryVc(Policy, ForeseesArrivals):
    """Idle GPUs of pools for whoever is done before their owners need them: no job ends later than alone."""

    name: ClassVar[str] = "anticipatory-vc"
    source: ClassVar[str] = "Anticipatory scheduling (SIA) section 5.1, figure 6"
    optimises: ClassVar[str] = "mean JCT, without harm to the pools that lend"
    work_conserving: ClassVar[bool] = False
    columns: ClassVar[int] = 5

    locality: bool = Field(
        False,
        description="gangs stand together, as in the reference (placement that names GPUs)",
    )

    _by_node: NodePlan | None = PrivateAttr(None)
    _plan: LendingPlan = PrivateAttr(default_factory=LendingPlan)
    _told: ArrivalsAnnounced | None = PrivateAttr(None)
    _wake: float | None = PrivateAttr(None)

    @property
    def resizes(self) -> bool:
        """Jobs are gangs here."""
        return False

    @property
    def chooses_nodes(self) -> bool:
        """As the parameter ``locality`` says."""
        return self.locality

    def expect(self, arrivals: ArrivalsAnnounced) -> None:
        """Plan with these at the next decision."""
        self._told = arrivals

    def next_wake(self, view: View) -> float | None:
        """The next virtual start of a job that waits."""
        return self._wake

    def allocate(self, view: View) -> Allocation:
        """Reserve for new jobs, then start jobs that delay no reservation, by virtual start."""
        matrix, plan = view.jobs.matrix, self._plan
        seconds = seconds_left(matrix, view.now)
        if self.locality and view.resources.named:
            return self._allocate_nodes(view, seconds)
        if not plan.clocks:
            plan.clocks = [VirtualClock(owned, self.round or 0.0) for owned in view.owned.tolist()]
        if self._told is not None:
            self._foretell(view, self._told)
            self._told = None
        if (matrix[STATE] == UNKNOWN).any():
            self._take_in(view, seconds)
        waiting = int((matrix[HELD] == 0.0).sum())
        plan.count = forget(plan.times, plan.reserved, plan.count, view.now)
        self._release_gone(matrix, view.now)
        reach = furthest(matrix, seconds, view.now)
        last = int(np.searchsorted(plan.starts, reach))
        plan.make_room(2 * (4 * waiting + max(last - plan.booked, 0)) + 4)
        given, plan.count, plan.booked, wake = start_early(
            matrix,
            seconds,
            view.now,
            view.capacity,
            view.quota,
            view.lends,
            plan.times,
            plan.reserved,
            plan.count,
            plan.starts,
            plan.ends,
            plan.gpus,
            plan.there,
            plan.booked,
            last,
        )
        self._wake = None if wake == np.inf else wake
        kept = np.flatnonzero(matrix[STATE] == BOOKED)
        plan.kept = np.array([matrix[column, kept] for column in (NUMBER, FROM, UNTIL, GPUS)])
        return Allocation(
            given[TARGET], given[TARGET_TYPE], given[TARGET_REASON], given[3].astype(np.int64)
        )

    def _allocate_nodes(self, view: View, seconds: FloatColumn) -> Allocation:
        """The same with a plan for each node."""
        if self._by_node is None:
            self._by_node = NodePlan.of(view, self.round or 0.0)
        if self._told is not None:
            self._by_node.foretell(view, self._told)
            self._told = None
        answer, self._wake = self._by_node.decide(view, seconds)
        return answer

    def _foretell(self, view: View, told: ArrivalsAnnounced) -> None:
        """Work out virtual starts of announced arrivals; virtual starts of jobs in the system stay."""
        matrix, plan = view.jobs.matrix, self._plan
        whole = matrix[START_GAP] + matrix[TOTAL] * matrix[SCALE] / matrix[REQUEST_RATE]
        known = matrix[STATE] != UNKNOWN
        plan.clocks = [VirtualClock(owned, self.round or 0.0) for owned in view.owned.tolist()]
        plan.times[0], plan.reserved[0], plan.count = view.now, 0.0, 1
        plan.kept = np.zeros((4, 0))
        for row in np.flatnonzero(known).tolist():
            pool, start = int(matrix[POOL, row]), float(matrix[START, row])
            if pool >= 0 and start < np.inf:
                plan.clocks[pool].occupy(start + float(whole[row]), float(matrix[GPUS, row]))
                plan.clocks[pool].head = max(plan.clocks[pool].head, start)
            if matrix[STATE, row] != STARTED:  # to be booked anew
                matrix[STATE, row], matrix[PLACE, row] = STARTED, -1.0
        known_numbers = matrix[NUMBER, known]
        columns = [np.array(column, dtype=np.float64) for column in _columns(told)]
        new = ~np.isin(columns[0], known_numbers)
        numbers, submit, gpus, lasting, pools = (column[new] for column in columns)
        starts = np.full(len(numbers), np.inf)
        for pool, clock in enumerate(plan.clocks):
            mine = np.flatnonzero(pools == pool)
            starts[mine] = clock.starts(submit[mine], gpus[mine], lasting[mine])
        plan.foretell(numbers, starts, lasting, gpus)

    def _release_gone(self, matrix: Floats, now: float) -> None:
        """Give up the reservations of jobs that left without having started."""
        plan = self._plan
        if (matrix[STATE] == BOOKED).sum() == plan.kept.shape[1]:
            return
        gone = ~np.isin(plan.kept[0], matrix[NUMBER])
        plan.make_room(2 * int(gone.sum()))
        for begin, end, gpus in plan.kept[1:, gone].T.tolist():
            plan.count = add(
                plan.times, plan.reserved, plan.count, max(begin, now), max(end, now), gpus
            )

    def _take_in(self, view: View, seconds: FloatColumn) -> None:
        """Find the virtual starts of jobs that are new."""
        matrix, plan = view.jobs.matrix, self._plan
        for row in np.flatnonzero(matrix[STATE] == UNKNOWN).tolist():
            pool, gpus = int(matrix[POOL, row]), float(matrix[GPUS, row])
            place = plan.places.get(int(matrix[NUMBER, row]), -1)
            matrix[PLACE, row] = place
            if matrix[HELD, row] > 0.0:  # it ran before this policy came
                matrix[STATE, row], matrix[START, row] = STARTED, view.now
                if pool >= 0:
                    plan.clocks[pool].occupy(view.now + float(seconds[row]), gpus)
            elif place >= 0:
                matrix[STATE, row], matrix[START, row] = FORETOLD, plan.starts[place]
            else:
                start = np.full(1, np.inf)
                if pool >= 0:
                    submit = max(float(matrix[SUBMIT, row]), view.now)
                    start = plan.clocks[pool].starts(
                        np.array([submit]), np.array([gpus]), seconds[row : row + 1]
                    )
                matrix[STATE, row], matrix[START, row] = STARTED, start[0]  # to be booked


def _columns(told: ArrivalsAnnounced) -> tuple[tuple[float, ...], ...]:
    return told.numbers, told.submit, told.gpus, told.seconds, told.pools


@compiled
def forget(times: Floats, free: Floats, count: int, before: float) -> int:
    """Let a profile begin at ``before``, in place; the steps it has then."""
    first = step_at(times, count, before)
    for step in range(first, count):
        times[step - first], free[step - first] = times[step], free[step]
    times[0] = before
    return count - first


@compiled
def furthest(matrix: Floats, seconds: Floats, now: float) -> float:
    """The time up to which the plan decides which waiting jobs may start."""
    reach = now
    for row in range(matrix.shape[1]):
        if matrix[HELD, row] == 0.0:
            reach = max(reach, min(now + seconds[row], matrix[START, row]))
    return reach


@compiled
def start_early(
    matrix: Floats,
    seconds: Floats,
    now: float,
    capacity: Floats,
    quota: Floats,
    lends: NDArray[np.bool_],
    times: Floats,
    reserved: Floats,
    count: int,
    starts: Floats,
    ends: Floats,
    gpus: Floats,
    there: NDArray[np.bool_],
    booked: int,
    last: int,
) -> tuple[Floats, int, int, float]:
    """One decision. Own columns, the profile and ``there`` are changed in place.

    times, reserved, count: the profile of reservations. starts, ends, gpus, there: of the announced jobs;
    jobs before ``booked`` are in the profile, jobs before ``last`` will be. Returns (4, jobs) as
    `volvelle.core.fill.fill` does with the order of starts, the profile's steps, how many jobs are booked,
    and the next virtual start of a job that waits.
    """
    jobs = matrix.shape[1]
    given = np.zeros((4, jobs))
    free, left = capacity.copy(), quota.copy()
    keep_running(matrix, free, left, given)
    for place in range(booked, last):
        if there[place]:
            count = add(times, reserved, count, starts[place], ends[place], -gpus[place])
    booked = max(booked, last)
    waits, runs = np.flatnonzero(matrix[HELD] == 0.0), np.flatnonzero(matrix[HELD] > 0.0)
    fitting = np.zeros(len(waits), dtype=np.bool_)
    for at, row in enumerate(waits):
        count = _book(
            matrix, int(row), seconds[row], now, times, reserved, count, starts, ends, booked
        )
        fitting[at] = gang_type(matrix, int(row), free) >= 0
        given[TARGET_REASON, row] = _GPUS_SHORT
    tried = waits[fitting]
    order = tried[np.argsort(matrix[START][tried], kind="mergesort")]
    given[3] = np.concatenate((order, runs, waits[~fitting]))
    if len(order) == 0:
        return given, count, booked, _next_start(matrix, given, waits, now)
    room = len(runs) + 2 * len(order) + 2
    until, idle = np.zeros(room), np.zeros(room)
    unheld = free.sum()
    steps = write_running(until, idle, now, unheld, now + seconds[runs], matrix[HELD][runs], np.inf)
    for row in order:
        need, pool, start = matrix[GPUS, row], int(matrix[POOL, row]), matrix[START, row]
        chosen = gang_type(matrix, row, free)
        may = chosen >= 0 and (pool < 0 or need <= left[pool] + SAME_AMOUNT)
        if may and start > now:
            end = min(now + seconds[row], start)
            may = pool < 0 or lends[pool]
            may = may and has_room(until, idle, steps, times, reserved, count, now, end, need)
            given[TARGET_REASON, row] = _RESERVED
        if not may:
            continue
        given[TARGET, row], given[TARGET_TYPE, row] = need, chosen
        free[chosen] -= need
        if pool >= 0:
            left[pool] -= need
        if matrix[STATE, row] == BOOKED:
            count = add(
                times, reserved, count, max(matrix[FROM, row], now), matrix[UNTIL, row], need
            )
        elif matrix[STATE, row] == FORETOLD:
            there[int(matrix[PLACE, row])] = False
        matrix[STATE, row] = STARTED
        steps = add(until, idle, steps, now, now + seconds[row], -need)
    return given, count, booked, _next_start(matrix, given, waits, now)


@compiled
def _next_start(matrix: Floats, given: Floats, waits: Ints, now: float) -> float:
    """The first virtual start to come of the jobs that wait on; infinite for none."""
    found = np.inf
    for row in waits:
        if given[TARGET, row] == 0.0 and matrix[START, row] > now:
            found = min(found, matrix[START, row])
    return found


@compiled
def _book(
    matrix: Floats,
    row: int,
    seconds: float,
    now: float,
    times: Floats,
    reserved: Floats,
    count: int,
    starts: Floats,
    ends: Floats,
    booked: int,
) -> int:
    """Bring the reservation of a job that waits up to date; the steps of the profile afterwards.

    The reservation of a job whose virtual start has passed is from now on, for as long as it takes.
    """
    state, start, need = matrix[STATE, row], matrix[START, row], matrix[GPUS, row]
    if state == FORETOLD:
        place = int(matrix[PLACE, row])
        if place >= booked:
            return count
        state = matrix[STATE, row] = BOOKED
        matrix[FROM, row], matrix[UNTIL, row] = starts[place], ends[place]
    if start == np.inf:
        matrix[STATE, row], matrix[FROM, row], matrix[UNTIL, row] = BOOKED, now, now
        return count
    if state == BOOKED and matrix[FROM, row] >= now:
        return count
    if state == BOOKED:
        count = add(times, reserved, count, now, max(matrix[UNTIL, row], now), need)
    begin = max(start, now)
    matrix[STATE, row], matrix[FROM, row], matrix[UNTIL, row] = BOOKED, begin, begin + seconds
    return add(times, reserved, count, begin, begin + seconds, -need)


@compiled
def has_room(
    until: Floats,
    idle: Floats,
    steps: int,
    times: Floats,
    reserved: Floats,
    count: int,
    start: float,
    end: float,
    gpus: float,
) -> bool:
    """Whether ``gpus`` GPUs are idle and not reserved at any time from ``start`` until ``end``.

    ``until`` and ``idle`` are the profile of running jobs, ``times`` and ``reserved`` that of reservations.
    """
    one, other = step_at(until, steps, start), step_at(times, count, start)
    while True:
        if idle[one] + reserved[other] + SAME_AMOUNT < gpus:
            return False
        following = until[one + 1] if one + 1 < steps else np.inf
        after = times[other + 1] if other + 1 < count else np.inf
        if min(following, after) >= end:
            return True
        if following <= after:
            one += 1
        if after <= following:
            other += 1
