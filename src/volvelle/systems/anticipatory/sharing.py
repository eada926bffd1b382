"""Baselines of anticipatory scheduling: isolated pools, or idle GPUs shared without looking ahead.

``fcfs-pools`` serves every pool by itself, first come, first served: the isolated reference of all others.
``ssf`` does so with the shortest service first (seconds x GPUs), ``gssf`` with one such queue of all pools.
``mmfs`` serves the pool that has least of the GPUs it owns: max-min fair between those with jobs that wait.
All are as section 4.1 has them: durations are exact there (estimator ``oracle``), and jobs run to their end
once they start.

A job that does not fit holds back the jobs behind it in its queue; section 4.1 does not say so, but "first"
means that in its reference. ``strict=false`` lets them pass. Jobs of no pool own no GPUs: they are served
last, on idle ones.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.columns import GPUS, HELD, NUMBER, POOL, TYPES
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import (
    TARGET,
    TARGET_REASON,
    ClusterNow,
    keep_running,
    let_have,
    seconds_left,
)
from volvelle.core.policy import Allocation, Kernel, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.core.view import View
from volvelle.model.arrays import Floats
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.anticipatory.by_node import serve_isolated
from volvelle.systems.anticipatory.gangs import gang_type

_GPUS_SHORT = int(Reason.GPUS)
_ORDER = int(Reason.ORDER)
_QUOTA = int(Reason.QUOTA)


class _Queues(Policy):
    """Queues that are served in an order, all at once."""

    by_service: ClassVar[bool] = False
    one_queue: ClassVar[bool] = False
    work_conserving: ClassVar[bool] = False
    keeps_running: ClassVar[bool] = True
    gangs: ClassVar[bool] = True

    strict: bool = Field(True, description="a job that does not fit holds back those behind it")

    def kernel(self, *, named: bool) -> Kernel | None:
        """Keep running jobs, start jobs that are first in their queue and fit."""
        chosen = [self.by_service, self.one_queue, self.strict]
        return Kernel(decide, np.array(chosen, dtype=np.float64), rates=False)


@policies.register
class FcfsPools(_Queues):
    """Every pool alone: first come, first served, on the GPUs that it owns. The reference of the others."""

    name: ClassVar[str] = "fcfs-pools"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Anticipatory scheduling (SIA) section 4.1"
    optimises: ClassVar[str] = "predictability: no pool depends on another"
    borrows: ClassVar[bool] = False

    locality: bool = Field(
        False,
        description="pools have nodes of their own, and jobs few of them (placement that names GPUs)",
    )

    @property
    def chooses_nodes(self) -> bool:
        """As the parameter ``locality`` says."""
        return self.locality

    def allocate(self, view: View) -> Allocation:
        """Keep running jobs, start jobs that are first in their queue and fit."""
        if self.locality and view.resources.named:
            return serve_isolated(view, self.strict)
        return super().allocate(view)

    def kernel(self, *, named: bool) -> Kernel | None:
        """The same by counting; None where it chooses nodes."""
        return None if self.locality and named else super().kernel(named=named)


@policies.register
class Ssf(_Queues):
    """Every pool alone: the job with the least service (seconds x GPUs) first."""

    name: ClassVar[str] = "ssf"
    source: ClassVar[str] = "Anticipatory scheduling (SIA) section 4.1"
    optimises: ClassVar[str] = "mean JCT within each pool"
    borrows: ClassVar[bool] = False
    by_service: ClassVar[bool] = True


@policies.register
class Gssf(_Queues):
    """All pools that lend as one: the job with the least service (seconds x GPUs) first."""

    name: ClassVar[str] = "gssf"
    source: ClassVar[str] = "Anticipatory scheduling (SIA) section 4.1"
    optimises: ClassVar[str] = "mean JCT, without regard to who owns what"
    by_service: ClassVar[bool] = True
    one_queue: ClassVar[bool] = True


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `_Queues` (`Kernel`). memory: whether it is by service, of one queue, strict."""
    by_service, one_queue, strict = memory[0] > 0.0, memory[1] > 0.0, memory[2] > 0.0
    capacity, quota = cluster.capacity, cluster.quota
    out[:] = serve(jobs, cluster.now, capacity, quota, by_service, one_queue, strict)
    return INFINITY


