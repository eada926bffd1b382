"""In which rounds of a window jobs have theirs: those of the largest priority first.

A plan that is made anew at every arrival is rarely followed to its end, and rounds at its end may be put off
for ever. So among plans that give each job as many rounds, that is taken in which the jobs of the largest
priority come first. (Shockwave's artifact solves another integer program for that, which minimises priority
times mean round, summed over jobs; the paper does not speak of it.)
"""

import numpy as np
from numpy.typing import NDArray

from volvelle.core.compiled import compiled
from volvelle.core.view import BoolColumn, FloatColumn, IntColumn
from volvelle.plan.packing import wider_first
from volvelle.plan.plan import Plan

Bools = NDArray[np.bool_]


def by_priority(
    plan: Plan, gpus: FloatColumn, priority: FloatColumn, ran: BoolColumn, capacity: float
) -> Plan:
    """``plan`` with its rounds in this order, as far as gangs fit; all columns by its rows.

    ran: who runs right before the window. A job that could not have all its rounds later goes first. Where
    gangs do not fit so, some have fewer rounds: to keep the plan's own order would put jobs off again.
    """
    rounds = np.count_nonzero(plan.gpus, axis=1)
    ties = wider_first(gpus)
    order = ties[np.lexsort((~ran[ties], -priority[ties]))]
    held = in_sequence(order, gpus, rounds, plan.window.slots, capacity)
    return Plan(plan.window, plan.number, held * gpus[:, None])


@compiled
def in_sequence(
    order: IntColumn, gpus: FloatColumn, rounds: IntColumn, slots: int, capacity: float
) -> Bools:
    """(jobs, slots) who has its rounds when: who has none to miss, then by ``order``."""
    held = np.zeros((len(gpus), slots), dtype=np.bool_)
    left = rounds.copy()
    for slot in range(slots):
        free = capacity
        for urgent in (True, False):
            for row in order:
                now = left[row] > 0 and (left[row] >= slots - slot) == urgent
                if now and gpus[row] <= free:
                    held[row, slot] = True
                    free -= gpus[row]
        for row in order:
            if held[row, slot]:
                left[row] -= 1
    return held
