"""The arithmetic of PCS: sizes and caps of jobs, shares of queues, GPUs of the jobs in them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import (
    CURVE,
    HELD,
    LEAST,
    MOST,
    NUMBER,
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
from volvelle.core.fill import ClusterNow
from volvelle.core.forward.rates import rate_on
from volvelle.core.groups import Changes, Grouped, change, in_groups, sort_by_number
from volvelle.core.state import CHANGED, INFINITY, Reason
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import LEFT_GPUS

_GPUS_SHORT = float(Reason.GPUS)
EFFICIENCY, DELTA, LIMITS, THRESHOLDS = range(4)
"""Of the memory: two parameters, how many thresholds, these; then come numbers of each queue."""
WEIGHTS, WANTED, SHARES = range(3)
"""Of each queue; the last two are of one decision."""


def memory_of(efficiency: float, delta: float, thresholds: Floats, weights: Floats) -> Floats:
    """The memory of `decide`."""
    room = np.zeros(2 * len(weights))
    return np.concatenate([[efficiency, delta, len(thresholds)], thresholds, weights, room])


@kernel
def _of_queues(memory: Floats, queues: int, which: int) -> Floats:
    """WEIGHTS, WANTED or SHARES."""
    last = len(memory) - (SHARES - which) * queues
    return memory[last - queues : last]


@compiled
def join(
    matrix: Floats, jobs: int, own: int, table: NDArray[np.float64], thresholds: Floats
) -> None:
    """Note queue and size of those of the first ``jobs`` jobs that have no queue yet.

    Row ``own`` of ``matrix`` is 1 + the queue, the next one the `size`.
    """
    for row in range(jobs):
        if matrix[own, row] == 0.0:
            _join(matrix, own, row, table, int(matrix[CURVE, row]), thresholds)


@kernel
def _join(columns: Any, own: int, row: int, table: Any, curve: int, thresholds: Any) -> None:
    measure, queue = size(columns, row, table, curve), 0
    while queue < len(thresholds) and thresholds[queue] < measure:
        queue += 1
    columns[own][row] = 1.0 + queue
    columns[own + 1][row] = measure


@kernel
def queue_of(columns: Any, own: int, row: int, curve: int, rates: Any, memory: Any) -> int:
    """The queue of a job, which keeps the one that it has."""
    if columns[own][row] == 0.0:
        if curve < 0:
            return 0  # not for long: its rates will be known
        last = THRESHOLDS + int(memory[LIMITS])
        _join(columns, own, row, rates, curve, memory[THRESHOLDS:last])
    return int(columns[own][row]) - 1


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
    efficient = floor * (rates[base] / base if base > 1 else rates[1])
    while gpus <= most and gpus < len(rates):
        if rates[gpus] < efficient * gpus:
            return float(gpus - 1)
        gpus += 1
    return most


@kernel
def decide(jobs: Grouped, cluster: ClusterNow, memory: Any, out: Changes) -> float:
    """GPUs of each job where GPUs are divided (`volvelle.core.policy.Kernel`); groups are queues."""
    left = memory[:0]
    if len(cluster.quota) > 0:
        left = quota_left(jobs.columns, jobs.running, jobs.runs, cluster.quota)
    if len(cluster.capacity) == 1:
        if not _serve_all(jobs, cluster, out):
            _divide(jobs, cluster, 0, memory, left, out)
    else:
        rows = _all(jobs)
        on = choose_types(jobs.columns, rows, cluster.capacity)
        for gpu_type in range(len(cluster.capacity)):
            mine = rows[on[rows] == gpu_type]
            alike = in_groups(jobs.columns, jobs.own, jobs.curve, jobs.group, len(jobs.first), mine)
            _divide(alike, cluster, gpu_type, memory, left, out)
    sort_by_number(jobs.columns[NUMBER], out.rows, out.counters[CHANGED])
    return INFINITY


@kernel
def _all(jobs: Grouped) -> Ints:
    """The rows of all jobs, by submission."""
    rows, many, row = np.empty(len(jobs.younger), np.int64), 0, jobs.oldest
    while row >= 0:
        rows[many] = row
        many += 1
        row = jobs.younger[row]
    return rows[:many]


@kernel
def _serve_all(jobs: Grouped, cluster: ClusterNow, out: Changes) -> bool:
    """Give every job all it can use of the one type, if there is enough; whether there is.

    Pools need a closer look, and jobs that are pinned.
    """
    wanted = 0.0
    for queue in range(len(jobs.demand)):
        wanted += jobs.demand[queue]
    if wanted > cluster.capacity[0] or len(cluster.quota) > 0:
        return False
    for i in range(jobs.runs):
        if jobs.columns[PINNED][jobs.running[i]] == 1.0:
            return False
    row, held, most = jobs.oldest, jobs.columns[HELD], jobs.columns[MOST]
    while row >= 0:
        _hold(held[row], row, most[row], 0, out)
        row = jobs.younger[row]
    return True


@kernel
def _divide(
    jobs: Grouped, cluster: ClusterNow, gpu_type: int, memory: Any, quota: Floats, out: Changes
) -> None:
    """Change what ``jobs`` are to have of the GPUs of one type.

    quota: GPUs left by pool beyond what jobs keep, changed in place.
    """
    columns, queues = jobs.columns, len(jobs.demand)
    wanted, shares = _of_queues(memory, queues, WANTED), _of_queues(memory, queues, SHARES)
    capacity = float(cluster.capacity[gpu_type])
    for queue in range(queues):
        wanted[queue] = jobs.demand[queue]
    for i in range(jobs.runs):
        row = jobs.running[i]
        keeps = kept(columns, row)
        out.gpus[row] = keeps
        capacity -= keeps
        if keeps > 0.0:
            wanted[jobs.group[row]] += _room(columns, row, keeps) - columns[MOST][row]
    share_fairly(_of_queues(memory, queues, WEIGHTS), wanted, capacity, shares)
    if len(quota) > 0 and memory[DELTA] == 0.0:
        _serve(jobs, -1, shares, cluster, gpu_type, memory, quota, out)
    else:
        for queue in range(queues):
            _serve(jobs, queue, shares, cluster, gpu_type, memory, quota, out)
    for i in range(jobs.runs):
        _hold(
            columns[HELD][jobs.running[i]],
            jobs.running[i],
            out.gpus[jobs.running[i]],
            gpu_type,
            out,
        )


@kernel
def _serve(
    jobs: Grouped,
    only: int,
    left: Floats,
    cluster: ClusterNow,
    gpu_type: int,
    memory: Any,
    quota: Floats,
    out: Changes,
) -> None:
    """Raise what jobs of a queue (-1: of all) are to have, first in, first out, by what is ``left`` to each.

    First up to the caps, then further; in steps of PCS' simulator, again from the queue's whole share. Jobs
    that start are noted.
    """
    columns, floor, delta = jobs.columns, float(memory[EFFICIENCY]), memory[DELTA]
    first, following = jobs.oldest, jobs.younger
    share, budget, pools = 0.0, quota, len(quota) > 0
    if only >= 0:
        first, following, share = jobs.first[only], jobs.next, float(left[only])
    else:
        share = float(left.sum())
    if delta > 0.0 and pools:
        budget = quota.copy()
    unspent, end, starting = share, first, -1
    while True:
        row = first
        while row >= 0 and unspent > LEFT_GPUS:
            if starting < 0 and columns[HELD][row] == 0.0:
                starting = row
            allowed = unspent if only >= 0 else float(left[jobs.group[row]])
            if allowed > LEFT_GPUS and columns[PINNED][row] == 0.0:
                most = cap(columns, row, cluster.rates[int(jobs.curve[row])][gpu_type], floor)
                pool = int(columns[POOL][row]) if pools else -1
                if pool >= 0:
                    allowed = min(allowed, float(quota[pool]))
                more = min(most - out.gpus[row], allowed)
                if more > 0.0:
                    out.gpus[row] += more
                    unspent -= more
                    if only < 0:
                        left[jobs.group[row]] -= more
                    if pool >= 0:
                        quota[pool] -= more
            row = following[row]
        if end >= 0:
            end = row
        if unspent <= LEFT_GPUS or floor <= 0.0:
            break
        floor = floor - delta if delta > 0.0 else 0.0
        if delta > 0.0:
            unspent, row = share, first
            if pools:
                quota[:] = budget
            while row >= 0:
                out.gpus[row] = kept(columns, row)
                row = following[row]
    row = starting
    while row >= 0 and row != end:
        if columns[HELD][row] == 0.0:
            _hold(0.0, row, out.gpus[row], gpu_type, out)
        row = following[row]


@kernel
def _hold(held: float, row: int, gpus: float, gpu_type: int, out: Changes) -> None:
    """Let the job in ``row``, which has ``held`` GPUs, hold so many of a type."""
    gpus = _unrounded(gpus, held)
    if gpus != held:
        out.gpus[row] = gpus
        out.gpu_type[row] = float(gpu_type) if gpus > 0.0 else -1.0
        out.reason[row] = _GPUS_SHORT
        change(out, row)
    else:
        out.gpus[row] = held


@kernel
def _unrounded(gpus: float, held: float) -> float:
    """GPUs of a job: rounding is no reason to change them."""
    if abs(gpus - held) <= LEFT_GPUS * max(held, 1.0):
        return held
    return 0.0 if gpus < LEFT_GPUS else gpus


@kernel
def quota_left(columns: Any, rows: Any, many: int, quota: Any) -> Floats:
    """GPUs left by pool beyond what the first ``many`` jobs in ``rows`` keep."""
    left = np.empty(len(quota))
    for pool in range(len(quota)):
        left[pool] = quota[pool]
    for i in range(many if len(quota) > 0 else 0):
        pool = int(columns[POOL][rows[i]])
        if pool >= 0:
            left[pool] -= kept(columns, rows[i])
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


@kernel
def choose_types(columns: Any, rows: Ints, capacity: Any) -> Ints:
    """The GPU type of every job: the one it holds, or of those that will do the one least in demand.

    ``rows`` by submission; demand is the most its jobs can use over the type's GPUs.
    """
    types = np.full(len(columns[0]), -1)
    demand = np.zeros(len(capacity))
    for row in rows:
        if columns[TYPE][row] >= 0.0:
            types[row] = int(columns[TYPE][row])
            demand[types[row]] += columns[MOST][row]
    for row in rows:
        if types[row] >= 0:
            continue
        wished = int(columns[TYPES][row])
        for gpu_type in range(len(capacity)):
            if not (wished >> gpu_type) & 1 or capacity[gpu_type] < columns[LEAST][row]:
                continue
            best = types[row]
            if best < 0 or demand[gpu_type] * capacity[best] < demand[best] * capacity[gpu_type]:
                types[row] = gpu_type
        if types[row] >= 0:
            demand[types[row]] += columns[MOST][row]
    return types
