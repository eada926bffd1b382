"""The workloads of PCS' simulator (Faisal et al., OSDI'24, section 5.1 and table 1).

- ``pcs-gavel``: workload-3, "continuous-multiple" of Gavel as PCS' artifact has it: 80 % of the
  jobs uniform in 30-1000, 20 % in 1000-10000, labelled minutes and used as seconds (set
  ``unit_seconds = 60`` for the label); 1-8 GPUs, of which 8 is never drawn.
- ``pcs-themis1``: wide hyper-parameter searches after Themis' workload 1 as the simulator has it:
  one elastic job of 1 to 90 trials for each search. It is not the testbed's workload-1 (at most 20
  trials, 2 GPU-hours, 16 GPUs): for that, set ``max_trials = 20``, ``max_service_seconds = 7200``.

The way of drawing (all services, all trials, a pool of 100 GPU counts, a pool of 100 minima that is
ignored, gaps; whole seconds; service a multiple of the trials) is that of ../shared/golden/pcs,
section 1.6; with the reference's legacy seed, services and submissions equal the golden jobs. The
points of the distributions are recovered from those golden jobs, their draws being known: values to
about 0.1 %, shares to about 0.02 (``themis1`` has only 100 jobs there).

Jobs are elastic from 1 GPU (the paper's minimum; the simulator's own is 0) to their demand, and
linear. Workload-2 is traces, not a distribution: read those.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from volvelle.model.arrays import FloatColumn
from volvelle.workload.generators.base import Generator, JobColumns, generators, workload_of
from volvelle.workload.generators.declarations import Declarations
from volvelle.workload.generators.mixes import from_distribution_points
from volvelle.workload.workload import Workload

Points = Sequence[tuple[float, float]]

_POOL = 100  # GPU counts are drawn once into a pool; every trial takes one of it


class PcsWorkload(Declarations, Generator):
    """Services, trials and GPUs from the simulator's distributions, at a load."""

    services: ClassVar[Points]
    trials: ClassVar[Points]
    gpus_per_trial: ClassVar[Points]

    jobs: Annotated[int, Field(ge=1, description="jobs (the paper's apps)")] = 1000
    gpus: Annotated[int, Field(gt=0, description="GPUs of the cluster that the load is for")] = 64
    load: Annotated[float, Field(gt=0, description="1-GPU work submitted over capacity")] = 0.8

    def generate(self, rng: np.random.Generator) -> Workload:
        """Draw in the simulator's order, then what users declare."""
        services = from_distribution_points(rng, self.jobs, self.services)
        trials = self._trials(rng)
        pool = np.maximum(from_distribution_points(rng, _POOL, self.gpus_per_trial), 1.0)
        rng.random((_POOL, 2))  # the minima, which nothing reads
        gaps = np.floor(-np.log1p(-rng.random(self.jobs)) * self._mean_gap(services))
        demands = _demands(rng, trials, pool)
        work = self._work(services, trials)
        columns = JobColumns(
            np.cumsum(gaps) - gaps,
            demands,
            work,
            min_gpus=np.ones(len(work)),
        )
        return workload_of(self.declare(rng, columns), self.name)

    def _trials(self, rng: np.random.Generator) -> FloatColumn:
        return np.maximum(from_distribution_points(rng, self.jobs, self.trials), 1.0)

    def _work(self, services: FloatColumn, trials: FloatColumn) -> FloatColumn:
        """Services down to a multiple of the trials, at least a second for each."""
        return np.maximum(np.floor(services / trials), 1.0) * trials

    def _mean_gap(self, services: FloatColumn) -> float:
        return float(services.mean()) / (self.load * self.gpus) if len(services) else 1.0


def _demands(rng: np.random.Generator, trials: FloatColumn, pool: FloatColumn) -> FloatColumn:
    """For each job the sum of as many draws from the pool as it has trials."""
    counts: NDArray[np.int64] = trials.astype(np.int64)
    if not len(counts):
        return trials
    drawn = pool[(rng.random(int(counts.sum())) * len(pool)).astype(np.intp)]
    return np.add.reduceat(drawn, np.cumsum(counts) - counts)


@generators.register
class PcsGavelJobs(PcsWorkload):
    """PCS' workload-3: many small jobs, few long ones."""

    name: ClassVar[str] = "pcs-gavel"
    source: ClassVar[str] = "PCS, OSDI'24, workload-3 (section 5.1, table 1), simulator's gavel set"
    services: ClassVar[Points] = ((30, 0.0), (1000, 0.8), (10_000, 1.0))
    trials: ClassVar[Points] = ((1, 0.0), (2, 1.0))
    gpus_per_trial: ClassVar[Points] = ((1, 0.0), (2, 0.90), (4, 0.95), (8, 1.0))

    load: Annotated[float, Field(gt=0, description="1-GPU work submitted over capacity")] = 1.2
    unit_seconds: Annotated[
        float, Field(gt=0, description="seconds of one unit of service: 1 as run, 60 as labelled")
    ] = 1.0

    def _work(self, services: FloatColumn, trials: FloatColumn) -> FloatColumn:
        return super()._work(services, trials) * self.unit_seconds

    def _mean_gap(self, services: FloatColumn) -> float:
        return super()._mean_gap(services) * self.unit_seconds


@generators.register
class PcsThemis1(PcsWorkload):
    """Hyper-parameter searches of many GPU-hours, as wide as most of a 64-GPU cluster."""

    name: ClassVar[str] = "pcs-themis1"
    source: ClassVar[str] = "PCS, OSDI'24, simulator's themis1 set, after Themis, NSDI'20"
    services: ClassVar[Points] = (
        (3_600, 0.0),
        (9_214, 0.01),
        (40_290, 0.11),
        (108_860, 0.28),
        (297_075, 0.35),
        (447_600, 0.43),
        (1_028_300, 0.52),
        (1_291_460, 0.71),
        (1_696_180, 0.875),
        (2_176_460, 0.96),
        (2_625_440, 1.0),
    )
    trials: ClassVar[Points] = ((1, 0.0), (20, 0.23), (22, 0.35), (56, 0.54), (60, 0.68), (90, 1.0))
    gpus_per_trial: ClassVar[Points] = ((1, 0.0), (2, 0.98), (3, 1.0))

    max_trials: Annotated[int | None, Field(gt=0, description="most trials of one job")] = None
    max_service_seconds: Annotated[
        float | None, Field(gt=0, description="most 1-GPU seconds of one job")
    ] = None

    def _trials(self, rng: np.random.Generator) -> FloatColumn:
        trials = super()._trials(rng)
        return trials if self.max_trials is None else np.minimum(trials, self.max_trials)

    def _work(self, services: FloatColumn, trials: FloatColumn) -> FloatColumn:
        return super()._work(self._capped(services), trials)

    def _mean_gap(self, services: FloatColumn) -> float:
        return super()._mean_gap(self._capped(services))

    def _capped(self, services: FloatColumn) -> FloatColumn:
        most = self.max_service_seconds
        return services if most is None else np.minimum(services, most)
