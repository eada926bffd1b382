"""Optimus (Peng et al., EuroSys'18): GPUs where they shorten what is left the most.

Every job gets one GPU (its worker; the paper's parameter servers are not modelled, since
collective communication has replaced them), then one GPU at a time goes to the job whose remaining time
it shortens the most, until there are none left or none helps. Where there are more jobs than GPUs the
earlier submissions have theirs: from nothing to one GPU the gain is infinite for all.

Remaining work and rates by number of GPUs are the estimator's. ``--estimator convergence`` fits the
remaining work from the loss curve where the job has one, as the paper does; the paper's fit of speed from
samples is for its parameter servers and is not done.
Jobs that need several GPUs get their minimum or nothing, as their first step. Jobs with few GPUs are placed
first. With ``remaining=reported`` what is left of a job is what it told last (at the end of an epoch)
rather than what it is believed to have done since, as in Pollux' simulator (OSDI'21).
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from volvelle.core.columns import COUNT, CURVE, LEAST, NUMBER, POOL, SCALE, TOTAL
from volvelle.core.compiled import compiled, kernel
from volvelle.core.events import TrainingReported
from volvelle.core.fill import TARGET, ClusterNow, work_left
from volvelle.core.forward.rates import rate_on
from volvelle.core.policy import Allocation, Kernel, Policy, interpreted, policies
from volvelle.core.state import INFINITY
from volvelle.core.view import View
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.growth import give_least, may_grow, served_on, then_by

_TOLD = 0
"""Own column, only for ``remaining=reported``: work done as the job told it last."""


@policies.register
class Optimus(Policy):
    """One GPU each, then greedily by the largest drop in remaining time."""

    name: ClassVar[str] = "optimus"
    goes_by_rates: ClassVar[bool] = True
    source: ClassVar[str] = "Optimus (EuroSys'18)"
    optimises: ClassVar[str] = "mean JCT of elastic jobs"
    columns: ClassVar[int] = 1

    remaining: Literal["believed", "reported"] = Field(
        "believed", description="work left as believed now, or as the job told it last"
    )
    _told: dict[int, float] = PrivateAttr(default_factory=dict)
    """Only for ``remaining=reported``: work done by job number."""

    def hear(self, report: TrainingReported) -> None:
        """Keep what a job told of its progress."""
        if self.remaining == "reported":
            self._told[report.number] = report.work_done

    def allocate(self, view: View) -> Allocation:
        """The least by submission, then growth by marginal gain."""
        if self.remaining == "reported":
            self._told = {n: told for n, told in self._told.items() if n in view.jobs.row_of}
            numbers = view.jobs.number.tolist()
            view.jobs.own[_TOLD] = [self._told.get(int(number), 0.0) for number in numbers]
        return interpreted(self._kernel, view)

    def kernel(self, *, named: bool) -> Kernel | None:
        """The same; None where Python is told what is left."""
        return self._kernel if self.remaining == "believed" else None

    @property
    def _kernel(self) -> Kernel:
        return Kernel(decide, np.array([float(self.remaining == "reported")]))


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """Optimus' decision (`Kernel`). memory: whether jobs told what they have done."""
    many = jobs.shape[1]
    if memory[0] == 1.0:
        work = (jobs[TOTAL] - jobs[COUNT + _TOLD]) * jobs[SCALE]
    else:
        work = work_left(jobs, many, cluster.now)
    order = np.argsort(jobs[NUMBER], kind="mergesort")
    left = give_least(jobs, order, jobs[LEAST], cluster, out)
    gpus = out[TARGET]
    for gpu_type in range(len(cluster.capacity)):
        mine = served_on(gpu_type, order, out)
        free = cluster.capacity[gpu_type] - gpus[mine].sum()
        if free >= 1.0:
            grow_by_gain(jobs, mine, gpus, free, left, cluster.rates, gpu_type, work)
    out[3] = then_by(order, gpus)  # the narrow ones are placed first
    return INFINITY


@compiled
def grow_by_gain(
    matrix: Floats,
    rows: Ints,
    gpus: Floats,
    free: float,
    left: Floats,
    table: NDArray[np.float64],
    gpu_type: int,
    work: Floats,
) -> float:
    """Hand out ``free`` GPUs one at a time to those of ``rows`` whom one more helps most, in place.

    Of equals the first has it. Returns what is left of ``free``.
    """
    jobs = len(rows)
    gain = np.empty(jobs)
    for i in range(jobs):
        row = rows[i]
        gain[i] = seconds_saved(table, int(matrix[CURVE, row]), gpu_type, gpus[row], work[row])
    while free >= 1.0:
        best = -1
        for i in range(jobs):
            if gain[i] <= 0.0 or (best >= 0 and gain[i] <= gain[best]):
                continue
            if may_grow(matrix, rows[i], gpus, left):
                best = i
        if best < 0:
            break
        row, pool = rows[best], int(matrix[POOL, rows[best]])
        gpus[row] += 1.0
        free -= 1.0
        if pool >= 0:
            left[pool] -= 1.0
        gain[best] = seconds_saved(table, int(matrix[CURVE, row]), gpu_type, gpus[row], work[row])
    return free


@compiled
def seconds_saved(
    table: NDArray[np.float64], curve: int, gpu_type: int, gpus: float, work: float
) -> float:
    """By how much one GPU more than ``gpus`` shortens the time that ``work`` takes."""
    rate = rate_on(table, curve, gpu_type, gpus)
    more = rate_on(table, curve, gpu_type, gpus + 1.0)
    if rate > 0.0 and more > 0.0:
        return work / rate - work / more
    return np.inf if more > 0.0 else 0.0
