"""Quotas of a site that decides by whole GPUs of one flavour, in cohorts without parents, as numbers."""

from typing import NamedTuple

import numpy as np

from volvelle.core.compiled import kernel
from volvelle.core.state import INFINITY
from volvelle.incumbents.kueue.amounts import FlavorResource, is_gpu
from volvelle.incumbents.kueue.flavors import may_run_on
from volvelle.incumbents.kueue.objects import ClusterQueue
from volvelle.incumbents.kueue.pods import PodSpec
from volvelle.incumbents.kueue.quota import Ledger
from volvelle.incumbents.kueue.site import Site
from volvelle.model.arrays import Floats

ROOM = 64
"""More queues than that are Python's."""
RULES = "Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"
NEVER, _LOWER, NEWER, ANY = range(len(RULES))
"""Whom a queue's workloads may preempt."""


class Quotas(NamedTuple):
    """The quotas of queues, in GPUs, and of their cohorts.

    nominal, limit, kept: a queue's own, what it may borrow beside that (infinite: all), what it never lends.
    tree: its cohort, by number. within, reclaim: whom it may preempt in itself, and in its cohort. used: what
    its jobs held at the last decision. shared: by cohort, its own quota and that which its queues lend.
    """

    nominal: Floats
    limit: Floats
    kept: Floats
    tree: Floats
    within: Floats
    reclaim: Floats
    used: Floats
    shared: Floats


@kernel
def quotas_in(memory: Floats) -> Quotas:
    """The quotas that stand in a memory, which are views of it."""
    return Quotas(
        memory[:ROOM],
        memory[ROOM : 2 * ROOM],
        memory[2 * ROOM : 3 * ROOM],
        memory[3 * ROOM : 4 * ROOM],
        memory[4 * ROOM : 5 * ROOM],
        memory[5 * ROOM : 6 * ROOM],
        memory[6 * ROOM : 7 * ROOM],
        memory[7 * ROOM : 8 * ROOM],
    )


def flat_quotas(site: Site) -> Quotas | None:
    """The quotas by queue in the order of the site's; None where more than whole GPUs decides."""
    ledger = site.ledger()
    nodes = [*ledger.queues.values(), *ledger.cohorts.values()]
    resources = {of for node in nodes for of in node.quotas}
    if (
        len(resources) != 1
        or len(ledger.queues) > ROOM
        or any(map(site.stopped, site.queues.values()))
    ):
        return None
    of = resources.pop()
    settings = site.configuration
    plain = (
        all(_is_plain(queue, of) for queue in site.queues.values())
        and not any(node.parent for node in ledger.cohorts.values())
        and not any(
            (n or 0) % 1000 for node in nodes for quota in node.quotas.values() for n in quota
        )
    )
    if not plain or settings.fair or not settings.by_priority:
        return None
    if not may_run_on(PodSpec(), site.flavors[of[0]]):
        return None
    return _numbers(ledger, of)


def _is_plain(queue: ClusterQueue, of: FlavorResource) -> bool:
    """Whether a queue has quota of GPUs of this flavour alone, and lets others pass a head that waits."""
    covered = [name for group in queue.resource_groups for name in group.covered_resources]
    named = [flavor.name for group in queue.resource_groups for flavor in group.flavors]
    rules = queue.preemption.within_cluster_queue, queue.preemption.reclaim_within_cohort
    plainly = not queue.strict and not queue.preemption.borrowing and {*rules} <= {*RULES}
    return plainly and (named, covered) == ([of[0]], [of[1]]) and is_gpu(of[1])


def _numbers(ledger: Ledger, of: FlavorResource) -> Quotas:
    """The quotas of one flavour's resource. A queue without a cohort keeps all that it has."""
    quotas = Quotas(*(np.zeros(len(ledger.queues)) for _ in Quotas._fields))
    trees: dict[int, int] = {}
    for at, node in enumerate(ledger.queues.values()):
        assert node.queue is not None
        policy, limit = node.queue.preemption, node.quotas[of].borrowing
        tree = trees.setdefault(id(node.root), len(trees))
        quotas.nominal[at], quotas.tree[at] = node.subtree[of] / 1000.0, tree
        quotas.limit[at] = INFINITY if limit is None or not node.parent else limit / 1000.0
        quotas.kept[at] = (node.local_quota(of) if node.parent else node.subtree[of]) / 1000.0
        quotas.within[at] = RULES.index(policy.within_cluster_queue)
        quotas.reclaim[at] = RULES.index(policy.reclaim_within_cohort)
        if node.parent:
            quotas.shared[tree] = node.parent.subtree[of] / 1000.0
    return quotas
