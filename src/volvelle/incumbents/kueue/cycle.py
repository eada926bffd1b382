"""A scheduling cycle: the heads of all queues, one after the other, admitted, preempting or left waiting.

Source: Kueue's scheduler.go. Numbers in the text of `Cycle.run` are those of its steps there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from volvelle.incumbents.kueue.amounts import Amounts, FlavorResource, added, is_gpu
from volvelle.incumbents.kueue.fair_sharing import (
    STRATEGIES,
    Nominee,
    fair_victims,
    first_by_share,
)
from volvelle.incumbents.kueue.flavors import NO_PLACE, WAITS, Assigner, Assignment, Mode
from volvelle.incumbents.kueue.objects import ResourceFlavor
from volvelle.incumbents.kueue.preemption import Preemptor, Victim, classical_victims
from volvelle.incumbents.kueue.quota import Holder, Ledger, Node
from volvelle.incumbents.kueue.topology import Places
from volvelle.incumbents.kueue.workloads import Pending

WAITS_FOR_VICTIMS = "WaitingForPreemptedWorkloads"
GATED = "AdmissionGated"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The options in Kueue's Configuration that decide."""

    fair: bool = False
    strategies: tuple[str, ...] = STRATEGIES
    partial: bool = True
    """Whether workloads may be admitted with fewer pods (``PartialAdmission``)."""
    recompute: bool = True
    """Whether victims are chosen again where others want them (``RecomputeAssignmentUponPreemption...``)."""
    by_priority: bool = True
    """Whether priority orders the heads of a cohort (``PrioritySortingWithinCohort``)."""


class Outcome(Enum):
    """The fate of a head in a cycle."""

    ADMITTED = auto()
    PREEMPTING = auto()
    SKIPPED = auto()
    """It would have been served, had no other head been served before it."""
    WAITING = auto()


@dataclass(eq=False, slots=True)
class Entry:
    """A head in a cycle."""

    workload: Pending
    assignment: Assignment = field(default_factory=Assignment)
    victims: list[Victim] = field(default_factory=list)
    outcome: Outcome = Outcome.WAITING
    reason: str = ""
    """The reason of its condition QuotaReserved."""

    @property
    def admitted(self) -> bool:
        """Whether it holds quota from now on."""
        return self.outcome is Outcome.ADMITTED

    @property
    def preempting(self) -> bool:
        """Whether it waits for workloads to go that are being evicted."""
        return self.outcome is Outcome.PREEMPTING

    @property
    def skipped_preemption(self) -> bool:
        """Whether it would have preempted, had no other head been served before it."""
        return self.outcome is Outcome.SKIPPED and self.assignment.mode.preempts

    @property
    def at_once(self) -> bool:
        """Whether it is tried again in the next cycle, where its queue lets others pass."""
        return self.preempting or self.outcome is Outcome.SKIPPED


