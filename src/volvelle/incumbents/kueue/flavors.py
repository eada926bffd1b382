"""The flavour of each resource of a workload: the first that fits, or the best that preemption could free.

Source: Kueue's documentation on flavour fungibility, and its flavorassigner.go.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from volvelle.incumbents.kueue.amounts import Amounts, FlavorResource, added
from volvelle.incumbents.kueue.objects import (
    ClusterQueue,
    Fungibility,
    ResourceFlavor,
    ResourceGroup,
)
from volvelle.incumbents.kueue.pods import PodSet, PodSpec
from volvelle.incumbents.kueue.preemption import Victim
from volvelle.incumbents.kueue.quota import Ledger, Node
from volvelle.incumbents.kueue.workloads import Pending

NO_MATCH = "NoMatchingFlavor"
EXCEEDS = "ExceedsMaxQuota"
WAITS = "WaitingForQuota"
NO_PLACE = "TopologyPlacementFailed"
_SEVERITY = ("", NO_PLACE, WAITS, EXCEEDS, NO_MATCH)
"""The reasons of workloads that do not fit, the gravest last."""

_BLOCKING = ("NoSchedule", "NoExecute")


class Mode(IntEnum):
    """How a flavour could be assigned, the best last."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """Only by preemption, of which no candidate was found."""
    PREEMPT = 2
    RECLAIM = 3
    """By preemption in other queues alone."""
    FIT = 4

    @property
    def preempts(self) -> bool:
        """Whether preemption makes room, or would if it could."""
        return Mode.NO_FIT < self < Mode.FIT


class _Grade(NamedTuple):
    """How well a flavour would do, and the height of the subtree from which it borrows."""

    mode: Mode
    height: int


def _better(one: _Grade, other: _Grade, fungibility: Fungibility) -> bool:
    """Whether one grade is preferred to another."""
    if Mode.NO_FIT in (one.mode, other.mode):
        return one.mode > Mode.NO_FIT
    stuck = one.mode is Mode.NO_CANDIDATES, other.mode is Mode.NO_CANDIDATES
    if stuck[0] != stuck[1]:
        return stuck[1]
    if fungibility.preference == "PreemptionOverBorrowing":
        return (-one.height, one.mode) > (-other.height, other.mode)
    return (one.mode, -one.height) > (other.mode, -other.height)


def _goes_on(grade: _Grade, fungibility: Fungibility) -> bool:
    """Whether the next flavour is tried as well."""
    if grade.mode <= Mode.NO_CANDIDATES:
        return True
    if grade.mode < Mode.FIT and fungibility.when_can_preempt == "TryNextFlavor":
        return True
    return grade.height > 0 and fungibility.when_can_borrow == "TryNextFlavor"


class Choice(NamedTuple):
    """The flavour of a resource."""

    flavor: str
    mode: Mode
    borrowing: int


class AssignedSet(NamedTuple):
    """A pod set with the flavours of its resources."""

    pod_set: PodSet
    pods: int
    requests: Mapping[str, int]
    """Of all of its pods."""
    flavors: Mapping[str, Choice]


@dataclass(slots=True)
class Assignment:
    """The flavours of a workload."""

    sets: list[AssignedSet] = field(default_factory=list)
    usage: Amounts = field(default_factory=dict)
    mode: Mode = Mode.FIT
    """The worst of all."""
    borrowing: int = 0
    """The height of the smallest subtree that has enough; 0: the queue itself."""
    reason: str = ""
    """Why it does not fit."""
    nodes: dict[str, int] = field(default_factory=dict)
    """GPUs in thousandths by node, where flavours have a topology."""

    def demote(self, mode: Mode) -> None:
        """Let no flavour fit better than so, because pods find no place on its nodes."""
        self.mode = min(self.mode, mode)
        self.sets = [
            one._replace(
                flavors={n: c._replace(mode=min(c.mode, mode)) for n, c in one.flavors.items()}
            )
            for one in self.sets
        ]

    @property
    def needed(self) -> frozenset[FlavorResource]:
        """The flavours' resources of which others have to free some."""
        return frozenset(
            (choice.flavor, resource)
            for one in self.sets
            for resource, choice in one.flavors.items()
            if choice.mode.preempts
        )

    @property
    def requests(self) -> Amounts:
        """The usage without resources of which nothing is requested."""
        return {of: one for of, one in self.usage.items() if one}


