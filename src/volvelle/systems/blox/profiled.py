"""Tiresias+: consolidate the jobs that a profile says are slowed by a network (Blox, section 4.3).

The idea of Tiresias kept, its heuristic replaced: not the skew of a model decides but how much of its
rate the job is believed to lose on one node more than it needs, on this hardware. The profile is what the
estimator believes: the throughput model's dependence on nodes and the ``spread_slowdown``; with
``oracle`` it is perfect, as in the paper.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from volvelle.core.parts import KnownJob, placements
from volvelle.core.resources import Resources
from volvelle.systems.blox.selective import Selective


@placements.register
class Profiled(Selective):
    """The fewest nodes for jobs believed to be slower on more; the others fill the holes."""

    name: ClassVar[str] = "profiled"
    source: ClassVar[str] = "Blox (EuroSys'24) section 4.3, Tiresias+"

    goes_by_spread: ClassVar[bool] = True

    tolerance: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of its rate that a job may lose on one node more"
    )

    def gains(self, job: KnownJob, gpus: int, gpu_type: str, resources: Resources) -> bool:
        """Whether it would lose more than is tolerated."""
        believed = job.believed
        fewest = -(-gpus // max(node.gpus for node in resources.nodes))
        together = believed.rate(gpus, gpu_type, fewest)
        apart = believed.rate(gpus, gpu_type, fewest + 1)
        apart *= resources.spread_factor(believed.spread_slowdown, gpus, fewest + 1)
        return apart < (1.0 - self.tolerance) * together
