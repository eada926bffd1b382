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

from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from volvelle.core.policy import Kernel, policies
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.systems.tiresias.policy import Tiresias
from volvelle.systems.tiresias.queues import LIMITS, OBSERVES, PARAMETERS, ROOM, SAMPLES, observe

_ROOM = 64
"""For samples, at first."""


def read_samples(path: Path) -> FloatColumn:
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
    read: FloatColumn = np.array(samples)
    return read


def with_samples(memory: FloatColumn, samples: FloatColumn, room: int) -> FloatColumn:
    """A memory with the same parameters, these ``samples``, and ``room`` for as many."""
    own = PARAMETERS + int(memory[LIMITS])
    other = np.zeros(own + 2 * room + 1)
    other[:own], samples = memory[:own], np.sort(samples)
    other[SAMPLES], other[ROOM] = len(samples), room
    other[own : own + len(samples)] = samples
    other[own + room + 1 : own + room + 1 + len(samples)] = np.cumsum(samples)
    return other


@policies.register
class Gittins(Tiresias):
    """Discretised 2D-Gittins: queues by attained GPU-seconds, the Gittins index within each."""

    name: ClassVar[str] = "gittins"
    needs_durations: ClassVar[bool] = False
    optimises: ClassVar[str] = "mean JCT knowing the distribution of durations"

    distribution: Path | None = Field(
        None, description="file of services, GPU-seconds a line; none: those of finished jobs"
    )

    @model_validator(mode="after")
    def _read(self) -> Self:
        given = np.zeros(0) if self.distribution is None else read_samples(self.distribution)
        self._memory = with_samples(self._memory, given, max(len(given), _ROOM))
        self._memory[OBSERVES] = self.distribution is None
        return self

    @property
    def samples(self) -> FloatColumn:
        """The services by which it goes, ascending."""
        own = PARAMETERS + int(self._memory[LIMITS])
        return self._memory[own : own + int(self._memory[SAMPLES])]

    def kernel(self, *, named: bool) -> Kernel:
        """The decision, and what it learns of ends."""
        return super().kernel(named=named)._replace(learn=observe)

    def learn(self, spec: JobSpec, gpu_seconds: float) -> None:
        """Count a finished job, unless the distribution was given."""
        if not observe(self._memory, gpu_seconds, spec.gpus, self._memory[:0]):
            self._memory = with_samples(self._memory, self.samples, 2 * int(self._memory[ROOM]))
            observe(self._memory, gpu_seconds, spec.gpus, self._memory[:0])


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < np.inf:
        raise ValueError(text)
    return value
