"""From a snapshot of a cluster with Kueue to a forecast of all its workloads."""

from collections import Counter
from collections.abc import Iterable, Mapping

from volvelle.core.scheduler import Scheduler
from volvelle.incumbents.attach import look_ahead
from volvelle.incumbents.attach.incumbent import Expected
from volvelle.incumbents.kueue.attached_jobs import AttachedSite, Job, Snapshot
from volvelle.incumbents.kueue.own import Own
from volvelle.incumbents.kueue.policy import Kueue
from volvelle.incumbents.kueue.site import Site
from volvelle.model.cluster import Cluster, Node

_NEAR_OF_A_TREE = 12
"""Workloads of each tree of cohorts that are played out where many wait: a change concerns its tree alone."""


def scheduler_of(
    site: AttachedSite, snapshot: Snapshot, durations: Mapping[str, float]
) -> Scheduler:
    """A scheduler in the state of a snapshot (`look_ahead.in_flight`), of the workloads that may start."""
    own = Own.of(site.site, snapshot.time)
    jobs = [job for job in snapshot.jobs if job.key in own.by_key]
    cluster = Cluster((Node("quota", max(len(jobs), 1)),))
    return look_ahead.in_flight(Kueue.of(own), cluster, jobs, snapshot.time, durations)


def foresee(
    site: AttachedSite, snapshot: Snapshot, durations: Mapping[str, float]
) -> dict[str, Expected]:
    """When each workload starts next and ends, if they take so long and nobody else comes.

    Of workloads whose queue is missing, stopped or held nothing is foreseen.
    """
    able = {one.key: (one.priority, one.queued) for one in site.site.pending()}
    there = [job for job in snapshot.jobs if job.pending]
    waiting = _in_turns(
        sorted(
            (job for job in there if job.key in able),
            key=lambda job: (-able[job.key][0], able[job.key][1], job.ordinal),
        )
    )
    trees = {site.tree_of(job.queue) for job in waiting}
    found = look_ahead.foresee(
        lambda near: scheduler_of(site, near, durations),
        snapshot,
        waiting,
        durations,
        min(_NEAR_OF_A_TREE * len(trees), look_ahead.MOST),
    )
    never = (job for job in there if job.key not in able)
    return found | {job.key: Expected(None, None, _stopped(job, site.site)) for job in never}


def _in_turns(jobs: Iterable[Job]) -> list[Job]:
    """The first of each queue, then the second of each, and so on."""
    place, turns = Counter[str](), list[tuple[int, int, Job]]()
    for job in jobs:
        turns.append((place[job.queue], len(turns), job))
        place[job.queue] += 1
    return [job for *_, job in sorted(turns, key=lambda one: one[:2])]


def _stopped(job: Job, site: Site) -> str:
    """Why a workload waits in no queue."""
    if not job.active:
        return "it is deactivated (spec.active): it waits until somebody activates it"
    local = site.local_queues.get(f"{job.user}/{job.account}")
    if local is None:
        return f"LocalQueue {job.user}/{job.account} is not there"
    if local.cluster_queue not in site.queues:
        return f"ClusterQueue {local.cluster_queue} is not there"
    return f"LocalQueue {local.key} is stopped ({local.stop_policy})"
