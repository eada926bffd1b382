"""The first estimators: the truth, the truth with noise, the user's word, and the past."""

import random
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr

from volvelle.core.events import JobSubmitted
from volvelle.core.facets import KnowsTheTruth
from volvelle.core.parts import Belief, Estimator, estimators
from volvelle.model.job import JobSpec, Truth
from volvelle.model.throughput import LINEAR
from volvelle.model.validation import Seconds

PositiveSeconds = Annotated[Seconds, Field(gt=0)]


@estimators.register
class Oracle(Estimator, KnowsTheTruth):
    """The truth, which the simulated world discloses."""

    name: ClassVar[str] = "oracle"
    needs_truth: ClassVar[bool] = True

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The job as it is."""
        return Belief(disclosed(job, self.name))


@estimators.register
class Noisy(Estimator):
    """The truth, with what remains of each job off by a factor drawn once."""

    name: ClassVar[str] = "noisy"
    source: ClassVar[str] = "PCS (OSDI'24) section 5.4"
    needs_truth: ClassVar[bool] = True

    error: Annotated[float, Field(ge=0)] = Field(0.2, description="relative size of the error")
    shape: Literal["gaussian", "uniform"] = Field(
        "gaussian", description="factor 1 + error x N(0, 1), or uniform in 1 -/+ error"
    )

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The truth, scaled. The factor depends on seed and job alone, so forks agree on it."""
        draw = random.Random((seed << 32) ^ job.number)
        noise = draw.gauss() if self.shape == "gaussian" else draw.uniform(-1.0, 1.0)
        return Belief(disclosed(job, self.name), max(1.0 + self.error * noise, 0.01))


@estimators.register
class Declared(Estimator):
    """The user's own estimate, and a default for jobs without one."""

    name: ClassVar[str] = "declared"

    default: PositiveSeconds = Field(3600.0, description="for jobs that declare nothing")

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """A job that takes the declared time on the GPUs it requests."""
        return Belief(lasting(job.spec, job.spec.estimate_seconds or self.default))

    def guesses(self, spec: JobSpec) -> bool:
        """Of a job that declares nothing."""
        return spec.estimate_seconds is None


@estimators.register
class History(Estimator):
    """The mean run time of what the same user ran before under the same name."""

    name: ClassVar[str] = "history"

    default: PositiveSeconds = Field(3600.0, description="before anything is known")
    _seen: dict[tuple[str, str], tuple[int, float]] = PrivateAttr(default_factory=dict)

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The mean of the user's jobs of this name, else of the user's, else of all."""
        for key in self._keys(job.spec):
            if key in self._seen:
                count, total = self._seen[key]
                return Belief(lasting(job.spec, max(total / count, 1.0)))
        return Belief(lasting(job.spec, self.default))

    def guesses(self, spec: JobSpec) -> bool:
        """Before a job of this user and name has finished."""
        return (spec.user, spec.name) not in self._seen

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        """Count a finished job under its name, its user, and all."""
        for key in self._keys(spec):
            count, total = self._seen.get(key, (0, 0.0))
            self._seen[key] = (count + 1, total + run_seconds)

    @staticmethod
    def _keys(spec: JobSpec) -> tuple[tuple[str, str], ...]:
        return ((spec.user, spec.name), (spec.user, ""), ("", ""))


def lasting(spec: JobSpec, seconds: float) -> Truth:
    """A job believed to take ``seconds`` on the GPUs it requests, of `JobSpec.first_type`, as it declares."""
    throughput = spec.throughput or LINEAR
    return spec.declared(seconds * throughput.rate(spec.gpus, spec.first_type))


def disclosed(job: JobSubmitted, estimator: str) -> Truth:
    """The truth, for an estimator that needs it. Raises RuntimeError where it was not disclosed."""
    if job.truth is None:
        raise RuntimeError(
            f"estimator {estimator!r} needs the truth about job {job.spec.id!r}, "
            "which only a simulated world can tell"
        )
    return job.truth
