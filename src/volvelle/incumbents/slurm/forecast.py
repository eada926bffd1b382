"""From a snapshot of a running Slurm to a forecast of all its jobs."""

import math
from collections import defaultdict
from collections.abc import Mapping
from statistics import median

import numpy as np

from volvelle.core.scheduler import Scheduler
from volvelle.incumbents.attach import look_ahead
from volvelle.incumbents.attach.incumbent import Expected
from volvelle.incumbents.slurm.fair_share import FairShare, Weights, priority
from volvelle.incumbents.slurm.policy import NO_GPUS, Slurm
from volvelle.incumbents.slurm.priorities import Past
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


def past_of(site: Site, snapshot: Snapshot) -> Past:
    """The past of a snapshot: usage as associations tell it, or else by the jobs that are still listed."""
    weights, now = Weights(site), snapshot.time
    calculated = _calculated(site, snapshot, weights)
    told = {
        (one.account, one.user): one.usage
        for one in site.associations
        if one.user and one.usage is not None
    }
    if told:
        return Past(now, calculated, told)
    return Past(now, calculated, _used(site, snapshot, calculated), _since(snapshot, calculated))


def _since(snapshot: Snapshot, calculated: float) -> dict[tuple[str, str], float]:
    """CPU-seconds after ``calculated`` of the jobs that have ended."""
    used: dict[tuple[str, str], float] = defaultdict(float)
    for job in snapshot.jobs:
        if job.start is None or job.end is None or job.pending or job.running:
            continue
        seconds = min(job.end, snapshot.time) - max(job.start, calculated)
        used[job.account, job.user] += job.held.get("cpu", job.cpus) * max(seconds, 0.0)
    return used


def _used(site: Site, snapshot: Snapshot, now: float) -> dict[tuple[str, str], float]:
    """CPU-seconds of the jobs in a snapshot, decayed to ``now``."""
    half_life = FairShare.of(site.associations, site.config).half_life
    used: dict[tuple[str, str], float] = defaultdict(float)
    for job in snapshot.jobs:
        if job.start is None or job.pending or job.start > now:
            continue
        end = now if job.running or job.end is None else min(job.end, now)
        if end <= job.start:
            continue
        aged = math.exp2(-(now - (job.start + end) / 2.0) / half_life) if half_life else 1.0
        used[job.account, job.user] += job.held.get("cpu", job.cpus) * (end - job.start) * aged
    return used


def _calculated(site: Site, snapshot: Snapshot, weights: Weights) -> float:
    """When priorities were worked out last: waiting jobs show it, whose age counts in their priority."""
    now = snapshot.time
    found: list[float] = []
    if weights.age > 0.0 and not weights.basic:
        for job in snapshot.jobs:
            found += _moments(site, job, now, weights)
    usual = now - weights.period / 2.0
    return min(max(median(found), now - weights.period), now) if found else usual


def _moments(site: Site, job: Job, now: float, weights: Weights) -> list[float]:
    """When the priority of a job was worked out, by its age; nothing where that is not certain."""
    qos = next((one for one in site.qos if one.name == job.qos), None)
    partition = next((one for one in site.partitions if one.name in job.partitions), None)
    if not (job.pending and job.priority and job.accrue) or partition is None:
        return []
    if len(job.partitions) > 1 or job.accrue >= now - weights.period:
        return []
    users = sum(1 for one in site.associations if one.user)
    nodes, cpus = job.asked.get("node", job.least_nodes), job.asked.get("cpu", job.cpus)
    standing = np.array(weights.standing(nodes, cpus, partition, qos))
    without = priority(weights.moving, 0.0, 0.0, standing, job.nice)
    found = []
    for rank in range(users + 1):
        share = weights.fair_share * rank / users if users else 0.0
        age = (job.priority - without - share) / weights.age * weights.oldest
        if now - weights.period - 5.0 <= job.accrue + age <= now + 5.0:
            found.append(job.accrue + age)
    return found if len(found) == 1 else []
