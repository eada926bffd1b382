"""A site: the objects by which its Kueue decides, and what its Configuration says."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from volvelle.incumbents.kueue.api import by_key
from volvelle.incumbents.kueue.cycle import Configuration, Entry
from volvelle.incumbents.kueue.objects import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Namespace,
    Node,
    PriorityClass,
    ResourceFlavor,
    Topology,
)
from volvelle.incumbents.kueue.pods import Workload
from volvelle.incumbents.kueue.quota import Ledger
from volvelle.incumbents.kueue.topology import HOST
from volvelle.incumbents.kueue.workloads import Pending, holder, pending, waits


@dataclass(frozen=True, slots=True)
class Site:
    """The objects of a cluster, by name; LocalQueues by namespace and name."""

    queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    local_queues: Mapping[str, LocalQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    topologies: Mapping[str, Topology] = field(default_factory=dict)
    classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    """Empty where they are not known: queues select nobody by them then."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    workloads: tuple[Workload, ...] = ()
    configuration: Configuration = field(default_factory=Configuration)

    @classmethod
    def of(cls, objects: Mapping[str, list[Any]], configuration: Configuration) -> "Site":
        """The site of objects by kind."""

        def named(*kinds: str) -> dict[str, Any]:
            return by_key(one for kind in kinds for one in objects.get(kind, []))

        return cls(
            queues=named("ClusterQueue"),
            cohorts=named("Cohort"),
            local_queues=named("LocalQueue"),
            flavors=named("ResourceFlavor"),
            topologies=named("Topology"),
            classes=named("PriorityClass", "WorkloadPriorityClass"),
            namespaces=named("Namespace"),
            nodes=named("Node"),
            workloads=tuple(objects.get("Workload", [])),
            configuration=configuration,
        )

    def ledger(self, now: float = 0.0) -> Ledger:
        """The quota tree with the workloads that hold quota. Raises `Problem` for cohorts in a circle."""
        ledger = Ledger(self.queues.values(), self.cohorts.values())
        for one in self.workloads:
            held = holder(one, self.classes, now)
            if held is not None and held.queue in self.queues:
                ledger.add(held)
        return ledger

    def pending(self) -> Iterable[Pending]:
        """The workloads that wait in one of the queues."""
        for one in self.workloads:
            name = f"{one.namespace}/{one.queue_name}"
            local = self.local_queues.get(name)
            if local is None or local.cluster_queue not in self.queues or not waits(one):
                continue
            queue = self.queues[local.cluster_queue]
            if local.stop_policy == "None":
                yield pending(
                    one,
                    queue.name,
                    self.classes,
                    foreign=not self.selects(queue, one.namespace),
                )

    def selects(self, queue: ClusterQueue, namespace: str) -> bool:
        """Whether a queue takes workloads of a namespace."""
        selector = queue.namespace_selector
        if not self.namespaces:
            return True
        there = self.namespaces.get(namespace)
        labels = there.labels if there is not None else {}
        return selector is not None and selector.selects(labels)

    def stopped(self, queue: ClusterQueue) -> bool:
        """Whether a queue admits nothing: it is held, or names a flavour that is not there."""
        return queue.stop_policy != "None" or not queue.flavors <= self.flavors.keys()

    def settled(self) -> "Site":
        """The site without what changes by itself."""
        return replace(self, workloads=(), nodes={})

    @property
    def levels(self) -> tuple[str, ...]:
        """The labels of nodes that are levels of topologies, but for the node itself."""
        named = (
            one.get("nodeLabel", "") for each in self.topologies.values() for one in each.levels
        )
        return tuple(name for name in dict.fromkeys(named) if name not in ("", HOST))

    def nodes_of(self, flavor: ResourceFlavor) -> list[Node]:
        """The known nodes of a flavour."""
        labels = flavor.node_labels.items()
        return [node for node in self.nodes.values() if labels <= node.labels.items()]

    def queue_of(self, name: str) -> tuple[ClusterQueue, str] | None:
        """The ClusterQueue of a name, and the namespace of the LocalQueue if it is that of one."""
        local = self.local_queues.get(name)
        if local is None:
            local = next((one for one in self.local_queues.values() if one.name == name), None)
        if local is not None and local.cluster_queue in self.queues:
            return self.queues[local.cluster_queue], local.namespace
        return (self.queues[name], "") if name in self.queues else None

    def waiting(self, ledger: Ledger) -> "Queues":
        """The queues with the workloads that wait in them."""
        queues = Queues(ledger, {one.name for one in self.queues.values() if self.stopped(one)})
        for one in self.pending():
            queues.enter(one)
        return queues


_Place = tuple[int, float, str]
"""The order in a queue: by priority, then by time."""


