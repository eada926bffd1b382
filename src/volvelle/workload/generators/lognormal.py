"""Heavy-tailed jobs of any widths: the plain family to shape by hand, and the built-in demo.

Measured durations of training jobs are close to log-normal over most of their range, with a median
of minutes and a mean of hours (Philly: Jeon et al., ATC'19; Helios: Hu et al., SC'21), and wider
jobs last longer. The numbers here are ours.
"""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, field_validator

from volvelle.model.arrays import FloatColumn
from volvelle.model.units import DAY, MINUTE
from volvelle.model.validation import Seconds
from volvelle.workload.generators.arrivals import Arrivals, Batches, Diurnal
from volvelle.workload.generators.base import generators
from volvelle.workload.generators.mixes import discrete, lognormal
from volvelle.workload.generators.stationary import StationaryGenerator

DEFAULT_WIDTHS: dict[float, float] = {1: 0.6, 2: 0.12, 4: 0.14, 8: 0.1, 16: 0.04}


@generators.register
class LogNormal(StationaryGenerator):
    """Log-normal durations whose median grows with the width."""

    name: ClassVar[str] = "lognormal"
    source: ClassVar[str] = "our numbers; the shape after Philly (ATC'19) and Helios (SC'21)"

    median: Annotated[Seconds, Field(gt=0, description="median duration of 1-GPU jobs")] = (
        30 * MINUTE
    )
    sigma: Annotated[float, Field(ge=0, description="deviation of the logarithm of durations")] = (
        1.7
    )
    width_exponent: Annotated[
        float, Field(description="the median grows as GPUs to this power")
    ] = 0.3
    shortest: Annotated[Seconds, Field(gt=0, description="shorter jobs are cut to this")] = MINUTE
    longest: Annotated[Seconds, Field(gt=0, description="longer jobs are cut to this")] = 7 * DAY
    widths: Annotated[
        dict[float, float], Field(min_length=1, description="relative frequency of each GPU count")
    ] = DEFAULT_WIDTHS

    @field_validator("widths")
    @classmethod
    def _frequencies(cls, widths: dict[float, float]) -> dict[float, float]:
        if min(widths) <= 0 or min(widths.values()) < 0 or sum(widths.values()) <= 0:
            raise ValueError("widths need GPU counts above 0 and frequencies of 0 or more")
        return widths

    def sizes(  # noqa: D102
        self, rng: np.random.Generator, count: int
    ) -> tuple[FloatColumn, FloatColumn]:
        gpus = discrete(rng, count, self.widths)
        stretch = gpus**self.width_exponent
        seconds = lognormal(rng, count, self.median, self.sigma) * stretch
        return gpus, np.clip(seconds, self.shortest, self.longest)


@generators.register
class Demo(LogNormal):
    """The workload of volvelle compare --demo: a busy cluster of 64 GPUs.

    About ten days of a shared cluster: 24 users in 4 pools, sweeps and a daily rhythm, a fifth of
    the jobs with strict and a fifth with soft deadlines, and estimates that are mostly too long.
    """

    name: ClassVar[str] = "demo"
    source: ClassVar[str] = "our numbers; deadlines after Chronus (SoCC'21, section 4.1)"

    jobs: Annotated[int, Field(ge=1, description="jobs; not used where length is given")] = 2000
    load: Annotated[float, Field(gt=0, description="GPU-seconds submitted over capacity")] = 0.9
    median: Annotated[Seconds, Field(gt=0, description="median duration of 1-GPU jobs")] = (
        40 * MINUTE
    )
    sigma: Annotated[float, Field(ge=0, description="deviation of the logarithm of durations")] = (
        1.5
    )
    longest: Annotated[Seconds, Field(gt=0, description="longer jobs are cut to this")] = 2 * DAY
    arrivals: Annotated[Arrivals, Field(description="poisson, bursty, batches or diurnal")] = (
        Diurnal(peak_to_trough=3.0, weekend=0.7, within=Batches(mean_batch=2.0))
    )
    users: Annotated[int, Field(ge=0, description="users; 0 leaves jobs without one")] = 24
    pools: Annotated[int, Field(ge=0, description="pools that the users belong to")] = 4
    strict_share: Annotated[
        float, Field(ge=0, le=1, description="share of jobs with a strict deadline")
    ] = 0.2
    soft_share: Annotated[
        float, Field(ge=0, le=1, description="share of jobs with soft deadlines")
    ] = 0.2
    estimates: Annotated[bool, Field(description="users estimate the duration of their jobs")] = (
        True
    )
    estimate_bias: Annotated[
        float, Field(gt=0, description="median of estimate over duration, before rounding up")
    ] = 1.3


DEMO_SEED = 7
"""The seed of the demo workload."""
