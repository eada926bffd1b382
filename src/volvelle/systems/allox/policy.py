"""AlloX (Le et al., EuroSys'20), as Shockwave (NSDI'23) compares itself with it.

Mean completion time on unrelated machines is least where jobs are matched with places in queues: a job that
is the k-th from the end of a GPU's queue delays k jobs, itself among them, by its run time. Costs are k
times what is left of the job on this type of GPU (its age, which the simulator adds, is the same wherever it
goes). A job that is matched with the head of a queue runs:

- A job of one GPU keeps it until it ends. Queues are for the GPUs that nobody keeps.
- A job of s GPUs, for which AlloX has no answer, is to run 1/s of its time and is matched anew each time.
- Against starvation only the oldest jobs are matched: a ``share`` of those that wait, but at least as many
  as there are free GPUs. GPUs that are left go to other jobs.

These are the rules of Shockwave's simulator. It picks among equal matchings what its solver gives, we what
SciPy's gives (extra ``goodput``).
"""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from volvelle.core.policy import Period, policies
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats, IntColumn
from volvelle.model.problems import Problem
from volvelle.systems.gavel.base import Gavel
from volvelle.systems.gavel.demand import Demand


@policies.register
class AlloX(Gavel):
    """Least mean completion time: jobs are matched with places in the queues of GPUs."""

    name: ClassVar[str] = "allox"
    source: ClassVar[str] = "AlloX (EuroSys'20); Shockwave (NSDI'23) 8.2"
    optimises: ClassVar[str] = "mean completion time"

    round: Period | None = Field(120.0, description="length of a round")
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.2, description="share of those that wait, oldest first, that are matched"
    )

    _kept: dict[int, int] = PrivateAttr(default_factory=dict)
    """By job of one GPU that runs until it ends: the GPU type."""

    def fractions(self, view: View, demand: Demand) -> Floats:
        """1 for those that keep a GPU, 1/s for others at the head of a queue."""
        count, numbers = len(demand.gpus), view.jobs.number.astype(np.int64)
        target = np.zeros(demand.rates.shape)
        free, kept = demand.capacity.copy(), {}
        for row, number in enumerate(numbers.tolist()):
            gpu_type = self._kept.get(number, -1)
            if gpu_type >= 0 and demand.rates[row, gpu_type] > 0.0 and free[gpu_type] >= 1.0:
                kept[number] = gpu_type
                target[row, gpu_type] = 1.0
                free[gpu_type] -= 1.0
        waiting = np.flatnonzero(demand.able[:count] & ~target[:count].any(axis=1))
        waiting = waiting[np.lexsort((numbers[waiting], view.jobs.submit_time[waiting]))]
        many = max(int(self.share * len(waiting)), int(free.sum()))
        waiting = waiting[:many]
        left = np.maximum(view.jobs.remaining_work[waiting], 0.0)
        rows, types = heads(left[:, None], demand.rates[waiting], np.floor(free).astype(np.int64))
        for row, gpu_type in zip(waiting[rows].tolist(), types.tolist(), strict=True):
            target[row, gpu_type] = 1.0 / max(demand.gpus[row], 1.0)
            if demand.gpus[row] <= 1.0:
                kept[int(numbers[row])] = gpu_type
        self._kept = kept
        return target


def heads(work: FloatColumn, rates: Floats, free: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Heads of queues, by row, and the GPU type of each queue, in the cheapest matching.

    work: (jobs, 1) that is left. rates: (jobs, types), 0 where a job cannot run. free: GPUs of each type.
    Raises `Problem` where SciPy is not installed.
    """
    nobody = np.zeros(0, dtype=np.int64)
    if not len(work) or not free.any():
        return nobody, nobody
    try:
        from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - an extra
    except ImportError:
        raise Problem(
            "policy 'allox' matches jobs with GPUs by SciPy, which is not installed",
            mend="install volvelle with the extra goodput",
        ) from None
    able = rates > 0.0
    seconds = np.divide(work, rates, out=np.zeros(rates.shape), where=able)
    places = -(-len(work) // int(free.sum())) if (free > 0).sum() == 1 else len(work)
    gpu = np.repeat(np.arange(int(free.sum())), places)
    kind = np.repeat(np.arange(len(free)), free)[gpu]
    place = np.tile(np.arange(1, places + 1), int(free.sum()))
    never = (float(seconds.max()) + 1.0) * (len(work) + 1) ** 2
    cost = np.where(able[:, kind], place * seconds[:, kind], never)
    rows, columns = linear_sum_assignment(cost)
    fits = able[rows, kind[columns]]
    rows, columns = rows[fits], columns[fits]
    first = np.lexsort((rows, -place[columns], gpu[columns]))
    _, at = np.unique(gpu[columns][first], return_index=True)
    chosen = first[at]
    return rows[chosen].astype(np.int64), kind[columns[chosen]].astype(np.int64)
