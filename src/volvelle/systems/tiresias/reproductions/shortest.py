"""Shortest jobs first as the authors' simulator of Tiresias (NSDI'19) has it: equals as they last stood.

Its ``shortest`` goes by remaining seconds, ``shortest-gpu`` by those times GPUs. At each event it sorts the
list that the last sort left, so that of equal jobs the one stays ahead that was ahead before; under `srtf`
and `srsf` it is the earlier submission.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from volvelle.core.columns import COUNT, FULL_RATE, LEAST, MOST, NUMBER
from volvelle.core.compiled import kernel
from volvelle.core.fill import ClusterNow, fill, work_left
from volvelle.core.policy import Kernel, Policy, policies
from volvelle.core.state import INFINITY
from volvelle.model.arrays import Floats
from volvelle.policies.growth import then_by

PLACE = COUNT
"""Own column: a job's place in the list as it was last sorted, from 1 on; 0 of a job that comes."""
_COMES = 1e15
"""A place behind all others."""


@policies.register
class TiresiasShortest(Policy):
    """Shortest remaining time or service first, equals as they last stood."""

    name: ClassVar[str] = "tiresias-shortest"
    source: ClassVar[str] = "the simulator of Tiresias (NSDI'19)"
    optimises: ClassVar[str] = "mean JCT"
    columns: ClassVar[int] = 1

    service: Literal["gpu-seconds", "seconds"] = Field(
        "gpu-seconds", description="what is shortest: remaining time x GPUs, or time"
    )

    def kernel(self, *, named: bool) -> Kernel:
        """The list of all jobs, sorted anew at each event."""
        return Kernel(decide, np.array([self.service == "gpu-seconds"], np.float64), rates=False)


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision of `tiresias-shortest`; its memory is one number, 1 where service is GPU-seconds."""
    left = work_left(jobs, jobs.shape[1], cluster.now) / jobs[FULL_RATE]
    if memory[0] == 1.0:
        left = left * jobs[MOST]
    line = np.argsort(jobs[NUMBER], kind="mergesort")
    line = then_by(line, np.where(jobs[PLACE] == 0.0, _COMES, jobs[PLACE]))
    line = then_by(line, left)
    jobs[PLACE][line] = np.arange(1.0, len(line) + 1.0)
    out[:3] = fill(
        jobs, line, jobs[LEAST], jobs[MOST], cluster.capacity, cluster.quota, True, False
    )
    out[3] = line
    return INFINITY