@compiled
def serve(
    matrix: Floats,
    now: float,
    capacity: Floats,
    quota: Floats,
    by_service: bool,
    one_queue: bool,
    strict: bool,
) -> Floats:
    """Serve queues in order. Returns (4, jobs): as `volvelle.core.fill.fill` does, and the order.

    by_service: by the service that jobs are believed to need, else by submission. one_queue: all pools are
    in one queue; else each has its own. strict: a job that does not fit holds back its queue.
    """
    jobs = matrix.shape[1]
    given = np.zeros((4, jobs))
    keys = seconds_left(matrix, now) * matrix[GPUS] if by_service else matrix[NUMBER].copy()
    order = np.argsort(keys, kind="mergesort")
    if not one_queue:
        order = order[np.argsort(matrix[POOL][order] < 0.0, kind="mergesort")]
    free, left = capacity.copy(), quota.copy()
    keep_running(matrix, free, left, given)
    blocked = np.zeros(len(quota) + 1, dtype=np.bool_)
    for row in order:
        if matrix[HELD, row] > 0.0:
            continue
        need, pool = matrix[GPUS, row], int(matrix[POOL, row])
        if pool >= 0 and need > quota[pool] + SAME_AMOUNT:  # never, while it stays as it is
            given[TARGET_REASON, row] = _QUOTA
            continue
        queue = 0 if one_queue else pool
        if blocked[queue]:
            given[TARGET_REASON, row] = _ORDER
            continue
        within = left[pool] if pool >= 0 else np.inf
        chosen = gang_type(need, matrix[TYPES, row], free) if need <= within + SAME_AMOUNT else -1
        if chosen < 0:
            given[TARGET_REASON, row] = _QUOTA if need > within + SAME_AMOUNT else _GPUS_SHORT
            blocked[queue] = strict
            continue
        let_have(matrix, row, chosen, need, free, left, given)
    given[3] = order
    return given


@policies.register
class Mmfs(_Queues):
    """To the pool with the least of what it owns, first come, first served within each: max-min fair."""

    name: ClassVar[str] = "mmfs"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Anticipatory scheduling (SIA) section 4.1"
    optimises: ClassVar[str] = "fairness between pools now, whoever comes next"

    def kernel(self, *, named: bool) -> Kernel | None:
        """Keep running jobs; then serve one job after another, each of the pool that has least."""
        return Kernel(decide_fairly, np.array([float(self.strict)]), rates=False)


@kernel
def decide_fairly(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `Mmfs` (`Kernel`). memory: whether it is strict."""
    out[:] = serve_fairly(jobs, cluster.capacity, cluster.quota, cluster.owned, memory[0] > 0.0)
    return INFINITY


@compiled
def serve_fairly(
    matrix: Floats, capacity: Floats, quota: Floats, owned: Floats, strict: bool
) -> Floats:
    """Max-min fair shares of idle GPUs, by whole jobs. Returns (4, jobs) as `decide` does.

    The next job is of the pool whose GPUs held are the smallest part of the GPUs it owns.
    """
    jobs, pools = matrix.shape[1], len(quota)
    given = np.zeros((4, jobs))
    free, left = capacity.copy(), quota.copy()
    keep_running(matrix, free, left, given)
    held = np.zeros(pools + 1)
    for row in range(jobs):
        held[int(matrix[POOL, row])] += matrix[HELD, row]
    following = np.full(jobs, -1)  # the next job in the queue of the pool
    head, last = np.full(pools + 1, -1), np.full(pools + 1, -1)
    for row in range(jobs):
        pool = int(matrix[POOL, row])
        if matrix[HELD, row] > 0.0:
            continue
        if pool >= 0 and matrix[GPUS, row] > quota[pool] + SAME_AMOUNT:
            given[TARGET_REASON, row] = _QUOTA
            continue
        if head[pool] < 0:
            head[pool] = row
        else:
            following[last[pool]] = row
        last[pool] = row
    served, order = 0, np.full(jobs, -1)
    while True:
        best, least = -2, np.inf
        for pool in range(-1, pools):
            if head[pool] < 0:
                continue
            ratio = held[pool] / owned[pool] if pool >= 0 and owned[pool] > 0.0 else np.inf
            if best == -2 or ratio < least or (best == -1 and ratio == np.inf):
                best, least = pool, ratio
        if best == -2:
            break
        row = head[best]
        head[best] = following[row]
        need = matrix[GPUS, row]
        within = left[best] if best >= 0 else np.inf
        chosen = gang_type(need, matrix[TYPES, row], free) if need <= within + SAME_AMOUNT else -1
        if chosen >= 0:
            let_have(matrix, row, chosen, need, free, left, given)
            held[best] += need
            order[served] = row
            served += 1
            continue
        given[TARGET_REASON, row] = _QUOTA if need > within + SAME_AMOUNT else _GPUS_SHORT
        if strict:
            row = head[best]
            while row >= 0:
                given[TARGET_REASON, row] = _ORDER
                row = following[row]
            head[best] = -1
    for row in range(jobs):
        if matrix[HELD, row] > 0.0 or given[TARGET, row] == 0.0:
            order[served] = row
            served += 1
    given[3] = order
    return given
