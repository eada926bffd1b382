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

from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from volvelle.core.columns import (
    COUNT,
    DECLARED_CPUS,
    DECLARED_MEMORY,
    GPUS,
    HELD,
    LEAST,
    MOST,
    NUMBER,
    PINNED,
    POOL,
    PREEMPTIBLE,
    TYPE,
    TYPES,
    USER,
    WEIGHT,
)
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow
from volvelle.core.policy import Kernel, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import LEAST_DIVISOR, SAME_SHARE
from volvelle.policies.growth import then_by

_GPUS_SHORT = int(Reason.GPUS)
_QUOTA = int(Reason.QUOTA)
_POLICY = int(Reason.POLICY)

_RANK = COUNT
"""Own column: the place of the job's user by first submission, from 1 on (0: not known yet)."""

_BY_USER, _RANKS = range(2)
"""Entries of the memory: 1 where jobs of a user share; the last rank."""


@policies.register
class Drf(Policy):
    """Dominant resource fairness: whoever has the smallest dominant share gets the next GPU."""

    name: ClassVar[str] = "drf"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "DRF (NSDI'11)"
    optimises: ClassVar[str] = "instantaneous fairness over several resources"
    columns: ClassVar[int] = 1

    by: Literal["user", "job"] = Field("user", description="whose dominant shares are made equal")

    _memory: Floats = PrivateAttr(default_factory=lambda: np.zeros(2))

    @model_validator(mode="after")
    def _remember(self) -> Self:
        self._memory = np.array([float(self.by == "user"), 0.0])
        return self

    def kernel(self, *, named: bool) -> Kernel:
        """Progressive filling from nothing."""
        return Kernel(decide, self._memory, rates=False)


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`Kernel`)."""
    _meet(jobs, memory)
    runs = jobs[HELD] > 0.0
    order = np.concatenate((np.flatnonzero(runs), np.flatnonzero(~runs)))
    per_gpu, totals = np.ones((3, jobs.shape[1])), np.empty(3)
    totals[0], totals[1], totals[2] = max(cluster.capacity.sum(), 1.0), cluster.cpus, cluster.memory
    per_gpu[1] = np.minimum(jobs[DECLARED_CPUS] / jobs[GPUS], cluster.cpus / jobs[LEAST])
    per_gpu[2] = np.minimum(jobs[DECLARED_MEMORY] / jobs[GPUS], cluster.memory / jobs[LEAST])
    out[3] = order
    rank, capacity, quota = jobs[_RANK], cluster.capacity, cluster.quota
    order = then_by(order, rank)
    fill_by_dominant_share(jobs, order, rank, per_gpu, totals, capacity, quota, out[:3])
    return INFINITY


@kernel
def _meet(jobs: Floats, memory: Floats) -> None:
    """Rank the users of new jobs behind all whose jobs are there."""
    new = np.flatnonzero(jobs[_RANK] == 0.0)
    for row in new[np.argsort(jobs[NUMBER][new], kind="mergesort")]:
        if memory[_BY_USER] == 1.0 and jobs[USER, row] > 0.0:
            jobs[_RANK, row] = np.where(jobs[USER] == jobs[USER, row], jobs[_RANK], 0.0).max()
        if jobs[_RANK, row] == 0.0:
            memory[_RANKS] += 1.0
            jobs[_RANK, row] = memory[_RANKS]


class _Left(NamedTuple):
    """GPUs that are left while jobs are filled, and what is used.

    totals: of each resource. per_gpu: (resources, jobs) what each GPU of a job takes of these. free, left: by
    GPU type, by pool. used: (resources, users + 1), in the last column of all. user: (jobs,).
    """

    totals: Floats
    per_gpu: Floats
    free: Floats
    left: Floats
    used: Floats
    user: Ints


@kernel
def fill_by_dominant_share(
    matrix: Floats,
    order: Ints,
    rank: Floats,
    per_gpu: Floats,
    totals: Floats,
    capacity: Floats,
    quota: Floats,
    out: Floats,
) -> None:
    """Progressive filling; ``out`` is (3, jobs) as `volvelle.core.fill.fill` returns it, zeros at first.

    ``rank`` is that of each row's user, ``per_gpu`` (resources, jobs) what each of its GPUs takes of
    ``totals``, ``order`` the rows by rank, those of a user in the order in which they are to start.
    """
    jobs, users = len(order), 0
    user, first, end = np.empty((3, jobs), np.int64)
    for at in range(jobs):
        if at == 0 or rank[order[at]] != rank[order[at - 1]]:
            first[users] = at
            users += 1
        user[order[at]] = users - 1
        end[users - 1] = at + 1
    out[TARGET_TYPE] = -1.0
    used, weight = np.zeros((len(totals), users + 1)), np.full(users, LEAST_DIVISOR)
    there = _Left(totals, per_gpu, capacity.copy(), quota.copy(), used, user)
    for row in range(jobs):
        weight[user[row]] = max(weight[user[row]], matrix[WEIGHT, row])
        stays = matrix[PINNED, row] == 1.0 or matrix[PREEMPTIBLE, row] == 0.0
        if matrix[HELD, row] > 0.0 and stays:
            gpu_type = int(matrix[TYPE, row])
            _give(matrix, out, there, row, gpu_type, matrix[HELD, row])
    share = np.zeros(users)
    for each in range(users):
        share[each] = _dominant_share(used, totals, each) / weight[each]
    while there.free.sum() > 0.0:
        poorest, least_share = -1, np.inf
        for each in range(users):
            if share[each] < least_share - SAME_SHARE:
                poorest, least_share = each, share[each]
        if poorest < 0:
            break
        starts, grows = -1, -1
        for at in range(first[poorest], end[poorest]):
            row = order[at]
            step = 1.0 if out[TARGET, row] > 0.0 else matrix[LEAST, row]
            if matrix[PINNED, row] == 1.0 or out[TARGET, row] + step > matrix[MOST, row]:
                first[poorest] += at == first[poorest]  # not to be looked at again
                continue
            if _type_for(matrix, out, there, row, step) < 0:
                continue
            if out[TARGET, row] == 0.0:
                starts = row
                break
            if grows < 0 or out[TARGET, row] < out[TARGET, grows]:
                grows = row
        chosen = starts if starts >= 0 else grows
        if chosen < 0:
            share[poorest] = np.inf  # none of their jobs can have more
            continue
        step = matrix[LEAST, chosen] if starts >= 0 else 1.0
        gpu_type = _type_for(matrix, out, there, chosen, step)
        _give(matrix, out, there, chosen, gpu_type, step)
        share[poorest] = _dominant_share(used, totals, poorest) / weight[poorest]
    for row in range(jobs):
        if out[TARGET, row] == 0.0 and out[TARGET_REASON, row] == 0.0:
            out[TARGET_REASON, row] = _GPUS_SHORT


@kernel
def _dominant_share(used: Floats, totals: Floats, user: int) -> float:
    largest = 0.0
    for resource in range(len(totals)):
        largest = max(largest, used[resource, user] / totals[resource])
    return largest


@kernel
def _type_for(matrix: Floats, out: Floats, there: _Left, row: int, step: float) -> int:
    """The GPU type on which ``row`` can have ``step`` GPUs more, -1 (and the reason) for none."""
    free, pool, waits = there.free, int(matrix[POOL, row]), out[TARGET, row] == 0.0
    if pool >= 0 and there.left[pool] < step:
        out[TARGET_REASON, row] = _QUOTA if waits else 0.0
        return -1
    for resource in range(1, len(there.totals)):
        most = there.totals[resource] * (1.0 + SAME_SHARE)
        if there.used[resource, -1] + step * there.per_gpu[resource, row] > most:
            out[TARGET_REASON, row] = _POLICY if waits else 0.0
            return -1
    out[TARGET_REASON, row] = _GPUS_SHORT if waits else 0.0
    if not waits:
        gpu_type = int(out[TARGET_TYPE, row])
        return gpu_type if free[gpu_type] >= step else -1
    holds = int(matrix[TYPE, row])
    if holds >= 0 and free[holds] >= step:
        return holds
    for gpu_type in range(len(free)):
        if (int(matrix[TYPES, row]) >> gpu_type) & 1 and free[gpu_type] >= step:
            return gpu_type
    return -1


@kernel
def _give(matrix: Floats, out: Floats, there: _Left, row: int, gpu_type: int, gpus: float) -> None:
    """Book ``gpus`` GPUs more for the job in ``row``."""
    pool = int(matrix[POOL, row])
    out[TARGET, row] += gpus
    out[TARGET_TYPE, row] = gpu_type
    out[TARGET_REASON, row] = 0.0
    there.free[gpu_type] -= gpus
    if pool >= 0:
        there.left[pool] -= gpus
    for resource in range(len(there.used)):
        taken = gpus * there.per_gpu[resource, row]
        there.used[resource, there.user[row]] += taken
        there.used[resource, -1] += taken
