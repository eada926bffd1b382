"""What executors report, in the scheduler's words: which run, how much work is safe, whether it was wanted.

Facts are taken into the books at once, so that the next report of the same cycle finds them.
"""

import math
from collections.abc import Container
from typing import assert_never

from volvelle.core.columns import Column
from volvelle.core.events import (
    Event,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    LossReported,
    NodeChanged,
    ProgressReported,
)
from volvelle.core.parts import Estimator
from volvelle.live.control.gpu_ledger import Attempt, Phase
from volvelle.live.control.live_jobs import Life, believed_done
from volvelle.live.control.state import Books
from volvelle.live.messages import (
    AttemptEnded,
    AttemptProgress,
    AttemptStarted,
    Forget,
    NodeJoined,
    NodeLost,
    Order,
    Outcome,
    Report,
    Stop,
)
from volvelle.live.records import Fact, Vacated
from volvelle.model.cluster import NodeState

_TELL_SECONDS = 10.0
"""Between two reports of a job's progress to the scheduler: each is an entry of the journal."""

_KILLED = (-9, 137)
"""Exit codes of who was ended by force and so had no time to write anything."""


class Hearing:
    """Hears the reports of one cycle.

    doubtful: attempts of which nobody knows whether their nodes were lost before or after they began there.
    """

    def __init__(self, books: Books, now: float, doubtful: Container[tuple[int, int]]) -> None:
        self.now = now
        self.facts: list[Fact] = []
        self.orders: list[Order] = []
        self.touched: set[int] = set()
        self.complaints: dict[str, str] = {}
        """What is wrong with a node, by its name; empty where it is well."""
        self._books = books
        self._doubtful = doubtful
        self._news: list[Event] = []
        self._nodes: list[NodeChanged] = []

    def report(self, report: Report) -> None:
        """Take in what an executor saw."""
        match report:
            case AttemptStarted():
                self._started(report)
            case AttemptProgress():
                self._progress(report)
            case AttemptEnded():
                self._ended(report)
            case NodeJoined():
                self._joined(report)
            case NodeLost():
                self._lost(report)
            case _:
                assert_never(report)

    def _fact(self, fact: Fact) -> None:
        self.facts.append(fact)
        self._books.take(fact)

    def _started(self, report: AttemptStarted) -> None:
        attempt = self._books.tenancy.current(report.number, report.attempt)
        if attempt is not None and attempt.phase is Phase.STARTING:
            self._begun(attempt)

    def _begun(self, attempt: Attempt) -> None:
        self._fact(AttemptStarted(attempt.number, attempt.attempt))
        self._news.append(JobStarted(self.now, attempt.number, attempt.of, attempt.since))

    def _progress(self, report: AttemptProgress) -> None:
        attempt = self._books.tenancy.current(report.number, report.attempt)
        life = self._books.lives.get(report.number)
        if attempt is None or life is None:
            return
        if attempt.phase is Phase.STARTING:
            self._begun(attempt)
        life.progressed(report)
        self.touched.add(report.number)
        if attempt.wanted and self.now >= life.tell_from:
            self._tell(attempt, life, report)

    def _tell(self, attempt: Attempt, life: Life, report: AttemptProgress) -> None:
        """Let the scheduler know what it goes by, now and then."""
        life.tell_from = self.now + _TELL_SECONDS
        composition = self._books.scheduler.composition
        number, of = attempt.number, attempt.of
        measures = type(composition.estimator).measure is not Estimator.measure
        if measures and life.total_iterations and life.iteration_seconds > 0.0:
            self._news.append(
                ProgressReported(
                    self.now,
                    number,
                    of,
                    life.iterations,
                    life.total_iterations,
                    life.iteration_seconds,
                )
            )
        loss = report.metrics.get("loss")
        if composition.loss_every is not None and loss is not None and math.isfinite(loss):
            life.tell_from = self.now + min(composition.loss_every, _TELL_SECONDS)
            done = self._believed(attempt)
            self._news.append(LossReported(self.now, number, of, done, loss))

    def _ended(self, report: AttemptEnded) -> None:
        self.orders.append(Forget(report.number, report.attempt))
        attempt = self._books.tenancy.current(report.number, report.attempt)
        if attempt is not None:
            self._end(attempt, report)

    def _end(self, attempt: Attempt, report: AttemptEnded) -> None:
        """Let an attempt be over: what that is to the scheduler depends on whether it wanted it."""
        number, scheduler = attempt.number, self._books.scheduler
        if report.outcome is Outcome.FINISHED and number in self._books.lives:
            row = scheduler.jobs.row_of.get(number)
            of = attempt.of if row is None else int(scheduler.jobs.get(number, Column.ATTEMPT))
            self._news.append(JobFinished(self.now, number, of))
        elif attempt.wanted:
            self._news.append(self._failure(attempt, report))
        elif not self._resized(attempt):
            safe = self._safe_work(attempt, report)
            self._news.append(JobStopped(self.now, number, attempt.of, safe))
        self.touched.add(number)
        self._fact(report)

    def _failure(self, attempt: Attempt, report: AttemptEnded) -> JobFailed:
        safe, believed = self._safe_work(attempt, report), self._believed(attempt)
        gained = believed - attempt.work
        lost = 1.0 if gained <= 0.0 else (believed - safe) / gained
        gpu_seconds = lost * (self.now - attempt.since) * len(attempt.granted)
        reason = report.reason or _in_words(report)
        return JobFailed(self.now, attempt.number, attempt.of, safe, gpu_seconds, reason)

    def _resized(self, attempt: Attempt) -> bool:
        """Whether it makes room for its own job, of which the scheduler thinks as still running."""
        due = self._books.tenancy.due.get(attempt.number)
        return due is not None and due.of == attempt.of

    def _believed(self, attempt: Attempt) -> float:
        """Units of work that the job is believed to have done by now, at least what it began with."""
        return max(believed_done(self._books.scheduler, attempt.number, self.now), attempt.work)

    def _safe_work(self, attempt: Attempt, report: AttemptEnded) -> float:
        """Units of work to which the job can go back: iterations saved say which share of this run's.

        Of a job that counts none, all where it was stopped by order and had its time, else nothing.
        """
        counted = report.iterations - attempt.iterations
        if counted > 0:
            share = min(max((report.saved_iterations - attempt.iterations) / counted, 0.0), 1.0)
        else:
            in_peace = report.outcome is Outcome.STOPPED and report.exit_code not in _KILLED
            share = 1.0 if in_peace else 0.0
        return attempt.work + share * (self._believed(attempt) - attempt.work)

    # ------------------------------------------------------------------ nodes

    def _joined(self, report: NodeJoined) -> None:
        node, books = report.node, self._books
        resources = books.scheduler.resources
        index = resources.index.get(node.name)
        if index is not None and resources.nodes[index].gpus != node.gpus:
            self.complaints[node.name] = (
                f"node {node.name!r} has {node.gpus} GPUs, and had {resources.nodes[index].gpus}: "
                "give it another name"
            )
            return
        self.complaints[node.name] = ""
        drains = report.leaving or node.name in books.drained
        state = NodeState.DRAINING if drains else NodeState.UP
        if self._state_of(node.name) is not state:
            self._nodes.append(NodeChanged(self.now, node.name, state, node))
        self._reconcile(report)

    def await_nodes(self) -> None:
        """Let nodes that were there take no new jobs before they join; what runs there runs on."""
        resources = self._books.scheduler.resources
        for name, state in zip(resources.names, resources.state, strict=True):
            if state is NodeState.UP:
                self.complaints[name] = f"node {name!r} has not joined since the controller began"
                self._nodes.append(NodeChanged(self.now, name, NodeState.DRAINING))

    def _reconcile(self, report: NodeJoined) -> None:
        """Compare what is alive on a node with what should be, and order what is amiss."""
        tenancy = self._books.tenancy
        for number, which in report.attempts:
            attempt = tenancy.current(number, which)
            if attempt is None:
                self.orders.append(Stop(number, which, kill=True))
            elif not attempt.wanted:
                self.orders.append(attempt.stop)
        for attempt in tenancy.on_node(report.node.name):
            if (attempt.number, attempt.attempt) not in report.attempts:
                again = self._books.order_again(attempt)
                self.orders.append(again or Stop(attempt.number, attempt.attempt, kill=True))

    def _lost(self, report: NodeLost) -> None:
        books = self._books
        tenancy = books.tenancy
        if self._state_of(report.name) is None:
            return
        self.complaints[report.name] = ""
        gone = tenancy.slots_of(report.name)
        reason = f"node {report.name} was lost: {report.reason}"
        for attempt in tenancy.on_node(report.name):
            life = books.lives.get(attempt.number)
            end = AttemptEnded(
                number=attempt.number,
                attempt=attempt.attempt,
                outcome=Outcome.LOST,
                reason=reason,
                iterations=0 if life is None else life.iterations,
                saved_iterations=0 if life is None else life.saved_iterations,
            )
            doubtful = (attempt.number, attempt.attempt) in self._doubtful
            if attempt.slots <= gone and not doubtful:
                self._end(attempt, end)
                continue
            if attempt.wanted:
                self._news.append(self._failure(attempt, end))
            if not doubtful:
                self._fact(Vacated(attempt.number, attempt.attempt, report.name))
            self.orders.append(Stop(attempt.number, attempt.attempt, kill=True))
        for due in [due for due in tenancy.due.values() if not gone.isdisjoint(due.slots)]:
            self._news.append(JobFailed(self.now, due.number, due.of, due.work, 0.0, reason))
        if self._state_of(report.name) is not NodeState.DOWN:
            self._nodes.append(NodeChanged(self.now, report.name, NodeState.DOWN))

    def _state_of(self, name: str) -> NodeState | None:
        """What a node will be once the events so far are handled; None where it is not known."""
        for change in reversed(self._nodes):
            if change.name == name:
                return change.state
        resources = self._books.scheduler.resources
        index = resources.index.get(name)
        return None if index is None else resources.state[index]


def _in_words(report: AttemptEnded) -> str:
    """What is said of an end for which no reason was given."""
    match report.outcome:
        case Outcome.STOPPED:
            return "it was stopped by somebody else"
        case Outcome.LOST:
            return "it was lost"
        case _ if report.exit_code is not None:
            return f"it ended with exit code {report.exit_code}"
        case _:
            return "it failed"
