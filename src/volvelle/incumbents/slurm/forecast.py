"""From a snapshot of a running Slurm to a forecast of all its jobs."""

from collections.abc import Mapping

from volvelle.core.scheduler import Scheduler
from volvelle.incumbents.attach import look_ahead
from volvelle.incumbents.attach.incumbent import Expected
from volvelle.incumbents.slurm.past import past_of
from volvelle.incumbents.slurm.policy import NO_GPUS, Slurm
from volvelle.incumbents.slurm.site import Site
from volvelle.incumbents.slurm.snapshot import Job, Snapshot
from volvelle.model.cluster import Cluster, Node


def scheduler_of(site: Site, snapshot: Snapshot, durations: Mapping[str, float]) -> Scheduler:
    """A scheduler in the state of a snapshot (`look_ahead.in_flight`)."""
    site = site.at(snapshot)
    jobs = [job for job in snapshot.jobs if job.pending or job.running]
    policy = Slurm.of(site, jobs, past_of(site, snapshot))
    nodes = [Node(node.name, max(sum(node.gpus.values()), 1)) for node in site.nodes]
    cluster = Cluster((*nodes, Node(NO_GPUS, max(len(jobs), 1))))
    return look_ahead.in_flight(policy, cluster, jobs, snapshot.time, durations)


def foresee(site: Site, snapshot: Snapshot, durations: Mapping[str, float]) -> dict[str, Expected]:
    """When each job of a snapshot starts next and ends, if jobs take so long and nobody else comes."""
    waiting = sorted((job for job in snapshot.jobs if job.pending), key=_rank)

    def made(near: Snapshot) -> Scheduler:
        return scheduler_of(site, near, durations)

    return look_ahead.foresee(made, snapshot, waiting, durations)


def _rank(job: Job) -> tuple[bool, float, int]:
    """The place of a job in the queue: those that are held behind all others."""
    return not job.priority, -(job.priority or 0.0), job.id
