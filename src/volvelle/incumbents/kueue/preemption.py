"""Victims of preemption without fair sharing: in the workload's own queue, and in others of its cohorts.

Candidates are taken in an order until the workload fits; then those without which it fits as well are put
back, the last first. Source: Kueue's documentation on preemption, and its hierarchical_preemption.go.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from volvelle.incumbents.kueue.amounts import Amounts, FlavorResource
from volvelle.incumbents.kueue.objects import Preemption
from volvelle.incumbents.kueue.quota import Holder, Ledger, Node

IN_QUEUE = "InClusterQueue"
RECLAMATION = "InCohortReclamation"
WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
FAIR_SHARING = "InCohortFairSharing"


class Victim(NamedTuple):
    """A workload that is to be evicted, and Kueue's reason."""

    holder: Holder
    reason: str


class Preemptor(NamedTuple):
    """A workload that does not fit: its queue, what it would use, and of what there is too little."""

    queue: Node
    priority: int
    queued: float
    usage: Amounts
    needed: frozenset[FlavorResource]
    places: Callable[[], bool] = lambda: True
    """Whether its pods find places in the topology as things are."""

    @property
    def policy(self) -> Preemption:
        """The preemption that its queue allows."""
        assert self.queue.queue is not None
        return self.queue.queue.preemption

    def fits(self, *, borrowing: bool) -> bool:
        """Whether it fits as things are."""
        if not borrowing and any(self.queue.borrows(of, one) for of, one in self.usage.items()):
            return False
        return self.queue.fits(self.usage) and self.places()

    def may_preempt(self, one: Holder, policy: str) -> bool:
        """Whether a preemption policy lets it evict a workload."""
        if not one.preemptible:
            return False
        if policy == "LowerPriority":
            return self.priority > one.priority
        if policy == "LowerOrNewerEqualPriority":
            newer = self.priority == one.priority and self.queued < one.queued
            return self.priority > one.priority or newer
        return policy == "Any"


def victim_order(one: Holder, queue: str) -> tuple[bool, bool, int, float, str]:
    """The key of candidates: evicted ones, other queues, low priority, admitted last come first."""
    return not one.evicted, one.queue == queue, one.priority, -one.reserved, one.uid


def minimal(
    ledger: Ledger, preemptor: Preemptor, candidates: Iterable[Victim], *, borrowing: bool
) -> list[Victim]:
    """The first candidates with whom the workload fits, less those that may stay; none where it never does.

    Candidates may depend on those before them, who hold nothing when the next one is asked for.
    """
    taken: list[Victim] = []
    fits = False
    for victim in candidates:
        ledger.count(victim.holder, -1)
        taken.append(victim)
        if fits := preemptor.fits(borrowing=borrowing):
            break
    if fits:
        for at in range(len(taken) - 2, -1, -1):
            ledger.count(taken[at].holder)
            if preemptor.fits(borrowing=borrowing):
                taken[at] = taken[-1]
                taken.pop()
            else:
                ledger.count(taken[at].holder, -1)
    for victim in taken:
        ledger.count(victim.holder)
    return taken if fits else []


class _Candidate(NamedTuple):
    holder: Holder
    reason: str
    ancestor: Node | None
    """The lowest cohort that holds both queues."""
    not_borrowing: bool
    """Whether it may be evicted only by a workload that borrows nothing."""

    def may_go(self, borrowing: bool) -> bool:
        """Whether a workload may evict it that borrows, or one that borrows nothing."""
        return not (borrowing and self.not_borrowing)


def classical_victims(ledger: Ledger, preemptor: Preemptor) -> list[Victim]:
    """The victims of a workload without fair sharing."""
    queue, forbidden = preemptor.queue, not preemptor.policy.borrowing
    own = _own_candidates(ledger, preemptor)
    freed = _usage(own)
    within = not any(queue.borrows(of, n - freed.get(of, 0)) for of, n in preemptor.usage.items())
    reclaimed, others = _cohort_candidates(ledger, preemptor, to_borrow=not within)
    attempts = [True]
    if (reclaimed or others) and (
        not forbidden or not any(queue.borrows(of, 1) for of in preemptor.needed)
    ):
        attempts = [False, True] if forbidden and not reclaimed else [True, False]
    attempts = [
        borrowing
        for borrowing in attempts
        if (borrowing or within)
        and _may_fit(preemptor, [c for c in (*own, *reclaimed, *others) if c.may_go(borrowing)])
    ]
    if not attempts:
        return []
    # The evicted ones of all three lists come first, each list in its order.
    lists = [
        sorted(some, key=lambda c: victim_order(c.holder, preemptor.queue.name))
        for some in (reclaimed, others, own)
    ]
    candidates = [
        c
        for evicted in (True, False)
        for some in lists
        for c in some
        if c.holder.evicted is evicted
    ]
    for borrowing in attempts:
        valid = _valid(ledger, preemptor, candidates, borrowing)
        if victims := minimal(ledger, preemptor, valid, borrowing=borrowing):
            return victims
    return []


