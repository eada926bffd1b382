"""Answers to the questions of the forward loop: parts that are written in Python are asked, and what they say
goes into the arrays.
"""

import math
from collections.abc import Callable
from typing import get_type_hints

import numpy as np

from volvelle.core.decision import Promise
from volvelle.core.dependencies import take_in_dependents
from volvelle.core.dividing import divide_cpus
from volvelle.core.eligibility import mean_rate
from volvelle.core.entry import admit_all, take_out
from volvelle.core.fill import TARGET, TARGET_TYPE, fill
from volvelle.core.forward.ranking import order_anew
from volvelle.core.forward.serving import change
from volvelle.core.limits import end_overrun
from volvelle.core.mistakes import is_own, misfit, mistakes_of, wrong_answer
from volvelle.core.order_policy import rank
from volvelle.core.orders import remaining_work, work_done
from volvelle.core.placing import place_jobs
from volvelle.core.policy import Allocation, Policy, beyond_gang
from volvelle.core.promises import LATE, LATENESS, OVERRAN, keeps
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import *
from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, IntColumn
from volvelle.model.problems import Problem
from volvelle.model.tolerances import GRANTED

_IMPOSSIBLE = (
    "{needed:.0f} s of work are left at least, {more:g} s more than until the guaranteed time"
)


def _allocate(scheduler: SchedulerState) -> None:
    """Ask the policy for an allocation; write what it changes."""
    s, policy = scheduler.state, scheduler.composition.policy
    if scheduler.rules.yields:
        grouped = scheduler.rules.grouped
        view = scheduler.view(s.ranked[: s.count[RANKED]] if grouped else s.order[: s.count[JOBS]])
        if (said := policy.refresh(view)) is not None:
            if said:
                scheduler.notes.notices[int(s.count[MOMENTS])] = said
            view.jobs.keep_own()
            if scheduler.remember():
                order_anew(s, scheduler.rules, view.now)
            s.count[PHASE], s.count[DIRTY] = DECISION, 1
            return
    else:
        view = scheduler.view(s.order[: s.count[JOBS]])
    asked = (
        f"it was asked at {view.now:g} s about {len(view.jobs)} job{'s' * (len(view.jobs) != 1)}"
    )
    with mistakes_of(f"policy {policy.name!r}", asked):
        allocation = policy.allocate(view)
    view.jobs.keep_own()
    scheduler.remember()
    wrong = _what_is_wrong(allocation, view) or _beyond_gang(policy, allocation, view)
    if not wrong and is_own(type(policy.decider)):
        wrong = _out_of_range(allocation, view)
    if wrong:
        kernel = policy.kernel(named=scheduler.resources.named)
        decide = policy.allocate if kernel is None else kernel.decide
        if is_own(decide):
            raise wrong_answer(f"policy {policy.name!r}", decide, wrong, mend=asked)
        raise Problem(f"policy {policy.name!r} {wrong}", mend=asked)
    if scheduler.rules.decides == KERNEL and not scheduler.rules.yields:
        raise Problem(f"policy {policy.name!r} fails as machine code only", mend=asked)
    if allocation.gpu_type is None:
        allocation = _choose_types(view, allocation)
    named = policy.next_wake(view) if allocation.ask_at == INFINITY else allocation.ask_at
    if named is not None and named <= view.now:
        raise Problem(f"policy {policy.name!r} wants to be asked at {named:g} s", mend=asked)
    s.clock[NAMED_WAKE] = INFINITY if named is None else named
    scheduler.grants.served = (
        None if allocation.order is None else np.asarray(view.jobs.rows)[allocation.order].tolist()
    )
    _write(scheduler, view, allocation)
    for given in allocation.promises:
        scheduler.promises.give(given, scheduler.notes)
    if allocation.notices:
        scheduler.notes.notices[int(s.count[MOMENTS])] = allocation.notices


