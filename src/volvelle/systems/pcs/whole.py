"""PCS in whole GPUs: each queue has its share over time (the integral variant, for real clusters).

A queue is owed the integral of (share - GPUs held) since it last had nothing to run. Queues are served
in order of what they are owed; each gives whole GPUs to its jobs, strictly first in, first out and up to
their caps, until share + owed / turn is used up: what it should hold during the next ``turn`` to be even
at its end. The last job may take it beyond that, up to the fewest GPUs it runs on. What nobody is owed
then lifts the caps in the same order. Where a job at the head does not fit, its queue waits.

PCS' simulator has a variant for whole GPUs too (whole parts stay, fractions take turns of 100 s in
proportion); it is not used for any figure and not reproduced here.
"""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import CURVE, LEAST, MOST, PINNED, POOL
from volvelle.core.compiled import compiled
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.systems.pcs.shares import cap, fair_shares, kept

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
