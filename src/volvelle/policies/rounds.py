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
(`LEFTOVERS`): after all who have one were served anywhere, or as each type's last, as in Gavel's simulator,
where an idle fast type draws jobs from the type that is meant for them; or for nobody.

All of it is one function of arrays (`volvelle.core.policy.Kernel`), interpreted and as machine code. A policy
works its fractions out within it, or by Python, to which it yields (`decide`).
"""

import numpy as np

from volvelle.core.columns import CURVE, GPUS, HELD, NUMBER, PINNED, POOL, PREEMPTIBLE, TYPE, TYPES
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.claims import (
    ALLOTTED,
    AWARE,
    BY_TYPE,
    CLAIMS,
    DRAWN,
    FRACTIONS,
    KNOWN,
    LAST,
    LEFTOVERS,
    MORE_ROOM,
    NEEDS,
    NEVER,
    NOTHING,
    REALLOCATE,
    ROOM,
    TYPE_ORDER,
    TYPES_THAT_FIT,
    by_number,
    credit,
    rows_of,
    tables,
)
from volvelle.policies.growth import then_by

_GPUS_SHORT = int(Reason.GPUS)
_QUOTA = int(Reason.QUOTA)

PARTNER = 4
"""Row of what a decision writes: the row with which a job shares its GPUs, -1 for none, where it is asked."""

_HALF_STEP, _SMALLEST = 2.0**-53 * (1.0 + 2.0**-52), 5e-324
"""A time and so much of it, at least the smallest number, is the next larger number."""


# ---------------------------------------------------------------------- when targets are due


@kernel
def rates_of(jobs: Floats, cluster: ClusterNow, memory: Floats) -> Floats:
    """Units per second on all the GPUs that each job requests, (types, jobs), 0 where it cannot run now.

    Linear between whole numbers of GPUs.
    """
    rates = _believed_rates(jobs, cluster)
    for row in range(jobs.shape[1]):
        of_first = 0.0
        for gpu_type in range(len(rates)):
            fits = 0.0 < jobs[GPUS, row] <= cluster.capacity[gpu_type]
            if not fits or (int(jobs[TYPES, row]) >> gpu_type) & 1 == 0:
                rates[gpu_type, row] = 0.0
            if of_first == 0.0:
                of_first = rates[gpu_type, row]
            if memory[AWARE] == 0.0 and rates[gpu_type, row] > 0.0:
                rates[gpu_type, row] = of_first
    return rates


@kernel
def _believed_rates(jobs: Floats, cluster: ClusterNow) -> Floats:
    table = cluster.rates
    rates, last = np.empty((len(cluster.capacity), jobs.shape[1])), table.shape[2] - 1
    for row in range(jobs.shape[1]):
        curve, gpus = int(jobs[CURVE, row]), jobs[GPUS, row]
        below = min(int(gpus), last)
        above = min(below + 1, last)
        for gpu_type in range(len(rates)):
            low, high = table[curve, gpu_type, below], table[curve, gpu_type, above]
            rates[gpu_type, row] = low + (high - low) * (gpus - np.floor(gpus))
    return rates


@kernel
def what_is_due(jobs: Floats, cluster: ClusterNow, memory: Floats) -> int:
    """Prepare a round before it is decided (`NEEDS`), once: credit the time that claims received."""
    memory[NEEDS] = _due(jobs, cluster, memory)
    return int(memory[NEEDS])


@kernel
def _due(jobs: Floats, cluster: ClusterNow, memory: Floats) -> int:
    types, now = len(cluster.capacity), cluster.now
    if types > memory[TYPES_THAT_FIT] or jobs.shape[1] > memory[ROOM]:
        return MORE_ROOM
    if memory[AWARE] == 0.0 and types > 1 and memory[DRAWN] != now:
        return TYPE_ORDER
    credit(jobs, now, memory)
    rested = now - memory[ALLOTTED] >= memory[REALLOCATE] or memory[CLAIMS] == 0.0
    if not rested or not _differ(jobs, cluster, memory):
        return NOTHING
    known, rates = tables(memory), _believed_rates(jobs, cluster)
    for row in range(jobs.shape[1]):
        known.number[row] = jobs[NUMBER, row]
        for gpu_type in range(types):
            known.rates[gpu_type, row] = rates[gpu_type, row]
    for gpu_type in range(types):
        known.capacity[gpu_type] = cluster.capacity[gpu_type]
    memory[KNOWN] = jobs.shape[1]
    memory[ALLOTTED] = now if now > 0.0 else -np.inf
    return FRACTIONS


@kernel
def _differ(jobs: Floats, cluster: ClusterNow, memory: Floats) -> bool:
    """Whether there are other jobs, rates or GPUs than when targets were worked out."""
    known, many = tables(memory), jobs.shape[1]
    if memory[KNOWN] != many:
        return True
    for gpu_type in range(len(cluster.capacity)):
        if known.capacity[gpu_type] != cluster.capacity[gpu_type]:
            return True
    for row in range(many):
        if known.number[row] != jobs[NUMBER, row]:
            return True
    rates = _believed_rates(jobs, cluster)
    for gpu_type in range(len(rates)):
        for row in range(many):
            if known.rates[gpu_type, row] != rates[gpu_type, row]:
                return True
    return False


# ---------------------------------------------------------------------- a round


@kernel
def give(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """Serve claims by priority, type after type, and note which are served; when to ask again.

    ``out`` is (4, jobs), or 5 with `PARTNER`. Jobs that may not be preempted keep what they hold. A job is
    served once, on a type that will do, within its pool's quota.
    """
    known, rows, many = tables(memory), rows_of(jobs, memory), jobs.shape[1]
    out[TARGET_TYPE] = -1.0
    out[3] = by_number(jobs)
    free, left, partner = cluster.capacity.copy(), cluster.quota.copy(), np.full(many, -1)
    for row in range(many):
        held = jobs[HELD, row]
        if held > 0.0 and (jobs[PINNED, row] == 1.0 or jobs[PREEMPTIBLE, row] == 0.0):
            _book(jobs, row, held, int(jobs[TYPE, row]), held, free, left, out)
    claims, types = rows.shape[1], len(cluster.capacity)
    turns = np.empty((types, claims), np.int64)
    for place in range(types):
        gpu_type = int(known.order[place])
        target, deficit = known.target[gpu_type, :claims], known.deficit[gpu_type, :claims]
        received = known.received[gpu_type, :claims]
        priority = target * (received.sum() / received)
        turn = then_by(np.argsort(-target, kind="mergesort"), -deficit)
        turns[place] = then_by(turn, -priority)
        for claim in turns[place]:
            alone = known.second[claim] < 0.0
            if target[claim] > 0.0 or (alone and memory[LEFTOVERS] == BY_TYPE):
                _serve(jobs, rows[0, claim], rows[1, claim], gpu_type, free, left, partner, out)
    for place in range(types if memory[LEFTOVERS] == LAST else 0):
        gpu_type = int(known.order[place])
        for claim in turns[place]:
            if known.target[gpu_type, claim] <= 0.0 and known.second[claim] < 0.0:
                _serve(jobs, rows[0, claim], -1, gpu_type, free, left, partner, out)
    for row in range(many):
        if out[TARGET, row] == 0.0:
            pool = int(jobs[POOL, row])
            short = pool >= 0 and jobs[GPUS, row] > left[pool]
            out[TARGET_REASON, row] = _QUOTA if short else _GPUS_SHORT
    for claim in range(claims):
        row = rows[0, claim]
        known.held[claim] = out[TARGET_TYPE, row] if partner[row] == rows[1, claim] else -1.0
    if len(out) > PARTNER:
        out[PARTNER] = partner
    return _next_round(jobs, cluster, memory, out)


@kernel
def _serve(
    jobs: Floats,
    row: int,
    other: int,
    gpu_type: int,
    free: Floats,
    left: Floats,
    partner: Ints,
    out: Floats,
) -> None:
    """Give the job in ``row`` the GPUs it requests of a type, if they are left.

    With ``other`` (-1: none) it shares them, and each holds one half.
    """
    need, pool = jobs[GPUS, row], int(jobs[POOL, row])
    if out[TARGET, row] > 0.0 or need > free[gpu_type]:
        return
    if (int(jobs[TYPES, row]) >> gpu_type) & 1 == 0:
        return
    each = need
    if other >= 0:
        if out[TARGET, other] > 0.0:
            return
        each, other_pool = need / 2.0, int(jobs[POOL, other])
        if other_pool >= 0 and each * (2.0 if other_pool == pool else 1.0) > left[other_pool]:
            return
    if pool >= 0 and each > left[pool]:
        return
    _book(jobs, row, each, gpu_type, need, free, left, out)
    if other >= 0:
        _book(jobs, other, each, gpu_type, 0.0, free, left, out)
        partner[row], partner[other] = other, row


@kernel
def _book(
    jobs: Floats,
    row: int,
    gpus: float,
    gpu_type: int,
    taken: float,
    free: Floats,
    left: Floats,
    out: Floats,
) -> None:
    """Let the job in ``row`` hold ``gpus`` GPUs of a type, of which ``taken`` are free no more."""
    out[TARGET, row], out[TARGET_TYPE, row] = gpus, gpu_type
    free[gpu_type] -= taken
    if jobs[POOL, row] >= 0.0:
        left[int(jobs[POOL, row])] -= gpus


@kernel
def _next_round(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The next round, if it may differ from this one; the next allocation, if that must wait."""
    served = np.count_nonzero(out[TARGET])
    moves = np.count_nonzero(cluster.capacity) > 1 or served < jobs.shape[1]
    if moves and served > 0 and memory[LEFTOVERS] != NEVER:
        return float(cluster.now + max(cluster.now * _HALF_STEP, _SMALLEST))
    late = memory[REALLOCATE] > 0.0 and _differ(jobs, cluster, memory)
    return float(memory[ALLOTTED] + memory[REALLOCATE]) if late else INFINITY


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """A round whose fractions Python works out, where some are due."""
    if what_is_due(jobs, cluster, memory) != NOTHING:
        return -INFINITY
    return give(jobs, cluster, memory, out)
