"""What Chronus is compared with (SoCC'21, section 4.3): orders by deadline and laxity, and static quotas.

They know what `chronus` knows, and promise nothing. A job's deadline is that of its most valuable step; jobs
without rewards are best effort. The paper describes them in a sentence each, of which this is our reading.
"""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.columns import GPUS, HELD, NUMBER
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, fill
from volvelle.core.policy import Allocation, Period, Policy, fill_in_order, policies
from volvelle.core.state import Reason
from volvelle.core.view import BoolColumn, FloatColumn, View, deadline_of

_SEEN, _DUE = range(2)


class DeadlineOrder(Policy):
    """Base of policies that know deadlines."""

    columns: ClassVar[int] = 2
    work_conserving: ClassVar[bool] = False  # an elastic job is not given less than it requests

    @property
    def resizes(self) -> bool:
        """Jobs are gangs here."""
        return False

    def due(self, view: View) -> FloatColumn:
        """(jobs,) when the most valuable step of each is due, seconds; infinite for best effort."""
        own = view.jobs.own
        for at in np.flatnonzero(own[_SEEN] == 0.0).tolist():
            spec = view.spec(int(view.jobs.matrix[NUMBER, at]))
            own[:, at] = 1.0, deadline_of(spec)
        due: FloatColumn = own[_DUE]
        return due


@policies.register
class EarliestDeadline(DeadlineOrder):
    """Earliest deadline first; jobs with deadlines preempt best effort, and nobody else."""

    name: ClassVar[str] = "edf"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Chronus (SoCC'21), section 4.3"
    optimises: ClassVar[str] = "deadlines kept, below the load of the cluster"

    def allocate(self, view: View) -> Allocation:
        """Running jobs with deadlines, waiting ones by these, then best effort by submission."""
        due, waiting = self.due(view), view.jobs.held == 0.0
        best_effort = np.isinf(due)
        soonest = np.where(waiting, due, 0.0)
        order = np.lexsort((view.jobs.number, soonest, waiting, best_effort))
        return fill_in_order(view, order, preemptive=True, strict=False, elastic=False)


@policies.register
class LeastLaxity(DeadlineOrder):
    """Least laxity first: time to the deadline less run time that is left; best effort last."""

    name: ClassVar[str] = "genie"
    source: ClassVar[str] = "GENIE, as in Chronus (SoCC'21), section 4.3"
    optimises: ClassVar[str] = "deadlines kept, below the load of the cluster"
    time_varying: ClassVar[bool] = True

    round: Period | None = Field(300.0, description="decide only at multiples of this period")

    def allocate(self, view: View) -> Allocation:
        """Jobs by laxity, then best effort by submission."""
        laxity = self.due(view) - view.now - view.jobs.remaining_seconds
        order = np.lexsort((view.jobs.number, laxity))
        return fill_in_order(view, order, preemptive=True, strict=False, elastic=False)


@policies.register
class StaticQuotas(DeadlineOrder):
    """First in, first out in two queues with quotas: jobs with deadlines, and best effort."""

    name: ClassVar[str] = "yarn-cs"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "YARN's capacity scheduler, as in Chronus (SoCC'21), section 4.3"
    optimises: ClassVar[str] = "a share for each queue"

    deadlines: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.9, description="share of the GPUs for jobs with deadlines"
    )

    def allocate(self, view: View) -> Allocation:
        """What runs goes on; in each queue the first start, as far as its quota goes."""
        best_effort, matrix = np.isinf(self.due(view)), view.jobs.matrix
        may_start = _firsts(view, ~best_effort, self.deadlines * view.gpus)
        may_start |= _firsts(view, best_effort, (1.0 - self.deadlines) * view.gpus)
        gpus, order = matrix[GPUS], np.argsort(matrix[NUMBER])
        most = np.where(may_start | (matrix[HELD] > 0.0), gpus, 0.0)
        given = fill(matrix, order, gpus, most, view.capacity, view.quota, False, False)
        none = np.where(most == 0.0, float(Reason.ORDER), given[TARGET_REASON])
        return Allocation(given[TARGET], given[TARGET_TYPE], none, order)


def _firsts(view: View, queue: BoolColumn, quota: float) -> BoolColumn:
    """Who of a queue may start beside its running jobs; a job wider than the quota may alone."""
    held = float(view.jobs.held[queue].sum())
    waiting = np.flatnonzero(queue & (view.jobs.held == 0.0))
    waiting = waiting[np.argsort(view.jobs.number[waiting])]
    fits = held + np.cumsum(view.jobs.gpus[waiting]) <= quota
    if held == 0.0:
        fits[:1] = True
    firsts: BoolColumn = np.zeros(len(queue), dtype=np.bool_)
    firsts[waiting[fits]] = True
    return firsts
