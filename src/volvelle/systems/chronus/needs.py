"""Which jobs without a guarantee need the present slot: a loop over jobs, on a copy of what is free."""

from typing import NamedTuple

import numpy as np

from volvelle.core.columns import GPUS, HELD, PREEMPTIBLE, TYPE
from volvelle.core.compiled import compiled
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Bools, FloatColumn, Floats
from volvelle.policies.claims import by_number
from volvelle.policies.growth import then_by
from volvelle.systems.chronus.look import LAST, ROW
from volvelle.systems.chronus.reservations import reserve_late, wide_enough
from volvelle.systems.chronus.standing import at_most, believed_left


class Left(NamedTuple):
    """The needs of jobs, as `volvelle.systems.chronus.look.Look` has it, and the GPUs counted for each."""

    seconds: Floats
    starting: FloatColumn
    gap: FloatColumn
    gpus: FloatColumn


@compiled
def need_now(
    matrix: Floats, left: Left, due: Floats, book: Floats, capacity: Floats, terms: Floats
) -> tuple[Bools, int]:
    """Which jobs keep a deadline only if they run in this slot, if smaller ones go first.

    For each the latest free slots are looked for beside all reservations and those found before. Jobs of
    ``too_large`` GPU-seconds or more are left out. due: (steps, jobs) when the steps of each are due, in the
    order in which they are tried. book: (types, slots) GPUs that reservations leave free. terms: now, slot,
    the slot of the first column, seconds of a slot, seconds until GPUs taken away are free, by how many
    starts are late, the pace and the margin (`at_most`), and ``too_large``. Returns that, (jobs,), and how
    many slots the book needs.
    """
    now, slot, first, slot_seconds = terms[0], int(terms[1]), int(terms[2]), terms[3]
    many, width, free = matrix.shape[1], book.shape[1], book.copy()
    needs, tried, service = np.zeros(many, np.bool_), np.zeros(many, np.bool_), np.empty(many)
    for job in range(many):
        least = left.seconds[:, job].min()
        service[job] = least * matrix[GPUS, job]
        starts = left.gap[job] if matrix[HELD, job] == 0.0 else 0.0
        in_time = now + least + starts <= matrix[LAST, job] and matrix[LAST, job] > 0.0
        alone = matrix[ROW, job] == 0.0 and matrix[PREEMPTIBLE, job] == 1.0
        tried[job] = in_time and alone and service[job] < terms[8]
    if not tried.any():
        return needs, width
    for job in then_by(by_number(matrix), service):
        if not tried[job]:
            continue
        if free[:, slot - first].sum() == 0.0:
            break
        gap, able = left.gap[job] + terms[4] + terms[5], False
        for step in range(len(due)):
            finish_by = due[step, job]
            if able or not finish_by > now:
                continue
            wider = wide_enough(width, int(finish_by / slot_seconds) + 2 - first)
            if wider > width:
                grown = np.empty((len(free), wider))
                for kind in range(len(free)):
                    grown[kind, :width] = free[kind]
                    grown[kind, width:] = capacity[kind]
                free, width = grown, wider
            for kind in range(len(free)):
                seconds, starting = left.seconds[kind, job], left.starting[job]
                if able or seconds == INFINITY:
                    continue
                goes_on = matrix[HELD, job] > 0.0 and matrix[TYPE, job] == kind
                believed = believed_left(matrix, seconds, starting, job, kind)
                held = np.zeros(width, np.bool_)
                able = reserve_late(
                    free[kind],
                    held,
                    first,
                    slot_seconds,
                    now,
                    slot,
                    finish_by,
                    left.gpus[job],
                    at_most(matrix, job, believed, terms[6], terms[7]),
                    gap,
                    starting if goes_on else gap,
                    False,
                )
                needs[job] = able and held[slot - first]
    return needs, width
