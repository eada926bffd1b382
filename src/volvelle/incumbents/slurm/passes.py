"""The two passes of slurmctld over its queue: the main scheduler and the backfill scheduler.

Source: "Scheduling Configuration Guide" and slurm.conf(5), ``SchedulerParameters``. The main pass goes by
priority; the first job of a partition that finds no nodes keeps the others of that partition, and all others
from its nodes. Backfill goes through the whole queue and plans, by whole nodes and by limits, when each job
could start; a job starts now where that delays no job before it in the plan.
"""

from collections import Counter
from collections.abc import Callable
from functools import cmp_to_key
from typing import NamedTuple

import numpy as np

from volvelle.incumbents.slurm.controller import Controller, Entry
from volvelle.incumbents.slurm.preemption import candidates, may_preempt, mode_of, victims_of
from volvelle.incumbents.slurm.shapes import Bools, Shape, choose
from volvelle.incumbents.slurm.site import Partition


class Place(NamedTuple):
    """A job in one of its partitions, as it stands in the queue."""

    entry: Entry
    partition: Partition

    @property
    def shape(self) -> Shape:
        """The resources that it takes there."""
        return self.entry.shapes[self.partition.name]

    @property
    def priority(self) -> float:
        """Its priority there."""
        return self.entry.priority[self.partition.name]


def queue(controller: Controller) -> list[Place]:
    """All jobs that come into question now, the first to be served first (``sort_job_queue``)."""
    places = []
    for entry in controller.entries.values():
        if entry.shares is not None:
            continue
        entry.reason = controller.waits_for(entry)
        if not entry.reason:
            places += [Place(entry, one) for one in entry.partitions if one.up]
    places.sort(key=_after_preemption)
    if controller.rules.preempts_by != "none":
        preempts = _preempts(controller)

        def compare(one: Place, other: Place) -> int:
            if preempts(one, other):
                return -1
            if preempts(other, one):
                return 1
            mine, theirs = _after_preemption(one), _after_preemption(other)
            return -1 if mine < theirs else int(mine > theirs)

        places.sort(key=cmp_to_key(compare))
    return places


def _after_preemption(place: Place) -> tuple[bool, int, float, int, int]:
    job = place.entry.job
    return (
        not job.reservation,
        -place.partition.tier,
        -int(place.priority),
        job.array if job.array is not None else job.id,
        job.task if job.task is not None else -1,
    )


def _preempts(controller: Controller) -> Callable[[Place, Place], bool]:
    """Whether the job of one place may stop that of another, by QOS or by partition."""
    known: dict[tuple[str, str, str, str], bool] = {}

    def check(one: Place, other: Place) -> bool:
        key = one.entry.job.qos, one.partition.name, other.entry.job.qos, other.partition.name
        if key not in known:
            known[key] = may_preempt(controller.rules, *key)
        return known[key]

    return check


def main_pass(controller: Controller, depth: int) -> None:
    """Start jobs in order of priority; a partition is left at its first job that finds no nodes."""
    usable = np.ones(len(controller.rules.hardware.nodes), dtype=np.bool_)
    failed: set[str] = set()
    for place in queue(controller)[:depth]:
        entry, name = place.entry, place.partition.name
        if entry.shares is not None:
            continue
        if name in failed:
            entry.reason = entry.reason or "Priority"
            continue
        if reason := _is_kept(controller, place):
            entry.reason = reason
            if controller.rules.limit_stops and reason.startswith(("QOS", "Assoc")):
                failed.add(name)
            continue
        there = controller.unreserved(entry, controller.now, controller.now + entry.limit)
        if _start(controller, place, usable & there):
            continue
        if entry.reason.startswith(("QOS", "Assoc", "Max")):
            continue
        entry.reason = "Resources"
        if entry.job.reservation:
            entry.reason = "Reservation"
            continue
        if not there[place.shape.allowed].any():
            entry.reason = "ReqNodeNotAvail"
            if entry.job.required_nodes:
                continue
        failed.add(name)
        usable &= ~controller.rules.hardware.mask(place.partition.nodes)


def _is_kept(controller: Controller, place: Place) -> str:
    """The cause that keeps a job waiting whatever nodes are free, in Slurm's words; empty: nothing."""
    entry = place.entry
    if reason := controller.waits_for(entry):
        return reason
    job, name = entry.job, place.partition.name
    if reason := controller.book.full(job.user, job.account, job.qos, name):
        return reason
    return "Licenses" if controller.lacks_licences(entry) else ""


def _start(controller: Controller, place: Place, usable: Bools) -> bool:
    """Start a job on ``usable`` nodes, also by stopping others; False where it cannot."""
    entry, hardware = place.entry, controller.rules.hardware
    job, name = entry.job, place.partition.name
    if reason := controller.book.blocked(job.user, job.account, job.qos, name, job.asked):
        entry.reason = reason
        return False
    nodes = choose(place.shape, hardware, controller.free, usable)
    if nodes is None:
        found = victims_of(controller, entry, place.partition, usable)
        if found is None:
            return False
        nodes, victims = found
        for victim in victims:
            _stop(controller, victim)
    controller.start(entry, name, nodes)
    return True


