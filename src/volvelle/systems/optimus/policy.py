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

from volvelle.core.columns import CURVE, POOL
from volvelle.core.compiled import compiled
from volvelle.core.events import TrainingReported
from volvelle.core.forward.rates import rate_on
from volvelle.core.policy import Allocation, Policy, policies
from volvelle.core.view import FloatColumn, IntColumn, JobView, View
from volvelle.policies.growth import least_then_more, may_grow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@policies.register
class Optimus(Policy):
    """One GPU each, then greedily by the largest drop in remaining time."""

    name: ClassVar[str] = "optimus"
    goes_by_rates: ClassVar[bool] = True
    source: ClassVar[str] = "Optimus (EuroSys'18)"
    optimises: ClassVar[str] = "mean JCT of elastic jobs"

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
        jobs, table = view.jobs, view.rates()
        work = jobs.remaining_work if self.remaining == "believed" else self._left_as_told(jobs)

        def grow(
            rows: IntColumn, gpus: FloatColumn, free: float, left: FloatColumn, gpu_type: int
        ) -> None:
            grow_by_gain(jobs.matrix, rows, gpus, free, left, table, gpu_type, work)

        given = least_then_more(view, np.argsort(jobs.number), grow)
        narrow_first: IntColumn = np.lexsort((jobs.number, given.gpus))
        return given._replace(order=narrow_first)

    def _left_as_told(self, jobs: JobView) -> FloatColumn:
        """Work left to each job by its own last word; all of it where it said none."""
        self._told = {n: told for n, told in self._told.items() if n in jobs.row_of}
        told = np.array([self._told.get(int(number), 0.0) for number in jobs.number])
        left: FloatColumn = jobs.column("total") - told
        return left * jobs.column("scale")


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
