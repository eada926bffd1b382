"""Themis (Mahajan et al., NSDI'20): finish-time fairness by auctions of leased GPUs.

A job's finish-time fairness is rho = T_shared / T_fair: the time from its submission to its
end with what it is offered, over the time it would have taken on a fair share of the cluster while it
was there. GPUs go to the jobs that are worst off; all are auctioned anew when a job comes or ends and
when a lease (``lease``, default 10 min) is over. With m GPUs,

    T_shared = (now - submission) + remaining / m           in seconds on one GPU, linear in m
    T_fair   = total / min(GPUs of the cluster / N, the most the job can use)

N, the contention, is the mean number of jobs in the system since its submission: over events (jobs that
came or ended, leases that were over; its own arrival counts twice), as PCS' simulator has it, or over
time (``contention``).

**Without a filter** (the default) the jobs are served strictly in order: while GPUs are left, the job
with the largest rho gets all it can use of them. This is PCS' simulator (OSDI'24, section 5.1), job by
job.

**With a filter** f the share f of the jobs that is worst off (the nearest whole number, at least one
job) take part; so Shockwave writes it, where Themis' own f is the share left out. Partial allocation
divides the GPUs among them so that the product of their values 1 / rho is largest; with ``payments`` each
then keeps only the share of its GPUs by which its presence leaves the others (to make bidding the truth
pay; jobs here do not lie, so the default is without). Left-over GPUs go to the jobs outside, worst
off first, then to those inside. No job is leased more GPUs than it has work for until the lease is over.

Shockwave (NSDI'23, section 2.1) describes the same filter over "the jobs that have attained the least
resource share in the past", and utility that is linear in GPUs (its footnote 6): ``by=share``. A job's
share is the GPUs it will have held on average when the coming lease is over; of equal shares who held
fewer GPUs until now is worse off; left-over GPUs go one by one to who has had least.

**Without preemption** (``preemptive=false``) a job that starts runs to its end, as anticipatory scheduling
has it (Themis*, SIA, section 6.1), and idle GPUs go to the job that waits whose rho would be largest if it
started now. Gangs leave nothing to divide, so there is no filter then.

``ties`` is about equals: the earlier submission first, the later, or ``turns``: the order of submission,
beginning one job later with every lease. The papers do not say; figures 1 and 15b of Shockwave
come out with turns, 15a and 15c with later: chosen to fit these figures.

Departures from Themis: nobody bids; leases end together, whenever the auction is held, and a job that wins
again goes on undisturbed; placement plays no part in values; jobs that need several GPUs count their
seconds on one as (GPUs x seconds) on the fewest, and are passed over where these are not left. On
several GPU types, or with quotas, a filtered auction counts GPUs regardless of them, and what does not fit
so goes to the others in order.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from volvelle.core.policy import Kernel, Policy, policies
from volvelle.core.space import Dimension, Space
from volvelle.model.job import Job
from volvelle.model.validation import Seconds
from volvelle.systems.themis.auction import OWN_COLUMNS
from volvelle.systems.themis.decision import (
    BY_SHARE,
    FILTER,
    LEASE,
    OVER_TIME,
    PAYMENTS,
    PREEMPTIVE,
    TIES,
    decide,
)


@policies.register
class Themis(Policy):
    """Finish-time fairness: leased GPUs go to the jobs whose end is furthest behind a fair share's."""

    name: ClassVar[str] = "themis"
    source: ClassVar[str] = "Themis (NSDI'20); PCS (OSDI'24) section 5.1; Shockwave (NSDI'23) 2.1"
    optimises: ClassVar[str] = "finish-time fairness"
    time_varying: ClassVar[bool] = True
    columns: ClassVar[int] = OWN_COLUMNS

    lease: Annotated[Seconds, Field(gt=0)] = Field(
        600.0, description="after this time without events GPUs are auctioned anew"
    )
    filter: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="share of the jobs, worst off first, that bid; none: one after another"
    )
    by: Literal["rho", "share"] = Field(
        "rho", description="who is worst off: by finish-time fairness, or by GPUs had so far"
    )
    contention: Literal["events", "time"] = Field(
        "events", description="over what the mean number of jobs is taken"
    )
    ties: Literal["earlier", "later", "turns"] = Field(
        "earlier", description="which submission goes first among equals"
    )
    payments: bool = Field(False, description="bidders pay for being there with part of their GPUs")
    preemptive: bool = Field(True, description="take GPUs from jobs when a lease is over")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.preemptive and self.filter is not None:
            raise ValueError("the filter divides all GPUs: it needs preemptive=true")
        return self

    @classmethod
    def search_space(cls, jobs: Sequence[Job]) -> Space:
        """The filter, and how long a lease lasts."""
        return Space(
            (
                Dimension("filter", 0.05, 1.0, "share of the jobs that bid"),
                Dimension("lease", 60.0, 7200.0, "seconds between auctions", log=True),
            ),
            lambda point: f"filter={point[0]:.12g},lease={point[1]:.12g}",
        )

    def kernel(self, *, named: bool) -> Kernel:
        """One auction of all GPUs."""
        how = {
            LEASE: self.lease,
            FILTER: self.filter or 0.0,
            BY_SHARE: self.by == "share",
            OVER_TIME: self.contention == "time",
            TIES: ("earlier", "later", "turns").index(self.ties),
            PAYMENTS: self.payments,
            PREEMPTIVE: self.preemptive,
        }
        return Kernel(decide, np.array([float(how[place]) for place in sorted(how)]))
