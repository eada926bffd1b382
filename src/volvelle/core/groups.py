"""Decisions by groups: of jobs that are kept in groups only those are looked at that matter.

A policy that serves jobs of a kind in order of submission says in which group a job is (`Kernel.group`). The
core keeps the groups (`volvelle.core.forward.groups`), so that a decision costs what runs and what it starts,
however many jobs wait. Where it cannot keep them, groups are made of all jobs for each decision.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from volvelle.core.columns import COUNT, CURVE, HELD, MOST
from volvelle.core.compiled import compiled, kernel
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow
from volvelle.core.machine_code.kernels import completed
from volvelle.core.state import CHANGED
from volvelle.model.arrays import Floats, Ints


class Grouped(NamedTuple):
    """The jobs in the system in groups, each in order of submission. A row is a job's place in all columns.

    columns: [column][row] (`volvelle.core.columns`). own: the first of the policy's own columns. curve: where
    in `ClusterNow.rates` each job's rates are. group: of each job. running: the rows of jobs that hold GPUs,
    by submission, ``runs`` of them. first: each group's first job. next: the job behind each in its group.
    demand: GPUs that each group's jobs can use. oldest: the first of all jobs. younger: the job behind each
    among all. -1 stands for no job.
    """

    columns: Any
    own: int
    curve: Any
    group: Any
    running: Any
    runs: int
    first: Any
    next: Any
    demand: Any
    oldest: int
    younger: Any


class Changes(NamedTuple):
    """Changes of a decision by groups; jobs that it does not note stay as they are.

    gpus, gpu_type, reason: by row, of jobs that are noted. Jobs that wait do so for GPUs unless it says
    otherwise. gpus is 0 at first for jobs that wait. rows: of jobs that are noted (`change`), in the order in
    which they are placed. counters: how many.
    """

    gpus: Any
    gpu_type: Any
    reason: Any
    rows: Any
    counters: Any


@kernel
def change(out: Changes, row: int) -> None:
    """Note that the decision changes what the job in ``row`` holds."""
    out.rows[out.counters[CHANGED]] = row
    out.counters[CHANGED] += 1


@kernel
def sort_by_number(numbers: Any, rows: Any, many: int) -> None:
    """Sort the first ``many`` of ``rows`` by submission."""
    for i in range(1, many):
        row, at = rows[i], i
        while at > 0 and numbers[rows[at - 1]] > numbers[row]:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row


@kernel
def in_groups(columns: Any, own: int, curve: Any, group: Any, groups: int, rows: Ints) -> Grouped:
    """The jobs in ``rows``, by submission, in groups of their own. group: of each job."""
    running, runs, oldest = np.empty(len(rows), np.int64), 0, -1
    first, last, demand = np.full(groups, -1), np.full(groups, -1), np.zeros(groups)
    following, younger = np.full(len(group), -1), np.full(len(group), -1)
    for i in range(len(rows)):
        row, mine = rows[i], int(group[rows[i]])
        if i == 0:
            oldest = row
        else:
            younger[rows[i - 1]] = row
        if last[mine] < 0:
            first[mine] = row
        else:
            following[last[mine]] = row
        last[mine] = row
        demand[mine] += columns[MOST][row]
        if columns[HELD][row] > 0.0:
            running[runs] = row
            runs += 1
    return Grouped(
        columns,
        own,
        curve,
        group,
        running,
        runs,
        first,
        following,
        demand,
        oldest,
        younger,
    )


@kernel
def _decide(jobs: Any, cluster: ClusterNow, memory: Any, out: Any) -> float:
    """In the place of a policy's own (`volvelle.core.policy.Kernel`)."""
    return np.inf


def _decide_over_all(
    matrix: Floats,
    group: Ints,
    groups: int,
    cluster: ClusterNow,
    memory: Floats,
    out: Floats,
    rows: Ints,
    counters: Ints,
) -> float:
    """A decision by groups about all jobs, which are put in groups first; (3, jobs) is written."""
    jobs = in_groups(matrix, COUNT, matrix[CURVE], group, groups, np.arange(matrix.shape[1]))
    changes = Changes(out[TARGET], out[TARGET_TYPE], out[TARGET_REASON], rows, counters)
    return float(_decide(jobs, cluster, memory, changes))


@cache
def over_all(decide: Any) -> Callable[..., float]:
    """The loop in which a policy's ``decide`` decides about jobs that are in no groups yet."""
    return compiled(completed(_decide_over_all, _decide=decide))