def _tell(scheduler: SchedulerState) -> None:
    """Give the guarantees that the policy's kernel has made or changed."""
    for given in scheduler.composition.policy.decider.told(scheduler.spec):
        scheduler.promises.give(given, scheduler.notes)


def _what_is_wrong(allocation: object, view: View) -> str:
    """The fault of an answer, in words that follow the policy's name; empty where there is none."""
    jobs = len(view.jobs)
    if not isinstance(allocation, Allocation):
        return f"answered with {type(allocation).__name__}, not with an Allocation"
    for name, column in zip(allocation._fields[:4], allocation[:4], strict=True):
        if column is None or getattr(column, "shape", None) == (jobs,):
            continue
        if np.shape(column) != (jobs,):
            return f"gave {name} of shape {np.shape(column)} for {jobs} jobs"
    gpus = np.asarray(allocation.gpus, dtype=np.float64)
    total, least = float(gpus.sum()), float(gpus.min(initial=0.0))
    if not (least >= 0.0 and total < INFINITY):
        number = int(view.jobs.number[np.flatnonzero(~np.isfinite(gpus) | (gpus < 0.0))[0]])
        return f"gave job {number} a number of GPUs that cannot be"
    if total > view.gpus + GRANTED:
        return f"gave {total:g} of {view.gpus:g} GPUs"
    return ""


def _out_of_range(allocation: Allocation, view: View) -> str:
    """The fault in a user's own answer that is of another type or names what is not there."""
    places, kinds, nodes = np.arange(len(view.jobs)), len(view.capacity), allocation.nodes
    for name in ("promises", "notices", "ask_at"):
        if wrong := misfit(getattr(allocation, name), get_type_hints(Allocation)[name]):
            return f"gave {wrong} as {name}"
    if allocation.order is not None and not np.array_equal(np.sort(allocation.order), places):
        return f"gave an order that has not each of {len(places)} jobs once"
    if nodes is not None:
        most = np.array([[len(places)], [len(view.resources.nodes)], [INFINITY]])
        if nodes.ndim != 2 or len(nodes) != 3 or ((nodes < 0) | (nodes >= most)).any():
            return "gave nodes that are not three rows: places of jobs, nodes, GPUs there"
    if allocation.gpu_type is None:
        return ""
    types = np.asarray(allocation.gpu_type)
    beyond = types[(np.asarray(allocation.gpus) > 0.0) & ~np.isin(types, np.arange(kinds))]
    return f"gave GPU type {beyond[0]:g}, where there are {kinds}" if len(beyond) else ""


def _beyond_gang(policy: Policy, allocation: Allocation, view: View) -> str:
    """The first job that a user's own policy gives what its gang cannot hold, in such words."""
    if not is_own(type(policy)) or policy.divisible or policy.shares_gpus:
        return ""
    jobs = view.jobs
    least, most = jobs.column("least"), jobs.column("most")
    wrong = np.flatnonzero(beyond_gang(allocation.gpus, least, most, jobs.held))
    if not len(wrong):
        return ""
    job = int(wrong[0])
    gang = f"{least[job]:g}" + (f" to {most[job]:g}" if most[job] > least[job] else "")
    return (
        f"gave job {int(jobs.number[job])} {allocation.gpus[job]:g} GPUs, which runs on {gang} (whole ones) "
        "or none; a policy that gives fractions says `divisible = True`"
    )


