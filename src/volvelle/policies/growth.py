"""Least first, then more: the frame of the policies that hand out whole GPUs one at a time.

Jobs get the fewest GPUs they run on, in an order that the policy gives; with what is left they grow,
within each GPU type, by a rule of the policy. A gang has nothing to grow to. For jobs that run on one
GPU or more this is what the papers write: one GPU each, then the next GPU to whoever wins it.
"""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import CURVE, LEAST, MOST, PINNED, POOL, TYPE, TYPES
from volvelle.core.compiled import compiled_later, kernel
from volvelle.core.fill import TARGET, TARGET_TYPE, ClusterNow, fill
from volvelle.core.forward.rates import rate_on
from volvelle.model.arrays import Floats, Ints


@kernel
def then_by(order: Ints, keys: Floats) -> Ints:
    """Rows by rising ``keys``, equals as in ``order``."""
    sorted_: Ints = order[np.argsort(keys[order], kind="mergesort")]
    return sorted_


@kernel
def count_up_to(ascending: Floats, count: int, limit: float) -> int:
    """How many of the first ``count`` numbers are no greater than ``limit``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def count_down_to(ascending: Floats, count: int, limit: float) -> int:
    """As `count_up_to`, quickly where few of the first ``count`` numbers are greater."""
    step = 1
    while step <= count and ascending[count - step] > limit:
        step *= 2
    low = max(count - step, 0)
    return low + count_up_to(ascending[low:], count - low, limit)


@kernel
def give_least(
    jobs: Floats, order: Ints, least: Floats, cluster: ClusterNow, out: Floats
) -> Floats:
    """The ``least`` for jobs in ``order``, skipping what does not fit; returns what is left of the quotas."""
    out[:3] = fill(jobs, order, least, least, cluster.capacity, cluster.quota, True, False)
    out[3] = order
    left = cluster.quota.copy()
    if len(left) > 0:
        for row in range(len(order)):
            pool = int(jobs[POOL, row])
            if pool >= 0:
                left[pool] -= out[TARGET, row]
    return left


@kernel
def served_on(gpu_type: int, order: Ints, out: Floats) -> Ints:
    """The jobs that have GPUs of a type, in ``order``."""
    mine: Ints = order[out[TARGET_TYPE][order] == gpu_type]
    return mine


@kernel
def may_grow(matrix: Floats, row: int, gpus: Floats, left: Floats) -> bool:
    """Whether the job in ``row`` can use one GPU more and its pool has one left."""
    pool = int(matrix[POOL, row])
    return (
        gpus[row] + 1.0 <= matrix[MOST, row]
        and matrix[PINNED, row] == 0.0
        and (pool < 0 or left[pool] >= 1.0)
    )


@kernel
def seconds_at(rates: Floats, work: Floats) -> Floats:
    """Seconds that each ``work`` takes at its rate, infinite at none."""
    moves = rates > 0.0
    return np.where(moves, work / np.where(moves, rates, 1.0), np.inf)


@compiled_later
def seconds_on_least(matrix: Floats, table: NDArray[np.float64], work: Floats) -> Floats:
    """Seconds left to each job on the fewest GPUs it runs on, of the type it holds or would take."""
    return seconds_at(rates_on_least(matrix, table, len(work)), work)


@compiled_later
def rates_on_least(matrix: Floats, table: NDArray[np.float64], jobs: int) -> Floats:
    """The rate of each job on the fewest GPUs it runs on, of the type it holds or would take."""
    rates = np.empty(jobs)
    for row in range(jobs):
        gpu_type = int(matrix[TYPE, row])
        if gpu_type < 0:
            types = int(matrix[TYPES, row])
            gpu_type = 0
            while not (types >> gpu_type) & 1:
                gpu_type += 1
        rates[row] = rate_on(table, int(matrix[CURVE, row]), gpu_type, matrix[LEAST, row])
    return rates
