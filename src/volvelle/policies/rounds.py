"""Rounds by received shares: how a fractional allocation becomes whole jobs on whole GPUs.

Gavel (Narayanan et al., OSDI'20) lets a policy say which fraction of the time each job is to spend on each
GPU type, its **target**, and approaches these fractions round by round: the jobs with the largest
priority run, where

    priority(job, type) = target(job, type) / (share of the time given on the type that the job received)

Time is counted since the targets were last set, and begins with half a round for everybody on every
type, so that the first round is decided by the targets themselves. Of equal priorities the larger
**deficit** goes first, the time a job should have had under earlier targets and did not, then the larger
target, then the earlier submission (deficit and half a round are as in Gavel's simulator).

Types are filled one after another. Left-over GPUs are for the jobs that have no target on a type
(`Leftovers`): after all who have one were served anywhere, or as each type's last, as in Gavel's simulator,
where an idle fast type draws jobs from the type that is meant for them; or for nobody.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from volvelle.core.columns import GPUS, HELD, PINNED, POOL, PREEMPTIBLE, TYPE, TYPES
from volvelle.core.compiled import compiled
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE
from volvelle.core.policy import Allocation
from volvelle.core.state import Reason
from volvelle.core.view import JobView, View
from volvelle.model.arrays import FloatColumn, Floats, IntColumn, Ints

_GPUS_SHORT = int(Reason.GPUS)
_QUOTA = int(Reason.QUOTA)


_NO_INTS: Ints = np.zeros(0, dtype=np.int64)


class Claims(NamedTuple):
    """Holders of a target: jobs, or two that share GPUs, by their rows in a view (``beside`` -1: alone)."""

    rows: IntColumn
    beside: IntColumn


Leftovers = Literal["last", "by type", "never"]
"""When jobs are served on a GPU type on which their target is zero."""


def _table() -> Floats:
    return np.zeros((0, 0))


@dataclass
class Shares:
    """The target of each claim and its received time, by GPU type.

    first, second: the numbers of its jobs (-1: alone), ascending. target: fractions of the time. received:
    seconds since the targets were set, and half a round. deficit: seconds owed from before. attained: the
    first job's seconds with GPUs. held: the GPU type the claim was last given, -1 none.
    """

    first: FloatColumn = field(default_factory=lambda: np.zeros(0))
    second: FloatColumn = field(default_factory=lambda: np.zeros(0))
    target: Floats = field(default_factory=_table)
    received: Floats = field(default_factory=_table)
    deficit: Floats = field(default_factory=_table)
    attained: FloatColumn = field(default_factory=lambda: np.zeros(0))
    held: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    set_at: float = 0.0

    def credit(self, jobs: JobView) -> Claims:
        """Count what claims received since they were last given GPUs; forget those of jobs that left."""
        if not len(self.first):
            return Claims(_NO_INTS, _NO_INTS)
        order = np.argsort(jobs.number)
        rows, beside = _rows_of(self.first, jobs, order), _rows_of(self.second, jobs, order)
        here = (rows >= 0) & ((beside >= 0) | (self.second < 0))
        if not here.all():
            for name in ("first", "second", "target", "received", "deficit", "attained", "held"):
                setattr(self, name, getattr(self, name)[here])
            rows, beside = rows[here], beside[here]
        attained = jobs.attained_seconds[rows]
        ran = (self.held >= 0).nonzero()[0]
        self.received[ran, self.held[ran]] += (attained - self.attained)[ran]
        self.attained = attained
        return Claims(rows, beside)

    def set(self, view: View, claims: Claims, target: Floats, half_round: float) -> Claims:
        """Let ``target`` (claims x GPU types) count from now on.

        The lack of a claim below its former target, or its surplus, becomes its deficit.
        """
        numbers = view.jobs.number
        first = numbers[claims.rows]
        second = np.where(claims.beside >= 0, numbers[claims.beside], -1.0)
        order = np.lexsort((second, first))
        first, second, claims = first[order], second[order], Claims(*(c[order] for c in claims))
        deficit = np.zeros(target.shape)
        if len(self.first):
            known = self.target.shape[1]
            owed = self.target * (view.now - self.set_at) - (self.received - half_round)
            key, former = _key(first, second), _key(self.first, self.second)
            at = np.minimum(np.searchsorted(former, key), len(former) - 1)
            same = former[at] == key
            deficit[same, :known] = (self.deficit + owed)[at[same]]
        self.first, self.second, self.target, self.deficit = first, second, target[order], deficit
        self.attained = view.jobs.attained_seconds[claims.rows]
        self.held = np.full(len(first), -1, dtype=np.int64)
        self.received = np.full(target.shape, half_round)
        self.set_at = view.now
        return claims

    def turns(self, types: Sequence[int], leftovers: Leftovers) -> tuple[Ints, Ints]:
        """Claims and GPU types in the order in which they are to be served, by ``types``.

        Two that share are served only where they have a target.
        """
        if not len(self.first):
            return _NO_INTS, _NO_INTS
        given = self.received.sum(axis=0)
        served, of_type, wanted = [], [], []
        for gpu_type in types:
            target = self.target[:, gpu_type]
            priority = target * (given[gpu_type] / self.received[:, gpu_type])
            order = np.lexsort((-target, -self.deficit[:, gpu_type], -priority))
            served.append(order)
            of_type.append(np.full(len(order), gpu_type))
            wanted.append(target[order] > 0)
        claims, kinds, first = map(np.concatenate, (served, of_type, wanted))
        if leftovers == "by type":
            keep = (first | (self.second[claims] < 0)).nonzero()[0]
        elif leftovers == "last":
            last = (~first & (self.second[claims] < 0)).nonzero()[0]
            keep = np.concatenate([first.nonzero()[0], last])
        else:
            keep = first.nonzero()[0]
        return claims[keep], kinds[keep]

    def give(
        self, view: View, claims: Claims, types: Sequence[int], leftovers: Leftovers
    ) -> Allocation:
        """Serve claims by priority, filling ``types`` in this order, and note which are served."""
        jobs = view.jobs
        turn, of_type = self.turns(types, leftovers)
        given = serve_in_turn(
            jobs.matrix,
            len(jobs),
            claims.rows[turn],
            claims.beside[turn],
            of_type,
            view.capacity,
            view.quota,
        )
        row_beside = given[_BESIDE].astype(np.int64)
        mine = row_beside[claims.rows] == claims.beside
        self.held = np.where(mine, given[TARGET_TYPE, claims.rows], -1.0).astype(np.int64)
        shared = bool((row_beside >= 0).any())
        partner = np.where(row_beside >= 0, jobs.number[row_beside], -1.0) if shared else None
        return Allocation(
            given[TARGET],
            given[TARGET_TYPE],
            given[TARGET_REASON],
            np.argsort(jobs.number),
            partner,
        )


def _rows_of(numbers: FloatColumn, jobs: JobView, order: IntColumn) -> IntColumn:
    """The rows of jobs by their numbers, -1 for those that are not there; ``order`` sorts the view."""
    if not len(order):
        return np.full(len(numbers), -1, dtype=np.int64)
    present = jobs.number[order]
    at = np.minimum(np.searchsorted(present, numbers), len(present) - 1)
    rows: IntColumn = np.where(present[at] == numbers, order[at], -1)
    return rows


def _key(first: FloatColumn, second: FloatColumn) -> IntColumn:
    """One number for each claim, ascending with its jobs'."""
    key: IntColumn = (first.astype(np.int64) << 31) + second.astype(np.int64) + 1
    return key


