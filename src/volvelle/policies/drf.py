"""DRF: dominant resource fairness (Ghodsi et al., NSDI'11) over GPUs, CPUs and memory.

A user's dominant share is the largest of the shares of the cluster's GPUs, CPUs and memory that their
jobs hold, over their weight (section 6.2: the largest weight among their jobs). Progressive filling
(algorithm 1): the user with the smallest dominant share goes next, with the first of their jobs that can
start, jobs that run before others, then by submission; where none can, the job of theirs with the
fewest GPUs gets one more. Every GPU brings the CPUs and the memory that the job declares for each GPU it
requests; what nobody declares, or the cluster does not say it has, does not count, and who declares more
than there is takes all there is.

``by=job`` lets every job be a user of its own; so is a job that names no user.

Departures: GPUs of all types are one resource; a gang is one step; the whole is decided anew at every
change, as shares are given, not kept. CPUs and memory bind as sums over the cluster, not node by node.
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from volvelle.core.columns import HELD, LEAST, MOST, PINNED, POOL, PREEMPTIBLE, TYPE, TYPES, WEIGHT
from volvelle.core.compiled import compiled
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE
from volvelle.core.policy import Allocation, Policy, policies, rank
from volvelle.core.state import Reason
from volvelle.core.view import View
from volvelle.model.cluster import NodeState
from volvelle.model.tolerances import LEAST_DIVISOR, SAME_SHARE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GPUS_SHORT = int(Reason.GPUS)
_QUOTA = int(Reason.QUOTA)
_POLICY = int(Reason.POLICY)

_USER, _CPUS, _MEMORY = 0, 1, 2
"""Own columns: the user's number from 1 on (0: not known yet), CPUs and GB of memory for each GPU."""


@policies.register
class Drf(Policy):
    """Dominant resource fairness: whoever has the smallest dominant share gets the next GPU."""

    name: ClassVar[str] = "drf"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "DRF (NSDI'11)"
    optimises: ClassVar[str] = "instantaneous fairness over several resources"
    columns: ClassVar[int] = 3

    by: Literal["user", "job"] = Field("user", description="whose dominant shares are made equal")
    _users: dict[str, int] = PrivateAttr(default_factory=dict)
    """Numbers of users with jobs, by first submission."""
    _met: int = PrivateAttr(0)

    def allocate(self, view: View) -> Allocation:
        """Progressive filling from nothing."""
        jobs = view.jobs
        if len(new := np.flatnonzero(jobs.own[_USER] == 0.0)):
            there = set(jobs.own[_USER].tolist())
            self._users = {user: number for user, number in self._users.items() if number in there}
            for row in new.tolist():
                self._meet(view, row)
        up = [
            node
            for node, state in zip(view.resources.nodes, view.resources.node_states, strict=True)
            if state is NodeState.UP
        ]
        cpus = sum(node.cpus for node in up) or np.inf
        memory = sum(node.memory_gb for node in up) or np.inf
        _, user = np.unique(jobs.own[_USER], return_inverse=True)
        order = rank(np.where(jobs.running, 0.0, 1.0))
        given = fill_by_dominant_share(
            jobs.matrix,
            order,
            user.astype(np.int64),
            np.stack(
                [
                    np.ones(len(jobs)),
                    np.minimum(jobs.own[_CPUS], cpus / jobs.min_gpus),
                    np.minimum(jobs.own[_MEMORY], memory / jobs.min_gpus),
                ]
            ),
            np.array([max(view.gpus, 1.0), cpus, memory]),
            view.capacity,
            view.quota,
        )
        return Allocation(given[TARGET], given[TARGET_TYPE], given[TARGET_REASON], order)

    def _meet(self, view: View, row: int) -> None:
        """Note what a new job declares."""
        spec = view.spec(int(view.jobs.number[row]))
        user = f"user {spec.user}" if self.by == "user" and spec.user else f"job {spec.id}"
        if user not in self._users:
            self._met += 1
            self._users[user] = self._met
        view.jobs.own[_USER, row] = self._users[user]
        view.jobs.own[_CPUS, row] = spec.cpus / spec.gpus
        view.jobs.own[_MEMORY, row] = spec.memory_gb / spec.gpus


