"""Chronus' decision within a lease as a function of arrays: who runs on while nobody is told anything.

What reservations say of a job in this slot stands in its own columns, where a decision in Python leaves it.
All else is Python's: the end of a lease, jobs with deadlines that come, and jobs that run to their end.
"""

import numpy as np

from volvelle.core.columns import (
    CHECKPOINT,
    DEADLINE,
    FIRST_START,
    GPUS,
    HELD,
    PREEMPTIBLE,
    PROGRESS_FROM,
    REQUEST_RATE,
    RESTORE,
    START_GAP,
    TABLE,
    UNIT_RATE,
)
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow, fill, work_left
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Bools, FloatColumn, Floats, Ints
from volvelle.model.tolerances import WHOLE_NUMBER
from volvelle.policies.claims import by_number
from volvelle.policies.growth import then_by
from volvelle.systems.chronus.look import BEHIND, GIVEN, HOLDS, LAST, ROW, SEEN, given_at
from volvelle.systems.chronus.terms import Terms

(
    SLOT,  # the last one that Python decided, -1 before
    SLOT_SECONDS,
    YIELDING,
    WAIT,  # seconds until GPUs taken away are free
    CAPACITY,  # GPUs, all of one type; -1 where there are several, or gangs are counted otherwise
    CAME,  # jobs that came since Python decided
    _HEAD,
) = range(7)
"""Single numbers. Behind them are those jobs: when each came, and the GPU-seconds that it needs."""
_ROOM = 256
_ORDER = int(Reason.ORDER)


def begin() -> Floats:
    """The memory before the first decision."""
    memory = np.zeros(_HEAD + 2 * _ROOM)
    memory[SLOT] = -1.0
    return memory


def note(memory: Floats, terms: Terms, slot: int, wait: float, capacity: FloatColumn) -> None:
    """Python has decided in this slot, on so many GPUs by type."""
    memory[SLOT], memory[SLOT_SECONDS], memory[YIELDING] = (
        slot,
        terms.lease / terms.parts,
        terms.yielding,
    )
    alone = len(capacity) == 1 and not terms.rounded
    memory[WAIT], memory[CAPACITY] = wait, capacity[0] if alone else -1.0


def take_arrivals(memory: Floats) -> tuple[FloatColumn, FloatColumn]:
    """When jobs came since Python decided last, and their GPU-seconds; they are forgotten here."""
    many, memory[CAME] = int(memory[CAME]), 0.0
    came, work = memory[_HEAD : _HEAD + many], memory[_HEAD + _ROOM : _HEAD + _ROOM + many]
    return came.copy(), work.copy()


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`); it yields where it is Python's."""
    now, many = cluster.now, jobs.shape[1]
    if memory[SLOT] < 0.0 or int(now / memory[SLOT_SECONDS] + WHOLE_NUMBER) != memory[SLOT]:
        return -INFINITY
    new = (jobs[SEEN] == 0.0).sum()
    if cluster.capacity[0] != memory[CAPACITY] or memory[CAME] + new > _ROOM:
        return -INFINITY
    for row in range(many):
        told = jobs[DEADLINE, row] < INFINITY or jobs[PREEMPTIBLE, row] != 1.0
        before = not np.isnan(jobs[FIRST_START, row])
        unlike = np.isnan(jobs[UNIT_RATE, row]) and jobs[TABLE, row] < 0.0
        if unlike or (jobs[SEEN, row] == 0.0 and (told or before)):
            return -INFINITY
    waiting, gpus = jobs[HELD] == 0.0, jobs[GPUS]
    starting = np.where(waiting, 0.0, np.maximum(jobs[PROGRESS_FROM] - now, 0.0))
    seconds = work_left(jobs, many, now) / jobs[REQUEST_RATE] + starting
    due = ((jobs[HOLDS] > 0.0) & waiting).any()
    if due or (waiting.any() and cluster.capacity[0] - jobs[HELD].sum() >= 1.0):
        needs, gap = np.zeros(many, np.bool_), np.maximum(jobs[START_GAP], jobs[RESTORE])
        order = turns(jobs, seconds, gap, needs, False, now, memory[YIELDING])
        most = np.where(waiting & (jobs[CHECKPOINT] > memory[WAIT]), 0.0, gpus)
        out[:3] = fill(jobs, order, gpus, most, cluster.capacity, cluster.quota, due, False)
        starts = waiting & (out[TARGET] > 0.0)
        if (starts & (jobs[PREEMPTIBLE] != 1.0) & (jobs[ROW] == 0.0)).any():
            return -INFINITY
        without = np.where(out[TARGET_REASON] == 0.0, float(_ORDER), out[TARGET_REASON])
        out[TARGET_REASON] = np.where(out[TARGET] > 0.0, 0.0, without)
        out[3] = order
        jobs[GIVEN] = np.where(starts, given_at(now), jobs[GIVEN])
    else:
        out[TARGET] = jobs[HELD]
        out[TARGET_TYPE] = np.where(waiting, -1.0, 0.0)
        out[TARGET_REASON] = np.where(waiting, float(_ORDER), 0.0)
    for row in range(many):
        if jobs[SEEN, row] == 0.0:
            at = _HEAD + int(memory[CAME])
            memory[at], memory[at + _ROOM] = now, seconds[row] * gpus[row]
            memory[CAME] += 1.0
            jobs[SEEN, row] = 1.0
    return (memory[SLOT] + 1.0) * memory[SLOT_SECONDS] if waiting.any() else INFINITY


@compiled
def turns(
    jobs: Floats,
    seconds: Floats,
    gap: Floats,
    needs: Bools,
    fresh: bool,
    now: float,
    yielding: float,
) -> Ints:
    """The order in which jobs are served.

    seconds: of work left on the fastest type. gap: a start's cost, seconds. needs: which jobs keep a deadline
    only if they run now. fresh: whether a lease ends now. yielding: how much larger guaranteed jobs count.
    """
    many = jobs.shape[1]
    rank, service = np.empty(many), np.empty(many)
    for row in range(many):
        waits, promised = jobs[HELD, row] == 0.0, jobs[ROW, row] > 0.0
        service[row] = (seconds[row] + (gap[row] if waits else 0.0)) * jobs[GPUS, row]
        if promised:
            service[row] *= yielding
        late = jobs[LAST, row] > 0.0 and now + seconds[row] > jobs[LAST, row]
        if jobs[HOLDS, row] > 0.0:
            rank[row] = 0.0
        elif jobs[BEHIND, row] > 0.0:
            rank[row] = 1.0
        elif needs[row]:
            rank[row] = 2.0
        elif not waits and not fresh:
            rank[row] = 3.0
        else:
            rank[row] = 5.0 if late and not promised else 4.0
    return then_by(then_by(by_number(jobs), service), rank)
