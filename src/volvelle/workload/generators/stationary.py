"""The frame of most generators: a mix of sizes, an arrival process, and a load to meet.

The load is work submitted over capacity, ``sum of GPU-seconds / (GPUs x time)``. It sets the mean
gap from the sizes that were really drawn, not from the expectation of their distribution (as PCS'
simulator does), so that a heavy tail does not move the load of the one workload in hand.
"""

from abc import abstractmethod
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from volvelle.model.units import HOUR, Seconds
from volvelle.workload.generators.arrivals import Arrivals, Poisson
from volvelle.workload.generators.base import FloatColumn, Generator, JobColumns, workload_of
from volvelle.workload.generators.declarations import Declarations
from volvelle.workload.workload import Workload

_PILOT_JOBS = 65_536  # drawn to learn the mean size where the length is given, not the jobs


class StationaryGenerator(Declarations, Generator):
    """Sizes drawn independently of arrivals, for a number of jobs or a length of time."""

    jobs: Annotated[int, Field(ge=0, description="jobs; not used where length is given")] = 1000
    length: Annotated[
        Seconds | None, Field(gt=0, description="submit for this long, however many jobs it is")
    ] = None
    gpus: Annotated[int, Field(gt=0, description="GPUs of the cluster that the load is for")] = 64
    load: Annotated[float, Field(gt=0, description="GPU-seconds submitted over capacity")] = 0.8
    jobs_per_hour: Annotated[
        float | None, Field(gt=0, description="mean rate of submission, instead of load")
    ] = None
    arrivals: Annotated[Arrivals, Field(description="poisson, bursty, batches or diurnal")] = (
        Poisson()
    )

    @model_validator(mode="after")
    def _one_rate(self) -> "StationaryGenerator":
        if {"load", "jobs_per_hour"} <= self.model_fields_set and self.jobs_per_hour is not None:
            raise ValueError("load and jobs_per_hour both set the rate; give one of them")
        if {"jobs", "length"} <= self.model_fields_set and self.length is not None:
            raise ValueError("jobs and length both set the size; give one of them")
        return self

    @abstractmethod
    def sizes(self, rng: np.random.Generator, count: int) -> tuple[FloatColumn, FloatColumn]:
        """GPUs and seconds on them, of ``count`` jobs."""

    def finished(self, rng: np.random.Generator, columns: JobColumns) -> JobColumns:
        """The columns with whatever else the family knows of its jobs."""
        return columns

    def generate(self, rng: np.random.Generator) -> Workload:
        """Draw arrivals and sizes, then what users declare."""
        columns = self._arrived(rng)
        return workload_of(self.declare(rng, self.finished(rng, columns)), self.name)

    def _arrived(self, rng: np.random.Generator) -> JobColumns:
        if self.length is None:
            gpus, seconds = self.sizes(rng, self.jobs)
            work = gpus * seconds
            times = self.arrivals.times(rng, self.jobs, self._mean_gap(work))
            return JobColumns(times, gpus, work)
        pilot, durations = self.sizes(rng.spawn(1)[0], _PILOT_JOBS)
        times = self.arrivals.times_until(rng, self.length, self._mean_gap(pilot * durations))
        gpus, seconds = self.sizes(rng, len(times))
        return JobColumns(times, gpus, gpus * seconds)

    def _mean_gap(self, work: FloatColumn) -> float:
        """Seconds between submissions."""
        if self.jobs_per_hour is not None and "load" not in self.model_fields_set:
            return HOUR / self.jobs_per_hour
        return float(work.mean()) / (self.load * self.gpus) if len(work) else 1.0
