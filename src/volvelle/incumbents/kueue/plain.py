"""A cluster whose Kueue is not described: a queue for each pool, in one cohort, which machine code decides.

Such a site preempts nothing and has one flavour, so that a cycle is a comparison of whole numbers. The kernel
yields to `volvelle.incumbents.kueue.books` where that does not hold: several GPU types, nodes that are gone,
changed quotas.
"""

from collections.abc import Mapping

import numpy as np

from volvelle.core.columns import COUNT, GPUS, HELD, LEAST, NUMBER, POOL, PRIORITY, SUBMIT, TYPES
from volvelle.core.compiled import kernel
from volvelle.core.fill import TARGET, TARGET_TYPE, ClusterNow
from volvelle.core.state import INFINITY
from volvelle.core.view import JobView
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
from volvelle.model.arrays import BoolColumn, FloatColumn, Floats, Ints

GPU = "nvidia.com/gpu"
EVERYTHING = "gpus"
"""The queue and the flavour of such a cluster."""

ASIDE, TRIED, GRANTED = range(COUNT, COUNT + 3)
"""Own columns: 1 for a job set aside until quota is freed, its priority at the last decision, 1 where it has
quota since then."""
STATE, TOTAL, USED, POOLS, _HEAD = range(5)
"""Memory: by whom the last decision was, GPUs of the cohort, GPUs that jobs had then, how many pools
there are. Behind them are the quotas of the pools."""
_ROOM = 64
"""More pools than that are Python's."""
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
    return np.zeros(_HEAD + _ROOM)


def open_for(memory: Floats, gpus: float, pools: Mapping[str, float]) -> None:
    """Note the quotas of `site`."""
    memory[:] = 0.0
    whole = all(each % 1.0 == 0.0 for each in (gpus, *pools.values()))
    memory[TOTAL] = gpus if whole and len(pools) <= _ROOM and EVERYTHING not in pools else -1.0
    if memory[TOTAL] >= 0.0:
        memory[POOLS], memory[_HEAD : _HEAD + len(pools)] = len(pools), list(pools.values())


def note(memory: Floats, jobs: JobView, gpus: FloatColumn, aside: Ints, *, whole: bool) -> None:
    """Python has decided. aside: places of jobs that are set aside. whole: admitted jobs all have GPUs."""
    own = jobs.own
    memory[STATE] = _PLAIN if whole and memory[TOTAL] >= 0.0 else _PYTHONS
    memory[USED] = gpus.sum()
    own[ASIDE - COUNT] = 0.0
    own[ASIDE - COUNT, aside] = 1.0
    own[TRIED - COUNT], own[GRANTED - COUNT] = jobs.priority, gpus > 0.0


def still_aside(memory: Floats, jobs: JobView) -> BoolColumn | None:
    """Which jobs the kernel set aside that are not to be tried again now; None where it set none aside."""
    held, own = jobs.held, jobs.own
    freed = memory[USED] != held.sum() or ((own[GRANTED - COUNT] > 0.0) & (held == 0.0)).any()
    if freed or memory[STATE] != _KERNELS:
        return None
    aside: BoolColumn = (own[ASIDE - COUNT] > 0.0) & (own[TRIED - COUNT] == jobs.priority)
    return aside


@kernel
def decide(jobs: Floats, cluster: ClusterNow, memory: Floats, out: Floats) -> float:
    """The decision (`volvelle.core.policy.Kernel`); it yields where it is Python's."""
    if not _is_plain(jobs, cluster, memory):
        return -INFINITY
    many, queues = jobs.shape[1], len(cluster.quota) + 1
    left = np.full(queues + 1, INFINITY)  # of each queue, and of the cohort
    left[1:queues], left[queues] = cluster.quota, memory[TOTAL]
    stopped = False
    for row in range(many):
        held = jobs[HELD, row]
        left[int(jobs[POOL, row]) + 1] -= held
        left[queues] -= held
        stopped = stopped or (jobs[GRANTED, row] > 0.0 and held == 0.0)
        out[TARGET, row], out[TARGET_TYPE, row] = held, 0.0 if held > 0.0 else -1.0
    freed = stopped or memory[TOTAL] - left[queues] != memory[USED]
    for row in range(many):
        if freed or jobs[TRIED, row] != jobs[PRIORITY, row]:
            jobs[ASIDE, row] = 0.0
        jobs[TRIED, row] = jobs[PRIORITY, row]
    admitted, some = np.zeros(many, np.bool_), 0
    heads, wants = np.empty(queues, np.int64), np.empty(queues)
    while _find_heads(jobs, out, heads):
        for queue in range(queues):
            wants[queue] = _fitting(jobs, heads[queue], min(left[queue], left[queues]))
            if heads[queue] >= 0 and wants[queue] == 0.0:
                _put_aside(jobs, out, heads[queue])
        queue = _next_turn(jobs, heads, wants)
        while queue >= 0:
            row, want, wants[queue] = heads[queue], wants[queue], 0.0
            if want <= min(left[queue], left[queues]):
                out[TARGET, row], out[TARGET_TYPE, row], admitted[row] = want, 0.0, True
                left[queue] -= want
                left[queues] -= want
                out[3, some] = row
                some += 1
            queue = _next_turn(jobs, heads, wants)
    for row in range(many if some else 0):
        if not admitted[row]:
            out[3, some] = row
            some += 1
    jobs[GRANTED] = np.where(out[TARGET] > 0.0, 1.0, 0.0)
    memory[STATE], memory[USED] = _KERNELS, memory[TOTAL] - left[queues]
    return INFINITY


