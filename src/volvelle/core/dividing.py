"""The CPUs and memory of jobs, where a policy divides them (`volvelle.core.policy.Policy.divides`)."""

import numpy as np

from volvelle.core.demand import Declared
from volvelle.core.order_policy import OrderPolicy
from volvelle.core.resources import Resources
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import CHANGED, ORDER
from volvelle.core.stock import Standing
from volvelle.core.view import JobView, rows_by_submission
from volvelle.model.arrays import IntColumn


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
    standing = _on_nodes(jobs, resources) if resources.named else _by_type(jobs)
    found = scheduler.composition.policy.divide(_declared(scheduler, jobs), standing, stock)
    if resources.named:
        owner = resources.owner
        held = owner >= 0
        resources.given[:, held] = found[:, _positions(jobs.number.astype(np.int64), owner[held])]
    changed = np.isin(rows, s.changed[: s.count[CHANGED]])
    told = changed | (jobs.column("cpus") != found[0]) | (jobs.column("memory") != found[1])
    jobs.write("cpus", found[0])
    jobs.write("memory", found[1])
    return rows[told].tolist()


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


def _by_type(jobs: JobView) -> Standing:
    return Standing(np.arange(len(jobs) + 1), jobs.column("type").astype(np.int64), jobs.held)


def _on_nodes(jobs: JobView, resources: Resources) -> Standing:
    owner, numbers = resources.owner, jobs.number.astype(np.int64)
    slots = np.flatnonzero(owner >= 0)
    nodes = len(resources.nodes)
    where = _positions(numbers, owner[slots]) * nodes + resources.slot_node[slots]
    places, gpus = np.unique(where, return_counts=True)
    first = np.searchsorted(places // nodes, np.arange(len(numbers) + 1))
    return Standing(first, places % nodes, gpus.astype(np.float64))


def _positions(numbers: IntColumn, wanted: IntColumn) -> IntColumn:
    """Where in ``numbers`` each of ``wanted`` stands."""
    by_number = np.argsort(numbers)
    positions: IntColumn = by_number[np.searchsorted(numbers, wanted, sorter=by_number)]
    return positions