_BESIDE = 3
"""The row of what `serve_in_turn` returns that says with whom a job shares its GPUs."""


@compiled
def serve_in_turn(
    matrix: Floats,
    jobs: int,
    rows: Ints,
    beside: Ints,
    types: Ints,
    capacity: Floats,
    quota: Floats,
) -> Floats:
    """Give the job in ``rows[i]`` the GPUs it requests of ``types[i]``, for each i, where they are left.

    Where ``beside[i]`` is a row too, the two share these GPUs and each holds one half. Jobs that may not
    be preempted keep what they hold. A job is served once, on a type that will do, within its pool's
    quota. Returns (4, jobs): as `volvelle.core.fill.fill` does, and the row with which a job shares.
    """
    result = np.zeros((4, jobs))
    result[1, :] = -1.0
    result[3, :] = -1.0
    free = capacity.copy()
    left = quota.copy()
    for row in range(jobs):
        held = matrix[HELD, row]
        if held > 0.0 and (matrix[PINNED, row] == 1.0 or matrix[PREEMPTIBLE, row] == 0.0):
            gpu_type = int(matrix[TYPE, row])
            result[0, row] = held
            result[1, row] = gpu_type
            free[gpu_type] -= held
            if matrix[POOL, row] >= 0:
                left[int(matrix[POOL, row])] -= held
    for i in range(len(rows)):
        row, other, gpu_type = rows[i], beside[i], types[i]
        need, pool = matrix[GPUS, row], int(matrix[POOL, row])
        if result[0, row] > 0.0 or need > free[gpu_type]:
            continue
        if not (int(matrix[TYPES, row]) >> gpu_type) & 1:
            continue
        each, other_pool = need, -1
        if other >= 0:
            if result[0, other] > 0.0:
                continue
            each, other_pool = need / 2.0, int(matrix[POOL, other])
            if other_pool >= 0 and each * (2.0 if other_pool == pool else 1.0) > left[other_pool]:
                continue
        if pool >= 0 and each > left[pool]:
            continue
        result[0, row] = each
        result[1, row] = gpu_type
        free[gpu_type] -= need
        if pool >= 0:
            left[pool] -= each
        if other >= 0:
            result[0, other] = each
            result[1, other] = gpu_type
            result[3, row] = other
            result[3, other] = row
            if other_pool >= 0:
                left[other_pool] -= each
    for row in range(jobs):
        if result[0, row] == 0.0:
            pool = int(matrix[POOL, row])
            short = pool >= 0 and matrix[GPUS, row] > left[pool]
            result[2, row] = _QUOTA if short else _GPUS_SHORT
    return result
