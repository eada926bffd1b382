"""Sites that decide by whole GPUs alone, which machine code decides as long as nobody is preempted.

Such a site has one flavour of one resource, and its cohorts have no parents, so that a cycle compares whole
numbers. A cluster whose Kueue is not described is one: a queue for each pool, in a cohort that owns all GPUs.
The kernel yields to `volvelle.incumbents.kueue.books` where a head may preempt, where the queue of a job is
not known yet, and where more than quota decides: several GPU types, nodes that are gone, changed quotas.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from volvelle.core.columns import COUNT, GPUS, HELD, LEAST, NUMBER, POOL, PRIORITY, SUBMIT, TYPES
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_TYPE, ClusterNow
from volvelle.core.state import INFINITY
from volvelle.core.view import JobView
from volvelle.incumbents.kueue.flat_quotas import ANY, NEVER, NEWER, ROOM, Quotas, quotas_in
from volvelle.incumbents.kueue.objects import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Selector,
)
from volvelle.incumbents.kueue.site import Site
from volvelle.model.arrays import BoolColumn, FloatColumn, Floats, IntColumn, Ints

GPU = "nvidia.com/gpu"
EVERYTHING = "gpus"
"""The queue and the flavour of a cluster that is not described."""

ASIDE, TRIED, GRANTED, QUEUE, BASE, RUNS = range(COUNT, COUNT + 6)
"""Own columns: 1 for a job set aside until quota is freed, its priority at the last decision, its turn among
those that have quota (0: it has none), 1 where it runs by the books; of a described site its queue from 1 on
(0: not known yet, -1: more than GPUs decides), and by how much its workload's priority is above its own."""
DESCRIBED = -1
"""The number of pools where the site is described."""
STATE, TURNS, POOLS, QUEUES, TOTAL, _HEAD = range(6)
"""Memory: by whom the last decision was, how many turns there were, how many pools there are or
`DESCRIBED`, how many queues (0: only Python may decide), and the most GPUs that there may be. Behind them are
`Quotas`."""
_PYTHONS, _PLAIN, _KERNELS = range(3)
"""States: only Python may decide, Python has decided and the kernel may go on, the kernel has decided."""


def site(gpus: float, pools: Mapping[str, float]) -> Site:
    """The site: a cohort with all GPUs, of which pools borrow their quotas."""

    def group(nominal: float, limit: float | None = None) -> list[ResourceGroup]:
        quota = ResourceQuota(GPU, nominal, limit)
        return [ResourceGroup([GPU], [FlavorQuotas(EVERYTHING, [quota])])]

    limits: dict[str, float | None] = {EVERYTHING: None, **pools}
    queues = {
        name: ClusterQueue(
            name=name,
            cohort_name=EVERYTHING,
            resource_groups=group(0, limit),
            namespace_selector=Selector(),
        )
        for name, limit in limits.items()
    }
    return Site(
        queues=queues,
        cohorts={EVERYTHING: Cohort(name=EVERYTHING, resource_groups=group(gpus))},
        flavors={EVERYTHING: ResourceFlavor(name=EVERYTHING)},
    )


def begin() -> Floats:
    """The memory before the first decision."""
    return np.zeros(_HEAD + len(Quotas._fields) * ROOM)


def open_for(memory: Floats, quotas: Quotas | None, total: float, pools: int) -> None:
    """Note a site's quotas. total: the most GPUs that there may be; pools: their number, or `DESCRIBED`."""
    memory[:] = 0.0
    if quotas is not None:
        memory[POOLS], memory[QUEUES], memory[TOTAL] = pools, len(quotas.nominal), total
        for column, values in zip(quotas_in(memory[_HEAD:]), quotas, strict=True):
            column[: len(values)] = values


def is_open(memory: Floats) -> bool:
    """Whether the kernel may decide at all."""
    return bool(memory[QUEUES] > 0.0)


