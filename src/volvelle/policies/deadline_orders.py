"""What Chronus is compared with (SoCC'21, section 4.3): orders by deadline and laxity, and static quotas.

They know what `chronus` knows, and promise nothing. A job's deadline is that of its most valuable step; jobs
without rewards are best effort. The paper describes them in a sentence each, of which this is our reading.
"""

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from volvelle.core.columns import DEADLINE, FULL_RATE, GPUS, HELD, NUMBER
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET_REASON, ClusterNow, fill, work_left
from volvelle.core.policy import Kernel, Period, Policy, policies
from volvelle.core.state import INFINITY, Reason
from volvelle.policies.growth import then_by

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ORDER = float(Reason.ORDER)


class DeadlineOrder(Policy):
    """Base of policies that know deadlines."""

    work_conserving: ClassVar[bool] = False  # an elastic job is not given less than it requests

    @property
    def resizes(self) -> bool:
        """Jobs are gangs here."""
        return False


@policies.register
class EarliestDeadline(DeadlineOrder):
    """Earliest deadline first; jobs with deadlines preempt best effort, and nobody else."""

    name: ClassVar[str] = "edf"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Chronus (SoCC'21), section 4.3"
    optimises: ClassVar[str] = "deadlines kept, below the load of the cluster"

    def kernel(self, *, named: bool) -> Kernel:
        """Running jobs with deadlines, waiting ones by these, then best effort by submission."""
        return Kernel(by_deadline, np.zeros(0), rates=False)


@policies.register
class LeastLaxity(DeadlineOrder):
    """Least laxity first: time to the deadline less run time that is left; best effort last."""

    name: ClassVar[str] = "genie"
    source: ClassVar[str] = "GENIE, as in Chronus (SoCC'21), section 4.3"
    optimises: ClassVar[str] = "deadlines kept, below the load of the cluster"
    time_varying: ClassVar[bool] = True

    round: Period | None = Field(300.0, description="decide only at multiples of this period")

    def kernel(self, *, named: bool) -> Kernel:
        """Jobs by laxity, then best effort by submission."""
        return Kernel(by_laxity, np.zeros(0), rates=False)


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

    def kernel(self, *, named: bool) -> Kernel:
        """What runs goes on; in each queue the first start, as far as its quota goes."""
        return Kernel(by_quotas, np.array([self.deadlines, 1.0 - self.deadlines]), rates=False)


@kernel
def by_deadline(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `edf`."""
    waits, due = np.where(jobs[HELD] == 0.0, 1.0, 0.0), jobs[DEADLINE]
    order = then_by(_by_submission(jobs), np.where(waits == 1.0, due, 0.0))
    order = then_by(then_by(order, waits), np.where(np.isinf(due), 1.0, 0.0))
    _serve(jobs, order, jobs[GPUS], cluster, True, out)
    return INFINITY


@kernel
def by_laxity(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `genie`."""
    seconds = work_left(jobs, jobs.shape[1], cluster.now) / jobs[FULL_RATE]
    order = then_by(_by_submission(jobs), jobs[DEADLINE] - cluster.now - seconds)
    _serve(jobs, order, jobs[GPUS], cluster, True, out)
    return INFINITY


@kernel
def by_quotas(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `yarn-cs`. memory: the shares of jobs with deadlines and of best effort."""
    order, gpus = _by_submission(jobs), cluster.capacity.sum()
    most = who_may_run(jobs, order, memory[0] * gpus, memory[1] * gpus)
    _serve(jobs, order, most, cluster, False, out)
    out[TARGET_REASON] = np.where(most == 0.0, _ORDER, out[TARGET_REASON])
    return INFINITY


@compiled
def who_may_run(jobs: Floats, order: Ints, deadlines: float, best_effort: float) -> Floats:
    """GPUs of jobs that run or may start within the quotas of their queues; 0 of others.

    A job wider than the quota may start alone.
    """
    most, queues = np.zeros(len(order)), np.isinf(jobs[DEADLINE])
    for queue, quota in ((False, deadlines), (True, best_effort)):
        held, wanted, first = 0.0, 0.0, True
        for row in order:
            if queues[row] == queue:
                held += jobs[HELD, row]
        for row in order:
            if queues[row] != queue:
                continue
            if jobs[HELD, row] > 0.0:
                most[row] = jobs[GPUS, row]
                continue
            wanted += jobs[GPUS, row]
            if held + wanted <= quota or (first and held == 0.0):
                most[row] = jobs[GPUS, row]
            first = False
    return most


@kernel
def _by_submission(jobs: Floats) -> Ints:
    return np.argsort(jobs[NUMBER], kind="mergesort")


@kernel
def _serve(
    jobs: Floats, order: Ints, most: Floats, cluster: ClusterNow, preemptive: bool, out: Floats
) -> None:
    """Serve gangs in ``order``, as far as they have ``most``."""
    capacity, quota = cluster.capacity, cluster.quota
    out[:3] = fill(jobs, order, jobs[GPUS], most, capacity, quota, preemptive, False)
    out[3] = order
