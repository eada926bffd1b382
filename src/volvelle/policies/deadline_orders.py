"""Baselines of Chronus (SoCC'21, section 4.3): orders by deadline and laxity, and static quotas.

They know what `chronus` knows, and guarantee nothing. A job's deadline is that of its most valuable step;
jobs without rewards are best effort. The paper describes them in a sentence each, of which this is our
reading."""

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.columns import DEADLINE, FULL_RATE, GPUS, HELD, NUMBER, POOL, TYPE, TYPES
from volvelle.core.compiled import kernel
from volvelle.core.fill import ClusterNow, fill, work_left
from volvelle.core.groups import Changes, Grouped, change
from volvelle.core.policy import Kernel, Period, Policy, policies
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.policies.growth import then_by


class DeadlineOrder(Policy):
    """Base of policies that know deadlines."""

    work_conserving: ClassVar[bool] = False  # an elastic job is not given less than it requests
    gangs: ClassVar[bool] = True


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
    keeps_running: ClassVar[bool] = True

    deadlines: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.9, description="share of the GPUs for jobs with deadlines"
    )

    def kernel(self, *, named: bool) -> Kernel:
        """Running jobs go on; in each queue the first start, as far as its quota goes."""
        quotas = np.array([self.deadlines, 1.0 - self.deadlines])
        return Kernel(by_quotas, quotas, rates=False, group=queue_of, groups=2)


@kernel
def by_deadline(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `edf`."""
    waits, due = np.where(jobs[HELD] == 0.0, 1.0, 0.0), jobs[DEADLINE]
    order = then_by(_by_submission(jobs), np.where(waits == 1.0, due, 0.0))
    order = then_by(then_by(order, waits), np.where(np.isinf(due), 1.0, 0.0))
    _serve(jobs, order, cluster, out)
    return INFINITY


@kernel
def by_laxity(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `genie`."""
    seconds = work_left(jobs, jobs.shape[1], cluster.now) / jobs[FULL_RATE]
    order = then_by(_by_submission(jobs), jobs[DEADLINE] - cluster.now - seconds)
    _serve(jobs, order, cluster, out)
    return INFINITY


@kernel
def queue_of(columns: Any, own: int, row: int, curve: int, rates: Any, memory: Any) -> int:
    """The queue of a job under `yarn-cs`: 0 with a deadline, 1 best effort."""
    return int(columns[DEADLINE][row] == INFINITY)


@kernel
def by_quotas(jobs: Grouped, cluster: ClusterNow, memory: Any, out: Changes) -> float:
    """The decision of `yarn-cs`. memory: the shares of both queues.

    The first of each queue start as far as its quota goes; a job wider than the quota may start alone.
    """
    columns, gpus = jobs.columns, 0.0
    free, left = np.empty(len(cluster.capacity)), np.empty(len(cluster.quota))
    for gpu_type in range(len(free)):
        free[gpu_type] = cluster.capacity[gpu_type]
        gpus += free[gpu_type]
    for pool in range(len(left)):
        left[pool] = cluster.quota[pool]
    held, wanted, at = np.zeros(2), np.zeros(2), np.empty(2, np.int64)
    at[0], at[1] = jobs.first[0], jobs.first[1]
    for i in range(jobs.runs):
        row = jobs.running[i]
        held[jobs.group[row]] += columns[HELD][row]
        free[int(columns[TYPE][row])] -= columns[HELD][row]
        if columns[POOL][row] >= 0.0:
            left[int(columns[POOL][row])] -= columns[HELD][row]
    while at[0] >= 0 or at[1] >= 0:
        queue = 0
        if at[0] < 0 or (at[1] >= 0 and columns[NUMBER][at[1]] < columns[NUMBER][at[0]]):
            queue = 1
        row, need = at[queue], columns[GPUS][at[queue]]
        at[queue] = jobs.next[row]
        if columns[HELD][row] > 0.0:
            continue
        alone = held[queue] + wanted[queue] == 0.0
        wanted[queue] += need
        if held[queue] + wanted[queue] > memory[queue] * gpus and not alone:
            at[queue] = -1  # and no job behind it may start
            continue
        pool = int(columns[POOL][row])
        for gpu_type in range(len(free)):
            fits = free[gpu_type] > SAME_AMOUNT and free[gpu_type] + SAME_AMOUNT >= need
            if pool >= 0 and need > left[pool] + SAME_AMOUNT:
                fits = False
            if fits and (int(columns[TYPES][row]) >> gpu_type) & 1:
                out.gpus[row], out.gpu_type[row] = need, gpu_type
                change(out, row)
                free[gpu_type] -= need
                if pool >= 0:
                    left[pool] -= need
                break
    return INFINITY


@kernel
def _by_submission(jobs: Floats) -> Ints:
    return np.argsort(jobs[NUMBER], kind="mergesort")


@kernel
def _serve(jobs: Floats, order: Ints, cluster: ClusterNow, out: Floats) -> None:
    """Serve gangs in ``order``."""
    gpus, capacity, quota = jobs[GPUS], cluster.capacity, cluster.quota
    out[:3] = fill(jobs, order, gpus, gpus, capacity, quota, True, False)
    out[3] = order
