"""AlloX (Le et al., EuroSys'20), as Shockwave (NSDI'23) compares itself with it.

Mean completion time on unrelated machines is least where jobs are matched with places in queues: a job that
is the k-th from the end of a GPU's queue delays k jobs, itself among them, by its run time. Costs are k
times what is left of the job on this type of GPU (its age, which the simulator adds, is the same wherever it
goes). A job that is matched with the head of a queue runs:

- A job of one GPU keeps it until it ends. Queues are for the GPUs that nobody keeps.
- A job of s GPUs, for which AlloX has no answer, is to run 1/s of its time and is matched anew each time.
- Against starvation only the oldest jobs are matched: a ``share`` of those that wait, but at least as many
  as there are free GPUs. GPUs that are left go to other jobs.

These are the rules of Shockwave's simulator. Of equally cheap matchings it takes what its solver gives, we
what `volvelle.systems.allox.matching` gives.
"""

from collections.abc import Callable
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from volvelle.core.columns import COUNT, GPUS, SUBMIT
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import ClusterNow, work_left
from volvelle.core.policy import Period, policies
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats, Ints
from volvelle.policies.claims import FRACTIONS, NOTHING, SHARE, by_number, set_alone
from volvelle.policies.growth import then_by
from volvelle.policies.rounds import give, rates_of, what_is_due
from volvelle.systems.allox.matching import cheapest
from volvelle.systems.gavel.base import Gavel

_KEPT = COUNT
"""Own column: 1 + the GPU type that a job of one GPU has until it ends; 0 for none."""


@policies.register
class AlloX(Gavel):
    """Least mean completion time: jobs are matched with places in the queues of GPUs."""

    name: ClassVar[str] = "allox"
    source: ClassVar[str] = "AlloX (EuroSys'20); Shockwave (NSDI'23) 8.2"
    optimises: ClassVar[str] = "mean completion time"
    columns: ClassVar[int] = 1

    round: Period | None = Field(120.0, description="length of a round")
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.2, description="share of those that wait, oldest first, that are matched"
    )

    @model_validator(mode="after")
    def _remember_share(self) -> Self:
        self._memory[SHARE] = self.share
        return self

    @property
    def decision(self) -> Callable[..., float]:
        """A round of matched jobs."""
        return decide


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`): 1 for jobs that keep a GPU, 1/s for others at a head."""
    due = what_is_due(jobs, cluster, memory)
    if due == FRACTIONS:
        rates = rates_of(jobs, cluster, memory)
        target, free = np.zeros(rates.shape), cluster.capacity.copy()
        for row in range(jobs.shape[1]):
            gpu_type = int(jobs[_KEPT, row]) - 1
            jobs[_KEPT, row] = 0.0
            if gpu_type >= 0 and rates[gpu_type, row] > 0.0 and free[gpu_type] >= 1.0:
                jobs[_KEPT, row], target[gpu_type, row] = 1.0 + gpu_type, 1.0
                free[gpu_type] -= 1.0
        order = then_by(by_number(jobs), jobs[SUBMIT])
        order = order[(rates.sum(axis=0) > 0.0)[order] & (target.sum(axis=0) == 0.0)[order]]
        many = max(int(memory[SHARE] * len(order)), int(free.sum()))
        matched = order[:many]
        work = work_left(jobs, jobs.shape[1], cluster.now)[matched]
        head = heads(work, rates[:, matched], np.floor(free).astype(np.int64))
        for place, gpu_type in enumerate(head):
            if gpu_type >= 0:
                row = matched[place]
                target[gpu_type, row] = 1.0 / max(jobs[GPUS, row], 1.0)
                if jobs[GPUS, row] <= 1.0:
                    jobs[_KEPT, row] = 1.0 + gpu_type
        set_alone(jobs, cluster.now, memory, target)
    elif due != NOTHING:
        return -INFINITY
    return give(jobs, cluster, memory, out)


@compiled
def heads(work: Floats, rates: Floats, free: Ints) -> Ints:
    """The GPU type at the head of whose queue each job is in the cheapest matching, -1 for none.

    work: of the jobs, that is left. rates: (types, jobs), 0 where a job cannot run. free: GPUs of each type.
    """
    jobs, gpus = len(work), int(free.sum())
    head = np.full(jobs, -1)
    if jobs == 0 or gpus == 0:
        return head
    alike = (free > 0).sum() == 1
    if alike and jobs <= gpus:  # the head of a queue for each
        gpu_type = int(np.argmax(free))
        for job in range(jobs):
            if rates[gpu_type, job] > 0.0:
                head[job] = gpu_type
        return head
    places = -(-jobs // gpus) if alike else jobs
    kind = np.repeat(np.arange(len(free)), free)
    longest = 0.0
    for gpu_type in range(len(free)):
        for job in range(jobs):
            if rates[gpu_type, job] > 0.0:
                longest = max(longest, work[job] / rates[gpu_type, job])
    cost, never = np.empty((jobs, gpus * places)), (longest + 1.0) * (jobs + 1) ** 2
    for job in range(jobs):
        for gpu in range(gpus):
            rate, first_place = rates[kind[gpu], job], gpu * places
            seconds = work[job] / rate if rate > 0.0 else never
            for place in range(places):
                delayed = place + 1 if rate > 0.0 else 1
                cost[job, first_place + place] = delayed * seconds
    first, column_of = np.full(gpus, -1), cheapest(cost)
    for job in range(jobs):
        column = column_of[job]
        if column < 0 or rates[kind[column // places], job] == 0.0:
            continue
        gpu = column // places
        if first[gpu] < 0 or column > column_of[first[gpu]]:
            first[gpu] = job
    for gpu in range(gpus):
        if first[gpu] >= 0:
            head[first[gpu]] = kind[gpu]
    return head