def _usage(candidates: Iterable[_Candidate]) -> Amounts:
    """The usage of all candidates together."""
    total: Amounts = {}
    for one in candidates:
        for of, amount in one.holder.usage.items():
            total[of] = total.get(of, 0) + amount
    return total


def _may_fit(preemptor: Preemptor, candidates: list[_Candidate]) -> bool:
    """Whether it might fit if all of the candidates were gone: each frees at most what it uses."""
    freed, available = _usage(candidates), preemptor.queue.available
    return bool(candidates) and all(
        n <= max(0, available(of) + freed.get(of, 0)) for of, n in preemptor.usage.items()
    )


def _own_candidates(ledger: Ledger, preemptor: Preemptor) -> list[_Candidate]:
    policy = preemptor.policy.within_cluster_queue
    return [
        _Candidate(one, IN_QUEUE, None, False)
        for one in ledger.holders[preemptor.queue.name].values()
        if one.uses(preemptor.needed) and preemptor.may_preempt(one, policy)
    ]


def _cohort_candidates(
    ledger: Ledger, preemptor: Preemptor, *, to_borrow: bool
) -> tuple[list[_Candidate], list[_Candidate]]:
    """Candidates over whose cohorts the workload's quota takes precedence, and all others.

    It takes precedence in cohorts above one in which the workload would fit by quota. to_borrow: the
    workload borrows whoever goes, so that candidates are left out that may not be evicted for one that does.
    """
    reclaimed: list[_Candidate] = []
    others: list[_Candidate] = []
    if preemptor.policy.reclaim_within_cohort == "Never":
        return reclaimed, others
    precedes, left = _fits_in_quota(preemptor.queue, preemptor.usage)
    below: Node = preemptor.queue
    for cohort in preemptor.queue.path:
        if precedes or preemptor.policy.borrowing or not to_borrow:
            (reclaimed if precedes else others).extend(
                _candidate(preemptor, one, cohort, precedes)
                for queue in _borrowing_queues(cohort, below, preemptor.needed)
                for one in ledger.holders[queue.name].values()
                if one.uses(preemptor.needed)
                and preemptor.may_preempt(one, preemptor.policy.reclaim_within_cohort)
            )
        fits, left = _fits_in_quota(cohort, left)
        precedes, below = precedes or fits, cohort
    return reclaimed, others


def _candidate(preemptor: Preemptor, one: Holder, ancestor: Node, precedes: bool) -> _Candidate:
    if precedes:
        return _Candidate(one, RECLAMATION, ancestor, False)
    policy = preemptor.policy
    limit = policy.borrow_within_cohort.max_priority_threshold
    if (
        not policy.borrowing
        or one.priority >= preemptor.priority
        or (limit is not None and one.priority > limit)
    ):
        return _Candidate(one, RECLAMATION, ancestor, True)
    return _Candidate(one, WHILE_BORROWING, ancestor, False)


def _fits_in_quota(node: Node, amounts: Amounts) -> tuple[bool, Amounts]:
    """Whether so much more is within a subtree's quota, and what of it its parent has to hold."""
    fits = not any(node.borrows(of, one) for of, one in amounts.items())
    return fits, {of: max(0, one - node.local_available(of)) for of, one in amounts.items()}


def _borrowing_queues(cohort: Node, but: Node, needed: frozenset[FlavorResource]) -> Iterator[Node]:
    """The queues below a cohort that borrow, through cohorts that borrow; not those below ``but``."""
    for child in cohort.cohorts:
        if child is not but and child.borrows_any(needed):
            yield from _borrowing_queues(child, but, needed)
    for queue in cohort.queues:
        if queue is not but and queue.borrows_any(needed):
            yield queue


def _valid(
    ledger: Ledger, preemptor: Preemptor, candidates: list[_Candidate], borrowing: bool
) -> Iterator[Victim]:
    """The candidates whose queue and cohorts still borrow when it is their turn."""
    for one in candidates:
        if one.ancestor is not None:
            queue = ledger.queues[one.holder.queue]
            if not one.may_go(borrowing) or not queue.borrows_any(preemptor.needed):
                continue
            between = []
            for node in queue.path:
                if node is one.ancestor:
                    break
                between.append(node)
            if not all(node.borrows_any(preemptor.needed) for node in between):
                continue
        yield Victim(one.holder, one.reason)
