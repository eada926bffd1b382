"""Themis (Mahajan et al., NSDI'20): finish-time fairness by auctions of leased GPUs.

A job's finish-time fairness is rho = T_shared / T_fair: the time from its submission to its
end with what it is offered, over the time it would have taken on a fair share of the cluster while it
was there. GPUs go to the jobs that are worst off; all are auctioned anew when a job comes or ends and
when a lease (``lease``, default 10 min) is over.

The auction is the one of PCS' simulator (OSDI'24, section 5.1; job by job the same there): while
GPUs are left, the job with the largest rho gets m, all it can use of them, with

    T_shared = (now - submission) + remaining / m           in seconds on one GPU, linear in m
    T_fair   = total / min(GPUs of the cluster / N, the most the job can use)

N, the contention, is the mean number of jobs in the system since its submission, over events (jobs that
came or ended, leases that were over; its own arrival counts twice). Equal rho: by submission.

Departures from the paper: nobody bids, since jobs here do not lie, so there are no hidden payments and
no partial allocation; all jobs are offered GPUs, not the share 1 - f that is worst off (with a strict
order of rho a filter changes nothing); leases end together, whenever the auction is held, and a job that
wins again goes on undisturbed. Jobs that need several GPUs count their seconds on one as (GPUs x seconds)
on the fewest, and are passed over where these are not left.
"""

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from volvelle.core.columns import Column
from volvelle.core.compiled import compiled
from volvelle.core.policy import Allocation, Policy, View, fill_in_order, policies
from volvelle.model.units import Seconds
from volvelle.policies.growth import seconds_on_least

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SUBMIT = Column.SUBMIT
_LEAST = Column.LEAST
_MOST = Column.MOST

_EVENTS, _ACTIVE_SUM, _ACTIVE, _ASKED = 0, 1, 2, 3
"""Own columns: events seen, jobs in the system summed over them; after the last event: jobs, time."""

_SLACK = 1e-9
"""Relative difference below which two rho are equal: full service gives exactly 1, but for rounding."""


@policies.register
class Themis(Policy):
    """Finish-time fairness: leased GPUs go to the jobs whose end is furthest behind a fair share's."""

    name: ClassVar[str] = "themis"
    source: ClassVar[str] = "Themis (NSDI'20); PCS (OSDI'24) section 5.1"
    optimises: ClassVar[str] = "finish-time fairness"
    time_varying: ClassVar[bool] = True
    columns: ClassVar[int] = 4

    lease: Annotated[Seconds, Field(gt=0)] = Field(
        600.0, description="after this time without events GPUs are auctioned anew"
    )

    def allocate(self, view: View) -> Allocation:
        """One auction of all GPUs."""
        jobs = view.jobs
        by_submission = np.argsort(jobs.number)
        count_events(jobs.own, by_submission, view.now, self.lease, bool(jobs.running.any()))
        alone = jobs.min_gpus * seconds_on_least(jobs.matrix, view.rates(), jobs.remaining_work)
        share = max(view.gpus, 1.0) * jobs.own[_EVENTS] / jobs.own[_ACTIVE_SUM]
        share = np.minimum(share, jobs.max_gpus)
        fair = self._total(view) / share
        order = worst_first(jobs.matrix, by_submission, alone, fair, view.now, view.gpus)
        return fill_in_order(view, order, preemptive=True, strict=False, elastic=True)

    @staticmethod
    def _total(view: View) -> Floats:
        """Seconds each whole job takes on one GPU."""
        matrix = view.jobs.matrix[:, : len(view.jobs)]
        work = matrix[Column.TOTAL] * matrix[Column.SCALE]
        return view.jobs.min_gpus * seconds_on_least(view.jobs.matrix, view.rates(), work)

    def next_wake(self, view: View) -> float | None:
        """When the lease is over; never where one has passed and nobody could be placed."""
        asked = view.jobs.own[_ASKED]
        return view.now + self.lease if np.any(asked < np.inf) else None


@compiled
def count_events(own: Floats, by_submission: Ints, now: float, lease: float, running: bool) -> None:
    """Count what happened since the last decision into the jobs' ``own`` columns, in place.

    Of several events at one moment ends come first, then the end of the lease, then arrivals. The
    last one counts only from the next decision on, as in PCS' simulator; there a job that has just
    come has seen one event, itself. ``running``: whether anybody ran until now; after a lease in which
    nobody did the time is noted as infinite.
    """
    jobs, survivors, before, expired = len(by_submission), 0, 0.0, False
    for row in by_submission:
        if own[_EVENTS, row] > 0.0:
            survivors += 1
            before = own[_ACTIVE, row]
            expired = own[_ASKED, row] + lease <= now
    arrived = jobs - survivors
    ended = max(int(before) - survivors, 0) if survivors else 0
    leases = 1 if ended == 0 and (expired or arrived == 0) else 0
    events, active_sum = 1.0, before  # the last one of the last time
    for event in range(1, ended + leases + arrived):
        events += 1.0
        if event <= ended:
            active_sum += before - event
        else:
            active_sum += survivors + max(event - ended - leases, 0)
    seen = survivors
    for row in by_submission:
        if own[_EVENTS, row] > 0.0:
            own[_EVENTS, row] += events
            own[_ACTIVE_SUM, row] += active_sum
        else:
            seen += 1
            own[_EVENTS, row] = 1.0 + (jobs - seen)
            own[_ACTIVE_SUM, row] = float(seen)
            for active in range(seen, jobs):
                own[_ACTIVE_SUM, row] += active
        own[_ACTIVE, row] = jobs
        own[_ASKED, row] = np.inf if leases and expired and not running else now


@compiled
def worst_first(
    matrix: Floats, by_submission: Ints, alone: Floats, fair: Floats, now: float, free: float
) -> Ints:
    """The rows in the order in which they win the auction, those that get nothing last.

    ``alone`` is the seconds left on one GPU, ``fair`` T_fair. Every rho is reckoned with all that a job
    can use of what is left of ``free`` when its turn might come.
    """
    jobs = len(by_submission)
    order = by_submission.copy()
    for served in range(jobs):
        if free <= 0.0:
            break
        best, worst = -1, -np.inf
        for i in range(served, jobs):
            row = order[i]
            if matrix[_LEAST, row] > free:
                continue
            gpus = min(free, matrix[_MOST, row])
            rho = 0.0  # of a job that is believed to make no progress
            if 0.0 < fair[row] < np.inf:
                rho = (now - matrix[_SUBMIT, row] + alone[row] / gpus) / fair[row]
            if best < 0 or rho > worst + _SLACK * abs(worst):
                best, worst = i, rho
        if best < 0:
            break
        row = order[best]
        order[served + 1 : best + 1] = order[served:best].copy()  # the others stay by submission
        order[served] = row
        free -= min(free, matrix[_MOST, row])
    return order
