"""One decision of Chronus: what is guaranteed already, who is answered, who runs until the lease ends.

The rules are those of `volvelle.systems.chronus`.
"""

import numpy as np

from volvelle.core.columns import (
    CHECKPOINT,
    DEADLINE,
    FIRST_START,
    GPUS,
    HELD,
    PREEMPTIBLE,
    STARTS_OVER,
    TYPE,
    TYPES,
)
from volvelle.core.compiled import compiled_later, kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow, fill
from volvelle.core.state import INFINITY, Reason
from volvelle.model.arrays import Bools, Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.policies.claims import by_number
from volvelle.policies.growth import then_by
from volvelle.systems.chronus.answers import answer, hold_to_end, jobs_to_answer, try_chosen
from volvelle.systems.chronus.guarantees import forget_those_that_left, gap_of, renew
from volvelle.systems.chronus.look import (
    BEHIND,
    COUNTED,
    HOLDS,
    LAST,
    LEAST,
    NEW,
    ROW,
    SECONDS,
    SEEN,
    START,
    is_plain,
    may_be_promised,
    plain_look,
)
from volvelle.systems.chronus.memory import (
    ANSWERS,
    BEGINS,
    CAME,
    ELSEWHERE,
    ENDED,
    FINISH_BY,
    FRESH,
    KIND,
    KINDS,
    NOW,
    PARTS,
    PLAIN,
    RECENT,
    RECENT_NEEDED,
    ROUNDED,
    SELECTS,
    SERVES,
    SLOT,
    SLOT_SECONDS,
    STAGE,
    TOLD,
    TRIES,
    WAIT,
    YIELDING,
    is_short,
    quota_of,
    rows_of,
    slot_at,
)
from volvelle.systems.chronus.needs import need_now
from volvelle.systems.chronus.recent import add_work
from volvelle.systems.chronus.standing import note_given, note_reservations

