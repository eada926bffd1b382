"""The CPUs and memory of jobs, where a policy divides them (`volvelle.core.policy.Policy.divides`)."""

import math
from typing import Any

import numpy as np

from volvelle.core.columns import (
    DECLARED_CPUS,
    DECLARED_MEMORY,
    GPUS,
    HELD,
    NUMBER,
    TABLE,
    TYPE,
    UNIT_RATE,
)
from volvelle.core.compiled import compiled
from volvelle.core.decision import Sharing
from volvelle.core.demand import Declared
from volvelle.core.forward.jobs import settle_work
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import CHANGED, MOMENTS, ORDER, PLACE, RANKED
from volvelle.core.stock import Standing
from volvelle.model.arrays import Floats, Ints
from volvelle.model.sensitivity import Sensitivity

_CPUS, _MEMORY = PLACE["cpus"], PLACE["memory"]


def divide_cpus(scheduler: SchedulerState) -> list[int]:
    """Let the policy divide CPUs and memory among the jobs with GPUs; the rows of jobs that are reported.

    These are jobs that have other amounts than before, and all whose GPUs this decision changes.
    """
    s, resources = scheduler.state, scheduler.resources
    rows = _served(scheduler)
    if resources.stock is None or not len(rows):
        return []
    stock = resources.stock if resources.named else resources.stock_by_type()
    jobs, slots = s.jobs, s.slots
    stand, give = (_stand, _give) if s.compiled else (_stand.py_func, _give.py_func)
    first, place, gpus, amounts, unknown = stand(
        rows, jobs.floats, jobs.slot, slots.next, slots.node, resources.named
    )
    profiles = {
        at: profile
        for at in unknown.tolist()
        if (profile := _profile_of(scheduler, int(rows[at]))) is not None
    }
    found: Any = np.asarray(
        scheduler.composition.policy.divide(
            Declared(amounts, profiles), Standing(first, place, gpus), stock
        ),
        dtype=np.float64,
    )
    changed = s.changed[: s.count[CHANGED]]
    found = found if s.compiled else found.tolist()
    told, numbers, shares = give(
        rows, found, jobs.floats, jobs.slot, slots.next, resources.given, changed
    )
    reported: list[int] = told.tolist()
    for row in reported:
        if _profile_of(scheduler, row) is not None:
            settle_work(s, row, scheduler.now)
            scheduler.beliefs.believe_rate(row)
    if reported:
        scheduler.notes.divisions[int(s.count[MOMENTS])] = Sharing(numbers, *shares)
    return reported


def _served(scheduler: SchedulerState) -> Any:
    """The rows of jobs with GPUs in the order in which the decision served them, as the state has rows."""
    s, served = scheduler.state, scheduler.grants.served
    if scheduler.rules.decides == ORDER or served is None:
        return s.ranked[: s.count[RANKED]]
    rows = [row for row in served if s.jobs.held[row] > 0.0]
    return np.array(rows, dtype=np.int64) if s.compiled else rows


def _profile_of(scheduler: SchedulerState, row: int) -> Sensitivity | None:
    """The profile that a job is believed to have; no job whose rate the forward loop knows has one."""
    jobs = scheduler.state.jobs
    if not math.isnan(jobs.unit_rate[row]) or jobs.table[row] >= 0.0:
        return None
    return scheduler.known[int(jobs.number[row])].believed.sensitivity


@compiled
def _stand(
    rows: Ints, floats: Floats, slot: Ints, following: Ints, node: Ints, named: bool
) -> tuple[Ints, Ints, Floats, Floats, Ints]:
    """`Standing` of the jobs in ``rows``, whose slots ascend; amounts that they declare per GPU.

    Last are the places in ``rows`` of jobs whose rate is no formula of the forward loop.
    named: GPUs are on nodes, not only counted.
    """
    jobs = len(rows)
    first, amounts = np.zeros(jobs + 1, dtype=np.int64), np.zeros((2, jobs))
    most = len(node) if named else jobs
    place, gpus = np.zeros(most, dtype=np.int64), np.zeros(most)
    unknown = np.zeros(jobs, dtype=np.int64)
    many = strange = 0
    for job in range(jobs):
        row = rows[job]
        if named:
            one = slot[row]
            while one >= 0:
                if many == first[job] or place[many - 1] != node[one]:
                    place[many] = node[one]
                    many += 1
                gpus[many - 1] += 1.0
                one = following[one]
        else:
            place[many], gpus[many] = int(floats[TYPE][row]), floats[HELD][row]
            many += 1
        first[job + 1] = many
        amounts[0, job] = floats[DECLARED_CPUS][row] / floats[GPUS][row]
        amounts[1, job] = floats[DECLARED_MEMORY][row] / floats[GPUS][row]
        if np.isnan(floats[UNIT_RATE][row]) and floats[TABLE][row] < 0.0:
            unknown[strange] = job
            strange += 1
    return first, place[:many].copy(), gpus[:many].copy(), amounts, unknown[:strange].copy()


@compiled
def _give(
    rows: Ints,
    found: Floats,
    floats: Floats,
    slot: Ints,
    following: Ints,
    given: Floats,
    changed: Ints,
) -> tuple[Ints, Ints, Floats]:
    """Write the amounts ``found`` per GPU; the rows that are reported, their jobs' numbers and amounts."""
    anew = np.zeros(len(slot), dtype=np.bool_)
    for i in range(len(changed)):
        anew[changed[i]] = True
    told, numbers = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    shares, many = np.zeros((2, len(rows))), 0
    for job in range(len(rows)):
        row, cpus, memory = rows[job], found[0][job], found[1][job]
        one = slot[row]
        while one >= 0:
            given[0, one], given[1, one] = cpus, memory
            one = following[one]
        if anew[row] or floats[_CPUS][row] != cpus or floats[_MEMORY][row] != memory:
            told[many], numbers[many] = row, int(floats[NUMBER][row])
            shares[0, many], shares[1, many] = (
                cpus * floats[HELD][row],
                memory * floats[HELD][row],
            )
            many += 1
        floats[_CPUS][row], floats[_MEMORY][row] = cpus, memory
    return told[:many].copy(), numbers[:many].copy(), shares[:, :many].copy()
