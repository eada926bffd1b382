"""First in, first out over GPU types, as in Gavel's simulator (OSDI'20).

In order of submission each job takes all its time on one type with enough free GPUs, until one does not
fit. ``aware``: on the type on which it is fastest, and all jobs are planned anew at every allocation, so
that a job moves to a faster type when one comes free. Otherwise on a type drawn at random (with ``seed``,
and the job's number), where it stays.

With ``space_sharing`` a job that does not fit shares the GPUs of the placed job, of as many GPUs, beside
which both together do most, counted in parts of what each does alone, if that is more than 1.5; the queue
ends at the first that cannot share either.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from volvelle.core.columns import GPUS, POOL
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import ClusterNow
from volvelle.core.policy import policies
from volvelle.core.state import INFINITY
from volvelle.core.view import View
from volvelle.model.arrays import Floats, Ints
from volvelle.policies import rounds
from volvelle.policies.claims import FRACTIONS, NOTHING, by_number, set_alone
from volvelle.policies.rounds import give, rates_of, what_is_due
from volvelle.systems.gavel.base import Gavel
from volvelle.systems.gavel.demand import Demand


@policies.register
class GavelFifo(Gavel):
    """First in, first out, each job on the fastest GPU type that is free."""

    name: ClassVar[str] = "gavel-fifo"
    needs_durations: ClassVar[bool] = False
    optimises: ClassVar[str] = "predictability, over GPU types"
    exact: ClassVar[bool] = True

    _type_of: dict[int, int] = PrivateAttr(default_factory=dict)

    @property
    def decision(self) -> Callable[..., float]:
        """A round in order of submission; Python draws GPU types, and lets jobs share."""
        return decide if self.aware and not self.space_sharing else rounds.decide

    def fractions(self, view: View, demand: Demand) -> Floats:
        """1 for each job's type, until one does not fit."""
        target = np.zeros((len(demand.gpus) + len(demand.pairs), len(demand.capacity)))
        free, left = demand.capacity.copy(), demand.quota.copy()
        numbers, rates = view.jobs.number.astype(np.int64), demand.rates.T.copy()
        kept = np.full(len(numbers), _FASTEST if self.aware else _TO_DRAW)
        order = np.argsort(numbers)
        if not self.aware:  # those that have a type keep it
            for row, number in enumerate(numbers.tolist()):
                kept[row] = self._type_of.get(number, _TO_DRAW)
            order = order[np.argsort(kept[order] < 0, kind="stable")]
        at, alone = 0, np.zeros((len(demand.capacity), len(numbers)))
        while True:
            at = serve_in_order(rates, demand.gpus, demand.pool, order, at, kept, free, left, alone)
            if at == len(order):
                break
            row = int(order[at])
            fits = np.flatnonzero((rates[:, row] > 0) & (free >= demand.gpus[row]))
            if kept[row] == _TO_DRAW and len(fits):
                draw = np.random.default_rng((self.seed, int(numbers[row])))
                kept[row] = fits[draw.integers(len(fits))]
                continue
            target[: len(numbers)] += alone.T
            alone[:] = 0.0
            if not (self.space_sharing and _share(demand, target, row)):
                break
            at += 1
        target[: len(numbers)] += alone.T
        if not self.aware:
            served = target[: len(numbers)].any(axis=1)
            self._type_of = dict(zip(numbers[served].tolist(), kept[served].tolist(), strict=True))
        return target


_FASTEST, _TO_DRAW = -1, -2
"""In the place of the GPU type that a job keeps."""


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`) of jobs that take the fastest type that is free."""
    due = what_is_due(jobs, cluster, memory)
    if due == FRACTIONS:
        rates, target = (
            rates_of(jobs, cluster, memory),
            np.zeros((len(cluster.capacity), jobs.shape[1])),
        )
        kept, pool = np.full(jobs.shape[1], _FASTEST), jobs[POOL].astype(np.int64)
        order, free, left = by_number(jobs), cluster.capacity.copy(), cluster.quota.copy()
        serve_in_order(rates, jobs[GPUS], pool, order, 0, kept, free, left, target)
        set_alone(jobs, cluster.now, memory, target)
    elif due != NOTHING:
        return -INFINITY
    return give(jobs, cluster, memory, out)


@compiled
def serve_in_order(
    rates: Floats,
    gpus: Floats,
    pool: Ints,
    order: Ints,
    start: int,
    kept: Ints,
    free: Floats,
    left: Floats,
    target: Floats,
) -> int:
    """Give jobs in ``order``, from place ``start`` on, all their time on one GPU type; in place.

    Returns the place of the first that fits on no type, or whose type is to be drawn; the number of jobs if
    there is none. rates, target: (types, jobs). kept: the type of each job, or `_FASTEST`, or `_TO_DRAW`.
    """
    for at in range(start, len(order)):
        row = order[at]
        need, chosen, able = gpus[row], -1, False
        for gpu_type in range(len(free)):
            able = able or rates[gpu_type, row] > 0.0
            if rates[gpu_type, row] <= 0.0 or free[gpu_type] < need:
                continue
            if kept[row] >= 0 and kept[row] != gpu_type:
                continue
            if chosen < 0 or rates[gpu_type, row] > rates[chosen, row]:
                chosen = gpu_type
        if not able or (pool[row] >= 0 and left[pool[row]] < need):
            continue
        if chosen < 0 or kept[row] == _TO_DRAW:
            return at
        target[chosen, row] = 1.0
        free[chosen] -= need
        if pool[row] >= 0:
            left[pool[row]] -= need
    return len(order)


_WORTH_SHARING = 1.5
"""The least that two jobs must do together, in parts of the rate of each alone (Gavel's simulator)."""


def _share(demand: Demand, target: Floats, row: int) -> bool:
    """Let the job in ``row`` share with the best placed job, in place; whether there is one.

    Sharing takes no GPUs; in a pool with a quota nobody shares, so that halves need no books.
    """
    jobs, pairs = len(demand.gpus), demand.pairs
    best, most, kind = -1, _WORTH_SHARING, -1
    for pair in np.flatnonzero((pairs.first == row) | (pairs.second == row)).tolist():
        first, second = int(pairs.first[pair]), int(pairs.second[pair])
        other = second if first == row else first
        placed = np.flatnonzero(target[other])
        if not len(placed) or max(demand.pool[row], demand.pool[other]) >= 0:
            continue
        gpu_type = int(placed[0])
        if pairs.first_rates[pair, gpu_type] <= 0:
            continue
        parts = pairs.first_rates[pair, gpu_type] / demand.rates[first, gpu_type]
        parts += pairs.second_rates[pair, gpu_type] / demand.rates[second, gpu_type]
        if parts > most:
            best, most, kind = pair, float(parts), gpu_type
    if best < 0:
        return False
    target[[pairs.first[best], pairs.second[best]]] = 0.0
    target[jobs + best, kind] = 1.0
    return True
