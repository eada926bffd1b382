"""The controller: one thread that takes what comes, decides, has it stored, and only then says and orders it.

A cycle takes all that is pending, so that one transaction serves many. An append that fails is tried again
until it succeeds; meanwhile nothing is answered and nothing ordered.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from volvelle.core.journal import Header
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot
from volvelle.live.control.clock import Clock, JournalTime
from volvelle.live.control.config_drift import differences
from volvelle.live.control.cycle import Engine, Prepared
from volvelle.live.control.inputs import Asked, Awaiting, Look, Stimulus
from volvelle.live.control.recovery import awaited, first_entry, open_books, orders_again, recall
from volvelle.live.control.requests import Ask, Recompose
from volvelle.live.control.state import check_change
from volvelle.live.forecasts.forecaster import Forecaster, Foreseen
from volvelle.live.forecasts.job_forecast import Forecast
from volvelle.live.forecasts.suggestions import Remedies, remedies
from volvelle.live.forecasts.what_if import Shift, what_if, what_if_recomposed
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import NodeLost, Order, Report, Start, Stop
from volvelle.live.nodes.executor import Executor, ExecutorContext, OpenExecutor
from volvelle.live.nodes.gpu_demand import gpu_demand
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.live.status.metrics import Figures
from volvelle.live.status.view import ChangeEvent, JobState, JobStatusView, StatusView
from volvelle.live.store import Batch, Store, StoreFailed, Superseded
from volvelle.model.problems import Problem

T = TypeVar("T")

_RETRY_SECONDS = 0.25
_LONGEST_SLEEP = 60.0
_FORK_TIMEOUT = 30.0
_MOST_AT_ONCE = 5_000


@dataclass(frozen=True)
class Health:
    """Whether all is well. ``trouble``: what is not, in words; empty: nothing."""

    ready: bool
    trouble: tuple[str, ...]


class Controller:
    """The single writer. Give it a store, what its journal is to begin with, and an executor at a site.

    `start` before anything else, `stop` in the end: jobs run on, and the next controller finds them. A test
    may `open` it instead and `step` it by hand.
    """

    def __init__(
        self,
        store: Store,
        header: Header,
        executor: Executor,
        site: ExecutorContext,
        clock: Clock | None = None,
    ) -> None:
        self.store = store
        clock = clock or Clock()
        store.claim()
        books = open_books(store, header, clock.wall())
        self.differences = differences(books, header, store.where)
        """Of the configuration from what the journal began with, in words."""
        self._time = JournalTime(clock, books.epoch, books.last)
        self._engine = Engine(books)
        self._begins = books.seq
        self._header = header
        self._executor = executor
        self.site = replace(
            site,
            folder=site.folder / f"since-{books.epoch:.3f}",
            expected=awaited(books),
            demand=lambda: gpu_demand(self.status),
        )
        """Where the executor works: jobs of one journal never find those of another, numbered alike."""
        self._opened: OpenExecutor | None = None
        self._stimuli: queue.Queue[Stimulus | None] = queue.Queue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="controller", daemon=True)
        self._trouble = ""
        self._open_answers: list[Future[Any]] = []
        self._happened = threading.Condition()
        self._counting = threading.Lock()
        self._forecaster = Forecaster(recall(store, books), self._stimuli.put)
        self._stale = True
        """Whether anything happened since the forecaster looked last."""
        self._looked = 0.0
        self._said_lost: Counter[str] = Counter()
        self._known_lost: Counter[str] = Counter()
        """How often nodes were said to be lost, and how often the books know of."""
        self._doubtful: set[tuple[int, int]] = set()
        """Attempts whose start was sent just when one of their nodes was said to be lost."""

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        """Begin to serve. Raises `Problem` where the executor cannot begin."""
        self.open()
        self._forecaster.start()
        self._thread.start()

    def open(self) -> None:
        """Let the executor begin, and order again what may not have arrived."""
        books = self._engine.books
        if books.seq == 0:
            batch = first_entry(books)
            self._insist(partial(self.store.append, batch))
            nodes = [node.name for node in books.header.cluster.nodes]
            self._engine.gallery.draw((), (), nodes)
        self._stimuli.put(Awaiting())
        self._opened = self._executor.open(self.site, self.hear)
        self._send(orders_again(books))
        was, wished = books.scheduler.composition.written, self._header.composition.build().written
        if (was.policy, was.admission) != (wished.policy, wished.admission):
            self.ask(Recompose(self._header.composition.policy, self._header.composition.admission))

    def stop(self) -> None:
        """End: what was asked before is answered, unless the store fails; jobs run on."""
        self._stopping.set()
        self._stimuli.put(None)
        self._forecaster.close()
        if self._thread.is_alive():
            self._thread.join()
        if self._opened is not None:
            self._opened.close()
        self.store.close()

    def hear(self, report: Report) -> None:
        """Take note of what an executor saw; also while it is sent an order."""
        if isinstance(report, NodeLost):
            with self._counting:
                self._said_lost[report.name] += 1
        self._stimuli.put(report)

    def ask(self, ask: Ask) -> "Future[Any]":
        """The future answer to ``ask``; it fails with `Problem` where it cannot be."""
        answer: Future[Any] = Future()
        if self._stopping.is_set():
            answer.set_exception(_ended())
        else:
            self._stimuli.put(Asked(ask, answer))
        return answer

    @property
    def logs(self) -> NodeLogs:
        """What jobs wrote, wherever they ran; once it is open."""
        assert self._opened is not None
        return self._opened.logs

    @property
    def status(self) -> StatusView:
        """How things stand."""
        return self._engine.status

    @property
    def health(self) -> Health:
        """Whether all is well."""
        trouble = [self._trouble, *self._engine.complaints.values()]
        alive = self._thread.is_alive() and not self._trouble
        return Health(alive, tuple(filter(None, trouble)))

    @property
    def figures(self) -> Figures:
        """What it did so far, in numbers."""
        return self._engine.figures

    def forecast(self, request: JobRequest, user: str) -> Forecast:
        """What ``user`` would get, were this submitted now. Raises `Problem` where it could never run."""
        ahead = self._fork()
        books, outlook = self._engine.books, self._forecaster.outlook
        now = max(self._time.now(), ahead.now)
        return what_if(ahead, outlook, request, user, now, books.epoch)

    def shift(self, wanted: Recompose) -> Shift:
        """What another policy would do at once. Raises `Problem` where it cannot rule here."""
        ahead = self._fork()
        check_change(ahead, wanted)
        return what_if_recomposed(
            ahead, wanted.policy, wanted.admission, max(self._time.now(), ahead.now)
        )

    def remedies(self, job: JobStatusView) -> Remedies:
        """What would help a job that waits or is held."""
        ahead, outlook = self._fork(), self._forecaster.outlook
        if job.number not in (*ahead.known, *ahead.aside) and not any(
            event.number == job.number for event in ahead.at_the_door
        ):
            return Remedies((), None, True)  # it is over by now
        now, epoch = self._time.now(), self._engine.books.epoch
        return remedies(ahead, outlook, job, now, epoch)

    def snapshot(self) -> Snapshot:
        """The whole state, as `volvelle simulate --from-snapshot` reads it."""
        return Snapshot.of(self._fork(), self._header.volvelle)

    def _fork(self) -> Scheduler:
        look = Look(Future())
        self._stimuli.put(look)
        return look.answer.result(timeout=_FORK_TIMEOUT)

    def events(self, after: int, timeout: float | None = None) -> list[ChangeEvent] | None:
        """What happened after entry ``after``, waiting for it up to ``timeout`` seconds.

        None where that is no longer known: then look at the picture.
        """
        happenings = self._engine.gallery.happenings

        def news() -> list[ChangeEvent]:
            return [each for each in list(happenings) if each.seq > after]

        with self._happened:
            self._happened.wait_for(lambda: bool(news()), timeout)
            full = len(happenings) == happenings.maxlen
            known_from = happenings[0].seq if full else self._begins
            return None if 0 <= after < known_from - 1 else news()

    # ------------------------------------------------------------------ the thread

    def _serve(self) -> None:
        try:
            self._serve_until_stopped()
        except (Superseded, StoreFailed) as problem:
            self._trouble = str(problem)
        except BaseException as error:
            self._trouble = f"the controller has failed: {type(error).__name__}: {error}"
            raise
        finally:
            self._stopping.set()
            self._send_away()

    def _serve_until_stopped(self) -> None:
        last = False
        while not (last and not self.awaits):
            patience = 0.0 if self._stopping.is_set() else self._patience()
            stimuli, last = self._pending(patience)
            self._open_answers = [each.answer for each in stimuli if isinstance(each, Asked | Look)]
            self.cycle(stimuli)

    def _send_away(self) -> None:
        """Nobody waits for an answer that will not come."""
        stimuli, _ = self._pending(0.0)
        late = [each.answer for each in stimuli if isinstance(each, Asked | Look)]
        for answer in [*self._open_answers, *late]:
            if not answer.done():
                answer.set_exception(_ended())

    def step(self) -> None:
        """Take in what is pending, and whatever the time brings, at once."""
        stimuli, _ = self._pending(0.0)
        self.cycle(stimuli)

    @property
    def awaits(self) -> bool:
        """Whether something is pending."""
        return not self._stimuli.empty()

    def _pending(self, patience: float) -> tuple[list[Stimulus], bool]:
        """All that waits to be taken in, after ``patience`` seconds at most; and whether that is the end."""
        taken: list[Stimulus] = []
        ends = self._stopping.is_set()
        try:
            first = self._stimuli.get(block=patience > 0.0, timeout=patience)
            while True:
                if first is None:
                    ends = True
                else:
                    taken.append(first)
                if len(taken) >= _MOST_AT_ONCE:
                    break
                first = self._stimuli.get_nowait()
        except queue.Empty:
            pass
        return taken, ends

    def _patience(self) -> float:
        """Seconds to wait at most for something to happen."""
        patience = _LONGEST_SLEEP
        if (wake := self._engine.books.scheduler.wake_at()) is not None:
            patience = min(max(wake - self._time.now(), 0.0), patience)
        if self._stale and (pause := self._forecaster.pause()) is not None:
            patience = min(pause, patience)
        return patience

    def cycle(self, stimuli: Sequence[Stimulus]) -> None:
        """Take in ``stimuli`` and whatever the time brings; returns when all is stored and ordered."""
        began = time.perf_counter()
        known = self._insist(partial(self.store.submissions, Engine.keys(stimuli)))
        now = self._engine.stamp(self._time.now())
        prepared = self._engine.prepare(stimuli, now, known, self._doubtful)
        lost = [each.name for each in stimuli if isinstance(each, NodeLost)]
        self._known_lost.update(lost)
        if lost:
            self._doubtful.clear()
        if (batch := prepared.batch) is not None:
            self._stored(batch)
        self._send(self._engine.release(prepared))
        with self._happened:
            self._happened.notify_all()
        if batch is not None:
            self.figures.cycle.observe(time.perf_counter() - began)
        self._foresee(stimuli, prepared, now)

    def _stored(self, batch: Batch) -> None:
        began = time.perf_counter()
        self._insist(partial(self.store.append, batch))
        self.figures.commit.observe(time.perf_counter() - began)

    def _foresee(self, stimuli: Sequence[Stimulus], prepared: Prepared, now: float) -> None:
        """Keep what was promised, and let the forecaster look again where there is something new."""
        for foreseen in stimuli:
            if isinstance(foreseen, Foreseen):
                if foreseen.seconds is not None:
                    self.figures.forecast.observe(foreseen.seconds)
                if foreseen.promises:
                    self._insist(partial(self.store.promise, foreseen.promises))
        for last in prepared.farewells:
            finished = last.state is JobState.FINISHED
            self._forecaster.over(last.number, now, finished=finished)
        self._stale |= prepared.batch is not None or now > self._looked + _LONGEST_SLEEP
        if self._stale and self._engine.books.lives and self._forecaster.pause() == 0.0:
            self._forecaster.show(self._engine.books.scheduler.fork(), now)
            self._stale, self._looked = False, now

    def _insist(self, do: Callable[[], T]) -> T:
        """Do it, again and again until the store lets us, or we are to stop."""
        while True:
            try:
                result = do()
            except StoreFailed as failure:
                self.figures.failures += 1
                self._trouble = f"the store fails, and everything waits for it: {failure}"
                if self._stopping.is_set():
                    raise
                time.sleep(_RETRY_SECONDS)
                continue
            self._trouble = ""
            return result

    def _send(self, orders: Sequence[Order]) -> None:
        assert self._opened is not None
        for order in orders:
            if isinstance(order, Start):
                self._send_start(self._opened, order)
            else:
                self._opened.send(order)

    def _send_start(self, opened: OpenExecutor, order: Start) -> None:
        """Start an attempt, unless one of its nodes is said to be lost and the books do not know yet.

        What was told to an executor before it says that a node is lost is lost with it; what comes after
        finds a node that may be back. Where both happen at once, the attempt is ended, and counts as
        there until that is confirmed.
        """
        nodes = [grant.node for grant in order.grants]
        said = [self._said_lost[node] for node in nodes]
        if said != [self._known_lost[node] for node in nodes]:
            return
        opened.send(order)
        if said != [self._said_lost[node] for node in nodes]:
            self._doubtful.add((order.number, order.attempt))
            opened.send(Stop(order.number, order.attempt, kill=True))


def _ended() -> Problem:
    return Problem(
        "the controller is stopping, and does not answer for this",
        mend="ask again later, under the same key",
    )
