"""Which jobs without a guarantee need the present slot: a loop over jobs, on a copy of what is free."""

import numpy as np

from volvelle.core.columns import GPUS, HELD, PREEMPTIBLE
from volvelle.core.compiled import kernel
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Bools, Floats
from volvelle.policies.claims import by_number
from volvelle.policies.growth import then_by
from volvelle.systems.chronus.guarantees import gap_of
from volvelle.systems.chronus.look import (
    COUNTED,
    LAST,
    LEAST,
    ROW,
    SECONDS,
    START,
    STARTING,
    runs_on,
    steps_at,
)
from volvelle.systems.chronus.memory import (
    FIRST,
    MARGIN,
    NOW,
    PACE,
    PERIOD,
    SLOT,
    SLOT_SECONDS,
    WIDTH,
    capacity_of,
    free_of,
)
from volvelle.systems.chronus.recent import largest_within
from volvelle.systems.chronus.reservations import reach_time, reserve_late
from volvelle.systems.chronus.standing import at_most, believed_left


@kernel
def need_now(jobs: Floats, look: Floats, memory: Floats) -> Bools:
    """Which jobs keep a deadline only if they run in this slot, if smaller ones go first.

    For each the latest free slots are looked for beside all reservations and those found before. Jobs that
    are too large to be guaranteed anything are left out.
    """
    many, now, capacity = jobs.shape[1], memory[NOW], capacity_of(memory)
    first, slot, slot_seconds = int(memory[FIRST]), int(memory[SLOT]), memory[SLOT_SECONDS]
    needs, tried, service = np.zeros(many, np.bool_), np.zeros(many, np.bool_), np.empty(many)
    too_large = largest_within(memory, capacity.sum() * memory[PERIOD])
    for job in range(many):
        service[job] = look[LEAST, job] * jobs[GPUS, job]
        starts = look[START, job] if jobs[HELD, job] == 0.0 else 0.0
        in_time = now + look[LEAST, job] + starts <= jobs[LAST, job] and jobs[LAST, job] > 0.0
        alone = jobs[ROW, job] == 0.0 and jobs[PREEMPTIBLE, job] == 1.0
        tried[job] = in_time and alone and service[job] < too_large
    if not tried.any():
        return needs
    free = free_of(memory).copy()
    for job in then_by(by_number(jobs), service):
        if not tried[job]:
            continue
        if free[:, slot - first].sum() == 0.0:
            break
        gap, able = gap_of(look, memory, job), False
        for step in range(steps_at(memory), len(look)):
            finish_by = look[step, job]
            if able or not finish_by > now:
                continue
            width = int(memory[WIDTH])
            reach_time(memory, finish_by)
            wider = int(memory[WIDTH])
            for kind in range(len(free)):
                free[kind, width:wider] = capacity[kind]
            for kind in range(len(free)):
                if able or look[SECONDS + kind, job] == INFINITY:
                    continue
                held, seconds = np.zeros(wider), look[SECONDS + kind, job]
                believed = believed_left(jobs, look, seconds, job, kind)
                able = reserve_late(
                    free[kind, :wider],
                    held,
                    first,
                    slot_seconds,
                    now,
                    slot,
                    finish_by,
                    look[COUNTED, job],
                    at_most(jobs, job, believed, memory[PACE], memory[MARGIN]),
                    gap,
                    look[STARTING, job] if runs_on(jobs, job, kind) else gap,
                    False,
                )
                needs[job] = able and held[slot - first] > 0.0
    return needs
