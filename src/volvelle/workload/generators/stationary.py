"""The frame of most generators: a mix of sizes, an arrival process, and a load to meet.

The load is work submitted over capacity, ``sum of GPU-seconds / (GPUs x time)``. Where the number of
jobs is given, the load is met by the workload in hand, not only in expectation: the mean gap is set
from the sizes really drawn (as PCS' simulator does) and then until the last submission comes when
it should, so that neither a heavy tail nor a rhythm cut in mid-week moves it. Where the length is
given, the number of jobs is random and the load is met in expectation.
"""

from abc import abstractmethod
from copy import deepcopy
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from volvelle.model.arrays import FloatColumn
from volvelle.model.units import HOUR
from volvelle.model.validation import Seconds
from volvelle.workload.generators.arrivals import Arrivals, Poisson
from volvelle.workload.generators.base import Generator, JobColumns, workload_of
from volvelle.workload.generators.convergence import LossCurves
from volvelle.workload.generators.declarations import Declarations
from volvelle.workload.workload import Workload

_PILOT_JOBS = 65_536  # drawn to learn the mean size where the length is given, not the jobs
_PACING_STEPS = 30
_LOAD_TOLERANCE = 1e-3


class StationaryGenerator(LossCurves, Declarations, Generator):
    """Sizes drawn independently of arrivals, for a number of jobs or a length of time."""

    jobs: Annotated[int, Field(ge=1, description="jobs; not used where length is given")] = 1000
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
        """Draw arrivals and sizes, then what users declare, then loss curves."""
        columns = self.finished(rng, self._arrived(rng))
        return workload_of(self.converge(rng, self.declare(rng, columns)), self.name)

    def _arrived(self, rng: np.random.Generator) -> JobColumns:
        if self.length is None:
            gpus, seconds = self.sizes(rng, self.jobs)
            work = gpus * seconds
            return JobColumns(self._submissions(rng, work), gpus, work)
        pilot, durations = self.sizes(rng.spawn(1)[0], _PILOT_JOBS)
        gap = HOUR / self._hourly if self._hourly else self._gap_of_load(pilot * durations)
        times = self.arrivals.times_until(rng, self.length, gap)
        gpus, seconds = self.sizes(rng, len(times))
        return JobColumns(times, gpus, gpus * seconds)

    @property
    def _hourly(self) -> float | None:
        """Jobs an hour, where that sets the rate."""
        return None if "load" in self.model_fields_set else self.jobs_per_hour

    def _gap_of_load(self, work: FloatColumn) -> float:
        return float(work.mean()) / (self.load * self.gpus)

    def _submissions(self, rng: np.random.Generator, work: FloatColumn) -> FloatColumn:
        """One submission for each job; the load is that from the first to the last of them."""
        if self._hourly or len(work) < 2:
            return self.arrivals.times(rng, len(work), HOUR / (self._hourly or 1.0))
        wanted = float(work.sum()) / (self.load * self.gpus)
        return self._paced(rng.spawn(1)[0], len(work), wanted)

    def _paced(self, start: np.random.Generator, count: int, wanted: float) -> FloatColumn:
        """Submissions ``wanted`` seconds from the first to the last: the same draws, slower or faster.

        The span grows with the mean gap, but unevenly where the rhythm sleeps, so that scaling the
        gap may go astray; every third step halves the bracket instead.
        """
        low, high, gap = 0.0, np.inf, wanted / (count - 1)
        for step in range(_PACING_STEPS):
            times = self.arrivals.times(deepcopy(start), count, gap)
            ratio = wanted / max(float(times[-1] - times[0]), np.finfo(float).tiny)
            if abs(ratio - 1.0) < _LOAD_TOLERANCE:
                break
            low, high = (gap, high) if ratio > 1.0 else (low, gap)
            scaled = gap * min(max(ratio, 0.5), 2.0)
            halved = (low + high) / 2
            gap = (
                halved
                if np.isfinite(halved) and (step % 3 == 2 or not low < scaled < high)
                else scaled
            )
        return times
