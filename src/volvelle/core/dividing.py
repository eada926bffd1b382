"""The CPUs and memory of jobs, where a policy divides them (`volvelle.core.policy.Policy.divides`)."""

import numpy as np

from volvelle.core.compiled import compiled
from volvelle.core.decision import NO_INTS
from volvelle.core.demand import Declared
from volvelle.core.order_policy import OrderPolicy
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import CHANGED, ORDER, State
from volvelle.core.stock import Standing
from volvelle.core.view import JobView, rows_by_submission
from volvelle.model.arrays import Floats, IntColumn, Ints


def divide(scheduler: SchedulerState) -> list[int]:
    """Let the policy divide CPUs and memory among the jobs that have GPUs; the rows to be reported.

    Returned are jobs that have other amounts than before, and all whose GPUs this decision changes.
    """
    s, resources = scheduler.state, scheduler.resources
    stock = resources.stock if resources.named else resources.stock_by_type()
    rows = _served(scheduler)
    rows = rows[np.asarray(s.jobs.held)[rows] > 0.0]
    if stock is None or resources.stock is None or not len(rows):
        return []
    jobs = JobView(s, scheduler.now, rows if s.compiled else rows.tolist())
    standing, slots, owner = _on_nodes(rows, s) if resources.named else _by_type(jobs)
    found = scheduler.composition.policy.divide(_declared(scheduler, jobs), standing, stock)
    resources.given[:, slots] = found[:, owner]
    told = (jobs.column("cpus") != found[0]) | (jobs.column("memory") != found[1])
    changed = np.zeros(len(s.jobs), dtype=np.bool_)
    changed[s.changed[: s.count[CHANGED]]] = True
    told |= changed[rows]
    jobs.write("cpus", found[0])
    jobs.write("memory", found[1])
    reported: list[int] = rows[told].tolist()
    return reported


def _served(scheduler: SchedulerState) -> IntColumn:
    """The rows of jobs in the order in which the decision served them."""
    s, decider = scheduler.state, scheduler.composition.policy.decider
    if scheduler.rules.decides == ORDER and isinstance(decider, OrderPolicy):
        view = scheduler.view()
        return np.array(view.jobs.rows, dtype=np.int64)[decider.served(view)]
    served = scheduler.grants.served
    return np.array(rows_by_submission(s) if served is None else served, dtype=np.int64)


def _declared(scheduler: SchedulerState, jobs: JobView) -> Declared:
    """The declarations of jobs, and profiles of those whose rate is no formula of the forward loop."""
    amounts = np.stack([jobs.column("declared_cpus"), jobs.column("declared_memory")]) / jobs.gpus
    profiles = {}
    for place in np.flatnonzero(np.isnan(jobs.column("unit_rate")) & (jobs.column("table") < 0.0)):
        profile = scheduler.known[int(jobs.number[place])].believed.sensitivity
        if profile is not None:
            profiles[int(place)] = profile
    return Declared(amounts, profiles)


def _by_type(jobs: JobView) -> tuple[Standing, IntColumn, IntColumn]:
    places = np.arange(len(jobs) + 1), jobs.column("type").astype(np.int64)
    return Standing(*places, jobs.held), NO_INTS, NO_INTS


def _on_nodes(rows: IntColumn, s: State) -> tuple[Standing, IntColumn, IntColumn]:
    """Where the jobs in ``rows`` stand; their slots, and the places in ``rows`` of the owners of these."""
    columns = s.jobs.slot, s.slots.next, s.slots.node
    found = _stand(rows, *(np.asarray(column, dtype=np.int64) for column in columns))
    first, place, gpus, slots, owner = found
    return Standing(first, place, gpus), slots, owner


@compiled
def _stand(
    rows: Ints, slot: Ints, following: Ints, node: Ints
) -> tuple[Ints, Ints, Floats, Ints, Ints]:
    """`Standing` of the jobs in ``rows``, whose slots ascend, and their slots with their owners."""
    first = np.zeros(len(rows) + 1, dtype=np.int64)
    place, gpus = np.zeros(len(node), dtype=np.int64), np.zeros(len(node))
    slots, owner = np.zeros(len(node), dtype=np.int64), np.zeros(len(node), dtype=np.int64)
    many = held = 0
    for job in range(len(rows)):
        one = slot[rows[job]]
        while one >= 0:
            if many == first[job] or place[many - 1] != node[one]:
                place[many] = node[one]
                many += 1
            gpus[many - 1] += 1.0
            slots[held], owner[held] = one, job
            held += 1
            one = following[one]
        first[job + 1] = many
    return first, place[:many].copy(), gpus[:many].copy(), slots[:held].copy(), owner[:held].copy()
