"""Everything that is a fold of the journal: the scheduler, who really occupies what, which jobs there are.

A cycle is: `take` the facts, let the scheduler `handle` the events, `settle` what follows. The controller
does so as things happen, recovery as the store says that they happened; both end with the same books.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import Decision
from volvelle.core.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStopped,
)
from volvelle.core.journal import Header
from volvelle.core.scheduler import Scheduler
from volvelle.live.control.gpu_ledger import Attempt, Phase, Tenancy
from volvelle.live.control.live_jobs import Life, believed_done
from volvelle.live.control.requests import Recompose
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import AttemptEnded, Order, Start, Stop
from volvelle.live.records import Drained, Fact
from volvelle.live.status.view import JobState
from volvelle.live.store.rows import JobRecord
from volvelle.model.cluster import Cluster
from volvelle.model.problems import Problem


@dataclass(frozen=True)
class Over:
    """What became of a job."""

    life: Life
    state: JobState
    reason: str


@dataclass
class Settled:
    """What follows from one cycle. ``touched``: numbers of the jobs about which something changed."""

    starts: list[Attempt] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    over: list[Over] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)


class Books:
    """The state of the live world. ``header``: what its journal begins with; ``epoch``: its time 0."""

    def __init__(self, header: Header, epoch: float) -> None:
        self.header = header
        self.epoch = epoch
        self.scheduler: Scheduler = header.scheduler()
        self.tenancy = Tenancy(self.scheduler.resources)
        self.lives: dict[int, Life] = {}
        self.drained: set[str] = set()
        """Nodes that an operator wants to take no jobs, whether they are there or not."""
        self.accepted = 0
        """Jobs so far; the number of the next."""
        self.seq = 0
        """Of the next entry."""
        self.last = 0.0
        """When the last was."""

    def accept(self, record: JobRecord, request: JobRequest) -> None:
        """A job is in the books from now on."""
        self.lives[record.number] = Life.of(record, request)

    def take(self, fact: Fact) -> None:
        """Let something have happened that only the world knows."""
        if isinstance(fact, Drained):
            (self.drained.add if fact.drained else self.drained.discard)(fact.name)
            return
        if isinstance(fact, AttemptEnded):
            life = self.lives.get(fact.number)
            if life is not None and self.tenancy.current(fact.number, fact.attempt):
                life.iterations = fact.saved_iterations
                life.saved_iterations = max(fact.saved_iterations, life.saved_iterations)
        self.tenancy.take(fact)

    def settle(self, time: float, events: Iterable[Event], decision: Decision) -> Settled:
        """What follows from ``events`` and the ``decision`` on them; the next entry is the next."""
        self.seq += 1
        self.last = time
        settled = Settled()
        for event in events:
            self._follow(event, settled)
        settled.stops += self.tenancy.decided(
            decision, lambda number: believed_done(self.scheduler, number, time)
        )
        settled.touched.update(decision.job.tolist())
        for rejection in decision.rejected:
            failed = (life := self.lives.get(rejection.number)) is not None and life.failures
            state = JobState.FAILED if failed else JobState.REJECTED
            self._over(rejection.number, state, rejection.reason, settled)
        for conclusion in decision.concluded:
            self._over(conclusion.number, JobState.FINISHED, conclusion.reason, settled)
        for attempt in self.tenancy.begin(time):
            if (life := self.lives.get(attempt.number)) is not None:  # else it is over by now
                attempt.iterations = life.saved_iterations
                if life.first_started is None:
                    life.first_started = self.epoch + time
                life.note = ""
                granted = self.tenancy.grants(attempt.granted)
                life.ran_on = life.ran_on | {grant.node: attempt.attempt for grant in granted}
            settled.starts.append(attempt)
            settled.touched.add(attempt.number)
        return settled

    def _follow(self, event: Event, settled: Settled) -> None:
        number: int | None = getattr(event, "number", None)
        if number is not None:
            settled.touched.add(number)
        match event:
            case JobFinished():
                self._over(event.number, JobState.FINISHED, "", settled)
            case JobCancelled():
                self._over(event.number, JobState.CANCELLED, "cancelled", settled)
            case JobFailed():
                settled.stops += self.tenancy.withdraw(event.number, kill=True)
                if life := self.lives.get(event.number):
                    life.failures += 1
                    life.note = event.reason
            case JobHeld() | JobReleased():
                if life := self.lives.get(event.number):
                    life.held = isinstance(event, JobHeld)
            case JobStopped():
                self.tenancy.waived.pop(event.number, None)

    def _over(self, number: int, state: JobState, reason: str, settled: Settled) -> None:
        concluded = state is JobState.FINISHED
        settled.stops += self.tenancy.withdraw(number, kill=not concluded)
        self.tenancy.forget(number)
        if (life := self.lives.pop(number, None)) is not None:
            settled.over.append(Over(life, state, reason))
        settled.touched.add(number)

    # ------------------------------------------------------------------ orders

    def start_order(self, attempt: Attempt) -> Start:
        """The order that begins an attempt."""
        life = self.lives[attempt.number]
        return Start(
            number=attempt.number,
            attempt=attempt.attempt,
            user=life.user,
            grants=self.tenancy.grants(attempt.granted),
            launch=life.request.launch(life.position),
            saved_iterations=attempt.iterations,
        )

    def order_again(self, attempt: Attempt) -> Order | None:
        """The order to be sent again where nobody knows whether it arrived; None where it has."""
        if attempt.phase is Phase.STARTING:
            return self.start_order(attempt)
        return attempt.stop if attempt.phase is Phase.STOPPING else None


def check_change(scheduler: Scheduler, ask: Recompose) -> None:
    """Raise `Problem` where another policy or admission cannot rule over the jobs of ``scheduler``."""
    written = msgspec.structs.replace(
        scheduler.composition.written, policy=ask.policy, admission=ask.admission
    )
    check_composition(scheduler.cluster, written)


def check_composition(cluster: Cluster, written: WrittenComposition) -> None:
    """Raise `Problem` where a composition cannot rule over real jobs."""
    composition = written.build()
    if not composition.placement.names_gpus:
        raise Problem(
            f"placement {composition.placement.name!r} only counts GPUs, real jobs need to know theirs",
            mend="choose one that names them, as in placement = 'consolidated'",
            usage=True,
        )
    if composition.estimator.needs_truth:
        raise Problem(
            f"estimator {composition.estimator.name!r} has to be told how long jobs really take, which "
            "nobody knows of real jobs",
            mend="choose another, as in estimator = 'declared'",
            usage=True,
        )
    if composition.policy.shares_gpus:
        raise Problem(
            f"policy {composition.policy.label!r} lets two jobs hold the same GPUs, and a live GPU is "
            "given to one",
            mend="choose another, or a parameter under which it does not",
            usage=True,
        )
    composition.policy.refuse(cluster, ())
