"""Tiresias' placement: consolidate the jobs whose model is skewed (NSDI'19).

Parameters are sent tensor by tensor, and a model with one huge tensor suffers most from a network between
its GPUs. Tiresias profiles how unevenly a model's size is spread over its tensors (its skew) and
consolidates where this exceeds PACKLIMIT. Here the skew is declared with the job (`JobSpec.skew`): the
share of the model that lies in its largest tensor, 0 where nothing is declared. By published
architectures VGG16 has 0.74, AlexNet 0.62, GoogLeNet 0.15 and ResNet-50 0.09; ``limit`` lies between.
Tiresias learns its limit from the performance of earlier placements; ours is a parameter.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from volvelle.core.parts import KnownJob, placements
from volvelle.core.resources import Resources
from volvelle.model.job import JobSpec
from volvelle.systems.blox.selective import Selective


@placements.register
class Skew(Selective):
    """The fewest nodes for jobs whose model is skewed; the others fill the holes."""

    name: ClassVar[str] = "skew"
    source: ClassVar[str] = "Tiresias (NSDI'19)"

    limit: Annotated[float, Field(ge=0, le=1)] = Field(
        0.3, description="PACKLIMIT: share of the model in its largest tensor"
    )

    def lacks(self, spec: JobSpec) -> str:
        """The skew of a job that may be spread."""
        if spec.skew or spec.most_gpus <= 1:
            return ""
        return f"placement {self.name!r} goes by its skew, and it declares none: it may be spread"

    def gains(self, job: KnownJob, gpus: int, gpu_type: str, resources: Resources) -> bool:
        """Whether its skew exceeds the limit."""
        return job.spec.skew > self.limit