def asks_for_queues(memory: Floats, own: Floats) -> bool:
    """Whether the kernel yields because the queues of some jobs are not known yet."""
    described = memory[STATE] != _PYTHONS and memory[POOLS] == DESCRIBED
    return bool(described and (own[QUEUE - COUNT] == 0.0).any())


def note(
    memory: Floats, jobs: JobView, gpus: FloatColumn, first: IntColumn, aside: Ints, *, whole: bool
) -> None:
    """Python has decided. first: places of jobs that have quota, as they were admitted; aside: of those that
    are set aside. whole: nobody is being preempted, and admitted jobs all have GPUs.
    """
    own, queues = jobs.own, _queues(memory, jobs)
    memory[STATE] = _PLAIN if whole and (queues >= 0).all() else _PYTHONS
    memory[TURNS] = len(first)
    own[ASIDE - COUNT] = own[GRANTED - COUNT] = 0.0
    own[ASIDE - COUNT, aside], own[TRIED - COUNT] = 1.0, jobs.priority
    own[GRANTED - COUNT, first] = np.arange(1.0, len(first) + 1.0) * (gpus[first] > 0.0)
    if memory[STATE] == _PLAIN:
        quotas_in(memory[_HEAD:]).used[:] = _by_queue(queues, gpus)


def since(memory: Floats, jobs: JobView) -> tuple[list[int], BoolColumn] | None:
    """Queues in whose cohorts quota was freed since the kernel's decision, and jobs to be set aside as there.

    None where the last decision was none of the kernel's.
    """
    if memory[STATE] != _KERNELS:
        return None
    held, own, queues = jobs.held, jobs.own, _queues(memory, jobs)
    quotas = quotas_in(memory[_HEAD:])
    changed = _by_queue(queues, held) != quotas.used
    changed[queues[(own[GRANTED - COUNT] > 0.0) & (held == 0.0)]] = True
    freed = np.isin(quotas.tree, quotas.tree[changed])
    aside = (own[ASIDE - COUNT] > 0.0) & (own[TRIED - COUNT] == jobs.priority) & ~freed[queues]
    return np.flatnonzero(freed[: int(memory[QUEUES])]).tolist(), aside


def _queues(memory: Floats, jobs: JobView) -> IntColumn:
    """The queue of each job."""
    described = memory[POOLS] < 0.0
    queues = jobs.own[QUEUE - COUNT] - 1.0 if described else jobs.column("pool") + 1.0
    return queues.astype(np.int64)


def _by_queue(queues: IntColumn, gpus: FloatColumn) -> FloatColumn:
    """GPUs by queue."""
    known = queues >= 0
    return np.bincount(queues[known], gpus[known], ROOM).astype(np.float64)