def _write(scheduler: SchedulerState, view: View, allocation: Allocation) -> None:
    s, jobs = scheduler.state, scheduler.state.jobs
    gpus, types = allocation.gpus, allocation.gpu_type
    assert types is not None
    changed = (gpus != view.jobs.held) | (types != view.jobs.column("type"))
    reasons = float(Reason.POLICY) if allocation.reason is None else allocation.reason
    if allocation.partner is not None or np.count_nonzero(view.jobs.column("partner") >= 0.0):
        partner = allocation.partner
        if partner is None:
            partner = np.full(len(gpus), -1.0)
        partner = np.where(gpus > 0, partner, -1.0)
        changed |= (partner != view.jobs.column("partner")) & (gpus > 0)
        view.jobs.write("partner", partner)
        numbers = {int(number) for number in partner.tolist()} - {-1}
        scheduler.grants.neighbours = {number: scheduler.spec(number).name for number in numbers}
    if allocation.nodes is not None:
        if allocation.nodes.size:
            changed |= _moved(scheduler, view, allocation.nodes)
        _name_nodes(s, view, allocation.nodes[:, changed[allocation.nodes[0]]])
    view.jobs.write("reason", np.where(gpus > 0, 0.0, reasons))
    order = allocation.order
    places = changed.nonzero()[0] if order is None else order[changed[order]]
    rows = [int(view.jobs.rows[place]) for place in places.tolist()]
    for row, target, gpu_type in zip(
        rows, gpus[places].tolist(), types[places].tolist(), strict=True
    ):
        jobs.target[row], jobs.target_type[row] = target, gpu_type
        change(s, row)


def _choose_types(view: View, allocation: Allocation) -> Allocation:
    """Types for an allocation that only counts: jobs that run first, then by submission."""
    wanted = np.asarray(allocation.gpus, dtype=np.float64)
    order = rank(np.where(view.jobs.running, 0.0, 1.0))
    given = fill(view.jobs.matrix, order, wanted, wanted, view.capacity, view.quota, True, False)
    return allocation._replace(gpus=given[TARGET], gpu_type=given[TARGET_TYPE])


