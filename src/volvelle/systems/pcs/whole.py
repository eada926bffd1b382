"""PCS in whole GPUs: each queue has its share over time (the integral variant, for real clusters).

A queue is owed the integral of (share - GPUs held) since it last had nothing to run. Queues are served
in order of what they are owed; each gives whole GPUs to its jobs, strictly first in, first out and up to
their caps, until share + owed / turn is used up: what it should hold during the next ``turn`` to be even
at its end. The last job may take it beyond that, up to the fewest GPUs it runs on. GPUs that no queue is
owed then lift the caps in the same order. Where a job at the head does not fit, its queue waits.

PCS' simulator has a variant for whole GPUs too (whole parts stay, fractions take turns of 100 s in
proportion); it is not used for any figure and not reproduced here.
"""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import COUNT, CURVE, LEAST, MOST, NUMBER, PINNED, POOL
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.policies.growth import then_by
from volvelle.systems.pcs.shares import cap, choose_types, fair_shares, join, kept, quota_left

_GPUS_SHORT = float(Reason.GPUS)

QUEUE, SIZE, _OWED, _GROWING, _OWED_ON = range(COUNT, COUNT + 5)
"""Own columns: 1 + the queue of a job, 0 before it has one; its size, GPU-seconds. Of jobs with queues of
their own: GPU-seconds owed at the last decision, how fast that grows, 1 + the GPU type on which."""
OWN_COLUMNS = 5

EFFICIENCY, TURN, DISPARITY, OWN_QUEUES, LIMITS, QUEUES, ASKED, THRESHOLDS = range(8)
"""Entries of the memory: parameters, how many thresholds and queues, the time of the last decision, seconds.
Behind the thresholds are the weights of the queues; and by GPU type and queue, as for jobs, what is owed and
how fast that grows."""
_TYPES = 53
"""GPU types at most: as many bits of `volvelle.core.columns.TYPES` are exact."""


def memory_of_whole(
    efficiency: float,
    turn: float,
    disparity: float,
    thresholds: Floats,
    weights: Floats,
    *,
    own_queues: bool,
) -> Floats:
    """The memory of `decide_whole`."""
    many = len(thresholds), len(weights)
    parameters = [efficiency, turn, disparity, float(own_queues), *many, 0.0]
    return np.concatenate([parameters, thresholds, weights, np.zeros(2 * _TYPES * many[1])])