@kernel
def _is_plain(jobs: Floats, cluster: ClusterNow, memory: Floats) -> bool:
    """Whether GPUs, as many as quotas say, are all that there is to decide about."""
    if (
        memory[STATE] == _PYTHONS
        or len(cluster.capacity) != 1
        or len(cluster.quota) != memory[POOLS]
    ):
        return False
    if cluster.capacity[0] != memory[TOTAL]:
        return False
    for pool in range(len(cluster.quota)):
        if cluster.quota[pool] != memory[_HEAD + pool]:
            return False
    return not (jobs[TYPES] == 0.0).any()


@kernel
def _find_heads(jobs: Floats, out: Floats, heads: Ints) -> bool:
    """Write the first job of each queue that is neither set aside nor admitted, -1 for none."""
    heads[:] = -1
    found = False
    for row in range(jobs.shape[1]):
        if out[TARGET, row] == 0.0 and jobs[ASIDE, row] == 0.0:
            queue, found = int(jobs[POOL, row]) + 1, True
            head = heads[queue]
            if head < 0 or _is_before(jobs, row, head):
                heads[queue] = row
    return found


@kernel
def _is_before(jobs: Floats, one: int, other: int) -> bool:
    """Whether a job stands before another in their queue: by priority, then by time, then by number."""
    if jobs[PRIORITY, one] != jobs[PRIORITY, other]:
        return bool(jobs[PRIORITY, one] > jobs[PRIORITY, other])
    if jobs[SUBMIT, one] != jobs[SUBMIT, other]:
        return bool(jobs[SUBMIT, one] < jobs[SUBMIT, other])
    return bool(jobs[NUMBER, one] < jobs[NUMBER, other])


@kernel
def _fitting(jobs: Floats, head: int, left: float) -> float:
    """The GPUs with which a head is admitted, all or as many as are left if it can do with fewer; 0: none."""
    if head < 0 or jobs[GPUS, head] <= left:
        return float(jobs[GPUS, head]) if head >= 0 else 0.0
    return left if jobs[LEAST, head] <= left else 0.0


@kernel
def _put_aside(jobs: Floats, out: Floats, head: int) -> None:
    """Set a head aside, and all jobs of its queue that are like it."""
    for row in range(jobs.shape[1]):
        if out[TARGET, row] == 0.0:
            alike = jobs[POOL, row] == jobs[POOL, head] and jobs[GPUS, row] == jobs[GPUS, head]
            alike = alike and jobs[LEAST, row] == jobs[LEAST, head]
            alike = alike and jobs[TYPES, row] == jobs[TYPES, head]
            if alike and jobs[PRIORITY, row] == jobs[PRIORITY, head]:
                jobs[ASIDE, row] = 1.0


@kernel
def _next_turn(jobs: Floats, heads: Ints, wants: Floats) -> int:
    """The queue of the head that is served next, by priority and time; -1: all were served."""
    best = -1
    for queue in range(len(heads)):
        if wants[queue] > 0.0:
            row, first = heads[queue], heads[max(best, 0)]
            higher = best < 0 or jobs[PRIORITY, row] > jobs[PRIORITY, first]
            alike = jobs[PRIORITY, row] == jobs[PRIORITY, first]
            if higher or (alike and jobs[SUBMIT, row] < jobs[SUBMIT, first]):
                best = queue
    return best
