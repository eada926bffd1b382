"""The compiled arithmetic of PCS: caps, shares of queues, GPUs of jobs. ``py_func`` of each is its twin."""

import math
from typing import Any

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
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow, serve_all
from volvelle.core.forward.decide import change
from volvelle.core.forward.rates import rate_on
from volvelle.core.state import COLUMNS, INFINITY, OLDEST, RANKED, Cube, Jobs, Reason, State
from volvelle.core.state import Floats as Column
from volvelle.model.tolerances import LEFT_GPUS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GPUS_SHORT = int(Reason.GPUS)


@compiled
def join(
    matrix: Floats, jobs: int, own: int, table: NDArray[np.float64], thresholds: Floats
) -> None:
    """Note queue and size of those of the first ``jobs`` jobs that have no queue yet.

    Row ``own`` of ``matrix`` is 1 + the queue, the next one the `size`.
    """
    for row in range(jobs):
        if matrix[own, row] == 0.0:
            matrix[own + 1, row] = size(matrix, row, table, int(matrix[CURVE, row]))
            matrix[own, row] = 1.0 + np.searchsorted(thresholds, matrix[own + 1, row])


@kernel
def size(columns: Any, row: int, table: Any, curve: int) -> float:
    """GPU-seconds on the fewest GPUs the job runs on, of the type that is fastest for it."""
    types, least, rate = int(columns[TYPES][row]), columns[LEAST][row], 0.0
    for gpu_type in range(len(table[curve])):
        if (types >> gpu_type) & 1 == 1:
            rate = max(rate, rate_on(table, curve, gpu_type, least))
    work = columns[TOTAL][row] * columns[SCALE][row]
    return float(least * work / rate) if rate > 0.0 else math.inf


@compiled
def fair_shares(weights: Floats, demand: Floats, capacity: float) -> Floats:
    """GPUs of each queue: weighted max-min of ``capacity``, nobody more than its ``demand``."""
    shares = np.zeros(len(demand))
    share_fairly(weights, demand, capacity, shares)
    return shares


@kernel
def share_fairly(weights: Any, demand: Any, capacity: float, shares: Any) -> None:
    """Write `fair_shares`."""
    waiting = -1.0
    for queue in range(len(demand)):
        shares[queue] = waiting if demand[queue] > 0.0 else 0.0
    left, satisfied = capacity, True
    while satisfied and left > LEFT_GPUS:
        weight = 0.0
        for queue in range(len(demand)):
            if shares[queue] == waiting:
                weight += weights[queue]
        if weight <= 0.0:
            break
        level, satisfied = left / weight, False
        for queue in range(len(demand)):
            if shares[queue] == waiting and demand[queue] <= weights[queue] * level:
                shares[queue] = demand[queue]
                left -= demand[queue]
                satisfied = True
        if not satisfied:
            for queue in range(len(demand)):
                if shares[queue] == waiting:
                    shares[queue] = weights[queue] * level
    for queue in range(len(demand)):
        shares[queue] = max(shares[queue], 0.0)


@kernel
def cap(columns: Any, row: int, rates: Any, floor: float) -> float:
    """The most GPUs up to which the job is efficient: zeta(n) >= ``floor``; all it can use, if linear.

    One less than the first number of GPUs with a lower zeta, as PCS' simulator has it. rates: of the job, by
    GPUs.
    """
    most, least = float(columns[MOST][row]), float(columns[LEAST][row])
    linear = columns[UNIT_RATE][row] == columns[UNIT_RATE][row]
    if floor <= 0.0 or linear or least == most:
        return most
    base = max(math.ceil(least), 1)
    gpus = base + 1
    if gpus >= len(rates):
        return most
    single = rates[base] / base
    while gpus <= most and gpus < len(rates):
        if rates[gpus] < floor * single * gpus:
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
    for row in rows:
        gpus[row] = _unrounded(gpus[row], matrix[HELD, row])
    return shares


@kernel
def _unrounded(gpus: float, held: float) -> float:
    """What a job is to hold: rounding is no reason to change that."""
    if abs(gpus - held) <= LEFT_GPUS * max(held, 1.0):
        return held
    return 0.0 if gpus < LEFT_GPUS else gpus


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
def decide(matrix: Floats, cluster: ClusterNow, memory: Floats, given: Floats) -> float:
    """`volvelle.systems.pcs.policy.Pcs.allocate` where GPUs are divided, as a `Kernel`.

    memory: efficiency, delta, how many thresholds; these, and the weights of the queues.
    """
    jobs, last = matrix.shape[1], 3 + int(memory[2])
    _, capacity, quota, table = cluster
    join(matrix, jobs, COUNT, table, memory[3:last])
    if not serve_all(matrix, capacity, quota, given):
        queue = matrix[COUNT].astype(np.int64) - 1
        weights = memory[last:]
        floor, delta = memory[0], memory[1]
        rows = np.arange(jobs)
        given[:3] = divide_all(matrix, table, rows, queue, weights, capacity, quota, floor, delta)
    return INFINITY


