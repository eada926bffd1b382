"""Tiresias with the Gittins index: discretised 2D-Gittins (NSDI'19).

The queues are those of ``tiresias``; within each, the job that is most likely to be through soon goes
first. With S the service of a whole job, a the service attained and D the quantum of the job's queue,
its upper limit, the index is::

    P(S - a <= D | S > a) / E[min(S - a, D) | S > a]

In the last queue D has no limit and the index is 1 / E[S - a | S > a]. Equal indices: first in, first
out. A job that has outrun all samples has index 0.

The distribution of S is a file of samples (GPU-seconds, one a line; quantiles do as well), or what was
observed: the services of the jobs that finished so far, and none at first. As attained services grow
with every second so do indices change; decisions are taken anew at events and when a job falls, as for
``tiresias``.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from volvelle.core.policy import policies
from volvelle.core.view import FloatColumn, IntColumn, JobView
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.systems.tiresias.policy import Attained, Tiresias


@dataclass(frozen=True)
class ServiceDistribution:
    """Samples of the service of whole jobs, ascending; never changed in place, so forks share it."""

    samples: FloatColumn

    @classmethod
    def read(cls, path: Path) -> "ServiceDistribution":
        """The samples in a file, one a line, with or without a header. Raises `Problem`."""
        try:
            lines = path.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise Problem(f"cannot read the samples in {path}: {error}", usage=True) from None
        samples: list[float] = []
        for number, line in enumerate(lines, 1):
            try:
                samples.append(_positive(line))
            except ValueError:
                if number > 1:
                    raise Problem(
                        f"{path}, line {number}: {line!r} is not a service",
                        mend="write one number greater than 0 a line, in GPU-seconds",
                        usage=True,
                    ) from None
        if not samples:
            raise Problem(f"{path} has no samples", mend="write one number a line", usage=True)
        return cls(np.sort(np.array(samples)))

    def with_sample(self, service: float) -> "ServiceDistribution":
        """The distribution after one more job."""
        at = np.searchsorted(self.samples, service)
        return ServiceDistribution(np.insert(self.samples, at, service))

    def index(self, attained: FloatColumn, quantum: FloatColumn) -> FloatColumn:
        """The Gittins index of jobs by the service they attained; ``quantum`` may be infinite."""
        count = len(self.samples)
        alive = np.searchsorted(self.samples, attained, side="right")
        late = np.searchsorted(self.samples, attained + quantum, side="right")
        within = late - alive
        service = self.sums[late] - self.sums[alive] - attained * within
        beyond = count - late
        service += np.where(beyond > 0, quantum, 0.0) * np.maximum(beyond, 1) * (beyond > 0)
        index: FloatColumn = np.divide(
            within, service, out=np.zeros(len(attained)), where=service > 0
        )
        return index

    @cached_property
    def sums(self) -> FloatColumn:
        """Sums of the samples before each."""
        return np.concatenate([[0.0], np.cumsum(self.samples)])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@policies.register
class Gittins(Tiresias):
    """Discretised 2D-Gittins: queues by attained GPU-seconds, the Gittins index within each."""

    name: ClassVar[str] = "gittins"
    needs_durations: ClassVar[bool] = False
    optimises: ClassVar[str] = "mean JCT knowing the distribution of durations"

    distribution: Path | None = Field(
        None, description="file of services, GPU-seconds a line; none: those of finished jobs"
    )
    _services: ServiceDistribution = PrivateAttr(ServiceDistribution(np.zeros(0)))

    @model_validator(mode="after")
    def _read(self) -> Self:
        if self.distribution is not None:
            self._services = ServiceDistribution.read(self.distribution)
        return self

    def learn(self, spec: JobSpec, gpu_seconds: float) -> None:
        """Count a finished job, unless the distribution was given."""
        if self.distribution is None and gpu_seconds > 0:
            service = gpu_seconds if self.service == "gpu-seconds" else gpu_seconds / spec.gpus
            self._services = self._services.with_sample(service)

    def merit(self, jobs: JobView, attained: Attained, queue: IntColumn) -> tuple[FloatColumn, ...]:
        """The greatest index first."""
        if not len(self._services.samples):
            return ()
        quanta = np.array([*self._limits, np.inf])[queue]
        return (-self._services.index(attained.service, quanta),)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < np.inf:
        raise ValueError(text)
    return value
