"""Jobs in groups, each in order of submission, where a policy decides by groups."""

from collections.abc import Callable
from functools import cache
from typing import Any

from volvelle.core.compiled import kernel
from volvelle.core.fill import ClusterNow
from volvelle.core.forward.running import list_running
from volvelle.core.groups import Changes, Grouped
from volvelle.core.machine_code.kernels import completed
from volvelle.core.state import *


@kernel
def empty_groups(s: State) -> None:
    """Let no job be in any group."""
    groups = s.groups
    for group in range(len(groups.demand)):
        groups.first[group] = groups.last[group] = -1
        groups.demand[group] = 0.0


@kernel
def join_group(s: State, row: int) -> None:
    """Let the job in ``row`` be in the group that the policy names, behind those submitted before it."""
    jobs, groups = s.jobs, s.groups
    group = s.group(s, row)
    jobs.kind[row] = group
    before = groups.last[group]
    while before >= 0 and jobs.number[before] > jobs.number[row]:
        before = jobs.previous[before]
    after = groups.first[group] if before < 0 else jobs.next[before]
    _link(s, group, before, row)
    _link(s, group, row, after)
    groups.demand[group] += jobs.most[row]


@kernel
def leave_group(s: State, row: int) -> None:
    """Take the job in ``row`` out of its group."""
    jobs, groups = s.jobs, s.groups
    group = jobs.kind[row]
    _link(s, group, jobs.previous[row], jobs.next[row])
    groups.demand[group] -= jobs.most[row]
    if groups.first[group] < 0:  # no rounding of fractions is left
        groups.demand[group] = 0.0


@kernel
def _link(s: State, group: int, row: int, after: int) -> None:
    """Let one job come after another; -1: the ends of the group."""
    if row < 0:
        s.groups.first[group] = after
    else:
        s.jobs.next[row] = after
    if after < 0:
        s.groups.last[group] = row
    else:
        s.jobs.previous[after] = row


# ---------------------------------------------------------------------- what a policy says


@kernel
def _group(columns: Any, own: int, row: int, curve: int, rates: Any, memory: Any) -> int:
    """In the place of a policy's own (`volvelle.core.policy.Kernel`)."""
    return 0


@kernel
def _decide(jobs: Any, cluster: ClusterNow, memory: Any, out: Any) -> float:
    """Likewise."""
    return INFINITY


def _group_of(s: State, row: int) -> int:
    """The group of the job in ``row``, which the policy names."""
    jobs = s.jobs
    curve = int(jobs.table[row])
    return int(_group(jobs.floats, COLUMNS, row, curve, s.rates, array_of(s.memory)))


def _decide_by_groups(s: State) -> float:
    """Let the policy change what jobs hold; when to ask again."""
    jobs, groups = s.jobs, s.groups
    list_running(s)
    grouped = Grouped(
        jobs.floats,
        COLUMNS,
        jobs.table,
        jobs.kind,
        s.ranked,
        s.count[RANKED],
        groups.first,
        jobs.next,
        groups.demand,
        s.count[OLDEST],
        jobs.younger,
    )
    pools, clock = s.pools, s.clock
    cluster = ClusterNow(
        clock[NOW],
        s.types.capacity,
        pools.quota,
        pools.owned,
        pools.lends,
        s.rates,
        clock[CPUS],
        clock[MEMORY],
    )
    out = Changes(jobs.target, jobs.target_type, jobs.reason, s.changed, s.count)
    return float(_decide(grouped, cluster, array_of(s.memory), out))


@cache
def by_groups(group: Any, decide: Any) -> tuple[Callable[..., int], Callable[..., float]]:
    """The state's kernels for a policy that decides by groups (`volvelle.core.policy.Kernel`)."""
    return completed(_group_of, _group=group), completed(_decide_by_groups, _decide=decide)
