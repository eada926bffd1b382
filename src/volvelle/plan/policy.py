"""Policies that keep a plan over a window of rounds.

The third level of writing a policy, after orders and allocations. A `PlanPolicy` says who is to hold what
in which of the next rounds (`plan`); the base follows it round by round::

    jobs came or went, or GPUs did, or the window is over ─▶ plan ─▶ Plan
    each round: jobs with GPUs in the plan, then the others by `spare_key` ─▶ fill ─▶ Allocation

In a round jobs get what the plan says, as long as that is there: a job that may not be stopped keeps its
GPUs, a pool its quota. Where GPUs of the type that the plan names are not there, those of another will do.
GPUs that the plan leaves go to jobs that it does not name there, so that none
idles, unless `spare_key` keeps jobs from them. The next round is asked for where the plan changes; rounds in
which it does not are skipped.
"""

from abc import abstractmethod
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, PrivateAttr

from volvelle.core.columns import PINNED, PREEMPTIBLE, TYPE
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, fill
from volvelle.core.mistakes import answered
from volvelle.core.policy import Allocation, Period, Policy
from volvelle.core.state import Reason
from volvelle.core.view import View
from volvelle.core.wrong_answers import KEYS, TURNS, of_keys, of_turns
from volvelle.model.arrays import BoolColumn, IntColumn
from volvelle.plan.plan import Plan, Window


class PlanPolicy(Policy):
    """Base of policies that plan: subclasses give `plan`. Jobs are gangs, on the GPUs they request.

    Unless the policy `resizes`: then they have as many as the plan says, and the others what they request;
    or less where less is left.
    """

    kind: ClassVar[str] = "plan"
    gangs: ClassVar[bool] = True

    round: Period = Field(120.0, description="length of a round")
    window: Annotated[int, Field(ge=1)] = Field(20, description="rounds that are planned at once")

    _plan: Plan | None = PrivateAttr(default=None)
    _planned_for: bytes = PrivateAttr(default=b"")

    @abstractmethod
    def plan(self, view: View, window: Window) -> Plan:
        """The holdings of jobs in the rounds of ``window``, which begins now.

        Jobs that are not in the plan are as if they had no GPUs in it.
        """

    def plan_basis(self, view: View) -> bytes:
        """The inputs of a plan, which is made anew where they have changed.

        Inputs are the jobs in the system, and GPUs by type and pool. A policy that looks at more adds it.
        """
        numbers, capacity, quota = view.jobs.number, view.capacity, view.quota
        return numbers.tobytes() + b"|" + capacity.tobytes() + b"|" + quota.tobytes()

    @answered(of_keys, KEYS)
    def spare_key(self, view: View) -> ArrayLike:
        """A key for each job, by which GPUs that the plan leaves are given; the smallest first.

        Here jobs that run, then by submission. A job with an infinite key gets none of them, even if they
        idle (`Policy.work_conserving` is False then). With one that changes as time passes, say so
        (`Policy.time_varying`).
        """
        return np.where(view.jobs.running, -1.0, view.jobs.number)

    def allocate(self, view: View) -> Allocation:
        """Plan where something changed; then the GPUs of this round."""
        plan = self._current(view)
        jobs, slot = view.jobs, plan.window.slot(view.now)
        held = plan.held_by(jobs.number, slot)
        planned = held > 0.0
        idles = ~planned & np.isposinf(np.asarray(self.spare_key(view), dtype=np.float64))
        order, matrix = self.turns(view, planned), jobs.matrix
        least = jobs.min_gpus if self.resizes else jobs.gpus
        most = np.where(planned, held, jobs.gpus) if self.resizes else jobs.gpus
        most = np.where(idles, 0.0, most)
        if plan.types is not None:
            # `fill` serves current holdings first; here the plan's GPUs stand for them.
            matrix, types = matrix.copy(), plan.types_by(jobs.number, slot)
            stays = jobs.running & ((matrix[PINNED] == 1.0) | (matrix[PREEMPTIBLE] == 0.0))
            matrix[TYPE] = np.where((types >= 0) & ~stays, types, matrix[TYPE])
        given = fill(matrix, order, least, most, view.capacity, view.quota, True, False)
        given[TARGET_REASON, idles & (given[TARGET] == 0.0)] = Reason.POLICY
        return Allocation(given[TARGET], given[TARGET_TYPE], given[TARGET_REASON], order)

    @answered(of_turns, TURNS)
    def turns(self, view: View, planned: BoolColumn) -> IntColumn:
        """Places of the jobs in the order in which they are served: the ``planned`` ones first."""
        spare = np.asarray(self.spare_key(view), dtype=np.float64)
        order: IntColumn = np.lexsort((spare, ~planned))
        return order

    def next_wake(self, view: View) -> float | None:
        """Half a round before the plan changes next, or is over: it is asked at the round that follows."""
        plan = self._plan
        if plan is None or not len(view.jobs):
            return None
        change = plan.next_change(plan.window.slot(view.now))
        return plan.window.begin(change) - plan.window.slot_seconds / 2

    def _current(self, view: View) -> Plan:
        basis = self.plan_basis(view)
        plan = self._plan
        if plan is None or not plan.covers(view.now) or basis != self._planned_for:
            window = Window(view.now, self.round, self.window)
            jobs = view.jobs.number
            plan = (
                self.plan(view, window)
                if len(jobs)
                else Plan(window, jobs, np.zeros((0, window.slots)))
            )
            self._plan, self._planned_for = plan, basis
        return plan