@kernel
def decide_whole(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`Kernel`). Nothing is owed any more where no job is left of those at the last one."""
    many, own, rows = jobs.shape[1], memory[OWN_QUEUES] == 1.0, np.arange(jobs.shape[1])
    at = THRESHOLDS + int(memory[LIMITS])
    weights = memory[at : at + int(memory[QUEUES])]
    queues = len(weights)
    at += queues
    debts = memory[at : at + 2 * _TYPES * queues].reshape((2, _TYPES, queues))
    if np.all(jobs[QUEUE] == 0.0):
        debts[:] = 0.0
    join(jobs, many, COUNT, cluster.rates, memory[THRESHOLDS : at - queues])
    queue = jobs[QUEUE].astype(np.int64) - 1
    if own:
        queue[then_by(np.argsort(jobs[NUMBER], kind="mergesort"), jobs[SIZE])] = rows
        weights = np.exp(-np.minimum(memory[DISPARITY] * rows, 600.0))
    passed, memory[ASKED] = cluster.now - memory[ASKED], cluster.now
    jobs[_OWED] += jobs[_GROWING] * passed
    debts[0] += debts[1] * passed
    types, quota = (
        choose_types(jobs, rows, cluster.capacity),
        quota_left(jobs, rows, many, cluster.quota),
    )
    uneven = 0
    for gpu_type in range(len(cluster.capacity)):
        mine = rows[types == gpu_type]
        owed = np.zeros(len(weights))
        if own:
            owed[queue[mine]] = np.where(jobs[_OWED_ON] == gpu_type + 1.0, jobs[_OWED], 0.0)[mine]
        else:
            owed[:] = debts[0, gpu_type]
        shares = give_whole(
            jobs,
            cluster.rates,
            mine,
            queue,
            weights,
            cluster.capacity[gpu_type],
            quota,
            gpu_type,
            memory[EFFICIENCY],
            memory[TURN],
            owed,
            out[TARGET],
        )
        held, there = np.zeros(len(weights)), np.zeros(len(weights), np.bool_)
        for row in mine:
            held[queue[row]] += out[TARGET, row]
            there[queue[row]] = True
            if out[TARGET, row] > 0.0:
                out[TARGET_TYPE, row] = gpu_type
            else:
                out[TARGET_REASON, row] = _GPUS_SHORT
        owed, growing = np.where(there, owed, 0.0), np.where(there, shares - held, 0.0)
        uneven += int(np.count_nonzero(np.abs(growing) > SAME_AMOUNT))
        if not own:
            debts[0, gpu_type], debts[1, gpu_type] = owed, growing
            continue
        for row in mine:
            jobs[_OWED, row], jobs[_GROWING, row] = owed[queue[row]], growing[queue[row]]
            jobs[_OWED_ON, row] = gpu_type + 1.0
    return cluster.now + memory[TURN] if uneven > 1 else INFINITY


@compiled
def give_whole(
    matrix: Floats,
    table: NDArray[np.float64],
    rows: Ints,
    queue: Ints,
    weights: Floats,
    capacity: float,
    quota: Floats,
    gpu_type: int,
    floor: float,
    turn: float,
    owed: Floats,
    gpus: Floats,
) -> Floats:
    """Write to ``gpus`` what ``rows``, jobs of one type by submission, are to hold.

    queue: of each row of ``matrix``. owed: GPU-seconds owed to each queue. quota: GPUs left by pool beyond
    what jobs keep, changed in place. Returns the shares of the queues, GPUs.
    """
    demand = np.zeros(len(weights))
    free = capacity
    held = np.zeros(len(weights))
    for row in rows:
        gpus[row] = kept(matrix, row)
        free -= gpus[row]
        held[queue[row]] += gpus[row]
        demand[queue[row]] += gpus[row] if matrix[PINNED, row] == 1.0 else matrix[MOST, row]
    shares = fair_shares(weights, demand, capacity)
    budget = shares + owed / turn - held
    for each in np.argsort(-owed, kind="mergesort"):
        for row in rows:
            if queue[row] != each or matrix[PINNED, row] == 1.0:
                continue
            if budget[each] <= SAME_AMOUNT or free < 1.0:
                break
            rates = table[int(matrix[CURVE, row])][gpu_type]
            most = min(cap(matrix, row, rates, floor), gpus[row] + np.rint(budget[each]))
            given = _give(matrix, row, most, free, quota, gpus)
            free -= given
            budget[each] -= given
            if gpus[row] == 0.0:
                break
    for each in np.argsort(-owed, kind="mergesort"):
        for row in rows:
            if queue[row] != each or matrix[PINNED, row] == 1.0:
                continue
            if free < 1.0:
                return shares
            free -= _give(matrix, row, matrix[MOST, row], free, quota, gpus)
            if gpus[row] == 0.0:
                break
    return shares


@compiled
def _give(matrix: Floats, row: int, most: float, free: float, quota: Floats, gpus: Floats) -> float:
    """Raise the job towards ``most``, in whole GPUs, or to the fewest it runs on; what it was given."""
    pool = int(matrix[POOL, row])
    if pool >= 0:
        free = min(free, float(quota[pool]))
    has = float(gpus[row])
    step = float(matrix[LEAST, row]) if has == 0.0 else 0.0  # to its fewest, then by whole ones
    more = step + float(np.floor(max(min(most - has, free) - step, 0.0) + SAME_AMOUNT))
    if matrix[MOST, row] - has <= min(most - has, free):
        more = float(matrix[MOST, row]) - has
    if more <= 0.0 or more > free + SAME_AMOUNT:
        return 0.0
    gpus[row] += more
    if pool >= 0:
        quota[pool] -= more
    return more
