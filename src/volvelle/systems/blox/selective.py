"""Consolidate the jobs that gain by it, and let the others fill the holes.

The shape of Tiresias' placement (NSDI'19) and of Tiresias+ (Blox, section 4.3), which differ
only in how they tell which jobs gain. A job that does not is placed to minimise fragmentation: on the
nodes with the fewest free GPUs first, which leaves what is free on as few nodes as can be.
"""

import numpy as np
from pydantic import Field

from volvelle.core.parts import KnownJob, Placement, take_in_turn
from volvelle.core.resources import Resources
from volvelle.model.arrays import IntColumn
from volvelle.placement.basic import consolidate, consolidate_or_wait


class Selective(Placement):
    """Base: subclasses say which jobs gain by standing together (`gains`)."""

    wait: bool = Field(False, description="jobs that gain wait until they fit on the fewest nodes")

    def gains(self, job: KnownJob, gpus: int, gpu_type: str, resources: Resources) -> bool:
        """Whether ``job`` is to stand on as few nodes as possible."""
        raise NotImplementedError

    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """The place of a job of which nothing is known: the holes."""
        return fill_holes(free, gpus)

    def choose_for(
        self, job: KnownJob, free: IntColumn, gpus: int, resources: Resources
    ) -> IntColumn | None:
        """Together or in the holes, by `gains`."""
        if gpus == 1:
            return consolidate(free, gpus)
        gpu_type = resources.types[resources.node_type[int(np.argmax(free))]]
        if not self.gains(job, gpus, gpu_type, resources):
            return fill_holes(free, gpus)
        if self.wait:
            return consolidate_or_wait(free, gpus, resources)
        return consolidate(free, gpus)


def fill_holes(free: IntColumn, gpus: int) -> IntColumn:
    """Take the nodes with the fewest free GPUs first."""
    return take_in_turn(free, np.argsort(free, kind="stable"), gpus)
