"""Which jobs are to end by which of their deadlines: Chronus' selection (SoCC'21, section 3.3.4),
aggregated.

A job i needs RL slots (leases) of G GPUs. Ended within its first DL[p] slots it is worth V[p]; it takes
one such step p at most. Chronus' program (1) to (5) has a binary for each job and slot beside one for each
step::

    maximise    sum V[i, p] s[i, p]
    where       sum over i     G[i] x[i, k]                <=  M[k]             for each slot k
                sum over k < DL[i, p]  x[i, k]             >=  RL[i] s[i, p]    for each job and step
                sum over p     s[i, p]                     <=  1                for each job

(Constraint (3) as printed has R[i] where G[i] must be meant, and (4) is a product, here made linear.)

The **aggregated** program keeps the steps only. Work that is due within the first k slots must fit into
them::

    sum over i, p   s[i, p] G[i] max(0, RL[i] - max(0, DL[i, p] - k))   <=   M[1] + ... + M[k]

which every schedule obeys. Its answer is packed by least slack (`volvelle.plan.packing`); jobs that
end late are taken out, and those that are out are put in where they fit. The gap is that of the packed
plan to the program's bound. Where there are few jobs, or gangs are wide for the cluster, packing is coarse
and the direct program begins at the packed plan and improves it.

A job may be **fixed** to a step, because that was guaranteed: it ends by it, or earlier. Fixed jobs keep
what an earlier plan gave them rather than lose their step.
"""

from typing import NamedTuple

import numpy as np

from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.plan.plan import Plan, Window
from volvelle.plan.programs import relative_gap
from volvelle.systems.chronus.deadline_case import Case, DeadlineJobs
from volvelle.systems.chronus.deadline_programs import by_slots, by_steps

__all__ = ["DeadlineJobs", "Selection", "select_by_deadline"]


class Selection(NamedTuple):
    """A plan, and what it is worth.

    step: (jobs,) the step that each job reaches, -1 for none, which has no slots. value: the sum of theirs.
    bound: no plan is worth more.
    """

    plan: Plan
    step: IntColumn
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """How much more, relative to ``value``, another plan could at most be worth."""
        return relative_gap(self.value, self.bound)


def select_by_deadline(
    jobs: DeadlineJobs,
    window: Window,
    capacity: FloatColumn | float,
    *,
    incumbent: Plan | None = None,
    gap: float = 0.01,
    seconds: float = 1.0,
    direct: bool | None = None,
    relaxed: bool = False,
) -> Selection:
    """The most valuable plan found: better than ``incumbent`` or a greedy one, whatever the solver does.

    capacity: GPUs, one number or one by slot. incumbent: an earlier plan, from a window whose slots
    fall on those of this one. gap: a plan this close to the bound will do. seconds: of work for all
    programs together. relaxed: solve only the linear relaxation of the aggregated program. direct: whether
    the direct program is solved too (None: where that pays). Of plans that keep more fixed jobs to their
    steps than others the most valuable is returned. Raises ValueError where the jobs cannot be such,
    `Problem` where the solver is not installed.
    """
    case = Case.of(jobs, window, np.broadcast_to(np.float64(capacity), window.slots).copy())
    starts = [case.greedy()] if incumbent is None else [case.carried(incumbent), case.greedy()]
    best = max(starts, key=case.worth)
    bound = float(case.worths.max(axis=1, initial=0.0).sum())
    if case.is_open(best, bound, gap):
        best, bound, left = by_steps(case, best, bound, gap, seconds, relaxed=relaxed)
        if direct is None:
            direct = case.pays_direct and not relaxed
        if direct and left > 0.0 and case.is_open(best, bound, gap):
            best, bound = by_slots(case, best, bound, gap, left)
    value = case.value(best)
    plan = Plan(window, jobs.number, best * jobs.gpus[:, None])
    return Selection(plan, case.steps(best), value, max(bound, value))
