"""Why a workload waits: Kueue's reason, the quota, the cohort's lender, and the workloads ahead by name."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from volvelle.incumbents.kueue.amounts import is_gpu
from volvelle.incumbents.kueue.books import Books
from volvelle.incumbents.kueue.cycle import WAITS_FOR_VICTIMS
from volvelle.incumbents.kueue.flavors import EXCEEDS, NO_MATCH, NO_PLACE, WAITS
from volvelle.incumbents.kueue.preemption import (
    FAIR_SHARING,
    IN_QUEUE,
    RECLAMATION,
    WHILE_BORROWING,
)
from volvelle.incumbents.kueue.quota import Node

WORDS = {
    WAITS: "others hold the quota that it could use",
    WAITS_FOR_VICTIMS: "workloads are being evicted for it",
    NO_PLACE: "no domain of the level that it asks for has nodes for all its pods, even if nothing ran",
    EXCEEDS: "it asks for more than its queue can ever have, with all that it may borrow",
    NO_MATCH: "no flavour of its queue has such nodes",
    IN_QUEUE: "it was evicted for a workload before it in its queue",
    RECLAMATION: "it was evicted from quota that it borrowed",
    WHILE_BORROWING: "it was evicted for a workload of a higher priority that borrows",
    FAIR_SHARING: "it was evicted from quota of which its queue borrowed more than others",
    "Misconfigured": "its namespace is none of those that the queue selects",
}
_NAMED = 3
"""Workloads and queues that are told by name."""


def reason(books: Books, number: int) -> str:
    """Kueue's reason, in words."""
    if number in books.held:
        return f"admitted by ClusterQueue {books.jobs[number].queue}, waiting for nodes"
    reason, queue = books.reasons.get(number, WAITS), books.jobs[number].queue
    said = f"{reason}: {WORDS[reason]}" if reason in WORDS else reason
    return f"{said} (ClusterQueue {queue})"


@dataclass
class Explained:
    """Reasons of an attached cluster's workloads; what holds for a whole queue is worked out once."""

    books: Books
    quotas: dict[str, str] = field(default_factory=dict)
    orders: dict[str, list[int]] = field(default_factory=dict)

    def why(self, number: int) -> str:
        """The reason with the quota and the workloads ahead; empty for one that holds quota."""
        books = self.books
        if number in books.held:
            return ""
        queue = books.jobs[number].queue
        if books.site.stopped(described := books.site.queues[queue]):
            missing = sorted(described.flavors - books.site.flavors.keys())
            why = f"flavour {missing[0]} is not there" if missing else "it is stopped"
            return (
                f"ClusterQueue {queue} admits nothing: {why} (stopPolicy {described.stop_policy})"
            )
        if queue not in self.orders:
            waiting = [*books.queues.left(queue), *books.queues.aside(queue)]
            waiting.sort(key=lambda one: (-one.priority, one.queued, one.uid))
            self.orders[queue] = [int(one.key) for one in waiting]
            self.quotas[queue] = "; ".join(_quotas(books.ledger.queues[queue]))
        before = self.orders[queue]
        before = before[: before.index(number)] if number in before else []
        names = [books.names[each] for each in before[:_NAMED]]
        more = f" and {len(before) - _NAMED} more" if len(before) > _NAMED else ""
        ahead = (
            f"ahead of it: {', '.join(names)}{more}" if names else "it is the first of its queue"
        )
        level = "; ".join(_levels(books, number))
        return "; ".join(filter(None, (reason(books, number), self.quotas[queue], level, ahead)))


def _levels(books: Books, number: int) -> Iterator[str]:
    """The level in one domain of which a workload's pods are to be, where none has room for them now."""
    one, places = books.jobs[number], books.places
    if places is None:
        return
    flavors = books.site.queues[one.queue].flavors & places.trees.keys()
    for pods in one.pod_sets:
        request = pods.topology_request
        wanted = request.required or request.preferred
        size = sum(each for name, each in pods.template.spec.requests.items() if is_gpu(name))
        for flavor in sorted(flavors) if wanted and size else ():
            tree, room = places.trees[flavor], places.room(flavor, 0, size)
            if wanted in tree.levels:
                domains = tree.of_level[tree.levels.index(wanted)]
                most = max(room.get(domain, 0) for domain in domains)
                if most < pods.count:
                    verb = "have to" if request.required else "would best"
                    yield (
                        f"{pods.count} pods of {size / 1000:g} GPUs that {verb} be in one {wanted}:"
                        f" {most} fit into the freest of {flavor}"
                    )


def _quotas(queue: Node) -> Iterator[str]:
    """The quota of each flavour's resource of which nothing is left, and the queues that borrow it."""
    for of, quota in queue.quotas.items():
        if queue.available(of) > 0 or not queue.potential(of):
            continue
        flavor, resource = of
        used = f"{queue.usage.get(of, 0) / 1000:g} of {quota.nominal / 1000:g} {resource} of {flavor} in use"
        if queue.parent is None:
            yield used
            continue
        borrow = {
            one.name: one.usage.get(of, 0) - one.subtree.get(of, 0)
            for one in queue.root.leaves
            if one is not queue and one.borrows(of)
        }
        most = sorted(borrow, key=lambda name: -borrow[name])[:_NAMED]
        names = ", ".join(f"{name} borrows {borrow[name] / 1000:g}" for name in most)
        lends = f"cohort {queue.parent.name} has none left to lend"
        yield f"{used}, {lends}" + (f" ({names})" if names else "")