@compiled
def fill_by_dominant_share(
    matrix: Floats,
    order: Ints,
    user: Ints,
    per_gpu: Floats,
    totals: Floats,
    capacity: Floats,
    quota: Floats,
) -> Floats:
    """Progressive filling. Returns (3, jobs) as `volvelle.core.fill.fill` does.

    ``user`` is who each row belongs to, ``per_gpu`` (resources, jobs) what each of its GPUs takes of
    ``totals``, ``order`` the rows in the order in which a user's jobs are to start.
    """
    jobs, users = len(order), int(user.max()) + 1 if len(user) else 0
    result = np.zeros((3, jobs))
    result[1, :] = -1.0
    free = capacity.copy()
    left = quota.copy()
    used = np.zeros((len(totals), users))
    weight = np.full(users, LEAST_DIVISOR)
    for row in range(jobs):
        weight[user[row]] = max(weight[user[row]], matrix[WEIGHT, row])
        stays = matrix[PINNED, row] == 1.0 or matrix[PREEMPTIBLE, row] == 0.0
        if matrix[HELD, row] > 0.0 and stays:
            gpu_type = int(matrix[TYPE, row])
            _give(matrix, result, used, free, left, per_gpu, user, row, gpu_type, matrix[HELD, row])
    active = np.ones(users, np.bool_)
    while free.sum() > 0.0:
        poorest, least_share = -1, np.inf
        for each in range(users):
            if active[each]:
                share = (used[:, each] / totals).max() / weight[each]
                if share < least_share - SAME_SHARE:
                    poorest, least_share = each, share
        if poorest < 0:
            break
        starts, grows = -1, -1
        for row in order:
            if user[row] != poorest or matrix[PINNED, row] == 1.0:
                continue
            step = 1.0 if result[0, row] > 0.0 else matrix[LEAST, row]
            if result[0, row] + step > matrix[MOST, row]:
                continue
            if _type_for(matrix, result, used, totals, free, left, per_gpu, row, step) < 0:
                continue
            if result[0, row] == 0.0:
                starts = row
                break
            if grows < 0 or result[0, row] < result[0, grows]:
                grows = row
        chosen = starts if starts >= 0 else grows
        if chosen < 0:
            active[poorest] = False
            continue
        step = matrix[LEAST, chosen] if starts >= 0 else 1.0
        gpu_type = _type_for(matrix, result, used, totals, free, left, per_gpu, chosen, step)
        _give(matrix, result, used, free, left, per_gpu, user, chosen, gpu_type, step)
    for row in range(jobs):
        if result[0, row] == 0.0 and result[2, row] == 0.0:
            result[2, row] = _GPUS_SHORT
    return result


@compiled
def _type_for(
    matrix: Floats,
    result: Floats,
    used: Floats,
    totals: Floats,
    free: Floats,
    left: Floats,
    per_gpu: Floats,
    row: int,
    step: float,
) -> int:
    """The GPU type on which ``row`` can have ``step`` GPUs more, -1 (and the reason) for none."""
    pool = int(matrix[POOL, row])
    result[2, row] = 0.0 if result[0, row] > 0.0 else _QUOTA
    if pool >= 0 and left[pool] < step:
        return -1
    result[2, row] = 0.0 if result[0, row] > 0.0 else _POLICY
    for resource in range(1, len(totals)):
        if used[resource].sum() + step * per_gpu[resource, row] > totals[resource] * (
            1.0 + SAME_SHARE
        ):
            return -1
    result[2, row] = 0.0 if result[0, row] > 0.0 else _GPUS_SHORT
    if result[0, row] > 0.0:
        gpu_type = int(result[1, row])
        return gpu_type if free[gpu_type] >= step else -1
    holds = int(matrix[TYPE, row])
    if holds >= 0 and free[holds] >= step:
        return holds
    for gpu_type in range(len(free)):
        if (int(matrix[TYPES, row]) >> gpu_type) & 1 and free[gpu_type] >= step:
            return gpu_type
    return -1


@compiled
def _give(
    matrix: Floats,
    result: Floats,
    used: Floats,
    free: Floats,
    left: Floats,
    per_gpu: Floats,
    user: Ints,
    row: int,
    gpu_type: int,
    gpus: float,
) -> None:
    """Book ``gpus`` GPUs more for the job in ``row``."""
    pool = int(matrix[POOL, row])
    result[0, row] += gpus
    result[1, row] = gpu_type
    result[2, row] = 0.0
    free[gpu_type] -= gpus
    if pool >= 0:
        left[pool] -= gpus
    for resource in range(len(used)):
        used[resource, user[row]] += gpus * per_gpu[resource, row]