_ORDER = int(Reason.ORDER)
_SPARE = 4.0
"""Times until its guarantee for which there is room to reserve for a job that starts over."""


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`); it yields where it is Python's."""
    if memory[PLAIN] == 0.0 or not is_plain(jobs):
        return -INFINITY
    for job in range(jobs.shape[1]):
        if jobs[SEEN, job] == NEW:
            declares = jobs[DEADLINE, job] < INFINITY or jobs[PREEMPTIBLE, job] != 1.0
            if declares or not np.isnan(jobs[FIRST_START, job]):
                return -INFINITY
    return go_on(jobs, plain_look(jobs, cluster.now), cluster, memory, out)


@compiled_later
def go_on(jobs: Floats, look: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision from the stage on in which it is; -inf where it needs room, or a program of Python's."""
    memory[NOW], quota_of(memory)[:] = cluster.now, cluster.quota
    if memory[STAGE] == BEGINS and _begun(jobs, look, memory, cluster.capacity):
        memory[STAGE] = ANSWERS
    if memory[STAGE] == ANSWERS and answer(jobs, look, memory):
        memory[STAGE] = SERVES
        for job in range(jobs.shape[1]):
            if memory[ENDED] == 1.0 and may_be_promised(jobs, look, job, memory[NOW]):
                memory[STAGE] = SELECTS
    if memory[STAGE] == TRIES and try_chosen(jobs, look, memory):
        memory[STAGE] = SERVES
    if memory[STAGE] != SERVES or not _has_room_to_serve(jobs, look, memory):
        return -INFINITY
    waiting = jobs[HELD].min() == 0.0
    _serve(jobs, look, memory, cluster, out)
    memory[ELSEWHERE] = 1.0 if note_given(jobs, memory, out) else 0.0
    memory[STAGE] = BEGINS
    if waiting or memory[ELSEWHERE] == 1.0:
        return float((memory[SLOT] + 1.0) * memory[SLOT_SECONDS])
    return INFINITY


@kernel
def _begun(jobs: Floats, look: Floats, memory: Floats, capacity: Floats) -> bool:
    """See who came and left, and renew guarantees where a lease ends; whether there was room for that."""
    new = jobs_to_answer(jobs)
    memory[RECENT_NEEDED], latest = memory[CAME] + len(new), memory[NOW]
    for job in range(jobs.shape[1]):
        if jobs[STARTS_OVER, job] == 1.0 and jobs[ROW, job] > 0.0:
            finish_by = rows_of(memory)[FINISH_BY, int(jobs[ROW, job]) - 1]
            latest = finish_by if latest < finish_by < INFINITY else latest
    latest += _SPARE * (latest - memory[NOW])
    if is_short(memory, 0, 0, latest) or memory[RECENT_NEEDED] > memory[RECENT]:
        return False
    slot = slot_at(memory, memory[NOW])
    memory[FRESH] = 1.0 if slot != memory[SLOT] else 0.0
    memory[ENDED] = 1.0 if slot // memory[PARTS] != memory[SLOT] // memory[PARTS] else 0.0
    memory[SLOT], memory[TOLD] = slot, 0.0
    forget_those_that_left(jobs, look, memory, capacity)
    if memory[FRESH] == 1.0:
        renew(jobs, look, memory)
    for job in new:
        add_work(memory, look[LEAST, job] * jobs[GPUS, job])
    return True


@kernel
def _has_room_to_serve(jobs: Floats, look: Floats, memory: Floats) -> bool:
    """Whether there is room for jobs that may start for good, and for all deadlines."""
    many, latest = 0, jobs[LAST].max()
    for job in range(jobs.shape[1]):
        if jobs[PREEMPTIBLE, job] != 1.0 and jobs[HELD, job] == 0.0 and jobs[ROW, job] == 0.0:
            many += 1
            for kind in range(int(memory[KINDS])):
                if look[SECONDS + kind, job] < INFINITY:
                    end = memory[NOW] + look[SECONDS + kind, job] + gap_of(look, memory, job)
                    latest = max(latest, end)
    return not is_short(memory, many, many, latest)


@kernel
def _serve(jobs: Floats, look: Floats, memory: Floats, cluster: ClusterNow, out: Floats) -> None:
    """Say which jobs have GPUs until the lease ends."""
    waits = jobs[HELD].min() == 0.0
    idle = cluster.capacity.sum() - jobs[HELD].sum()
    due = note_reservations(jobs, memory)
    anew = memory[FRESH] == 1.0 or due
    if not (due or (waits and (anew or idle >= 1.0))):
        for job in range(jobs.shape[1]):
            out[TARGET, job], out[TARGET_TYPE, job] = jobs[HELD, job], jobs[TYPE, job]
            out[TARGET_REASON, job] = 0.0 if jobs[HELD, job] > 0.0 else float(_ORDER)
        return
    most = jobs[GPUS].copy()
    for job in range(jobs.shape[1]):
        if jobs[HELD, job] == 0.0 and jobs[CHECKPOINT, job] > memory[WAIT]:
            most[job] = 0.0
    needs, refused = np.zeros(jobs.shape[1], np.bool_), True
    if memory[FRESH] == 1.0:
        needs = need_now(jobs, look, memory)
    while refused:
        out[3] = turns(jobs, look, memory, needs)
        _fill_by_turn(jobs, memory, cluster, most, anew, out)
        refused = _are_refused_for_good(jobs, look, memory, most, out)
        if not refused and memory[ROUNDED] == 1.0:
            refused = _are_beyond_cells(jobs, look, cluster.capacity, most, anew, out)
    for job in range(jobs.shape[1]):
        if out[TARGET, job] > 0.0:
            out[TARGET_REASON, job] = 0.0
        elif out[TARGET_REASON, job] == 0.0:
            out[TARGET_REASON, job] = float(_ORDER)


@kernel
def _fill_by_turn(
    jobs: Floats, memory: Floats, cluster: ClusterNow, most: Floats, anew: bool, out: Floats
) -> None:
    """GPUs by turn; jobs with a reservation get those of its type."""
    seen, rows = jobs, rows_of(memory)
    if len(cluster.capacity) > 1:
        seen = jobs.copy()
        for job in range(jobs.shape[1]):
            if jobs[HOLDS, job] > 0.0:
                kind = rows[KIND, int(jobs[ROW, job]) - 1]
                seen[TYPES, job] = 2.0**kind
                seen[TYPE, job] = kind if jobs[TYPE, job] == kind else -1.0
    order = out[3].astype(np.int64)
    out[:3] = fill(seen, order, jobs[GPUS], most, cluster.capacity, cluster.quota, anew, False)


@kernel
def _are_refused_for_good(
    jobs: Floats, look: Floats, memory: Floats, most: Floats, out: Floats
) -> bool:
    """Let jobs that may not be preempted start only where they can run to their end.

    Whether some of ``most`` changed, because one cannot.
    """
    refused, any_starts = False, False
    for job in range(jobs.shape[1]):
        stays = jobs[HELD, job] > 0.0 or jobs[PREEMPTIBLE, job] == 1.0 or jobs[ROW, job] > 0.0
        if stays or out[TARGET, job] == 0.0:
            continue
        any_starts = True
        if not hold_to_end(jobs, look, memory, job, int(out[TARGET_TYPE, job])):
            most[job], refused = 0.0, True
    if any_starts:
        note_reservations(jobs, memory)
    return refused


@kernel
def _are_beyond_cells(
    jobs: Floats, look: Floats, capacity: Floats, most: Floats, anew: bool, out: Floats
) -> bool:
    """Let gangs start only as far as all fit as counted (Eq. 6); whether some of ``most`` changed."""
    room, beyond, starts = capacity.copy(), False, np.ones(jobs.shape[1])
    for job in range(jobs.shape[1]):
        if jobs[HELD, job] > 0.0 and (jobs[PREEMPTIBLE, job] != 1.0 or not anew):
            starts[job] = 0.0
    for job in then_by(out[3].astype(np.int64), starts):
        if out[TARGET, job] == 0.0:
            continue
        kind = int(out[TARGET_TYPE, job])
        if starts[job] == 0.0 or look[COUNTED, job] <= room[kind] + SAME_AMOUNT:
            room[kind] -= look[COUNTED, job]
        else:
            most[job], beyond = 0.0, True
    return beyond


@kernel
def turns(jobs: Floats, look: Floats, memory: Floats, needs: Bools) -> Ints:
    """The order in which jobs are served.

    needs: which jobs keep a deadline only if they run now.
    """
    many = jobs.shape[1]
    rank, service = np.empty(many), np.empty(many)
    for row in range(many):
        waits, promised = jobs[HELD, row] == 0.0, jobs[ROW, row] > 0.0
        service[row] = (look[LEAST, row] + (look[START, row] if waits else 0.0)) * jobs[GPUS, row]
        if promised:
            service[row] *= memory[YIELDING]
        late = jobs[LAST, row] > 0.0 and memory[NOW] + look[LEAST, row] > jobs[LAST, row]
        if jobs[HOLDS, row] > 0.0:
            rank[row] = 0.0
        elif jobs[BEHIND, row] > 0.0:
            rank[row] = 1.0
        elif needs[row]:
            rank[row] = 2.0
        elif not waits and memory[FRESH] == 0.0:
            rank[row] = 3.0
        else:
            rank[row] = 5.0 if late and not promised else 4.0
    return then_by(then_by(by_number(jobs), service), rank)
