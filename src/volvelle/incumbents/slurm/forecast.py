"""From a snapshot of a running Slurm to a forecast of all its jobs, by the one look-ahead of the core."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.core.scheduler import Scheduler
from volvelle.incumbents.slurm.past import past_of
from volvelle.incumbents.slurm.policy import NO_GPUS, Slurm
from volvelle.incumbents.slurm.site import Job, Site, Snapshot
from volvelle.model.cluster import Cluster, Node
from volvelle.model.job import JobSpec
from volvelle.model.throughput import Table

_STEADY = Table((1.0,))
"""A second of work a second, on however many GPUs."""


@dataclass(frozen=True, slots=True)
class Expected:
    """When a job is expected to start (next) and to end; None: not foreseen."""

    start: float | None
    end: float | None


def scheduler_of(site: Site, snapshot: Snapshot, durations: Mapping[str, float]) -> Scheduler:
    """A scheduler in the state of a snapshot: running jobs on their nodes with what they have run.

    durations: how long each job is believed to take in all, in seconds, by key; jobs that run longer
    already are believed to end at once. Times are Slurm's, in seconds since 1970.
    """
    if snapshot.nodes:
        site = replace(site, nodes=snapshot.nodes)
    if snapshot.reservations is not None:
        site = replace(site, reservations=snapshot.reservations)
    if snapshot.associations:
        site = replace(site, associations=snapshot.associations)
    jobs = [job for job in snapshot.jobs if job.pending or job.running]
    running = sorted((job for job in jobs if job.running), key=_started)
    policy = Slurm.of(site, jobs, past_of(site, snapshot))
    written = WrittenComposition(
        policy="fifo", placement="first-free", estimator="declared"
    ).build()
    scheduler = Scheduler(_cluster(site, len(jobs)), written._replace(policy=policy))
    for number, job in enumerate([*running, *(job for job in jobs if job.pending)]):
        time = min(_started(job), snapshot.time - 1e-3) if job.running else snapshot.time - 1e-3
        spec = _spec(job, site, time, durations.get(job.key), snapshot.time)
        scheduler.handle(time, [JobSubmitted(time, number, spec)])
    scheduler.handle(snapshot.time, [])
    return scheduler


def foresee(site: Site, snapshot: Snapshot, durations: Mapping[str, float]) -> dict[str, Expected]:
    """When each job of a snapshot starts next and ends, if jobs take so long and nobody else comes."""
    scheduler = scheduler_of(site, snapshot, durations)
    forecast = Fork(scheduler).until()
    return {
        scheduler.spec(number).id: Expected(
            forecast.upcoming.get(number), forecast.finish.get(number)
        )
        for number in scheduler.known
    }


def _started(job: Job) -> float:
    return job.start or job.submit


def _cluster(site: Site, jobs: int) -> Cluster:
    nodes = [Node(node.name, max(sum(node.gpus.values()), 1)) for node in site.nodes]
    return Cluster((*nodes, Node(NO_GPUS, max(jobs, 1))))


def _spec(job: Job, site: Site, time: float, believed: float | None, now: float) -> JobSpec:
    """The job as the core sees it: it lasts as long as is believed on whatever it gets."""
    seconds = believed if believed is not None else job.limit_seconds or 3600.0
    if job.running:
        seconds = max(seconds, now + 1.0 - time)
    most = float(sum(sum(node.gpus.values()) for node in site.nodes))
    return JobSpec(
        id=job.key,
        submit_time=time,
        gpus=1.0,
        min_gpus=1.0,
        max_gpus=max(most, 1.0),
        user=job.user,
        pool="",
        name=job.name,
        throughput=_STEADY,
        estimate_seconds=max(seconds, 1.0),
        starts_over=True,
    )
