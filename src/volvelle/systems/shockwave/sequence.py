"""In which rounds of a window jobs have theirs: those of the largest priority first.

A plan that is made anew at every arrival is rarely followed to its end, and rounds at its end may be put off
for ever. So among plans that give each job as many rounds, that is taken in which the jobs of the largest
priority come first. (Shockwave's artifact solves another integer program for that, which minimises priority
times mean round, summed over jobs; the paper does not speak of it.)
"""

import numpy as np

from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.plan.packing import in_turn, wider_first
from volvelle.plan.plan import Plan


def by_priority(
    plan: Plan, gpus: FloatColumn, priority: FloatColumn, ran_on: IntColumn, capacity: FloatColumn
) -> Plan:
    """``plan`` with its rounds in this order, as far as gangs fit; all columns by its rows.

    ran_on: types held right before the window, -1 for none. capacity: GPUs by type (one number where the
    plan names no types). A job that could not have all its rounds later goes first. Where gangs do not fit
    so, some have fewer rounds: to keep the plan's own order would put jobs off again.
    """
    ties = wider_first(gpus)
    order = ties[np.lexsort((ran_on[ties] < 0, -priority[ties]))]
    counts = plan.rounds_by_type(len(capacity))
    held = in_turn(order, gpus, counts, plan.window.slots, capacity, ran_on)
    return Plan.of_cells(plan.window, plan.number, gpus, held)