@kernel
def queue_of(jobs: Jobs, row: int, rates: Cube, memory: Column) -> int:
    """The queue of a job, which keeps the one that it has; memory as of `decide`."""
    noted, limits = jobs.floats[COLUMNS], int(memory[2])
    if noted[row] == 0.0:
        if jobs.table[row] < 0.0:
            return 0  # not for long: who knows how fast it is will be asked
        measure = size(jobs.floats, row, rates, int(jobs.table[row]))
        queue = 0
        while queue < limits and memory[3 + queue] < measure:
            queue += 1
        noted[row] = 1.0 + queue
        jobs.floats[COLUMNS + 1][row] = measure
    return int(noted[row]) - 1


@kernel
def serve(s: State) -> None:
    """As `decide`, over queues that are kept: looks at jobs that run and at those that are to start."""
    jobs, queues, many, capacity = s.jobs, s.queues, s.count[RANKED], s.types.capacity[0]
    wanted = 0.0
    for queue in range(len(queues.demand)):
        queues.wanted[queue] = queues.demand[queue]
        wanted += queues.demand[queue]
    if wanted <= capacity:
        row = s.count[OLDEST]
        while row >= 0:
            _hold(s, row, jobs.most[row])
            row = jobs.younger[row]
        return
    for i in range(many):
        row = s.ranked[i]
        keeps = kept(jobs.floats, row)
        jobs.target[row] = keeps
        capacity -= keeps
        queues.wanted[jobs.kind[row]] += _room(jobs.floats, row, keeps) - jobs.most[row]
    share_fairly(queues.weight, queues.wanted, capacity, queues.share)
    for queue in range(len(queues.share)):
        end = _share_out_queue(s, queue)
        row = queues.first[queue]
        while row != end:
            if jobs.held[row] == 0.0 and jobs.target[row] > 0.0:
                _hold(s, row, jobs.target[row])
            row = jobs.next[row]
    for i in range(many):
        row = s.ranked[i]
        _hold(s, row, jobs.target[row])


@kernel
def _share_out_queue(s: State, queue: int) -> int:
    """Raise the targets of a queue's jobs as `_share_out` does; the row at which that ends, -1: after all."""
    jobs, floor, delta = s.jobs, s.memory[0], s.memory[1]
    first, left = s.queues.first[queue], s.queues.share[queue]
    end = first
    while left > LEFT_GPUS:
        row = first
        while row >= 0 and left > LEFT_GPUS:
            most = cap(jobs.floats, row, s.rates[int(jobs.table[row])][0], floor)
            more = min(most - jobs.target[row], left)
            if more > 0.0:
                jobs.target[row] += more
                left -= more
            row = jobs.next[row]
        if end >= 0:
            end = row
        if left <= LEFT_GPUS or floor <= 0.0:
            break
        floor = floor - delta if delta > 0.0 else 0.0
        if delta > 0.0:
            left, row = s.queues.share[queue], first
            while row >= 0:
                jobs.target[row] = kept(jobs.floats, row)
                row = jobs.next[row]
    return int(end)


@kernel
def _hold(s: State, row: int, gpus: float) -> None:
    """Let the job in ``row`` hold so many GPUs of the one type."""
    jobs = s.jobs
    held = jobs.held[row]
    jobs.target[row] = gpus = _unrounded(gpus, held)
    jobs.target_type[row] = 0.0 if gpus > 0.0 else -1.0
    if gpus != held:
        jobs.reason[row] = _GPUS_SHORT
        change(s, row)


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
        if unspent <= LEFT_GPUS:
            return
        mine = queue[row]
        if (only >= 0 and mine != only) or left[mine] <= LEFT_GPUS:
            continue
        most = cap(matrix, row, table[int(matrix[CURVE, row])][gpu_type], floor)
        more = min(most - gpus[row], left[mine])
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
        if left[only] <= LEFT_GPUS or floor <= 0.0:
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


@kernel
def kept(columns: Any, row: int) -> float:
    """GPUs that the job in ``row`` keeps whatever the shares: it is pinned or may not be preempted."""
    held = float(columns[HELD][row])
    if columns[PINNED][row] == 1.0:
        return held
    return min(held, float(columns[LEAST][row])) if columns[PREEMPTIBLE][row] == 0.0 else 0.0


@kernel
def _room(columns: Any, row: int, keeps: float) -> float:
    return 0.0 if columns[PINNED][row] == 1.0 else max(float(columns[MOST][row]) - keeps, 0.0)


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