def _stop(controller: Controller, victim: Entry) -> None:
    """Stop a job for another: it is requeued, or cancelled where that is its mode."""
    if mode_of(controller.rules, victim) == "CANCEL":
        controller.cancelled.append(victim.number)
        controller.leave(victim.number)
    else:
        controller.requeue(victim)


class _Kept(NamedTuple):
    """Whole nodes that the plan keeps for a job."""

    begin: float
    end: float
    nodes: Bools


def backfill_pass(controller: Controller) -> dict[int, float]:
    """Start jobs where that delays nobody before them; returns the planned starts of others, by number."""
    rules, now = controller.rules, controller.now
    plan: list[_Kept] = []
    planned: dict[int, float] = {}
    users: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    arrays: Counter[int] = Counter()
    tested: set[int] = set()
    for place in queue(controller):
        entry, job = place.entry, place.entry.job
        if entry.shares is not None:
            continue
        if len(tested) >= rules.depth and entry.number not in tested:
            break
        if reason := _is_kept(controller, place):
            entry.reason = reason
            continue
        if rules.user_depth and users[job.user] >= rules.user_depth:
            continue
        if rules.partition_depth and parts[place.partition.name] >= rules.partition_depth:
            continue
        if job.array is not None and arrays[job.array] >= rules.array_reservations:
            continue
        tested.add(entry.number)
        users[job.user] += 1
        parts[place.partition.name] += 1
        found = _earliest(controller, place, plan)
        if found is None:
            continue
        start, nodes = found
        if start <= now:
            only = np.zeros(len(rules.hardware.nodes), dtype=np.bool_)
            only[nodes] = True
            if _start(controller, place, only) or entry.reason.startswith(("QOS", "Assoc", "Max")):
                continue
            start = now + rules.resolution
        if start > now + rules.window:
            continue
        planned[entry.number] = min(start, planned.get(entry.number, start))
        if job.array is not None:
            arrays[job.array] += 1
        plan.append(_kept(rules.resolution, start, entry.limit, nodes, len(rules.hardware.nodes)))
    return planned


def _kept(resolution: float, start: float, limit: float, nodes: list[int], count: int) -> _Kept:
    mask = np.zeros(count, dtype=np.bool_)
    mask[nodes] = True
    begin = start // resolution * resolution
    return _Kept(begin, (start + limit) // resolution * resolution, mask)


def _earliest(
    controller: Controller, place: Place, plan: list[_Kept]
) -> tuple[float, list[int]] | None:
    """When and on which nodes a job could start, by limits and beside the plan; None: not in its window."""
    entry, now = place.entry, controller.now
    bounds = sorted({time for kept in plan for time in (kept.begin, kept.end) if time > now})
    bounds += sorted(
        time for one in controller.reservations for time in (one.start, one.end) if time > now
    )
    bounds = sorted(set(bounds))
    at = now
    for later in [*bounds, float("inf")]:
        end = at + entry.limit
        usable = controller.unreserved(entry, at, end)
        for kept in plan:
            if kept.end > at and kept.begin < end:
                usable &= ~kept.nodes
        found = will_run(controller, place, usable)
        if found is not None:
            start, nodes = max(found[0], at), found[1]
            if start <= later and not _overlaps(plan, start, start + entry.limit, nodes):
                return start, nodes
        at = later
    return None


def _overlaps(plan: list[_Kept], begin: float, end: float, nodes: list[int]) -> bool:
    return any(kept.end > begin and kept.begin < end and kept.nodes[nodes].any() for kept in plan)


def will_run(controller: Controller, place: Place, usable: Bools) -> tuple[float, list[int]] | None:
    """When a job would find nodes if running jobs end with their limits, and which (``will_run_test``).

    Jobs that it may stop are counted as gone. Ends are looked at in groups, whose width doubles from 30 s.
    """
    hardware, now = controller.rules.hardware, controller.now
    nodes = choose(place.shape, hardware, controller.free, usable)
    if nodes is not None:
        return now, nodes
    free = controller.free.copy()
    stopped = {one.number for one in candidates(controller, place.entry, place.partition)}
    for number in stopped:
        for share in controller.running[number].shares or ():
            free[:, share.node] += (share.cpus, share.memory, share.gpus)
    if stopped:
        nodes = choose(place.shape, hardware, free, usable)
        if nodes is not None:
            return now, nodes
    there = np.flatnonzero(usable & place.shape.allowed)
    nodes_there = set(there.tolist())
    ending = sorted(
        (
            (max(entry.ends, now + 1.0), entry)
            for entry in controller.running.values()
            if entry.number not in stopped
            and any(share.node in nodes_there for share in entry.shares or ())
        ),
        key=lambda pair: pair[0],
    )
    width, at = 60.0, 0
    while at < len(ending):
        first = ending[at][0]
        while at < len(ending) and ending[at][0] <= first + width:
            for share in ending[at][1].shares or ():
                free[:, share.node] += (share.cpus, share.memory, share.gpus)
            at += 1
        width *= 2.0
        nodes = choose(place.shape, hardware, free, usable)
        if nodes is not None:
            return ending[at - 1][0], nodes
    return None
