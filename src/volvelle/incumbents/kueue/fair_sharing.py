"""Fair sharing: who goes first among the heads of a cohort, and whose workloads are preempted.

Both go by dominant resource shares (`share_of`) as they would be with the workload in question. Source:
Kueue's KEP 1714, and its fair_sharing_iterator.go.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from volvelle.incumbents.kueue.amounts import Amounts
from volvelle.incumbents.kueue.preemption import (
    FAIR_SHARING,
    IN_QUEUE,
    RECLAMATION,
    Preemptor,
    Victim,
    minimal,
    victim_order,
)
from volvelle.incumbents.kueue.quota import Holder, Ledger, Node, Share, share_of

T = TypeVar("T")

FINAL = "LessThanOrEqualToFinalShare"
INITIAL = "LessThanInitialShare"
STRATEGIES = (FINAL, INITIAL)


# ---------------------------------------------------------------------- victims


def fair_victims(
    ledger: Ledger, preemptor: Preemptor, strategies: Sequence[str] = STRATEGIES
) -> list[Victim]:
    """The victims of a workload with fair sharing."""
    candidates = sorted(
        _candidates(ledger, preemptor), key=lambda one: victim_order(one, preemptor.queue.name)
    )
    search = _Search(ledger, preemptor, strategies)
    return minimal(ledger, preemptor, search.victims(candidates), borrowing=True)


def _candidates(ledger: Ledger, preemptor: Preemptor) -> Iterator[Holder]:
    policy, needed = preemptor.policy, preemptor.needed
    for queue in preemptor.queue.root.leaves:
        own = queue is preemptor.queue
        if own or queue.borrows_any(needed):
            may = policy.within_cluster_queue if own else policy.reclaim_within_cohort
            for one in ledger.holders[queue.name].values():
                if one.uses(needed) and preemptor.may_preempt(one, may):
                    yield one


@dataclass(slots=True)
class _Search:
    """The search for victims; shares count the usage of the workload that asks."""

    ledger: Ledger
    preemptor: Preemptor
    strategies: Sequence[str]

    def victims(self, candidates: list[Holder]) -> Iterator[Victim]:
        """Candidates by the first strategy, then by the second those that it left."""
        left: list[Holder] = []
        yield from self._by_first(candidates, left)
        if len(self.strategies) > 1:
            yield from self._by_initial_share(left)

    def _by_first(self, candidates: list[Holder], left: list[Holder]) -> Iterator[Victim]:
        preemptor, turns = self.preemptor, _Turns(self.preemptor, candidates)
        final = self.strategies[0] == FINAL
        within = not any(
            preemptor.queue.borrows(of, preemptor.usage.get(of, 0)) for of in preemptor.needed
        )
        while (queue := self._with_usage(turns.next)) is not None:
            waiting = turns.waiting[queue.name]
            if queue is preemptor.queue:
                yield Victim(waiting.pop(0), IN_QUEUE)
            elif within:
                yield Victim(waiting.pop(0), RECLAMATION)
            else:
                ours, theirs = self._shares(queue)
                while waiting:
                    one = waiting.pop(0)
                    if final:
                        with self.ledger.without([one]):
                            passes = ours.order <= self._shares(queue)[1].order
                    else:
                        passes = ours.order < theirs.order
                    if passes:
                        yield Victim(one, FAIR_SHARING)
                        break
                    left.append(one)

    def _by_initial_share(self, candidates: list[Holder]) -> Iterator[Victim]:
        turns = _Turns(self.preemptor, candidates)
        while (queue := self._with_usage(turns.next)) is not None:
            ours, theirs = self._shares(queue)
            if ours.order < theirs.order:
                yield Victim(turns.waiting[queue.name].pop(0), FAIR_SHARING)
            turns.drop(queue)

    def _shares(self, queue: Node) -> tuple[Share, Share]:
        """The shares of the workload's side and of a queue's, right below their lowest common cohort."""
        ancestors = set(map(id, self.preemptor.queue.path))
        common = next(node for node in queue.path if id(node) in ancestors)
        sides = [_below(self.preemptor.queue, common), _below(queue, common)]
        ours, theirs = self._with_usage(lambda: [share_of(side) for side in sides])
        return ours, theirs

    def _with_usage(self, ask: Callable[[], T]) -> T:
        """The answer to a question while the workload's own usage is counted."""
        self.preemptor.queue.add(self.preemptor.usage)
        answer = ask()
        self.preemptor.queue.add(self.preemptor.usage, -1)
        return answer


