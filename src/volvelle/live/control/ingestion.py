"""All that a cycle is about: what was reported (`Hearing`) and what is asked, as events for the scheduler.

Asks are checked; what is wrong with one is its answer. Events follow all together.
"""

from collections.abc import Container, Mapping
from concurrent.futures import Future
from typing import Any, assert_never

from volvelle.core.events import (
    Event,
    JobCancelled,
    JobHeld,
    JobReleased,
    JobStopped,
    JobSubmitted,
    NodeChanged,
    Recomposed,
    WakeUp,
)
from volvelle.live.control.inputs import Asked
from volvelle.live.control.reports import Hearing
from volvelle.live.control.requests import Cancel, Hold, Recompose, Release, SetNode, Submit
from volvelle.live.control.state import Books, check_change
from volvelle.live.records import Drained
from volvelle.live.store.rows import JobRecord, Submission
from volvelle.model.cluster import NodeState
from volvelle.model.problems import Problem


class Intake(Hearing):
    """Takes in one cycle. ``submissions``: what was submitted before under the keys asked."""

    def __init__(
        self,
        books: Books,
        now: float,
        submissions: Mapping[tuple[str, str], Submission],
        doubtful: Container[tuple[int, int]],
    ) -> None:
        super().__init__(books, now, doubtful)
        self.accepted: list[JobRecord] = []
        self.submitted: list[Submission] = []
        self.answers: list[tuple[Future[Any], Any]] = []
        self._known = dict(submissions)
        self._wishes: list[Event] = []
        self._arrivals: list[JobSubmitted] = []
        self._cancelled: set[int] = set()

    def events(self) -> tuple[Event, ...]:
        """All that happened, in the order in which a scheduler wants it."""
        wake = self._books.scheduler.wake_at()
        woken = [WakeUp(self.now)] if wake is not None and wake <= self.now else []
        waived = [
            JobStopped(self.now, due.number, due.of, due.work)
            for due in self._books.tenancy.waived.values()
        ]
        recomposed = [wish for wish in self._wishes if isinstance(wish, Recomposed)]
        wishes = [wish for wish in self._wishes if not isinstance(wish, Recomposed)]
        return (
            *waived,
            *self._news,
            *self._nodes,
            *self._arrivals,
            *wishes,
            *recomposed,
            *woken,
        )

    def asked(self, asked: Asked) -> None:
        """Take in what a user or an operator asks; its answer is given once it is in the store."""
        if not asked.answer.set_running_or_notify_cancel():
            return
        try:
            answer: Any = self._grant(asked)
        except Problem as problem:
            answer = problem
        self.answers.append((asked.answer, answer))

    def _grant(self, asked: Asked) -> Any:
        ask = asked.ask
        match ask:
            case Submit():
                return self._submit(ask)
            case Cancel():
                if ask.number not in self._cancelled:
                    self._present(ask.number)
                    self._cancelled.add(ask.number)
                    self._wishes.append(JobCancelled(self.now, ask.number))
            case Hold() | Release():
                self._present(ask.number)
                hold = isinstance(ask, Hold)
                life = self._books.lives[ask.number]
                if life.held is not hold:
                    life.held = hold
                    self._wishes.append((JobHeld if hold else JobReleased)(self.now, ask.number))
            case SetNode():
                self._set_node(ask)
            case Recompose():
                self._recompose(ask)
            case _:
                assert_never(ask)
        return None

    def _submit(self, ask: Submit) -> tuple[int, ...]:
        request, books = ask.request, self._books
        key = None if ask.key is None else (ask.user, ask.key)
        if key is not None and (before := self._known.get(key)):
            return tuple(range(before.first, before.first + before.count))
        first = books.accepted
        spec = request.spec(first, ask.user, self.now)
        scheduler = books.scheduler
        if obstacle := scheduler.obstacle(spec):
            raise Problem(f"the job {obstacle}", mend="ask for less, or for another kind")
        pools = [pool.name for pool in scheduler.cluster.pools]
        if spec.pool and spec.pool not in pools:
            raise Problem(
                f"there is no pool {spec.pool!r}",
                mend=f"there are {', '.join(pools)}" if pools else "leave it out: there are none",
            )
        belief = scheduler.composition.estimator.believe(
            JobSubmitted(self.now, first, spec), scheduler.seed
        )
        scheduler.composition.policy.refuse(scheduler.cluster, [(spec, belief.truth)])
        numbers = tuple(range(first, first + request.array))
        books.accepted += request.array
        written = request.as_json()
        for position, number in enumerate(numbers):
            record = JobRecord(
                number=number,
                user=ask.user,
                name=request.name,
                position=position,
                request=written,
                submitted=books.epoch + self.now,
            )
            self.accepted.append(record)
            books.accept(record, request)
            numbered = spec if number == first else request.spec(number, ask.user, self.now)
            self._arrivals.append(JobSubmitted(self.now, number, numbered))
        if key is not None:
            submission = Submission(*key, first, request.array)
            self._known[key] = submission
            self.submitted.append(submission)
        return numbers

    def _present(self, number: int) -> None:
        """Raise `Problem` where there is no such job, or it is over."""
        if number in self._books.lives:
            return
        if 0 <= number < self._books.accepted:
            raise Problem(f"job {number} is over")
        raise Problem(f"there is no job {number}", mend="see: volvelle queue")

    def _set_node(self, ask: SetNode) -> None:
        before = self._state_of(ask.name)
        if before is None:
            raise Problem(f"there is no node {ask.name!r}", mend="see: volvelle nodes")
        if ask.state is NodeState.DOWN:
            raise Problem("a node that is there cannot be told to be down", mend="drain it")
        self._fact(Drained(ask.name, ask.state is NodeState.DRAINING))
        if before not in (ask.state, NodeState.DOWN):
            self._nodes.append(NodeChanged(self.now, ask.name, ask.state))

    def _recompose(self, ask: Recompose) -> None:
        check_change(self._books.scheduler, ask)
        self._wishes.append(Recomposed(self.now, ask.policy, ask.admission))