@dataclass(slots=True)
class Cycle:
    """A cycle over a ledger, which it leaves as it was."""

    ledger: Ledger
    flavors: Mapping[str, ResourceFlavor]
    configuration: Configuration = Configuration()
    suits: Callable[[Pending, str], bool] = lambda *_: True
    """Whether a workload may run on a flavour, beside labels and taints."""
    kinds: Callable[[Pending], int] = lambda _: -1
    """The kinds of nodes on which a workload may run, as bits."""
    _counted: list[tuple[Node, Amounts, Mapping[str, int]]] = field(default_factory=list)
    """Usage of heads that were served, for the heads behind them."""
    _simulated: dict[tuple[Any, ...], list[Victim]] = field(default_factory=dict)
    """The victims of the workload that is being assigned, by what it would use and needs."""
    _assigner: Assigner = field(init=False)

    def __post_init__(self) -> None:
        fair = self.configuration.fair
        self._assigner = Assigner(self.ledger, self.flavors, self.simulated, fair, self.suits)

    def run(self, heads: Iterable[Pending]) -> list[Entry]:
        """The fates of the heads, in the order in which they were served."""
        # 3. Requirements of all heads, as if each was alone.
        entries = [Entry(one) for one in heads]
        served = []
        for one in entries:
            if one.workload.fault:
                one.reason = one.workload.fault
            else:
                one.assignment, one.victims = self._assigned(one.workload)
        # 4. and 5. Whose turn it is depends on those before it.
        gone: dict[str, Holder] = {}
        waiting = [one for one in entries if not one.reason]
        for one in self._turns(waiting):
            self._serve(one, gone)
            served.append(one)
        for queue, usage, nodes in self._counted:
            queue.add(usage, -1)
            if self.ledger.places is not None:
                self.ledger.places.take(nodes, -1)
        self._counted.clear()
        return served + [one for one in entries if one.workload.fault]

    # ------------------------------------------------------------------ nomination

    def _assigned(
        self, workload: Pending, only: Mapping[str, frozenset[str]] | None = None
    ) -> tuple[Assignment, list[Victim]]:
        """The flavours of a workload and the victims that it needs, with fewer pods if it has to."""
        whole = self._assign(workload, (), only)
        victims = self._victims(workload, whole)
        if whole.mode is Mode.FIT or victims:
            return whole, victims
        if self.configuration.partial and workload.shrinks:
            found = self._reduced(workload, only)
            if found is not None:
                return found
        return whole, []

    def _victims(self, workload: Pending, assignment: Assignment) -> list[Victim]:
        if not assignment.mode.preempts:
            return []
        queue = self.ledger.queues[workload.queue]
        places = self.ledger.places

        if places is None:
            return self.simulated(queue, workload, assignment.requests, assignment.needed)

        def fits() -> bool:
            return self._located(places, workload, assignment) is not None

        return self._preempted(queue, workload, assignment.requests, assignment.needed, fits)

    def _assign(
        self, workload: Pending, counts: Sequence[int], only: Mapping[str, frozenset[str]] | None
    ) -> Assignment:
        """The flavours of a workload, and its nodes where flavours have a topology."""
        self._simulated.clear()
        found = self._assigner.assign(workload, counts, only)
        places = self.ledger.places
        if places is None or found.mode is Mode.NO_FIT:
            return found
        if found.mode is Mode.FIT:
            nodes = self._located(places, workload, found)
            if nodes is None:
                found.demote(Mode.PREEMPT)
            else:
                found.nodes = nodes
        if found.mode.preempts and self._located(places, workload, found, empty=True) is None:
            found.demote(Mode.NO_FIT)
            found.reason = NO_PLACE
        return found

    def _located(
        self, places: Places, workload: Pending, assignment: Assignment, *, empty: bool = False
    ) -> dict[str, int] | None:
        """GPUs by node for all pods, in thousandths; None where a set finds no place."""
        found: dict[str, int] = {}
        for one in assignment.sets:
            for resource, choice in one.flavors.items():
                if is_gpu(resource) and one.pods and choice.flavor in places.trees:
                    size, request = one.requests[resource] // one.pods, one.pod_set.topology_request
                    bits = self.kinds(workload)
                    its = places.find(choice.flavor, one.pods, size, request, bits, empty=empty)
                    if not its:
                        return None
                    found = added(found, its)
        return found

    def simulated(
        self, queue: Node, workload: Pending, usage: Amounts, needed: frozenset[FlavorResource]
    ) -> list[Victim]:
        """The victims for so much, wherever pods find places; ``needed``: what there is too little of."""
        key = (needed, *usage.items())
        if key not in self._simulated:
            self._simulated[key] = self._preempted(queue, workload, usage, needed, lambda: True)
        return self._simulated[key]

    def _preempted(
        self,
        queue: Node,
        workload: Pending,
        usage: Amounts,
        needed: frozenset[FlavorResource],
        places: Callable[[], bool],
    ) -> list[Victim]:
        preemptor = Preemptor(queue, workload.priority, workload.queued, usage, needed, places)
        if self.configuration.fair:
            return fair_victims(self.ledger, preemptor, self.configuration.strategies)
        return classical_victims(self.ledger, preemptor)

    def _reduced(
        self, workload: Pending, only: Mapping[str, frozenset[str]] | None
    ) -> tuple[Assignment, list[Victim]] | None:
        """Most pods with which a workload can be served, by bisection; None where none is."""
        deltas = [one.most_left_out for one in workload.pod_sets]
        best, low, high = None, 0, sum(deltas)
        while low <= high:
            middle = (low + high) // 2
            assignment = self._assign(workload, _counts(workload, deltas, middle), only)
            victims = self._victims(workload, assignment)
            if assignment.mode is Mode.FIT or victims:
                best, high = (assignment, victims), middle - 1
            else:
                low = middle + 1
        return best

    # ------------------------------------------------------------------ whose turn it is

    def _turns(self, entries: list[Entry]) -> Iterable[Entry]:
        if not self.configuration.fair:
            yield from sorted(entries, key=self._classical_key)
            return
        left = entries
        while left:
            root = self.ledger.queues[left[0].workload.queue].root
            nominees = [
                Nominee(queue, one.assignment.usage, self._priority(one), one.workload.queued, at)
                for at, one in enumerate(left)
                if (queue := self.ledger.queues[one.workload.queue]).root is root
            ]
            first = left[first_by_share(nominees).number]
            left = [one for one in left if one is not first]
            yield first

    def _classical_key(self, one: Entry) -> tuple[int, int, float]:
        return one.assignment.borrowing, -self._priority(one), one.workload.queued

    def _priority(self, one: Entry) -> int:
        return one.workload.priority if self.configuration.by_priority else 0

    # ------------------------------------------------------------------ serving

    def _serve(self, one: Entry, gone: dict[str, Holder]) -> None:
        """Admit a head, let it preempt, or leave it. ``gone``: victims so far, to which its own are added."""
        queue = self.ledger.queues[one.workload.queue]
        deferred = False
        if self.configuration.recompute and any(v.holder.key in gone for v in one.victims):
            deferred = self._reassign(one, gone)
        places = self.ledger.places
        if places is not None and not places.are_free(one.assignment.nodes):
            self._reassign(one, {})
        mode = one.assignment.mode
        if mode is Mode.NO_FIT:
            one.reason = one.assignment.reason
            return
        if mode.preempts and not one.victims:
            one.reason = WAITS
            assert queue.queue is not None
            if queue.queue.preemption.reclaim_within_cohort != "Any":
                self._count(queue, _reserved(one.assignment, queue), {})
            return
        if mode.preempts and one.workload.gated:
            one.reason = GATED
            return
        overlap = any(victim.holder.key in gone for victim in one.victims)
        victims = [victim.holder for victim in one.victims]
        with self.ledger.without([] if overlap else [*gone.values(), *victims]):
            fits = not overlap and queue.fits(one.assignment.usage)
        if not fits:
            one.outcome, one.reason = Outcome.SKIPPED, WAITS
            return
        gone |= {victim.key: victim for victim in victims}
        self._count(queue, one.assignment.usage, one.assignment.nodes)
        if victims or deferred:
            one.outcome, one.reason = Outcome.PREEMPTING, WAITS_FOR_VICTIMS
        else:
            one.outcome = Outcome.ADMITTED

    def _count(self, queue: Node, usage: Amounts, nodes: Mapping[str, int]) -> None:
        queue.add(usage)
        if self.ledger.places is not None:
            self.ledger.places.take(nodes)
        self._counted.append((queue, usage, nodes))

    def _reassign(self, one: Entry, gone: Mapping[str, Holder]) -> bool:
        """Assign again on the same flavours, earlier victims being gone; whether no other has to go."""
        only: dict[str, frozenset[str]] = {}
        for group in one.assignment.sets:
            for resource, choice in group.flavors.items():
                only[resource] = only.get(resource, frozenset()) | {choice.flavor}
        with self.ledger.without(gone.values()):
            one.assignment, one.victims = self._assigned(one.workload, only)
        return one.assignment.mode is Mode.FIT


def _counts(workload: Pending, deltas: Sequence[int], less: int) -> list[int]:
    """The pods of each set where so many are left out, from the last set on."""
    counts = [one.count for one in workload.pod_sets]
    for at in range(len(counts) - 1, -1, -1):
        cut = min(deltas[at], less)
        counts[at] -= cut
        less -= cut
    return counts


def _reserved(assignment: Assignment, queue: Node) -> Amounts:
    """Quota that is kept for a workload that has no victims, so that others do not take it before it."""
    kept = {}
    for of, one in assignment.usage.items():
        quota, used = queue.quotas.get(of), queue.usage.get(of, 0)
        nominal = quota.nominal if quota is not None else 0
        if assignment.borrowing == 0:
            kept[of] = max(0, min(one, nominal - used))
        elif quota is None or quota.borrowing is None:
            kept[of] = one
        else:
            kept[of] = min(one, nominal + quota.borrowing - used)
    return kept