class Queues:
    """The workloads that wait, by queue, and those of them that are set aside until quota is freed."""

    def __init__(self, ledger: Ledger, stopped: Collection[str] = ()) -> None:
        """``stopped``: queues that have no head."""
        self._ledger, self._stopped = ledger, frozenset(stopped)
        self._waiting: dict[str, list[tuple[_Place, Pending]]] = {
            name: [] for name in ledger.queues
        }
        self._aside: dict[str, dict[str, Pending]] = {name: {} for name in ledger.queues}
        self.first: dict[str, str] = {}
        """The workload of a queue for which others are being evicted: it stays at the head."""
        self._tree = {name: id(node.root) for name, node in ledger.queues.items()}
        self._stirred = set(self._tree.values())
        """The trees of cohorts in which something changed since their heads were tried."""

    def stir(self, name: str) -> None:
        """Let the heads of a queue's tree be tried again."""
        self._stirred.add(self._tree[name])

    def stir_all(self) -> None:
        """Let the heads of all trees be tried again: nodes, which they share, were freed."""
        self._stirred = set(self._tree.values())

    def rest(self) -> None:
        """The heads were tried, and nothing changed."""
        self._stirred.clear()

    def enter(self, one: Pending) -> None:
        """Let a workload wait."""
        self.stir(one.queue)
        insort(self._waiting[one.queue], (_place(one), one), key=lambda entry: entry[0])

    def leave(self, one: Pending) -> None:
        """Let a workload wait no longer."""
        self.stir(one.queue)
        if self._aside[one.queue].pop(one.key, None) is None:
            waiting, place = self._waiting[one.queue], _place(one)
            at = bisect_left(waiting, place, key=lambda entry: entry[0])
            while at < len(waiting) and waiting[at][0] == place:
                if waiting[at][1].key == one.key:
                    del waiting[at]
                    break
                at += 1
        if self.first.get(one.queue) == one.key:
            del self.first[one.queue]

    def heads(self) -> list[Pending]:
        """The first of each queue in whose tree something changed."""
        found: list[Pending] = []
        if not self._stirred:
            return found
        for name, waiting in self._waiting.items():
            if waiting and self._tree[name] in self._stirred and name not in self._stopped:
                first, head = self.first.get(name), waiting[0][1]
                if first is not None:
                    head = next((one for _, one in waiting if one.key == first), head)
                found.append(head)
        return found

    def left(self, name: str) -> list[Pending]:
        """The workloads of a queue that are tried in the next cycles, in order."""
        return [one for _, one in self._waiting[name]]

    def aside(self, name: str) -> list[Pending]:
        """The workloads of a queue that are set aside."""
        return list(self._aside[name].values())

    def all_aside(self) -> Iterator[Pending]:
        """The workloads that are set aside, by queue."""
        return (one for of_queue in self._aside.values() if of_queue for one in of_queue.values())

    def settle(self, entries: Iterable[Entry]) -> None:
        """Take admitted workloads out, and set aside those that let others pass."""
        for entry in entries:
            one = entry.workload
            queue = self._ledger.queues[one.queue].queue
            assert queue is not None
            if entry.admitted:
                self.leave(one)
                continue
            if entry.preempting:
                if not queue.strict:
                    self.first[one.queue] = one.key
            elif self.first.get(one.queue) == one.key:
                del self.first[one.queue]
            if one.foreign or not (queue.strict or entry.at_once):
                if one.alike:
                    self._put_alike_aside(one)
                else:
                    self.put_aside(one)

    def put_aside(self, one: Pending) -> None:
        """Set a workload aside."""
        self.leave(one)
        self._aside[one.queue][one.key] = one

    def _put_alike_aside(self, one: Pending) -> None:
        """Set aside all workloads of a queue that are like one of those that wait in it."""
        self.stir(one.queue)
        waiting, aside = self._waiting[one.queue], self._aside[one.queue]
        aside |= {other.key: other for _, other in waiting if other.alike == one.alike}
        waiting[:] = [entry for entry in waiting if entry[1].alike != one.alike]
        if self.first.get(one.queue) in aside:
            del self.first[one.queue]

    def freed(self, name: str) -> None:
        """Quota of a queue was freed: try all that were set aside in its tree again."""
        self.stir(name)
        for queue in self._ledger.queues[name].root.leaves:
            aside, waiting = self._aside[queue.name], self._waiting[queue.name]
            if aside:
                self.stir(queue.name)
                waiting += [(_place(one), one) for one in aside.values()]
                waiting.sort(key=itemgetter(0))
                aside.clear()


def _place(one: Pending) -> _Place:
    return -one.priority, one.queued, one.uid or one.key
