"""The quota tree: queues and cohorts, what they own, lend and borrow, and the workloads that hold it.

A node's own quota and that which its children lend is its subtree's quota. What a lending limit keeps back
stays with the node (its local quota); usage beyond that counts in the parent. Kueue's documentation on
cohorts is the source, and its resource_node.go for the order in which usage is counted.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from volvelle.incumbents.kueue.amounts import Amounts, FlavorResource, amount
from volvelle.incumbents.kueue.objects import ClusterQueue, Cohort, ResourceGroup
from volvelle.incumbents.kueue.topology import Places
from volvelle.model.problems import Problem


class Quota(NamedTuple):
    """The quota of a flavour's resource; None where no limit is set."""

    nominal: int
    borrowing: int | None
    lending: int | None


def quotas_of(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, Quota]:
    """The quotas of resource groups."""
    found = {}
    for group in groups:
        for flavor in group.flavors:
            for one in flavor.resources:
                nominal, borrowing, lending = (
                    None if written is None else amount(one.name, written)
                    for written in (one.nominal_quota, one.borrowing_limit, one.lending_limit)
                )
                found[flavor.name, one.name] = Quota(nominal or 0, borrowing, lending)
    return found


@dataclass(eq=False, slots=True)
class Node:
    """A queue or a cohort."""

    name: str
    queue: ClusterQueue | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0
    parent: "Node | None" = None
    cohorts: list["Node"] = field(default_factory=list)
    queues: list["Node"] = field(default_factory=list)
    subtree: Amounts = field(default_factory=dict)
    """Its quota, and that which its children lend."""
    kept: Amounts = field(default_factory=dict)
    """The quota that it never lends, where it lends no more than so much."""
    most: Amounts = field(default_factory=dict)
    """The most that it could use if nothing else was used, as far as that was asked for."""
    usage: Amounts = field(default_factory=dict)
    """Usage that counts against the quota of its subtree."""

    @property
    def path(self) -> Iterator["Node"]:
        """Its cohorts, from its own to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> "Node":
        """The last of its `path`; itself without a cohort."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def leaves(self) -> Iterator["Node"]:
        """The queues below it; itself where it is one."""
        if self.queue is not None:
            yield self
        for cohort in self.cohorts:
            yield from cohort.leaves
        yield from self.queues

    @property
    def height(self) -> int:
        """The distance to its farthest leaf."""
        below = [one.height for one in self.cohorts] + [0] * len(self.queues)
        return 1 + max(below) if below else 0

    def local_quota(self, of: FlavorResource) -> int:
        """The quota that it never lends."""
        return self.kept.get(of, 0)

    def local_available(self, of: FlavorResource) -> int:
        """The unused part of its local quota."""
        return max(0, self.kept.get(of, 0) - self.usage.get(of, 0))

    def available(self, of: FlavorResource) -> int:
        """Quota that is left to it, within borrowing limits; below 0 where more is used than there is."""
        if self.parent is None:
            return self.subtree.get(of, 0) - self.usage.get(of, 0)
        beyond = self.parent.available(of)
        quota = self.quotas.get(of)
        if quota is not None and quota.borrowing is not None:
            local = self.local_quota(of)
            stored = self.subtree.get(of, 0) - local
            used = max(0, self.usage.get(of, 0) - local)
            beyond = min(stored - used + quota.borrowing, beyond)
        return self.local_available(of) + beyond

    def potential(self, of: FlavorResource) -> int:
        """The most that it could use if nothing else was used."""
        if of in self.most:
            return self.most[of]
        most = self.subtree.get(of, 0)
        if self.parent is not None:
            most = self.local_quota(of) + self.parent.potential(of)
            quota = self.quotas.get(of)
            if quota is not None and quota.borrowing is not None:
                most = min(self.subtree.get(of, 0) + quota.borrowing, most)
        self.most[of] = most
        return most

    def borrows(self, of: FlavorResource, more: int = 0) -> bool:
        """Whether it uses more than its subtree has, with ``more`` of it."""
        return self.usage.get(of, 0) + more > self.subtree.get(of, 0)

    def borrows_any(self, of: Iterable[FlavorResource]) -> bool:
        """Whether it uses more than its subtree has of one of these."""
        return any(map(self.borrows, of))

    def fits(self, amounts: Amounts) -> bool:
        """Whether so much is left to it."""
        return all(max(0, self.available(of)) >= one for of, one in amounts.items())

    def add(self, amounts: Amounts, sign: int = 1) -> None:
        """Count usage, here and in its cohorts as far as its local quota does not hold it."""
        for of, one in amounts.items():
            if sign > 0:
                self._add(of, one)
            else:
                self._remove(of, one)

    def _add(self, of: FlavorResource, more: int) -> None:
        local = self.local_available(of)
        self.usage[of] = self.usage.get(of, 0) + more
        if self.parent is not None and more > local:
            self.parent._add(of, more - local)

    def _remove(self, of: FlavorResource, less: int) -> None:
        beyond = self.usage.get(of, 0) - self.local_quota(of)
        self.usage[of] = self.usage.get(of, 0) - less
        if self.parent is not None and beyond > 0:
            self.parent._remove(of, min(less, beyond))

    def lowest_that_fits(self, of: FlavorResource, more: int) -> tuple[int, bool]:
        """The height of the smallest subtree that has ``more`` left, and whether it has a parent.

        0 where the queue itself has it; the height of the whole tree where none has.
        """
        if self.parent is None or not self.borrows(of, more):
            return 0, self.parent is not None
        more -= self.local_available(of)
        for node in self.path:
            if not node.borrows(of, more):
                return node.height, node.parent is not None
            more -= node.local_available(of)
        return self.root.height, False


