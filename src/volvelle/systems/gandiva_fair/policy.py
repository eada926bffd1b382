"""Gandiva-Fair (Chaudhary et al., EuroSys'20), as Shockwave (NSDI'23) compares itself with it.

Jobs hold tickets and share time by stride scheduling: over time each job runs for a share of the rounds
proportional to its tickets, all its GPUs at once. A job's tickets are its weight, so that of jobs of
equal weight one of eight GPUs has eight times the GPU time of one of one. With n jobs of equal weight on G
GPUs each is to run for min(1, G / n) of the time, as in Shockwave's simulator.

A job that can be given no more than all its time leaves the rest to the others. Rounds are given by received
shares (`volvelle.policies.rounds`), which is stride scheduling with passes counted in seconds. Trading
GPU types between users and profiling, of which the paper's other half consists, are not here; on several
types all count alike.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.columns import WEIGHT
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import ClusterNow
from volvelle.core.policy import Period, policies
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats
from volvelle.policies.claims import FRACTIONS, NOTHING, set_alone
from volvelle.policies.rounds import give, rates_of, what_is_due
from volvelle.systems.gavel.base import Gavel


@policies.register
class GandivaFair(Gavel):
    """Stride scheduling by tickets: time in proportion to weights, whatever jobs are like."""

    name: ClassVar[str] = "gandiva-fair"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Gandiva-Fair (EuroSys'20); Shockwave (NSDI'23) 8.2"
    optimises: ClassVar[str] = "proportional shares of time"

    round: Period | None = Field(120.0, description="length of a round")

    @property
    def decision(self) -> Callable[..., float]:
        """A round of shares by tickets."""
        return decide


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`): shares on each GPU type in proportion to its GPUs."""
    due = what_is_due(jobs, cluster, memory)
    if due == FRACTIONS:
        types = rates_of(jobs, cluster, memory)
        for gpu_type, gpus in enumerate(cluster.capacity):
            types[gpu_type] = np.where(types[gpu_type] > 0.0, gpus, 0.0)
        whole = types.sum(axis=0)
        tickets = np.where(whole > 0.0, jobs[WEIGHT], 0.0)
        share = shares_by_tickets(tickets, cluster.capacity.sum())
        set_alone(jobs, cluster.now, memory, share * types / np.maximum(whole, 1e-300))
    elif due != NOTHING:
        return -INFINITY
    return give(jobs, cluster, memory, out)


@compiled
def shares_by_tickets(tickets: Floats, gpus: float) -> Floats:
    """(jobs,) parts of their time, proportional to ``tickets``, at most 1 each.

    Together ``gpus``, where jobs can use as many. Users without a ticket have no part.
    """
    share = np.zeros(len(tickets))
    rising, left = tickets > 0.0, gpus
    while rising.any() and left > 0.0:
        offered = left * tickets / tickets[rising].sum()
        full = rising & (offered >= 1.0)
        if not full.any():
            share[rising] = offered[rising]
            break
        share[full] = 1.0
        left -= full.sum()
        rising &= ~full
    return share
