"""First in, first out over GPU types, as in Gavel's simulator (OSDI'20).

In order of submission each job takes all its time on one type with enough free GPUs, until one does not
fit. ``aware``: on the type on which it is fastest, and all jobs are planned anew at every allocation, so
that a job moves to a faster type when one comes free. Otherwise on a type drawn at random (with ``seed``,
and the job's number), where it stays.

With ``space_sharing`` a job that does not fit shares the GPUs of the placed job, of as many GPUs, beside
which both together do most, counted in parts of what each does alone, if that is more than 1.5; the queue
ends at the first that cannot share either.
"""

from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.model.arrays import Floats
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

    def fractions(self, view: View, demand: Demand) -> Floats:
        """1 for each job's type, until one does not fit."""
        target = np.zeros((len(demand.gpus) + len(demand.pairs), len(demand.capacity)))
        free, left = demand.capacity.copy(), demand.quota.copy()
        numbers = view.jobs.number.astype(np.int64)
        chosen: dict[int, int] = {}
        order = np.argsort(numbers).tolist()
        if not self.aware:  # those that have a type keep it
            order.sort(key=lambda row: int(numbers[row]) not in self._type_of)
        for row in order:
            number, need, pool = int(numbers[row]), demand.gpus[row], int(demand.pool[row])
            if not demand.rates[row].any() or (pool >= 0 and left[pool] < need):
                continue
            fits = np.flatnonzero((demand.rates[row] > 0) & (free >= need))
            if number in self._type_of:
                fits = fits[fits == self._type_of[number]]
            if not len(fits):
                if self.space_sharing and _share(demand, target, row):
                    continue
                break
            gpu_type = int(fits[np.argmax(demand.rates[row, fits])])
            if not self.aware:
                if number not in self._type_of:
                    draw = np.random.default_rng((self.seed, number))
                    gpu_type = int(fits[draw.integers(len(fits))])
                chosen[number] = gpu_type
            target[row, gpu_type] = 1.0
            free[gpu_type] -= need
            if pool >= 0:
                left[pool] -= need
        self._type_of = chosen
        return target


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
