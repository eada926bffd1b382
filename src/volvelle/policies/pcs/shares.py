"""The compiled arithmetic of PCS: caps, shares of queues, GPUs of jobs. ``py_func`` of each is its twin."""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import (
    COUNT,
    CURVE,
    HELD,
    LEAST,
    MOST,
    PINNED,
    POOL,
    PREEMPTIBLE,
    SCALE,
    TOTAL,
    TYPE,
    TYPES,
    UNIT_RATE,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, serve_all
from volvelle.core.state import Reason
from volvelle.policies.growth import rate_on

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GPUS_SHORT = int(Reason.GPUS)

_DUST = 1e-11
"""GPUs: less than this is rounding."""


@compiled
def join(
    matrix: Floats, jobs: int, own: int, table: NDArray[np.float64], thresholds: Floats
) -> None:
    """Note queue and size of those of the first ``jobs`` jobs that have no queue yet.

    Size is GPU-seconds on the fewest GPUs the job runs on, of the type that is fastest for it. Row
    ``own`` of ``matrix`` is 1 + the queue, the next one the size.
    """
    for row in range(jobs):
        if matrix[own, row] > 0.0:
            continue
        types, least, rate = int(matrix[TYPES, row]), matrix[LEAST, row], 0.0
        for gpu_type in range(table.shape[1]):
            if (types >> gpu_type) & 1:
                rate = max(rate, rate_on(table, int(matrix[CURVE, row]), gpu_type, least))
        work = matrix[TOTAL, row] * matrix[SCALE, row]
        size = least * work / rate if rate > 0.0 else np.inf
        matrix[own, row] = 1.0 + np.searchsorted(thresholds, size)
        matrix[own + 1, row] = size


@compiled
def fair_shares(weights: Floats, demand: Floats, capacity: float) -> Floats:
    """GPUs of each queue: weighted max-min of ``capacity``, nobody more than its ``demand``."""
    shares = np.zeros(len(demand))
    waiting = demand > 0.0
    left = capacity
    while left > _DUST:
        weight = 0.0
        for queue in range(len(demand)):
            if waiting[queue]:
                weight += weights[queue]
        if weight <= 0.0:
            break
        level = left / weight
        satisfied = False
        for queue in range(len(demand)):
            if waiting[queue] and demand[queue] <= weights[queue] * level:
                shares[queue] = demand[queue]
                left -= demand[queue]
                waiting[queue] = False
                satisfied = True
        if not satisfied:
            for queue in range(len(demand)):
                if waiting[queue]:
                    shares[queue] = weights[queue] * level
            break
    return shares


@compiled
def cap(matrix: Floats, row: int, table: NDArray[np.float64], gpu_type: int, floor: float) -> float:
    """The most GPUs up to which the job is efficient: zeta(n) >= ``floor``; all it can use, if linear.

    One less than the first number of GPUs with a lower zeta, as PCS' simulator has it.
    """
    most, least = float(matrix[MOST, row]), float(matrix[LEAST, row])
    curve = int(matrix[CURVE, row])
    if floor <= 0.0 or not np.isnan(matrix[UNIT_RATE, row]) or least == most:
        return most
    base = max(int(np.ceil(least)), 1)
    gpus = base + 1
    if gpus >= table.shape[2]:
        return most
    single = table[curve, gpu_type, base] / base
    while gpus <= most and gpus < table.shape[2]:
        if table[curve, gpu_type, gpus] < floor * single * gpus:
            return float(gpus - 1)
        gpus += 1
    return most


@compiled
def divide(
    matrix: Floats,
    table: NDArray[np.float64],
    rows: Ints,
    queue: Ints,
    weights: Floats,
    capacity: float,
    quota: Floats,
    gpu_type: int,
    floor: float,
    delta: float,
    gpus: Floats,
) -> Floats:
    """Write to ``gpus`` what ``rows``, jobs of one type by submission, are to have of ``capacity``.

    queue: of each row of ``matrix``. quota: GPUs left by pool beyond what jobs keep, changed in place.
    delta: the step of PCS' simulator, 0 for the paper's reading. Returns the shares of the queues.
    """
    demand = np.zeros(len(weights))
    for row in rows:
        gpus[row] = kept(matrix, row)
        capacity -= gpus[row]
        demand[queue[row]] += _room(matrix, row, gpus[row])
    shares = fair_shares(weights, demand, capacity)
    left = shares.copy()
    if delta > 0.0:
        for each in range(len(weights)):
            _share_out_in_steps(
                matrix, table, rows, queue, each, left, quota, gpu_type, floor, delta, gpus
            )
    else:
        _share_out(matrix, table, rows, queue, -1, left, quota, gpu_type, floor, gpus)
        _share_out(matrix, table, rows, queue, -1, left, quota, gpu_type, 0.0, gpus)
    for row in rows:  # rounding is no reason to change what a job holds
        held = matrix[HELD, row]
        if gpus[row] != held and abs(gpus[row] - held) <= _DUST * max(held, 1.0):
            gpus[row] = held
        elif gpus[row] < _DUST:
            gpus[row] = 0.0
    return shares


@compiled
def divide_all(
    matrix: Floats,
    table: NDArray[np.float64],
    rows: Ints,
    queue: Ints,
    weights: Floats,
    capacity: Floats,
    quota: Floats,
    floor: float,
    delta: float,
) -> Floats:
    """`divide` on every GPU type: GPUs, type and reason of each job, as `fill` returns them.

    ``rows`` are all jobs, by submission; ``capacity`` GPUs by type, ``quota`` by pool.
    """
    result = np.zeros((3, len(rows)))
    types = choose_types(matrix, rows, capacity)
    left = quota_left(matrix, rows, quota)
    for gpu_type in range(len(capacity)):
        mine = rows if len(capacity) == 1 else rows[types[rows] == gpu_type]
        divide(
            matrix,
            table,
            mine,
            queue,
            weights,
            capacity[gpu_type],
            left,
            gpu_type,
            floor,
            delta,
            result[TARGET],
        )
    for row in rows:
        if result[TARGET, row] > 0.0:
            result[TARGET_TYPE, row] = types[row]
        else:
            result[TARGET_TYPE, row] = -1.0
            result[TARGET_REASON, row] = _GPUS_SHORT
    return result


@kernel
def decide(
    matrix: Floats,
    now: float,
    capacity: Floats,
    quota: Floats,
    table: Floats,
    parameters: Floats,
    given: Floats,
) -> None:
    """`volvelle.policies.pcs.policy.Pcs.allocate` where GPUs are divided, as machine code.

    parameters: efficiency, delta, how many thresholds; these, and the weights of the queues.
    """
    jobs, last = matrix.shape[1], 3 + int(parameters[2])
    join(matrix, jobs, COUNT, table, parameters[3:last])
    if not serve_all(matrix, capacity, quota, given):
        queue = matrix[COUNT].astype(np.int64) - 1
        weights = parameters[last:]
        floor, delta = parameters[0], parameters[1]
        rows = np.arange(jobs)
        given[:3] = divide_all(matrix, table, rows, queue, weights, capacity, quota, floor, delta)


@compiled
def _share_out(
    matrix: Floats,
    table: NDArray[np.float64],
    rows: Ints,
    queue: Ints,
    only: int,
    left: Floats,
    quota: Floats,
    gpu_type: int,
    floor: float,
    gpus: Floats,
) -> None:
    """Raise ``gpus`` first in, first out, up to the caps, by what is ``left`` to each queue (or one)."""
    unspent = left[only] if only >= 0 else left.sum()
    for row in rows:
        if unspent <= _DUST:
            return
        mine = queue[row]
        if (only >= 0 and mine != only) or left[mine] <= _DUST:
            continue
        more = min(cap(matrix, row, table, gpu_type, floor) - gpus[row], left[mine])
        pool = int(matrix[POOL, row])
        if pool >= 0:
            more = min(more, quota[pool])
        if more <= 0.0 or matrix[PINNED, row] == 1.0:
            continue
        gpus[row] += more
        left[mine] -= more
        unspent -= more
        if pool >= 0:
            quota[pool] -= more


@compiled
def _share_out_in_steps(
    matrix: Floats,
    table: NDArray[np.float64],
    rows: Ints,
    queue: Ints,
    only: int,
    left: Floats,
    quota: Floats,
    gpu_type: int,
    floor: float,
    delta: float,
    gpus: Floats,
) -> None:
    """As `_share_out` for one queue, again and again at lower floors until its share is used up."""
    share, budget = left[only], quota.copy()
    while True:
        _share_out(matrix, table, rows, queue, only, left, quota, gpu_type, floor, gpus)
        if left[only] <= _DUST or floor <= 0.0:
            return
        floor -= delta
        left[only] = share
        quota[:] = budget
        for row in rows:
            if queue[row] == only:
                gpus[row] = kept(matrix, row)


@compiled
def quota_left(matrix: Floats, rows: Ints, quota: Floats) -> Floats:
    """GPUs left by pool beyond what the jobs in ``rows`` keep."""
    left = quota.copy()
    for row in rows:
        pool = int(matrix[POOL, row])
        if pool >= 0:
            left[pool] -= kept(matrix, row)
    return left


@compiled
def kept(matrix: Floats, row: int) -> float:
    """GPUs that the job in ``row`` keeps whatever the shares: it is pinned or may not be preempted."""
    held = float(matrix[HELD, row])
    if matrix[PINNED, row] == 1.0:
        return held
    return min(held, float(matrix[LEAST, row])) if matrix[PREEMPTIBLE, row] == 0.0 else 0.0


@compiled
def _room(matrix: Floats, row: int, keeps: float) -> float:
    return 0.0 if matrix[PINNED, row] == 1.0 else max(float(matrix[MOST, row]) - keeps, 0.0)


@compiled
def choose_types(matrix: Floats, rows: Ints, capacity: Floats) -> Ints:
    """The GPU type of every job: the one it holds, or of those that will do the one least in demand.

    ``rows`` by submission; demand is the most its jobs can use over the type's GPUs.
    """
    types = np.full(len(rows), -1, np.int64)
    demand = np.zeros(len(capacity))
    for row in rows:
        if matrix[TYPE, row] >= 0.0:
            types[row] = int(matrix[TYPE, row])
            demand[types[row]] += matrix[MOST, row]
    for row in rows:
        if types[row] >= 0:
            continue
        wished = int(matrix[TYPES, row])
        for gpu_type in range(len(capacity)):
            if not (wished >> gpu_type) & 1 or capacity[gpu_type] < matrix[LEAST, row]:
                continue
            best = types[row]
            if best < 0 or demand[gpu_type] * capacity[best] < demand[best] * capacity[gpu_type]:
                types[row] = gpu_type
        if types[row] >= 0:
            demand[types[row]] += matrix[MOST, row]
    return types
