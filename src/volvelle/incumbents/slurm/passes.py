"""The two passes of slurmctld over its queue: the main scheduler and the backfill scheduler.

Source: "Scheduling Configuration Guide" and slurm.conf(5), ``SchedulerParameters``. The main pass goes by
priority; the first job of a partition that finds no nodes keeps the others of that partition, and all others
from its nodes. Backfill goes through the whole queue and plans, by whole nodes and by limits, when each job
could start; a job starts now where that delays no job before it in the plan.
"""

from collections.abc import Sequence
from functools import cmp_to_key
from itertools import chain

import numpy as np

from volvelle.incumbents.slurm.choosing import choose
from volvelle.incumbents.slurm.controller import Controller
from volvelle.incumbents.slurm.entries import FOREVER, Entry, Place
from volvelle.incumbents.slurm.planning import (
    CAPPED,
    CLASS,
    FIRST,
    GROUP,
    KEPT,
    STARTED,
    Lines,
    Running,
    new_plan,
    next_start,
)
from volvelle.incumbents.slurm.preemption import mode_of, stoppable, stops_by_class, victims_of
from volvelle.model.arrays import Bools


def run_due(controller: Controller) -> None:
    """Run the passes that are due (``sched_interval``, ``bf_interval``; a main pass also after a change)."""
    rules, now = controller.rules, controller.now
    running = set(controller.running)
    full = now >= controller.next_main
    if controller.changed or full:
        main_pass(controller, len(controller.entries) * 9 if full else rules.main_depth)
        if full:
            controller.next_main = now + rules.main_interval
    if rules.backfills and now >= controller.next_backfill:
        backfill_pass(controller)
        controller.next_backfill = now + rules.backfill_interval
        controller.changed = False
    if controller.running.keys() != running:
        controller.changed = True


def next_due(controller: Controller) -> float:
    """When the next pass may change something."""
    now = controller.now
    if len(controller.running) == len(controller.entries):
        return FOREVER
    due = min(controller.moments(), default=FOREVER)
    if controller.changed:
        passes = controller.next_backfill, controller.next_main
        due = min([due, *(time for time in passes if time > now)])
    elif controller.running and not controller.rules.weights.basic:
        due = min(due, controller.calculated + controller.rules.weights.period)
    return due if due > now else now + 1.0


def queue(controller: Controller) -> list[Place]:
    """All jobs that come into question now, the first to be served first (``sort_job_queue``)."""
    places, now = [], controller.now
    for place in controller.waiting:
        entry = place.entry
        if entry.waits_for_time_only and entry.eligible <= now:
            entry.reason = ""
        else:
            entry.reason = controller.waits_for(entry)
        if not entry.reason and place.partition.up:
            places.append(place)
    stops = stops_by_class(controller.rules)
    if stops.any() and _out_of_order(places, stops):
        places.sort(key=cmp_to_key(lambda one, other: _compare(one, other, stops)))
    return places


def _out_of_order(places: Sequence[Place], stops: Bools) -> bool:
    """Whether a job stands behind one that it may stop."""
    before: set[int] = set()
    last = -1
    for place in places:
        kind = int(place.line[CLASS])
        if kind != last:
            before.add(kind)
            if stops[kind, list(before)].any():
                return True
            last = kind
    return False


def _compare(one: Place, other: Place, stops: Bools) -> int:
    mine, theirs = int(one.line[CLASS]), int(other.line[CLASS])
    if stops[mine, theirs]:
        return -1
    if stops[theirs, mine]:
        return 1
    return -1 if one.key < other.key else int(one.key > other.key)


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
        if not there[controller.rules.demands.ground.allowed[place.demand]].any():
            entry.reason = "ReqNodeNotAvail"
            if entry.job.required_nodes:
                continue
        failed.add(name)
        usable &= ~controller.rules.hardware.mask(place.partition.nodes)


def _is_kept(controller: Controller, place: Place) -> str:
    """The cause that keeps a job of the queue whatever nodes are free, in Slurm's words; empty: nothing."""
    if place.plain:
        return ""
    reason = controller.waits_for(place.entry) or controller.book.blocked(place.counts)
    return reason or ("Licenses" if controller.lacks_licences(place.entry) else "")


def _start(controller: Controller, place: Place, usable: Bools) -> bool:
    """Start a job on ``usable`` nodes, also by stopping others; False where it cannot."""
    entry, ground = place.entry, controller.rules.demands.ground
    if reason := controller.book.blocked(place.caps):
        entry.reason = reason
        return False
    nodes = choose(ground, place.demand, controller.free, usable)
    if nodes is None:
        found = victims_of(controller, place, usable)
        if found is None:
            return False
        nodes, victims = found
        for victim in victims:
            _stop(controller, victim)
    controller.start(place, nodes)
    return True