Simulate = Callable[[Node, Pending, Amounts, frozenset[FlavorResource]], list[Victim]]
"""The victims that a workload would have, if it only lacked one flavour's resource."""


@dataclass(frozen=True, slots=True)
class Assigner:
    """Assigns flavours in a queue, as quota is now."""

    ledger: Ledger
    flavors: Mapping[str, ResourceFlavor]
    simulate: Simulate
    fair: bool
    suits: Callable[[Pending, str], bool]
    """Whether a workload may run on a flavour, beside labels and taints."""

    def assign(
        self,
        workload: Pending,
        counts: Sequence[int] = (),
        only: Mapping[str, frozenset[str]] | None = None,
    ) -> Assignment:
        """The flavours of a workload. counts: pods of each set; only: flavours that may be, by resource."""
        result = Assignment()
        for group in _groups(workload.pod_sets, counts):
            reason = self._assign_group(workload, group, result, only)
            result.reason = max(result.reason, reason, key=_SEVERITY.index)
            if result.mode is Mode.NO_FIT:
                break
        if result.mode is not Mode.NO_FIT:
            result.reason = ""
        return result

    def _assign_group(
        self,
        workload: Pending,
        group: list[tuple[PodSet, int]],
        result: Assignment,
        only: Mapping[str, frozenset[str]] | None,
    ) -> str:
        """Assign flavours to pod sets that share them; the reason where none does."""
        queue = self.ledger.queues[workload.queue]
        assert queue.queue is not None
        by_set = [_requests(one, count, queue.queue) for one, count in group]
        total = functools.reduce(added, by_set)
        chosen: dict[str, Choice] = {}
        reason = ""
        for resource, quantity in total.items():
            resources = queue.queue.group_of(resource)
            if resource in chosen or (resources is None and quantity == 0):
                continue
            if resources is None:
                chosen, reason = {}, NO_MATCH
                result.mode = Mode.NO_FIT
                break
            asked = {
                name: one for name, one in total.items() if name in resources.covered_resources
            }
            search = _Search(self, workload, queue, group, asked, result.usage)
            among = None if only is None else only.get(resource, frozenset())
            found = search.best(resources, among)
            reason = max(reason, search.reason, key=_SEVERITY.index)
            if not found:
                chosen = {}
                result.mode = Mode.NO_FIT
                break
            chosen |= found
        for (one, count), requests in zip(group, by_set, strict=True):
            flavors = {name: choice for name, choice in chosen.items() if name in requests}
            result.sets.append(AssignedSet(one, count, requests, flavors))
            for name, choice in flavors.items():
                of = choice.flavor, name
                result.usage[of] = result.usage.get(of, 0) + requests[name]
                result.borrowing = max(result.borrowing, choice.borrowing)
                result.mode = min(result.mode, choice.mode)
        return reason


def _groups(pod_sets: Sequence[PodSet], counts: Sequence[int]) -> list[list[tuple[PodSet, int]]]:
    """The pod sets with their counts, those together that share a group's name."""
    groups: dict[str, list[tuple[PodSet, int]]] = {}
    for at, one in enumerate(pod_sets):
        name = one.topology_request.pod_set_group_name or f"{at}"
        groups.setdefault(name, []).append((one, counts[at] if counts else one.count))
    return list(groups.values())


def _requests(one: PodSet, count: int, queue: ClusterQueue) -> dict[str, int]:
    """The resources of so many pods, pods themselves among them where a queue counts them."""
    requests = {name: each * count for name, each in one.template.spec.requests.items()}
    if queue.group_of("pods") is not None:
        requests["pods"] = 1000 * count
    return requests


