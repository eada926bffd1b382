"""Rounds by received shares: how a fractional allocation becomes whole jobs on whole GPUs.

Gavel (Narayanan et al., OSDI'20) lets a policy say which fraction of the time each job is to spend on each
GPU type, its **target**, and approaches these fractions round by round: the jobs with the largest
priority run, where

    priority(job, type) = target(job, type) / (share of the time given on the type that the job received)

Time is counted since the targets were last set, and begins with half a round for everybody on every
type, so that the first round is decided by the targets themselves. Of equal priorities the larger
**deficit** goes first, the time a job should have had under earlier targets and did not, then the larger
target, then the earlier submission (deficit and half a round are as in Gavel's simulator).

Types are filled one after another. What is left over is for the jobs that have no target on a type
(`Leftovers`): after all who have one were served anywhere, or as each type's last, as in Gavel's simulator,
where an idle fast type draws jobs from the type that is meant for them; or for nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import Column, Reason
from volvelle.core.compiled import compiled
from volvelle.core.kernels import TARGET, TARGET_REASON, TARGET_TYPE
from volvelle.core.policy import Allocation, View
from volvelle.core.state import FloatColumn, IntColumn, JobView

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GPUS = Column.GPUS
_TYPES = Column.TYPES
_TYPE = Column.TYPE
_POOL = Column.POOL
_HELD = Column.HELD
_PREEMPTIBLE = Column.PREEMPTIBLE
_PINNED = Column.PINNED
_GPUS_SHORT = int(Reason.GPUS)
_QUOTA = int(Reason.QUOTA)


_NO_INTS: Ints = np.zeros(0, dtype=np.int64)


class Places(NamedTuple):
    """Jobs of a view that have targets: their ``rows`` in the view, and where they are ``there``."""

    rows: IntColumn
    there: IntColumn


Leftovers = Literal["last", "by type", "never"]
"""When jobs are served on a GPU type on which their target is zero."""


def _table() -> Floats:
    return np.zeros((0, 0))


@dataclass
class Shares:
    """What each job is to have and what it has had, by job (ascending number) and GPU type.

    target: fractions of the time. received: seconds since the targets were set, and half a round.
    deficit: seconds owed from before. held: the GPU type each job was last given, -1 none.
    """

    numbers: FloatColumn = field(default_factory=lambda: np.zeros(0))
    target: Floats = field(default_factory=_table)
    received: Floats = field(default_factory=_table)
    deficit: Floats = field(default_factory=_table)
    attained: FloatColumn = field(default_factory=lambda: np.zeros(0))
    held: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    set_at: float = 0.0

    def places(self, jobs: JobView) -> Places:
        """Where the jobs that have targets stand, there and here."""
        if not len(self.numbers):
            return Places(_NO_INTS, _NO_INTS)
        numbers = jobs.number
        at = np.searchsorted(self.numbers, numbers)
        at[at == len(self.numbers)] = 0
        known = self.numbers[at] == numbers
        if known.all():
            return Places(np.arange(len(at)), at)
        return Places(known.nonzero()[0], at[known])

    def credit(self, jobs: JobView) -> Places:
        """Count what jobs received since they were last given GPUs, and forget those that left."""
        rows, at = self.places(jobs)
        if len(at) < len(self.numbers):
            stay = np.sort(at)
            for name in ("numbers", "target", "received", "deficit", "attained", "held"):
                setattr(self, name, getattr(self, name)[stay])
            rows, at = self.places(jobs)
        attained = jobs.attained_seconds[rows]
        held = self.held[at]
        ran = held >= 0
        self.received[at[ran], held[ran]] += (attained - self.attained[at])[ran]
        self.attained[at] = attained
        return Places(rows, at)

    def set(self, view: View, places: Places, target: Floats, half_round: float) -> Places:
        """Let ``target`` (jobs of the view x GPU types) count from now on.

        What a job has had less than its former target, or more, becomes its deficit.
        """
        order = np.argsort(view.jobs.number)
        deficit = np.zeros_like(target)
        held = np.full(len(target), -1, dtype=np.int64)
        rows, at = places
        if len(rows):
            known = self.target.shape[1]
            owed = self.target * (view.now - self.set_at) - (self.received - half_round)
            deficit[rows, :known] = (self.deficit + owed)[at]
            held[rows] = self.held[at]
        self.numbers, self.target = view.jobs.number[order], target[order]
        self.deficit, self.held = deficit[order], held[order]
        self.attained = view.jobs.attained_seconds[order]
        self.received = np.full(target.shape, half_round)
        self.set_at = view.now
        return Places(order, np.arange(len(order)))

    def turns(
        self, places: Places, types: Sequence[int], leftovers: Leftovers
    ) -> tuple[Ints, Ints]:
        """Rows and GPU types in the order in which they are to be served, by ``types``.

        Jobs without targets are never served.
        """
        rows, at = places
        if not len(rows):
            return _NO_INTS, _NO_INTS
        given = self.received[at].sum(axis=0)
        served, of_type, wanted = [], [], []
        for gpu_type in types:
            target = self.target[at, gpu_type]
            priority = target * (given[gpu_type] / self.received[at, gpu_type])
            keys = (self.numbers[at], -target, -self.deficit[at, gpu_type], -priority)
            order = np.lexsort(keys)
            served.append(rows[order])
            of_type.append(np.full(len(order), gpu_type))
            wanted.append(target[order] > 0)
        turns = np.concatenate(served), np.concatenate(of_type)
        first = np.concatenate(wanted)
        if leftovers == "by type" or first.all():
            return turns
        order = first.nonzero()[0]
        if leftovers == "last":
            order = np.concatenate([order, (~first).nonzero()[0]])
        return turns[0][order], turns[1][order]

    def give(
        self, view: View, places: Places, types: Sequence[int], leftovers: Leftovers
    ) -> Allocation:
        """Serve the jobs by priority, filling ``types`` in this order, and note who is served."""
        jobs = view.jobs
        turns = self.turns(places, types, leftovers)
        given = serve_in_turn(jobs.matrix, len(jobs), *turns, view.capacity, view.quota)
        self.held[places.there] = given[TARGET_TYPE, places.rows]
        return Allocation(
            given[TARGET], given[TARGET_TYPE], given[TARGET_REASON], np.argsort(jobs.number)
        )


@compiled
def serve_in_turn(
    matrix: Floats, jobs: int, rows: Ints, types: Ints, capacity: Floats, quota: Floats
) -> Floats:
    """Give the job in ``rows[i]`` the GPUs it requests of ``types[i]``, for each i, where they are left.

    Jobs that may not be preempted keep what they hold. A job is served once, on a type that will do,
    within its pool's quota. Returns (3, jobs) as `volvelle.core.kernels.fill` does.
    """
    result = np.zeros((3, jobs))
    result[1, :] = -1.0
    free = capacity.copy()
    left = quota.copy()
    for row in range(jobs):
        held = matrix[_HELD, row]
        if held > 0.0 and (matrix[_PINNED, row] == 1.0 or matrix[_PREEMPTIBLE, row] == 0.0):
            gpu_type = int(matrix[_TYPE, row])
            result[0, row] = held
            result[1, row] = gpu_type
            free[gpu_type] -= held
            if matrix[_POOL, row] >= 0:
                left[int(matrix[_POOL, row])] -= held
    for i in range(len(rows)):
        row, gpu_type = rows[i], types[i]
        need, pool = matrix[_GPUS, row], int(matrix[_POOL, row])
        if result[0, row] > 0.0 or need > free[gpu_type]:
            continue
        if not (int(matrix[_TYPES, row]) >> gpu_type) & 1 or (pool >= 0 and need > left[pool]):
            continue
        result[0, row] = need
        result[1, row] = gpu_type
        free[gpu_type] -= need
        if pool >= 0:
            left[pool] -= need
    for row in range(jobs):
        if result[0, row] == 0.0:
            pool = int(matrix[_POOL, row])
            short = pool >= 0 and matrix[_GPUS, row] > left[pool]
            result[2, row] = _QUOTA if short else _GPUS_SHORT
    return result
