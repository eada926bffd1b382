"""The CPUs and memory of jobs, where a policy divides them (`volvelle.core.policy.Policy.divides`)."""

import numpy as np

from volvelle.core.resources import Resources
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import CHANGED
from volvelle.core.stock import Standing
from volvelle.core.view import rows_by_submission
from volvelle.model.arrays import IntColumn


def divide(scheduler: SchedulerState) -> list[int]:
    """Let the policy divide CPUs and memory among the jobs that have GPUs; the rows to be reported.

    Returned are jobs that have other amounts than before, and all whose GPUs this decision changes.
    """
    s, resources = scheduler.state, scheduler.resources
    jobs = s.jobs
    stock = resources.stock if resources.named else resources.stock_by_type()
    served = rows_by_submission(s) if scheduler.grants.served is None else scheduler.grants.served
    rows = [int(row) for row in served if jobs.held[row] > 0.0]
    if stock is None or resources.stock is None or not rows:
        return []
    numbers = [int(jobs.number[row]) for row in rows]
    standing = _on_nodes(numbers, resources) if resources.named else _by_type(scheduler, rows)
    policy = scheduler.composition.policy
    found = policy.divide([scheduler.known[number] for number in numbers], standing, stock)
    if resources.named:
        owner = resources.owner
        held = owner >= 0
        resources.given[:, held] = found[:, _positions(np.array(numbers), owner[held])]
    changed = {int(s.changed[i]) for i in range(s.count[CHANGED])}
    told = []
    for row, (cpus, memory) in zip(rows, found.T.tolist(), strict=True):
        if row in changed or (jobs.cpus[row], jobs.memory[row]) != (cpus, memory):
            told.append(row)
        jobs.cpus[row], jobs.memory[row] = cpus, memory
    return told


def _by_type(scheduler: SchedulerState, rows: list[int]) -> Standing:
    jobs = scheduler.state.jobs
    return Standing(
        np.arange(len(rows) + 1),
        np.array([int(jobs.type[row]) for row in rows], dtype=np.int64),
        np.array([float(jobs.held[row]) for row in rows]),
    )


def _on_nodes(numbers: list[int], resources: Resources) -> Standing:
    owner = resources.owner
    slots = np.flatnonzero(owner >= 0)
    nodes = len(resources.nodes)
    where = _positions(np.array(numbers), owner[slots]) * nodes + resources.slot_node[slots]
    places, gpus = np.unique(where, return_counts=True)
    first = np.searchsorted(places // nodes, np.arange(len(numbers) + 1))
    return Standing(first, places % nodes, gpus.astype(np.float64))


def _positions(numbers: IntColumn, wanted: IntColumn) -> IntColumn:
    """Where in ``numbers`` each of ``wanted`` stands."""
    by_number = np.argsort(numbers)
    positions: IntColumn = by_number[np.searchsorted(numbers, wanted, sorter=by_number)]
    return positions
