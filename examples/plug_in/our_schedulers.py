"""A policy, a placement, a trace format and a metric in a package (docs/how-to/plug-in-a-package.md)."""

from typing import ClassVar

import numpy as np

from volvelle import policy
from volvelle.core.parts import Placement, take_in_turn
from volvelle.metrics import per_job
from volvelle.metrics.catalogue import metric
from volvelle.model.job import JobSpec
from volvelle.model.units import MINUTE
from volvelle.workload.readers import RowFormat
from volvelle.workload.readers.base import rigid_job


class NarrowFirst(policy.OrderPolicy):
    """Fewest GPUs first."""

    name: ClassVar[str] = "narrow-first"

    def key(self, jobs, now):
        """GPUs requested."""
        return jobs.gpus


class LastFree(Placement):
    """The first free GPUs, counted from the last node."""

    name: ClassVar[str] = "last-free"

    def choose(self, free, gpus, resources):
        """Nodes in reverse order."""
        return take_in_turn(free, np.arange(len(free))[::-1], gpus)


class Lab(RowFormat):
    """One row a job; times in minutes."""

    name = "lab"
    title = "The lab's own job log"
    required = ("job", "queued_min", "ran_min", "gpus")

    def job(self, row, ledger, options):
        """A job that took what it took."""
        submitted = row.seconds("queued_min", MINUTE)
        spec = JobSpec(id=row.text("job"), submit_time=submitted, gpus=row.gpus("gpus"))
        return rigid_job(spec, row.seconds("ran_min", MINUTE))


@metric("waiting_share", "%", "lower", title="share waited")
def waiting_share(outcomes):
    """Share of its stay that a finished job waits."""
    return 100.0 * per_job.queueing_delay(outcomes) / per_job.jct(outcomes)