class Standing(NamedTuple):
    """The jobs as a decision goes on: of each its queue, its workload's priority, its GPUs, whether it is set
    aside. used, lent: GPUs of each queue, and those of each cohort that its queues do not keep to themselves.
    """

    queue: Ints
    priority: Floats
    gpus: Floats
    aside: Floats
    used: Floats
    lent: Floats


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`); it yields where it is Python's."""
    quotas = quotas_in(memory[_HEAD:])
    if not _is_plain(jobs, cluster, memory, quotas):
        return -INFINITY
    many, queues = jobs.shape[1], int(memory[QUEUES])
    now = _standing(jobs, memory, quotas)
    turns, granted, order = memory[TURNS], jobs[GRANTED].copy(), np.empty(many, np.int64)
    some, heads, wants = 0, np.empty(queues, np.int64), np.empty(queues)
    keeps, borrows = np.empty(queues), np.empty(queues)
    while _find_heads(jobs, now, heads):
        for queue in range(queues):
            wants[queue] = keeps[queue] = 0.0
            head = heads[queue]
            if head < 0:
                continue
            gpus, room = jobs[GPUS, head], _available(quotas, now, queue)
            beyond = now.used[queue] + gpus > quotas.nominal[queue]
            borrows[queue] = 1.0 if beyond else 0.0
            if jobs[LEAST, head] <= room:
                wants[queue] = min(gpus, room)
                continue
            if gpus <= quotas.nominal[queue]:  # else it has to borrow, and may not preempt for that
                if _may_preempt(jobs, quotas, now, head, beyond):
                    return -INFINITY
                if quotas.reclaim[queue] != ANY:
                    most = quotas.nominal[queue] + (quotas.limit[queue] if beyond else 0.0)
                    keeps[queue] = min(gpus, most - now.used[queue])
            _put_aside(jobs, now, head)
        queue = _next_turn(jobs, now, heads, borrows)
        while queue >= 0:
            row, want = heads[queue], wants[queue]
            heads[queue] = -1
            if want == 0.0:
                _count(quotas, now, queue, keeps[queue])
            elif want <= _available(quotas, now, queue):
                now.gpus[row] = want
                _count(quotas, now, queue, want)
                order[some], some = row, some + 1
                granted[row] = turns + some
            queue = _next_turn(jobs, now, heads, borrows)
        for queue in range(queues):
            _count(quotas, now, queue, -keeps[queue])
    if now.gpus.sum() > cluster.capacity[0]:
        return -INFINITY
    memory[STATE], memory[TURNS] = _KERNELS, turns + some
    for row in range(many):
        gpus, turn = now.gpus[row], granted[row]
        out[TARGET, row], out[TARGET_TYPE, row] = gpus, 0.0 if gpus > 0.0 else -1.0
        if turn > turns:
            jobs[RUNS, row] = 0.0  # the books do not know it
        else:
            order[some], some = row, some + 1
        jobs[GRANTED, row] = turn if gpus > 0.0 else 0.0
        jobs[ASIDE, row], jobs[TRIED, row] = now.aside[row], jobs[PRIORITY, row]
    out[3], quotas.used[:queues] = order, now.used
    return INFINITY


@kernel
def _is_plain(jobs: Floats, cluster: ClusterNow, memory: Floats, quotas: Quotas) -> bool:
    """Whether GPUs, as many as quotas say, are all that there is to decide about."""
    if memory[STATE] == _PYTHONS or len(cluster.capacity) != 1:
        return False
    if cluster.capacity[0] > memory[TOTAL] or len(cluster.quota) != max(memory[POOLS], 0.0):
        return False
    for pool in range(len(cluster.quota)):
        if cluster.quota[pool] != quotas.limit[pool + 1]:
            return False
    if memory[POOLS] < 0.0 and (jobs[QUEUE] <= 0.0).any():
        return False
    return not (jobs[TYPES] == 0.0).any()


@kernel
def _standing(jobs: Floats, memory: Floats, quotas: Quotas) -> Standing:
    """The jobs as they are now: where quota was freed or a priority has changed, they are tried again."""
    many, queues = jobs.shape[1], int(memory[QUEUES])
    queue, priority = np.empty(many, np.int64), jobs[PRIORITY] + jobs[BASE]
    used, lent = np.zeros(queues), np.zeros(queues)
    now = Standing(queue, priority, jobs[HELD].copy(), jobs[ASIDE].copy(), used, lent)
    freed = np.zeros(queues, np.bool_)
    for row in range(many):
        at = int(jobs[QUEUE, row] - 1.0 if memory[POOLS] < 0.0 else jobs[POOL, row] + 1.0)
        queue[row] = at
        used[at] += jobs[HELD, row]
        if jobs[GRANTED, row] > 0.0 and jobs[HELD, row] == 0.0:
            freed[int(quotas.tree[at])] = True
    for at in range(queues):
        tree = int(quotas.tree[at])
        lent[tree] += max(used[at] - quotas.kept[at], 0.0)
        if used[at] != quotas.used[at]:
            freed[tree] = True
    for row in range(many):
        if freed[int(quotas.tree[queue[row]])] or jobs[TRIED, row] != jobs[PRIORITY, row]:
            now.aside[row] = 0.0
    return now


@kernel
def _count(quotas: Quotas, now: Standing, queue: int, gpus: float) -> None:
    """Count so many GPUs more as a queue's."""
    tree, kept = int(quotas.tree[queue]), quotas.kept[queue]
    now.lent[tree] -= max(now.used[queue] - kept, 0.0)
    now.used[queue] += gpus
    now.lent[tree] += max(now.used[queue] - kept, 0.0)


@kernel
def _available(quotas: Quotas, now: Standing, queue: int) -> float:
    """GPUs that are left to a queue (`volvelle.incumbents.kueue.quota.Node.available`)."""
    tree, kept, used = int(quotas.tree[queue]), quotas.kept[queue], now.used[queue]
    within = quotas.nominal[queue] - kept - max(used - kept, 0.0) + quotas.limit[queue]
    return float(max(kept - used, 0.0) + min(within, quotas.shared[tree] - now.lent[tree]))


@kernel
def _may_preempt(jobs: Floats, quotas: Quotas, now: Standing, head: int, beyond: bool) -> bool:
    """Whether there is a job that a head could be let in for, as far as a look at each says.

    beyond: it would borrow, so that it reclaims nothing from others.
    """
    mine = now.queue[head]
    for row in range(len(now.gpus)):
        its = now.queue[row]
        if now.gpus[row] == 0.0:
            continue
        rule = quotas.within[mine] if its == mine else quotas.reclaim[mine]
        if its != mine and (
            beyond or quotas.tree[its] != quotas.tree[mine] or now.used[its] <= quotas.nominal[its]
        ):
            continue
        lower = now.priority[row] < now.priority[head]
        newer = now.priority[row] == now.priority[head] and jobs[SUBMIT, row] > jobs[SUBMIT, head]
        if rule == ANY or (rule > NEVER and lower) or (rule == NEWER and newer):
            return True
    return False


@kernel
def _find_heads(jobs: Floats, now: Standing, heads: Ints) -> bool:
    """Write the first job of each queue that is neither set aside nor admitted, -1 for none."""
    heads[:] = -1
    found = False
    for row in range(len(now.gpus)):
        if now.gpus[row] == 0.0 and now.aside[row] == 0.0:
            queue, found = now.queue[row], True
            head = heads[queue]
            if head < 0 or _is_before(jobs, now, row, head):
                heads[queue] = row
    return found


@kernel
def _is_before(jobs: Floats, now: Standing, one: int, other: int) -> bool:
    """Whether a job stands before another in their queue: by priority, then by time, then by number."""
    if now.priority[one] != now.priority[other]:
        return bool(now.priority[one] > now.priority[other])
    if jobs[SUBMIT, one] != jobs[SUBMIT, other]:
        return bool(jobs[SUBMIT, one] < jobs[SUBMIT, other])
    return bool(jobs[NUMBER, one] < jobs[NUMBER, other])


@kernel
def _put_aside(jobs: Floats, now: Standing, head: int) -> None:
    """Set a head aside, and all jobs of its queue that are like it."""
    for row in range(len(now.gpus)):
        if now.gpus[row] == 0.0 and now.queue[row] == now.queue[head]:
            alike = jobs[GPUS, row] == jobs[GPUS, head] and jobs[LEAST, row] == jobs[LEAST, head]
            alike = alike and jobs[TYPES, row] == jobs[TYPES, head]
            if alike and now.priority[row] == now.priority[head]:
                now.aside[row] = 1.0


@kernel
def _next_turn(jobs: Floats, now: Standing, heads: Ints, borrows: Floats) -> int:
    """The queue of the head that is served next; -1: all were served.

    Heads that borrow nothing come first, then it goes by priority and by time.
    """
    best = -1
    for queue in range(len(heads)):
        row, first = heads[queue], heads[max(best, 0)]
        if row < 0:
            continue
        if best < 0 or borrows[queue] < borrows[best]:
            best = queue
        elif borrows[queue] == borrows[best]:
            higher = now.priority[row] > now.priority[first]
            alike = now.priority[row] == now.priority[first]
            if higher or (alike and jobs[SUBMIT, row] < jobs[SUBMIT, first]):
                best = queue
    return best