@dataclass(slots=True)
class _Search:
    """The search for a flavour of a resource group, for pod sets that share it."""

    assigner: Assigner
    workload: Pending
    queue: Node
    group: list[tuple[PodSet, int]]
    asked: Mapping[str, int]
    used: Amounts
    """Usage of the workload's other pod sets."""
    reason: str = ""
    """The mildest reason of the flavours that do not fit."""

    def best(self, resources: ResourceGroup, among: frozenset[str] | None) -> dict[str, Choice]:
        """The choices for all resources of the group; empty where no flavour does."""
        one_each = not any(count for _, count in self.group)
        found = self._best(resources, among, one_each=one_each)
        # A flavour that holds a pod is only preferred where the sets have none.
        return found or (self._best(resources, among, one_each=False) if one_each else {})

    def _best(
        self, resources: ResourceGroup, among: frozenset[str] | None, *, one_each: bool
    ) -> dict[str, Choice]:
        assert self.queue.queue is not None
        fungibility = self.queue.queue.flavor_fungibility
        best, grade = {}, _Grade(Mode.NO_FIT, 0)
        reasons = []
        for flavor in resources.flavors:
            name = flavor.name
            if among is not None and name not in among:
                continue
            if not self._matches(name):
                reasons.append(NO_MATCH)
                continue
            if one_each and not self._holds_one_each(name, resources):
                reasons.append(EXCEEDS)
                continue
            choices, its, reason = self._on(name, fungibility)
            if its.mode is Mode.NO_FIT:
                reasons.append(reason)
            if not _goes_on(its, fungibility):
                best, grade = choices, its
                break
            if _better(its, grade, fungibility):
                best, grade = choices, its
        self.reason = min(reasons, key=_SEVERITY.index, default="" if best else NO_MATCH)
        return best

    def _matches(self, name: str) -> bool:
        """Whether all of the pod sets may run on nodes of a flavour."""
        flavor = self.assigner.flavors.get(name)
        return (
            flavor is not None
            and self.assigner.suits(self.workload, name)
            and all(may_run_on(one.template.spec, flavor) for one, _ in self.group)
        )

    def _holds_one_each(self, flavor: str, resources: ResourceGroup) -> bool:
        total = functools.reduce(added, [one.template.spec.requests for one, _ in self.group])
        return all(
            self.queue.potential((flavor, name)) >= each
            for name, each in total.items()
            if name in resources.covered_resources
        )

    def _on(self, flavor: str, fungibility: Fungibility) -> tuple[dict[str, Choice], _Grade, str]:
        """The choices on one flavour, the worst grade among them, and the reason where one does not fit."""
        worst, choices, reason = _Grade(Mode.FIT, 0), {}, ""
        for name, quantity in self.asked.items():
            of = flavor, name
            mode, borrowing, why = self._grade(of, self.used.get(of, 0) + quantity)
            reason = max(reason, why, key=_SEVERITY.index)
            its = _Grade(mode, borrowing)
            if _better(worst, its, fungibility):
                worst = its
            if worst.mode is not Mode.NO_FIT:
                choices[name] = Choice(flavor, mode, borrowing)
        return choices, worst, reason

    def _grade(self, of: FlavorResource, quantity: int) -> tuple[Mode, int, str]:
        """How so much of a flavour's resource could be had."""
        queue = self.queue
        if quantity > queue.potential(of):
            return Mode.NO_FIT, 0, EXCEEDS
        borrowing, others = queue.lowest_that_fits(of, quantity)
        if quantity <= max(0, queue.available(of)):
            return Mode.FIT, borrowing, ""
        if queue.subtree.get(of, 0) < quantity and not others and not self._preempts_to_borrow():
            return Mode.NO_FIT, borrowing, WAITS
        victims = self.assigner.simulate(queue, self.workload, {of: quantity}, frozenset([of]))
        with self.assigner.ledger.without(victim.holder for victim in victims):
            borrowing, _ = queue.lowest_that_fits(of, quantity)
        if not victims:
            return Mode.NO_CANDIDATES, borrowing, ""
        own = any(victim.holder.queue == queue.name for victim in victims)
        return Mode.PREEMPT if own else Mode.RECLAIM, borrowing, ""

    def _preempts_to_borrow(self) -> bool:
        assert self.queue.queue is not None
        policy = self.queue.queue.preemption
        return policy.borrowing or (self.assigner.fair and policy.reclaim_within_cohort != "Never")


def may_run_on(pod: PodSpec, flavor: ResourceFlavor) -> bool:
    """Whether a pod tolerates a flavour's taints, and selects its nodes by labels that the flavour names."""
    tolerations = [*pod.tolerations, *flavor.tolerations]
    for taint in flavor.node_taints:
        if taint.effect in _BLOCKING and not any(one.tolerates(taint) for one in tolerations):
            return False
    labels = flavor.node_labels
    if any(labels.get(name, value) != value for name, value in pod.node_selector.items()):
        return False
    terms = []
    for term in pod.terms:
        known = [one for one in term.match_expressions if one.key in labels]
        if not known:
            return True
        terms.append(known)
    return not terms or any(all(one.holds(labels) for one in term) for term in terms)
