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

from typing import ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.columns import (
    GPUS,
    HELD,
    NUMBER,
    POOL,
    REQUEST_RATE,
    SCALE,
    START_GAP,
    TOTAL,
    TYPES,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.events import ArrivalsAnnounced
from volvelle.core.facets import ForeseesArrivals
from volvelle.core.fill import (
    TARGET,
    TARGET_REASON,
    ClusterNow,
    keep_running,
    let_have,
    seconds_left,
)
from volvelle.core.policy import Allocation, Kernel, Policy, by_kernel, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.policies.profile import Profile, add, profile_of, step_at, write_running
from volvelle.systems.anticipatory.by_node import NodePlan
from volvelle.systems.anticipatory.gangs import gang_type
from volvelle.systems.anticipatory.lending_plan import (
    BEGINS,
    BOOKED,
    BOOKED_BEFORE,
    FORETOLD,
    FROM,
    KEPT,
    PLACE,
    START,
    STARTED,
    STATE,
    STEPS,
    UNKNOWN,
    UNTIL,
    LendingPlan,
    announced,
    begin,
    has_plan_room,
    plan_of,
    take_in,
    with_plan_room,
)
from volvelle.systems.anticipatory.virtual_clock import VirtualClock

_GPUS_SHORT = int(Reason.GPUS)
_RESERVED = int(Reason.RESERVED)


@policies.register
class AnticipatoryVc(Policy, ForeseesArrivals):
    """Idle GPUs of pools for whoever is done before their owners need them: no job ends later than alone."""

    name: ClassVar[str] = "anticipatory-vc"
    source: ClassVar[str] = "Anticipatory scheduling (SIA) section 5.1, figure 6"
    optimises: ClassVar[str] = "mean JCT, without harm to the pools that lend"
    work_conserving: ClassVar[bool] = False
    keeps_running: ClassVar[bool] = True
    gangs: ClassVar[bool] = True
    columns: ClassVar[int] = 5

    locality: bool = Field(
        False,
        description="jobs are on few nodes, as in the reference (placement that names GPUs)",
    )

    _by_node: NodePlan | None = PrivateAttr(None)
    _memory: Floats = PrivateAttr(default_factory=begin)
    """See `volvelle.systems.anticipatory.lending_plan`."""
    _told: ArrivalsAnnounced | None = PrivateAttr(None)
    _wake: float | None = PrivateAttr(None)

    @property
    def chooses_nodes(self) -> bool:
        """As the parameter ``locality`` says."""
        return self.locality

    def expect(self, arrivals: ArrivalsAnnounced) -> None:
        """Plan with these at the next decision."""
        self._told = arrivals
        self._memory[BEGINS] = 1.0

    def next_wake(self, view: View) -> float | None:
        """The next virtual start of a job that waits, with a plan for each node."""
        return self._wake

    def kernel(self, *, named: bool) -> Kernel | None:
        """The decision by counts; none with a plan for each node."""
        if self.locality and named:
            return None
        return Kernel(decide, self._memory, rates=False, yields=True)

    def allocate(self, view: View) -> Allocation:
        """Reserve for new jobs, then start jobs that delay no reservation, by virtual start."""
        if self.locality and view.resources.named:
            return self._allocate_nodes(view, seconds_left(view.jobs.matrix, view.now))
        return by_kernel(self, view)

    def refresh(self, view: View) -> tuple[str, ...]:
        """Begin anew with announced arrivals, or make room."""
        if self._memory[BEGINS] == 1.0:
            self._foretell(view)
        else:
            self._memory = with_plan_room(self._memory, len(view.jobs))
        return ()

    def _allocate_nodes(self, view: View, seconds: FloatColumn) -> Allocation:
        """The same with a plan for each node."""
        if self._by_node is None:
            self._by_node = NodePlan.of(view, self.round or 0.0)
        if self._told is not None:
            self._by_node.foretell(view, self._told)
            self._told = None
        answer, self._wake = self._by_node.decide(view, seconds)
        return answer

    def _foretell(self, view: View) -> None:
        """Work out virtual starts of announced arrivals; virtual starts of jobs in the system stay."""
        matrix, period = view.jobs.matrix, self.round or 0.0
        clocks = [VirtualClock(owned, period) for owned in view.owned.tolist()]
        told, self._told = self._told, None
        known = (matrix[STATE] != UNKNOWN) & (told is not None)
        whole = matrix[START_GAP] + matrix[TOTAL] * matrix[SCALE] / matrix[REQUEST_RATE]
        for row in np.flatnonzero(known).tolist():
            pool, start = int(matrix[POOL, row]), float(matrix[START, row])
            if pool >= 0 and start < np.inf:
                clocks[pool].occupy(start + float(whole[row]), float(matrix[GPUS, row]))
                clocks[pool].head = max(clocks[pool].head, start)
            if matrix[STATE, row] != STARTED:  # to be booked anew
                matrix[STATE, row], matrix[PLACE, row] = STARTED, -1.0
        columns: list[FloatColumn] = [np.zeros(0)] * 4
        if told is not None:
            numbers, submit, gpus, lasting, pools = (
                np.array(column, dtype=np.float64) for column in _columns(told)
            )
            new = ~np.isin(numbers, matrix[NUMBER, known])
            starts = np.full(len(numbers), np.inf)
            for pool, clock in enumerate(clocks):
                mine = np.flatnonzero(new & (pools == pool))
                starts[mine] = clock.starts(submit[mine], gpus[mine], lasting[mine])
            columns = [column[new] for column in (numbers, starts, lasting, gpus)]
        self._memory = announced(view.now, period, clocks, len(view.jobs), *columns)


def _columns(told: ArrivalsAnnounced) -> tuple[tuple[float, ...], ...]:
    return told.numbers, told.submit, told.gpus, told.seconds, told.pools


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`); it yields to begin, and for room."""
    now = cluster.now
    if memory[BEGINS] == 1.0 or not has_plan_room(memory, jobs.shape[1]):
        return -INFINITY
    plan, seconds = plan_of(memory), seconds_left(jobs, now)
    take_in(jobs, seconds, now, memory)
    reserved = Profile(plan.times, plan.reserved, np.full(1, int(memory[STEPS])))
    forget(reserved, now)
    _release_gone(jobs, plan, reserved, now, memory)
    reach = furthest(jobs, seconds, now)
    last = int(np.searchsorted(plan.starts, reach))
    wake = start_early(jobs, seconds, now, cluster, plan, reserved, last, memory, out)
    memory[STEPS] = reserved.size[0]
    kept = 0
    for row in range(jobs.shape[1]):
        if jobs[STATE, row] == BOOKED:
            plan.kept[0, kept], plan.kept[1, kept] = jobs[NUMBER, row], jobs[FROM, row]
            plan.kept[2, kept], plan.kept[3, kept] = jobs[UNTIL, row], jobs[GPUS, row]
            kept += 1
    memory[KEPT] = kept
    return wake


@kernel
def _release_gone(
    jobs: Floats, plan: LendingPlan, reserved: Profile, now: float, memory: Floats
) -> None:
    """Give up the reservations of jobs that left without having started."""
    if (jobs[STATE] == BOOKED).sum() == memory[KEPT]:
        return
    for at in range(int(memory[KEPT])):
        if not (jobs[NUMBER] == plan.kept[0, at]).any():
            start, end = max(plan.kept[1, at], now), max(plan.kept[2, at], now)
            add(reserved, start, end, plan.kept[3, at])


@compiled
def forget(profile: Profile, before: float) -> None:
    """Let a profile begin at ``before``, in place."""
    times, free, first = profile.times, profile.free, step_at(profile, before)
    for step in range(first, profile.size[0]):
        times[step - first], free[step - first] = times[step], free[step]
    times[0] = before
    profile.size[0] -= first


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
    cluster: ClusterNow,
    plan: LendingPlan,
    reserved: Profile,
    last: int,
    memory: Floats,
    given: Floats,
) -> float:
    """One decision. Own columns, the plan and ``given``, (4, jobs), are changed in place.

    Announced jobs before `BOOKED_BEFORE` are ``reserved``, jobs before ``last`` will be. Returns the next
    virtual start of a job that waits.
    """
    starts, ends, booked = plan.starts, plan.ends, int(memory[BOOKED_BEFORE])
    free, left = cluster.capacity.copy(), cluster.quota.copy()
    keep_running(matrix, free, left, given)
    for place in range(booked, last):
        if plan.there[place] == 1.0:
            add(reserved, starts[place], ends[place], -plan.gpus[place])
    booked = max(booked, last)
    memory[BOOKED_BEFORE] = booked
    waits, runs = np.flatnonzero(matrix[HELD] == 0.0), np.flatnonzero(matrix[HELD] > 0.0)
    fitting = np.zeros(len(waits), dtype=np.bool_)
    for at, row in enumerate(waits):
        _book(matrix, int(row), seconds[row], now, reserved, starts, ends, booked)
        fitting[at] = gang_type(matrix[GPUS, row], matrix[TYPES, row], free) >= 0
        given[TARGET_REASON, row] = _GPUS_SHORT
    tried = waits[fitting]
    order = tried[np.argsort(matrix[START][tried], kind="mergesort")]
    given[3] = np.concatenate((order, runs, waits[~fitting]))
    if len(order) == 0:
        return float(_next_start(matrix, given, waits, now))
    idle = profile_of(now, 0.0, len(runs) + 2 * len(order) + 1)
    write_running(idle, now, free.sum(), now + seconds[runs], matrix[HELD][runs], np.inf)
    for row in order:
        need, pool, start = matrix[GPUS, row], int(matrix[POOL, row]), matrix[START, row]
        chosen = gang_type(need, matrix[TYPES, row], free)
        may = chosen >= 0 and (pool < 0 or need <= left[pool] + SAME_AMOUNT)
        if may and start > now:
            end = min(now + seconds[row], start)
            may = pool < 0 or cluster.lends[pool] > 0.0
            may = may and has_room(idle, reserved, now, end, need)
            given[TARGET_REASON, row] = _RESERVED
        if not may:
            continue
        let_have(matrix, row, chosen, need, free, left, given)
        if matrix[STATE, row] == BOOKED:
            add(reserved, max(matrix[FROM, row], now), matrix[UNTIL, row], need)
        elif matrix[STATE, row] == FORETOLD:
            plan.there[int(matrix[PLACE, row])] = 0.0
        matrix[STATE, row] = STARTED
        add(idle, now, now + seconds[row], -need)
    return float(_next_start(matrix, given, waits, now))


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
    reserved: Profile,
    starts: Floats,
    ends: Floats,
    booked: int,
) -> None:
    """Bring the reservation of a job that waits up to date.

    The reservation of a job whose virtual start has passed is from now on, for as long as it takes.
    """
    state, start, need = matrix[STATE, row], matrix[START, row], matrix[GPUS, row]
    if state == FORETOLD:
        place = int(matrix[PLACE, row])
        if place >= booked:
            return
        state = matrix[STATE, row] = BOOKED
        matrix[FROM, row], matrix[UNTIL, row] = starts[place], ends[place]
    if start == np.inf:
        matrix[STATE, row], matrix[FROM, row], matrix[UNTIL, row] = BOOKED, now, now
        return
    if state == BOOKED and matrix[FROM, row] >= now:
        return
    if state == BOOKED:
        add(reserved, now, max(matrix[UNTIL, row], now), need)
    begin = max(start, now)
    matrix[STATE, row], matrix[FROM, row], matrix[UNTIL, row] = BOOKED, begin, begin + seconds
    add(reserved, begin, begin + seconds, -need)


@compiled
def has_room(idle: Profile, reserved: Profile, start: float, end: float, gpus: float) -> bool:
    """Whether ``gpus`` GPUs are ``idle`` and not ``reserved`` at any time from ``start`` until ``end``."""
    one, other = step_at(idle, start), step_at(reserved, start)
    while True:
        if idle.free[one] + reserved.free[other] + SAME_AMOUNT < gpus:
            return False
        following = idle.times[one + 1] if one + 1 < idle.size[0] else np.inf
        after = reserved.times[other + 1] if other + 1 < reserved.size[0] else np.inf
        if min(following, after) >= end:
            return True
        if following <= after:
            one += 1
        if after <= following:
            other += 1