def _moved(scheduler: SchedulerState, view: View, nodes: IntColumn) -> BoolColumn:
    """Whether the GPUs of each job are to be on other nodes than they are."""
    resources, numbers = scheduler.resources, view.jobs.number
    gets = np.zeros(len(numbers), dtype=np.bool_)
    gets[nodes[0, nodes[2] > 0]] = True
    if not np.count_nonzero(view.jobs.held[gets]):
        return gets
    width = len(resources.nodes)
    order = np.argsort(numbers)
    slots = np.flatnonzero(resources.owner >= 0)
    places = order[np.searchsorted(numbers, resources.owner[slots], sorter=order)]
    slots, places = slots[gets[places]], places[gets[places]]
    held, now = np.unique(places * width + resources.slot_node[slots], return_counts=True)
    wanted = nodes[0] * width + nodes[1]
    keys, at = np.unique(np.concatenate([held, wanted]), return_inverse=True)
    change = np.bincount(at, np.concatenate([now, -nodes[2]]), len(keys))
    moved = np.zeros(len(view.jobs), dtype=np.bool_)
    moved[keys[change != 0.0] // width] = True
    return moved


def _name_nodes(s: State, view: View, nodes: IntColumn) -> None:
    """Note on which nodes jobs are to run: of each place a job of the view, a node and GPUs there."""
    slots, named = s.slots, 0
    for job, node, gpus in nodes[:, nodes[2] > 0].T.tolist():
        slots.named_row[named] = int(view.jobs.rows[job])
        slots.named_node[named], slots.named_gpus[named] = node, gpus
        named += 1
    s.count[NODES_NAMED] = named + 1


def _rate(scheduler: SchedulerState) -> None:
    """Say how fast jobs are believed to be that the forward loop has no formula for."""
    s = scheduler.state
    for i in range(s.count[UNRATED]):
        scheduler.beliefs.believe_rate(int(s.unrated[i]))


def _see_to_guarantees(scheduler: SchedulerState) -> None:
    """Revoke guarantees that were broken, and stop jobs for the sake of others, as the admission says."""
    if scheduler.state.clock[PROMISED] <= scheduler.now:
        _revoke_overdue(scheduler)
    if scheduler.rules.watches:
        _recall(scheduler)


def _recall(scheduler: SchedulerState) -> None:
    """Stop the jobs that the admission recalls; an overdue one loses its guarantee (decision 119)."""
    admission = scheduler.composition.admission
    part = f"admission {admission.name!r}"
    with mistakes_of(part, f"it was asked at {scheduler.now:g} s"):
        recalled = admission.recall(view := scheduler.view(), scheduler.ahead)
    if not recalled:
        return
    overdue = set(view.jobs.number[view.jobs.overdue].tolist())
    for number in recalled:
        if number not in scheduler.known:
            mend = "give numbers of jobs in the view"
            raise wrong_answer(part, admission.recall, f"gave {number!r}", mend=mend)
        scheduler.admissions.recall(number, take_out(scheduler, number))
        given = scheduler.promises.get(number)
        if number in overdue and given is not None and given.finish_by is not None:
            _revoke(scheduler, given, OVERRAN)


def _revoke_overdue(scheduler: SchedulerState) -> None:
    """Forget guarantees to jobs that have ended, and revoke overdue ones; the admission learns of both."""
    learn = scheduler.composition.admission.learn
    queue = {event.number for event in scheduler.admissions.waiting}
    for number, given in sorted(scheduler.promises.items()):
        if not any(
            number in there for there in (scheduler.known, scheduler.admissions.held, queue)
        ):
            del scheduler.promises[number]
            if given.finish_by is not None:
                learn(given, kept=True)
        elif given.finish_by is not None and not keeps(scheduler.now, given.finish_by):
            _revoke(scheduler, given, LATE)
    _watch(scheduler)


def _watch(scheduler: SchedulerState) -> None:
    """Revoke what has become impossible, and let the forward loop know when the next guarantee is due.

    A guarantee to a job that waits is due when a start would be too late, and before, in time to stop others.
    """
    jobs = scheduler.view().jobs
    early, lead = dict[int, float](), LATENESS / 2.0
    lead += float((jobs.column("checkpoint") * jobs.running).max(initial=0.0))
    for number, given in sorted(scheduler.promises.items()) if scheduler.rules.watches else ():
        if given.finish_by is None or (row := scheduler.row_of(number)) is None:
            continue
        needed = _least_seconds(scheduler, number, row)
        if not keeps(finish := scheduler.now + needed, given.finish_by):
            more = math.ceil(10.0 * (finish - given.finish_by)) / 10.0
            reason = _IMPOSSIBLE.format(needed=needed, more=more)
            _revoke(scheduler, given, reason, finish)
        elif scheduler.state.jobs.held[row] == 0.0:
            early[number] = needed
    scheduler.promises.expect(early, lead)


def _revoke(
    scheduler: SchedulerState, given: Promise, reason: str, earliest: float | None = None
) -> None:
    """Let a guarantee hold no longer, of which the admission learns; earliest: the finish that could be."""
    scheduler.composition.admission.learn(given, kept=False)
    revoked = Promise(given.number, earliest=earliest, reason=reason)
    scheduler.promises.give(revoked, scheduler.notes)


def _least_seconds(scheduler: SchedulerState, number: int, row: int) -> float:
    """Seconds that the job in ``row`` is believed to need at least from now on."""
    jobs = scheduler.state.jobs
    believed, spec = scheduler.known[number].believed, scheduler.spec(number)
    done = work_done(jobs, row, scheduler.now)
    best = max(
        mean_rate(believed, gpus, gpu_type, done)
        for place, gpu_type in enumerate(scheduler.resources.types)
        for gpus in (spec.gpus, spec.most_gpus)
        if int(jobs.types[row]) >> place & 1
    )
    return remaining_work(jobs, row, scheduler.now) / best


ANSWERS: dict[int, Callable[[SchedulerState], object]] = {
    ASK_LIMITS: end_overrun,
    ASK_PROMISES: _see_to_guarantees,
    ASK_DEPENDENCIES: take_in_dependents,
    ASK_ADMISSION: admit_all,
    ASK_POLICY: _allocate,
    ASK_TOLD: _tell,
    ASK_PLACEMENT: place_jobs,
    ASK_RATES: _rate,
    ASK_DIVISION: divide_cpus,
    ASK_WATCH: _watch,
}