class Share(NamedTuple):
    """A dominant resource share: what a node borrows of the resources that its cohort could lend."""

    ratio: float
    """In thousandths, of the resource of which it borrows most."""
    weight: float
    borrowed: frozenset[FlavorResource]

    @property
    def order(self) -> tuple[bool, float]:
        """The key by which shares compare: borrowing with weight 0 is more than any other."""
        if self.weight == 0.0:
            return bool(self.borrowed), self.ratio if self.borrowed else 0.0
        return False, self.ratio / self.weight


def share_of(node: Node) -> Share:
    """The dominant resource share of a queue or cohort (Kueue's KEP 1714)."""
    if node.parent is None:
        return Share(0.0, node.weight, frozenset())
    borrowed = {of: node.usage.get(of, 0) - quota for of, quota in node.subtree.items()}
    borrowed = {of: one for of, one in borrowed.items() if one > 0}
    by_resource: dict[str, int] = {}
    for (_, resource), one in borrowed.items():
        by_resource[resource] = by_resource.get(resource, 0) + one
    lendable = dict.fromkeys(by_resource, 0)
    for of in node.root.subtree:
        if of[1] in lendable:
            lendable[of[1]] += node.parent.potential(of)
    ratios = [
        one * 1000 / lendable[name] for name, one in by_resource.items() if lendable[name] > 0
    ]
    return Share(max(ratios, default=0.0), node.weight, frozenset(borrowed))


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds quota in a queue."""

    key: str
    uid: str
    queue: str
    usage: Amounts
    priority: int
    queued: float
    """When it was queued, as queues order by."""
    reserved: float
    """When it got its quota."""
    evicted: bool = False
    preemptible: bool = True
    nodes: dict[str, int] = field(default_factory=dict)
    """GPUs in thousandths by node, where its flavour has a topology."""

    def uses(self, needed: frozenset[FlavorResource]) -> bool:
        """Whether it holds one of these."""
        return not needed.isdisjoint(self.usage)


class Ledger:
    """The quota tree, and the workloads that hold quota, by queue."""

    def __init__(self, queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        """Raises `Problem` for cohorts that are their own ancestors."""
        self.cohorts: dict[str, Node] = {}
        self.queues: dict[str, Node] = {}
        self.holders: dict[str, dict[str, Holder]] = {}
        self.places: Places | None = None
        parents: dict[str, str] = {}
        for cohort in cohorts:
            quotas = _named_quotas("Cohort", cohort)
            self.cohorts[cohort.name] = Node(cohort.name, None, quotas, cohort.weight)
            parents[cohort.name] = cohort.parent_name or cohort.parent
        for name, above in parents.items():
            if above:
                node = self.cohorts[name]
                node.parent = self._cohort(above)
                node.parent.cohorts.append(node)
        for name in parents:
            self._check_circle(name)
        for queue in queues:
            node = Node(queue.name, queue, _named_quotas("ClusterQueue", queue), queue.weight)
            self.queues[queue.name], self.holders[queue.name] = node, {}
            if queue.parent:
                node.parent = self._cohort(queue.parent)
                node.parent.queues.append(node)
        for node in [*self.cohorts.values(), *self.queues.values()]:
            if node.parent is None:
                _gather(node)

    def _cohort(self, name: str) -> Node:
        """The cohort of a name; one that is only named has no quota of its own."""
        return self.cohorts.setdefault(name, Node(name))

    def _check_circle(self, name: str) -> None:
        seen = {name}
        node = self.cohorts[name].parent
        while node is not None:
            if node.name in seen:
                raise Problem(
                    f"cohort {name} is its own ancestor ({node.name} comes twice)",
                    mend="change parentName of one of them",
                )
            seen.add(node.name)
            node = node.parent

    def add(self, one: Holder) -> None:
        """Let a workload hold quota."""
        self.holders[one.queue][one.key] = one
        self.count(one)

    def remove(self, one: Holder) -> None:
        """Free the quota of a workload."""
        del self.holders[one.queue][one.key]
        self.count(one, -1)

    def count(self, one: Holder, sign: int = 1) -> None:
        """Count what a workload uses, or count it no more; it stays among the holders."""
        self.queues[one.queue].add(one.usage, sign)
        if self.places is not None:
            self.places.take(one.nodes, sign)

    @contextmanager
    def without(self, some: Iterable[Holder]) -> Iterator[None]:
        """The ledger as if these workloads held nothing, and were none of the holders."""
        gone = list(some)
        for one in gone:
            self.remove(one)
        yield
        for one in gone:
            self.add(one)


def _named_quotas(kind: str, owner: ClusterQueue | Cohort) -> dict[FlavorResource, Quota]:
    """The quotas of a queue or cohort. Raises `Problem` naming it."""
    try:
        return quotas_of(owner.resource_groups)
    except Problem as problem:
        raise Problem(f"{kind} {owner.name}: {problem}".rstrip(".")) from None


def _gather(node: Node) -> None:
    """Work out the quota of a subtree."""
    node.subtree = {of: quota.nominal for of, quota in node.quotas.items()}
    for child in [*node.cohorts, *node.queues]:
        _gather(child)
        for of, quota in child.subtree.items():
            node.subtree[of] = node.subtree.get(of, 0) + quota - child.local_quota(of)
    node.kept = {
        of: max(0, node.subtree[of] - quota.lending)
        for of, quota in node.quotas.items()
        if quota.lending is not None
    }