def _below(queue: Node, cohort: Node) -> Node:
    """The node on the way from a queue to a cohort that is right below it."""
    node = queue
    while node.parent is not cohort:
        assert node.parent is not None
        node = node.parent
    return node


class _Turns:
    """The queues whose workloads are candidates: on each level the one with the largest share comes next."""

    def __init__(self, preemptor: Preemptor, candidates: list[Holder]) -> None:
        self.preemptor = preemptor
        self.waiting: dict[str, list[Holder]] = {}
        for one in candidates:
            self.waiting.setdefault(one.queue, []).append(one)
        self._own = {id(node) for node in preemptor.queue.path}
        self._over: set[int] = set()

    def drop(self, queue: Node) -> None:
        """Let a queue have no more turns."""
        self._over.add(id(queue))

    def next(self) -> Node | None:
        """The queue whose turn it is; None when all are over."""
        root = self.preemptor.queue.root
        if root is self.preemptor.queue:
            return root if self.waiting.get(root.name) else None
        while id(root) not in self._over:
            if (queue := self._next_in(root)) is not None:
                return queue
        return None

    def _next_in(self, cohort: Node) -> Node | None:
        """The queue below a cohort whose turn it is; None where a node just turned out to be over."""
        queue, cohorts = self._best_queue(cohort), []
        for one in cohort.cohorts:
            if id(one) not in self._over:
                share = share_of(one)
                if share.ratio == 0.0 and id(one) not in self._own:
                    self._over.add(id(one))
                else:
                    cohorts.append((share.order, one))
        if queue is None and not cohorts:
            self._over.add(id(cohort))
            return None
        if cohorts:
            best = max(order for order, _ in cohorts)
            if queue is None or best >= queue[0]:
                return self._next_in([one for order, one in cohorts if order == best][-1])
        assert queue is not None
        return queue[1]

    def _best_queue(self, cohort: Node) -> tuple[tuple[bool, float], Node] | None:
        """The queue of a cohort with the largest share; of equal ones that of the first candidate."""
        best = None
        for one in cohort.queues:
            if id(one) in self._over:
                continue
            share = share_of(one)
            own = one is self.preemptor.queue
            if not self.waiting.get(one.name) or (share.ratio == 0.0 and not own):
                self._over.add(id(one))
            elif best is None or self._comes_before(one, share, best):
                best = share.order, one
        return best

    def _comes_before(
        self, queue: Node, share: Share, other: tuple[tuple[bool, float], Node]
    ) -> bool:
        if share.order != other[0]:
            return share.order > other[0]
        mine, its = (
            victim_order(self.waiting[one.name][0], self.preemptor.queue.name)
            for one in (queue, other[1])
        )
        return mine < its


# ---------------------------------------------------------------------- whose turn it is


class Nominee(NamedTuple):
    """The head of a queue with what it would use."""

    queue: Node
    usage: Amounts
    priority: int
    queued: float
    number: int
    """Its place among the heads, for the caller."""


def first_by_share(nominees: list[Nominee]) -> Nominee:
    """The nominee that is served first: on each level of its tree the side that would borrow least.

    A side that would borrow nothing of what the workload asks for comes before any other.
    """
    root = nominees[0].queue.root
    if root is nominees[0].queue:
        return nominees[0]
    by_queue = {id(one.queue): one for one in nominees}
    shares: dict[tuple[int, int], Share] = {}
    for queue in root.leaves:
        if (one := by_queue.get(id(queue))) is not None:
            queue.add(one.usage)
            for node in (queue, *queue.path):
                if node.parent is not None:
                    shares[one.number, id(node.parent)] = share_of(node)
            queue.add(one.usage, -1)

    def key(one: Nominee, cohort: Node) -> tuple[bool, tuple[bool, float], int, float]:
        share = shares[one.number, id(cohort)]
        borrows = any(one.usage.get(of, 0) > 0 for of in share.borrowed)
        return borrows, share.order, -one.priority, one.queued

    def winner(cohort: Node) -> Nominee | None:
        sides = [winner(one) for one in cohort.cohorts]
        sides += [by_queue.get(id(one)) for one in cohort.queues]
        there = [one for one in sides if one is not None]
        return min(there, key=lambda one: key(one, cohort), default=None)

    first = winner(root)
    assert first is not None
    return first
