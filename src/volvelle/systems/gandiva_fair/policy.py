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

from typing import ClassVar

import numpy as np
from pydantic import Field

from volvelle.core.policy import Period, policies
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats
from volvelle.systems.gavel.base import Gavel
from volvelle.systems.gavel.demand import Demand


@policies.register
class GandivaFair(Gavel):
    """Stride scheduling by tickets: time in proportion to weights, whatever jobs are like."""

    name: ClassVar[str] = "gandiva-fair"
    needs_durations: ClassVar[bool] = False
    source: ClassVar[str] = "Gandiva-Fair (EuroSys'20); Shockwave (NSDI'23) 8.2"
    optimises: ClassVar[str] = "proportional shares of time"

    round: Period | None = Field(120.0, description="length of a round")

    def fractions(self, view: View, demand: Demand) -> Floats:
        """Shares of the time in proportion to tickets, on each GPU type in proportion to its GPUs."""
        able = demand.able[: len(demand.gpus)]
        share = np.zeros(len(able))
        share[able] = shares_by_tickets(view.jobs.weight[able], float(demand.capacity.sum()))
        types = np.where(demand.rates[: len(able)] > 0.0, demand.capacity, 0.0)
        whole = np.maximum(types.sum(axis=1), 1e-300)
        target = np.zeros(demand.rates.shape)
        target[: len(able)] = share[:, None] * types / whole[:, None]
        return target


def shares_by_tickets(tickets: FloatColumn, gpus: float) -> FloatColumn:
    """(jobs,) parts of their time, proportional to ``tickets``, at most 1 each.

    Together ``gpus``, where jobs can use as many. Users without a ticket have no part.
    """
    share = np.zeros(len(tickets))
    open_, left = tickets > 0.0, gpus
    while open_.any() and left > 0.0:
        offered = left * tickets / tickets[open_].sum()
        full = open_ & (offered >= 1.0)
        if not full.any():
            share[open_] = offered[open_]
            break
        share[full] = 1.0
        left -= float(np.count_nonzero(full))
        open_ &= ~full
    return share
