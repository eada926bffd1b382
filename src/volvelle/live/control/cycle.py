"""The cycle of the live world, without clock, threads or sockets::

    stimuli ─▶ intake ─▶ scheduler.handle ─▶ settle ─▶ [store] ─▶ answers, orders, picture

`Engine.prepare` goes up to the store, `Engine.release` on from it: what `prepare` gives is shown to nobody
before it is in the store for good. The caller (`volvelle.live.control.controller`) ensures that.
"""

import time
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any

from volvelle.core.events import NodeChanged
from volvelle.core.journal import Entry
from volvelle.core.scheduler import next_multiple
from volvelle.live.control.ingestion import Intake
from volvelle.live.control.inputs import Asked, Awaiting, Look, Stimulus
from volvelle.live.control.requests import Submit
from volvelle.live.control.state import Books, Settled
from volvelle.live.forecasts.forecaster import Foreseen
from volvelle.live.messages import AttemptEnded, Order
from volvelle.live.status.metrics import Figures
from volvelle.live.status.publisher import Gallery
from volvelle.live.status.view import JobState, JobStatusView, StatusView
from volvelle.live.store.rows import Batch, Ended, StoredEntry, Submission
from volvelle.model.problems import Problem


@dataclass
class Prepared:
    """A cycle that waits for the store. ``batch``: what it is to keep; None where nothing is."""

    batch: Batch | None
    orders: list[Order]
    answers: list[tuple[Future[Any], Any]]
    touched: set[int]
    farewells: list[JobStatusView] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    complaints: dict[str, str] = field(default_factory=dict)


class Engine:
    """Runs the books."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.gallery = Gallery(books)
        self.figures = Figures()
        self._revoked: dict[tuple[int, int], float] = {}
        """When leases were revoked of attempts that have not ended yet."""
        self.complaints: dict[str, str] = {}
        """What is wrong with nodes, by their names."""

    @property
    def status(self) -> StatusView:
        """The latest that is in the store."""
        return self.gallery.status

    @staticmethod
    def keys(stimuli: Sequence[Stimulus]) -> list[tuple[str, str]]:
        """Users and keys under which something is submitted: what `prepare` has to know about."""
        asks = (each.ask for each in stimuli if isinstance(each, Asked))
        return [
            (ask.user, ask.key) for ask in asks if isinstance(ask, Submit) and ask.key is not None
        ]

    def stamp(self, now: float) -> float:
        """The time of a cycle ``now``: under a policy with rounds the latest boundary, if one has passed.

        Such a policy decides at multiples of its period exactly, and we wake a little after them.
        """
        last, wake = self.books.last, self.books.scheduler.wake_at()
        period = self.books.scheduler.composition.policy.round
        if period is not None and wake is not None and wake <= now:
            boundary = next_multiple(now, period) - period
            index = round(boundary / period)
            if last <= index * period <= now:
                return index * period
        return max(now, last)

    def prepare(
        self,
        stimuli: Sequence[Stimulus],
        now: float,
        submissions: Mapping[tuple[str, str], Submission],
        doubtful: Container[tuple[int, int]] = (),
    ) -> Prepared:
        """Let all of ``stimuli`` have happened at ``now``, which is not before the last cycle."""
        intake = Intake(self.books, now, submissions, doubtful)
        looks: list[Look] = []
        for stimulus in stimuli:
            if isinstance(stimulus, Asked):
                intake.asked(stimulus)
            elif isinstance(stimulus, Look):
                looks.append(stimulus)
            elif isinstance(stimulus, Awaiting):
                intake.await_nodes()
            elif isinstance(stimulus, Foreseen):
                intake.touched |= self._foreseen(stimulus)
            else:
                intake.report(stimulus)
        prepared = self._handle(intake, now)
        for look in looks:
            fork = self.books.scheduler.fork()
            fork.now = max(fork.now, now)
            prepared.answers.append((look.answer, fork))
        return prepared

    def _foreseen(self, foreseen: Foreseen) -> set[int]:
        """Take over what is expected of the jobs; the numbers of those that it changes."""
        lives, epoch = self.books.lives, self.books.epoch
        for promise in foreseen.promises:
            if (life := lives.get(promise.number)) is not None:
                life.foreseen, life.promised = promise.foreseen, promise.p50
                life.promised_p90 = promise.p90
        return {
            number
            for number, expected in foreseen.expected.items()
            if (life := lives.get(number)) is not None
            and life.foresee(expected, foreseen.reasons.get(number, ""), epoch)
        }

    def _handle(self, intake: Intake, now: float) -> Prepared:
        events = intake.events()
        prepared = Prepared(
            None, intake.orders, intake.answers, intake.touched, complaints=intake.complaints
        )
        if not events and not intake.facts:
            return prepared
        began = time.perf_counter()
        decision = self.books.scheduler.handle(now, events)
        self.figures.decision.observe(time.perf_counter() - began)
        entry = StoredEntry(self.books.seq, Entry(now, events, decision), tuple(intake.facts))
        settled = self.books.settle(now, events, decision)
        prepared.farewells = [self.gallery.farewell(over) for over in settled.over]
        self._count(intake, settled)
        prepared.batch = Batch(
            entry,
            tuple(intake.accepted),
            tuple(intake.submitted),
            tuple(_ended(status) for status in prepared.farewells),
        )
        prepared.orders += self._orders(settled)
        prepared.touched |= settled.touched
        prepared.nodes = [event.name for event in events if isinstance(event, NodeChanged)]
        return prepared

    def _count(self, intake: Intake, settled: Settled) -> None:
        figures, wall = self.figures, self.books.epoch + self.books.last
        figures.accepted += len(intake.accepted)
        figures.preemptions += sum(not stop.kill for stop in settled.stops)
        for fact in intake.facts:
            if isinstance(fact, AttemptEnded):
                revoked = self._revoked.pop((fact.number, fact.attempt), None)
                if revoked is not None:
                    figures.lease.observe(self.books.last - revoked)
        for stop in settled.stops:
            if not stop.kill:
                self._revoked[stop.number, stop.attempt] = self.books.last
        for attempt in settled.starts:
            life = self.books.lives.get(attempt.number)
            if attempt.attempt == 1 and life is not None:
                figures.queue_wait.observe(wall - life.submitted)
        for over in settled.over:
            figures.ends[over.state.value] += 1
            life = over.life
            if over.state is JobState.FINISHED and life.promised is not None:
                took = max(wall - life.submitted, 1e-9)
                figures.eta_error.observe(abs(wall - life.promised) / took)
                if life.promised_p90 is not None:
                    figures.kept[wall <= life.promised_p90] += 1
        if gaps := self.books.scheduler.composition.policy.solver_gaps:
            figures.solver_gap = gaps[-1]

    def _orders(self, settled: Settled) -> list[Order]:
        starts = [self.books.start_order(attempt) for attempt in settled.starts]
        return [*settled.stops, *starts]

    def release(self, prepared: Prepared) -> list[Order]:
        """Show what is in the store now: answer, hang a new picture; the orders to be sent."""
        self.complaints |= prepared.complaints
        self.gallery.draw(prepared.touched, prepared.farewells, prepared.nodes)
        for future, answer in prepared.answers:
            if isinstance(answer, Problem):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        return prepared.orders


def _ended(status: JobStatusView) -> Ended:
    assert status.ended is not None
    return Ended(
        number=status.number,
        state=status.state.value,
        reason=status.reason,
        ended=status.ended,
        picture=asdict(status),
    )
