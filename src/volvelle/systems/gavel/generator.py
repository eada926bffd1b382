"""Gavel's continuous trace (Narayanan et al., OSDI'20) as its artifact draws it.

Poisson arrivals; 80 % of jobs last 10^U(1.5, 3) minutes, 20 % last 10^U(3, 4) minutes; 70, 10, 15
and 5 % run on 1, 2, 4 and 8 GPUs. Model types are left out: durations are on the requested GPUs.
PCS' workload-3 and Shockwave's durations and widths come from here.
"""

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from volvelle.model.arrays import FloatColumn
from volvelle.workload.generators.base import JobColumns, generators
from volvelle.workload.generators.mixes import GAVEL_WIDTHS, discrete, gavel_durations
from volvelle.workload.generators.stationary import StationaryGenerator


@generators.register
class GavelJobs(StationaryGenerator):
    """Durations and widths of Gavel's continuous trace."""

    name: ClassVar[str] = "gavel"
    source: ClassVar[str] = "Gavel, OSDI'20, and its artifact's trace generator"

    multi_gpu: Annotated[
        bool, Field(description="widths 70/10/15/5 % on 1/2/4/8 GPUs (continuous-multiple); else 1")
    ] = True
    long_share: Annotated[float, Field(ge=0, le=1, description="share of long jobs")] = 0.2
    priority_share: Annotated[
        float, Field(ge=0, le=1, description="share of jobs of weight 5 (0.2 in Gavel's variant)")
    ] = 0.0

    def sizes(  # noqa: D102
        self, rng: np.random.Generator, count: int
    ) -> tuple[FloatColumn, FloatColumn]:
        gpus = discrete(rng, count, GAVEL_WIDTHS) if self.multi_gpu else np.ones(count)
        return gpus, gavel_durations(rng, count, self.long_share)

    def finished(  # noqa: D102
        self, rng: np.random.Generator, columns: JobColumns
    ) -> JobColumns:
        if not self.priority_share:
            return columns
        first = rng.random(len(columns.work)) < self.priority_share
        return replace(columns, weights=np.where(first, 5.0, 1.0))
