"""ElasticFlow (ASPLOS'23): least shares by deadline, then growth by GPU time."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.columns import (
    COUNT,
    CURVE,
    DEADLINE,
    HELD,
    LEAST,
    MOST,
    PINNED,
    POOL,
    PREEMPTIBLE,
    TYPE,
    TYPES,
)
from volvelle.core.compiled import kernel
from volvelle.core.fill import ClusterNow, fill, work_left
from volvelle.core.forward.rates import rate_on
from volvelle.core.policy import Kernel, Period, Policy, policies
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.policies.growth import then_by
from volvelle.systems.elasticflow.shares import Wishes, empty_plan, grow, share_out, start_gangs

_ADMITTED = COUNT
"""Own column: 1 of a job whose deadline is to be met, 2 of one that is best effort; 0 of one that comes."""


@policies.register
class ElasticFlow(Policy):
    """The least GPUs that meet deadlines; what is left by GPU time, in powers of two."""

    name: ClassVar[str] = "elasticflow"
    goes_by_rates: ClassVar[bool] = True
    source: ClassVar[str] = "ElasticFlow (ASPLOS'23)"
    optimises: ClassVar[str] = "deadlines met by elastic jobs"
    time_varying: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    columns: ClassVar[int] = 1

    slot: Period = Field(240.0, description="planned ends are whole slots of this length, seconds")

    def kernel(self, *, named: bool) -> Kernel:
        """Plan anew, with every job that came."""
        return Kernel(decide, np.array([self.slot]))


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`Kernel`), type by type. memory: the slot."""
    slot, ask_at, count = memory[0], INFINITY, jobs.shape[1]
    types, gpus = _types_of(jobs, cluster), np.zeros(count)
    work = work_left(jobs, count, cluster.now)
    fixed = (jobs[HELD] > 0.0) & ((jobs[PINNED] == 1.0) | (jobs[PREEMPTIBLE] == 0.0))
    rows = np.arange(count)
    for gpu_type in range(len(cluster.capacity)):
        wishes = _wishes(jobs, cluster, gpu_type, work, fixed)
        mine = rows[(types == gpu_type) & (wishes.known > 0)]
        if len(mine) == 0:
            continue
        _admit(jobs, mine, wishes, fixed, cluster.now, cluster.capacity[gpu_type], slot)
        mine = then_by(mine, np.where(fixed, -1.0, wishes.deadline))
        plan = empty_plan(cluster.now, cluster.capacity[gpu_type], wishes)
        if wishes.known[mine].max() > 1:
            plan, _ = share_out(plan, mine, wishes, slot)
            plan, _ = grow(plan, mine, wishes, slot)
        else:
            due = np.count_nonzero(wishes.deadline[mine] < INFINITY)
            plan, _ = share_out(plan, mine[: due + 1], wishes, slot)
            plan = start_gangs(plan, mine, wishes, slot)
        gpus += plan.held
        ask_at = min(ask_at, plan.change[0])
    order = then_by(rows, np.where(gpus > 0.0, jobs[DEADLINE], INFINITY))
    allowed = jobs[TYPES].copy()
    for row in range(count):
        jobs[TYPES, row] = 1 << types[row]
    out[:3] = fill(jobs, order, gpus, gpus, cluster.capacity, cluster.quota, True, False)
    jobs[TYPES], out[3] = allowed, order
    return ask_at


@kernel
def _admit(
    jobs: Floats,
    mine: Ints,
    wishes: Wishes,
    fixed: Bools,
    now: float,
    capacity: float,
    slot: float,
) -> None:
    """Admit those that come, by submission, where no more deadlines are missed then; in place."""
    admitted = jobs[_ADMITTED]
    for row in mine:
        if admitted[row] == 0.0 and wishes.deadline[row] == INFINITY:
            admitted[row] = 2.0
    before, missed = mine[((admitted == 1.0) | fixed)[mine]], -1
    for row in mine[admitted[mine] == 0.0]:
        promised = mine[((admitted == 1.0) | fixed)[mine]]
        both = then_by(np.append(promised, row), wishes.deadline)
        _, misses = share_out(empty_plan(now, capacity, wishes), both, wishes, slot)
        if misses > 0 and missed < 0:
            before = then_by(before, wishes.deadline)
            _, missed = share_out(empty_plan(now, capacity, wishes), before, wishes, slot)
        admitted[row] = 1.0 if misses == 0 or misses <= missed else 2.0
    for row in mine:
        if admitted[row] == 2.0 and not fixed[row]:
            wishes.deadline[row] = INFINITY


@kernel
def _types_of(jobs: Floats, cluster: ClusterNow) -> Ints:
    """The GPU type on which each job is planned: the one it holds, else that of most GPUs that it may use."""
    types = np.zeros(jobs.shape[1], np.int64)
    if len(cluster.capacity) == 1:
        return types
    for row in range(len(types)):
        if jobs[TYPE, row] >= 0.0:
            types[row] = int(jobs[TYPE, row])
            continue
        most = -1.0
        for gpu_type in range(len(cluster.capacity)):
            runs = cluster.rates[int(jobs[CURVE, row]), gpu_type].max() > 0.0
            allowed = runs and (int(jobs[TYPES, row]) >> gpu_type) & 1
            if allowed and cluster.capacity[gpu_type] > most:
                types[row], most = gpu_type, cluster.capacity[gpu_type]
    return types


@kernel
def _wishes(jobs: Floats, cluster: ClusterNow, gpu_type: int, work: Floats, fixed: Bools) -> Wishes:
    """The jobs as they are planned on one type; those that have no level there have none.

    A job that is ``fixed`` has the level it holds, and is due now, so that it goes on. One that is believed
    to be done has a second left.
    """
    count, capacity = jobs.shape[1], cluster.capacity[gpu_type]
    most = int(np.log2(max(capacity, 1.0))) + 1
    levels, speed = np.zeros((count, most)), np.zeros((count, most))
    counts, left = np.zeros(count, np.int64), work.copy()
    for row in range(count):
        curve, least, top = int(jobs[CURVE, row]), jobs[LEAST, row], jobs[MOST, row]
        if fixed[row]:
            least = top = jobs[HELD, row]
        pool = int(jobs[POOL, row])
        room = min(capacity, cluster.quota[pool]) if pool >= 0 else capacity
        known, fastest = levels_of(least, min(top, room), levels[row]), 0.0
        for place in range(known):
            rate = speed[row, place] = rate_on(cluster.rates, curve, gpu_type, levels[row, place])
            if rate > fastest:
                counts[row], fastest = place + 1, rate
        left[row] = max(left[row], fastest)
    due = np.where(fixed, cluster.now, jobs[DEADLINE])
    return Wishes(left, due, levels, speed, counts)


@kernel
def levels_of(least: float, most: float, levels: Floats) -> int:
    """Write the powers of two from ``least`` to ``most`` GPUs, ``least`` where none is among them.

    Returns how many.
    """
    level, count = 1.0, 0
    while level < least:
        level *= 2.0
    if least == most or level > most:
        level = least
    while level <= most:
        levels[count] = level
        level, count = level * 2.0, count + 1
    return count