def _stop(controller: Controller, victim: Entry) -> None:
    """Stop a job for another: it is requeued, or cancelled where that is its mode."""
    if mode_of(controller.rules, victim) == "CANCEL":
        controller.cancelled.append(victim.number)
        controller.leave(victim.number)
    else:
        controller.requeue(victim)


def backfill_pass(controller: Controller) -> dict[int, float]:
    """Start jobs where that delays nobody before them; returns the planned starts of others, by number."""
    rules = controller.rules
    said = {place.entry: place.entry.reason for place in controller.waiting}
    places = queue(controller)
    if not places:
        return {}
    lines, running = _lines(places, len(rules.numbers)), _running(controller)
    plan = new_plan(np.array([controller.now, *rules.backfill]), running, len(places))
    chosen = np.zeros(len(running.up), dtype=np.bool_)
    reasons: dict[int, str] = {}
    at, late = 0, FOREVER
    _keep_back(controller, places, lines, at)
    while True:
        at = next_start(rules.demands.ground, lines, running, plan, chosen, at, late)
        if at < 0:
            break
        place, late = places[at], FOREVER
        group = int(place.line[GROUP])
        if _start(controller, place, chosen):
            lines.state[lines.lines[:, FIRST] == lines.lines[at, FIRST]] = STARTED
            lines.capped[:] = False
            running = _running(controller)
            at += 1
            _keep_back(controller, places, lines, at)
        elif place.entry.reason.startswith(("QOS", "Assoc", "Max")):
            lines.capped[group], reasons[group] = True, place.entry.reason
            at += 1
        else:
            late = controller.now + rules.resolution
    for place, state in zip(places, lines.state.tolist(), strict=True):
        if state == CAPPED:
            place.entry.reason = reasons[int(place.line[GROUP])]
        elif not (state or place.entry.reason):
            place.entry.reason = "Resources" if said[place.entry] == "Resources" else "Priority"
    starts = lines.planned.tolist()
    planned = {}
    for place, start in zip(places, starts, strict=True):
        if start < FOREVER and place.entry.shares is None:
            planned[place.entry.number] = start
    return planned


def _lines(places: Sequence[Place], numbers: int) -> Lines:
    """The queue as columns; ``numbers``: of users, partitions, arrays and groups."""
    count = len(places)
    columns = chain.from_iterable(place.line for place in places)
    lines = np.fromiter(columns, np.float64, count * (FIRST + 1)).reshape(count, FIRST + 1)
    first: dict[int, int] = {}
    lines[:, FIRST] = [first.setdefault(one.entry.number, at) for at, one in enumerate(places)]
    return Lines(
        lines,
        np.zeros(count, dtype=np.int64),
        np.full(count, FOREVER),
        np.zeros(numbers, dtype=np.bool_),
        np.zeros(count, dtype=np.bool_),
        *(np.zeros(numbers, dtype=np.int64) for _ in range(3)),
    )


def _running(controller: Controller) -> Running:
    """The running jobs by their end, and what they leave free."""
    rules, holdings, count = controller.rules, controller.holdings, len(controller.reservations)
    ends = np.maximum(holdings.ends, controller.now + 1.0)
    order = np.argsort(ends, kind="stable")
    stops = stoppable(controller)[:, order]
    held = np.concatenate([holdings.shares[order].T, ends[order][np.newaxis]])
    reserved = np.zeros((count, len(controller.up)), dtype=np.bool_)
    for at, one in enumerate(controller.reservations):
        reserved[at] = rules.hardware.mask(one.nodes)
    return Running(
        controller.free,
        controller.up,
        np.ascontiguousarray(held),
        np.ascontiguousarray(stops),
        reserved,
        ~reserved & reserved.any(axis=1, keepdims=True),
        np.array([one.start for one in controller.reservations], dtype=np.float64),
        np.array([one.end for one in controller.reservations], dtype=np.float64),
    )


def _keep_back(controller: Controller, places: Sequence[Place], lines: Lines, begin: int) -> None:
    """Note which lines something other than nodes keeps back now, from one on."""
    for at in range(begin, len(places)):
        if places[at].plain or lines.state[at] not in (0, KEPT):
            continue
        reason = _is_kept(controller, places[at])
        lines.state[at] = KEPT if reason else 0
        if reason:
            places[at].entry.reason = reason
