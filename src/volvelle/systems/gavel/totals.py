"""Gavel's policies (OSDI'20) for the cluster as a whole: throughput, cost, makespan.

- `gavel-throughput`: maximise the sum of T(i, t) X(i, t). Rates are in each job's own unit (steps), so jobs
  with many small steps weigh more; so it is in Gavel's simulator. With ``steps`` a job that changes its batch
  size counts steps of that at hand, of which there are fewer of a larger one: the baseline MST of Shockwave's
  simulator (NSDI'23). Where jobs differ in nothing, which of them has the fast type is open; ``ties=alike``
  gives each as much of it as the other, which is the answer of an interior-point solver (Sia's simulator,
  SOSP'23), and moves jobs between types every round.
- `gavel-cost`: maximise the sum of T(i, t) X(i, t) / price(t). A sum of quotients, as in Gavel's simulator,
  not throughput over cost. ``prices`` are dollars an hour for each GPU type, by default the constants
  in Gavel's simulator; where types differ, each must have one.
- `gavel-makespan`: minimise the time by which all jobs end if X stays as it is, with R(i) what is left,

      minimise  max over jobs i of  R(i) / (sum over t of T(i, t) X(i, t))

  which is one program: maximise the inverse. Gavel's simulator halves an interval down to 5 % instead. Many X
  have the same makespan, and in the one that is found work that could be done now may be put off for
  nothing. ``early``: a second program, which the paper does not have, holds the makespan and maximises
  the sum of rates over R(i), so that jobs with little left end first.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.model.arrays import Floats
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.tolerances import SOLVED
from volvelle.systems.gavel.base import GavelProgram, steps_per_unit
from volvelle.systems.gavel.demand import Demand, maximise_sum, raise_together


@policies.register
class GavelThroughput(GavelProgram):
    """Largest sum of rates: whoever does most steps a second on a GPU type has it."""

    name: ClassVar[str] = "gavel-throughput"
    needs_durations: ClassVar[bool] = False
    optimises: ClassVar[str] = "total throughput, over GPU types"

    steps: bool = Field(False, description="count steps of the batch size that jobs have now")
    ties: Literal["any", "alike"] = Field(
        "any", description="of jobs that differ in nothing serve some, or all in turn"
    )

    @model_validator(mode="after")
    def _check_ties(self) -> Self:
        if self.space_sharing and self.ties == "alike":
            raise ValueError("ties=alike needs jobs that have their GPUs alone: no space_sharing")
        return self

    def fractions(self, view: View, demand: Demand) -> Floats:
        """The program."""
        scale = steps_per_unit(view) if self.steps else np.ones(len(demand.gpus))
        group = None
        if self.ties == "alike":
            demand, group = demand._replace(rates=demand.rates * scale[:, None]).grouped()
            scale = np.ones(len(demand.gpus))
        shared = maximise_sum(
            demand,
            scale,
            self.factors(view),
            np.zeros(len(scale)),
            demand.equal_split(),
            self.time_limit,
        )
        self._gaps.note(shared.gap)
        return shared.fractions if group is None else shared.fractions[group]

    def factors(self, view: View) -> Floats:
        """The weight of a unit of work on each GPU type."""
        return np.ones(len(view.capacity))


_PRICES = "v100:0.74/p100:0.43/k80:0.135"


@policies.register
class GavelCost(GavelThroughput):
    """Largest sum of rates over prices: steps per dollar."""

    name: ClassVar[str] = "gavel-cost"
    needs_durations: ClassVar[bool] = False
    optimises: ClassVar[str] = "work for the money, over GPU types"

    prices: str = Field(
        _PRICES, description="dollars an hour of each GPU type, as in v100:0.74/k80:0.135"
    )

    @field_validator("prices")
    @classmethod
    def _check_prices(cls, text: str) -> str:
        read_prices(text)
        return text

    def factors(self, view: View) -> Floats:
        """One over the price; types without one cost alike."""
        prices = read_prices(self.prices)
        return np.array([1.0 / prices.get(kind, 1.0) for kind in view.gpu_types])

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` also where types differ and one has no price."""
        super().refuse(cluster, jobs)
        unknown = [kind for kind in cluster.gpu_types if kind not in read_prices(self.prices)]
        if unknown and len(cluster.gpu_types) > 1:
            raise Problem(
                f"policy {self.name!r} goes by prices, and GPU type {unknown[0]!r} has none",
                mend=f"give one, as in --policy {self.name}:prices={unknown[0]}:0.5/...",
                usage=True,
            )


def read_prices(text: str) -> dict[str, float]:
    """Dollars an hour by GPU type, written ``type:price/type:price``. Raises ValueError."""
    prices: dict[str, float] = {}
    for part in text.split("/"):
        kind, separator, price = part.rpartition(":")
        try:
            prices[kind.strip()] = float(price)
        except ValueError:
            separator = ""
        if not separator or prices[kind.strip()] <= 0:
            raise ValueError(f"cannot read {part!r} as a GPU type and its price, as in v100:0.74")
    return prices


@policies.register
class GavelMakespan(GavelProgram):
    """Minimum makespan: all jobs end as early as the last one can."""

    name: ClassVar[str] = "gavel-makespan"
    optimises: ClassVar[str] = "makespan, over GPU types"

    early: bool = Field(
        False, description="of the answers with this makespan take the one that ends jobs early"
    )

    def fractions(self, view: View, demand: Demand) -> Floats:
        """The program, in units of what is left of each job."""
        left = np.maximum(view.jobs.remaining_work, _DONE)
        need = demand.able.astype(np.float64)
        nothing = np.zeros(len(need))
        shared = raise_together(
            demand, 1.0 / left, need, nothing, demand.equal_split(), self.time_limit
        )
        self._gaps.note(shared.gap)
        if not self.early or shared.level <= 0.0:
            return shared.fractions
        within = 1.0 / (left * shared.level)  # relative to what it takes to end with the last
        floor, types = need * (1 - SOLVED), np.ones(len(demand.capacity))
        rest = maximise_sum(demand, within, types, floor, shared.fractions, self.time_limit)
        self._gaps.note(rest.gap)
        return rest.fractions


_DONE = 1e-9
"""Work left of a job that is believed to be about to end."""
