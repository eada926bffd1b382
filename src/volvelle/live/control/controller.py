"""The controller: the single writer, one thread that runs control cycles.

A cycle takes all pending inputs, so that one transaction serves many. An append that fails is retried until
it succeeds; meanwhile nothing is answered and nothing ordered.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from volvelle.core.composition import Composition
from volvelle.core.journal import Header
from volvelle.live.control.clock import Clock, Dates, JournalClock
from volvelle.live.control.config_drift import config_drift
from volvelle.live.control.cycle import ControlCycle, PreparedCycle
from volvelle.live.control.fork_queries import ForkQueries
from volvelle.live.control.inbox import Inbox
from volvelle.live.control.inputs import ControllerStarted, ForkRequest, Input, PendingRequest
from volvelle.live.control.live_jobs import getting_nowhere
from volvelle.live.control.notifying import CycleNotifications
from volvelle.live.control.order_dispatcher import OrderDispatcher
from volvelle.live.control.recovery import (
    expected_nodes,
    first_batch,
    recover_state,
    restore_calibration,
)
from volvelle.live.control.requests import ControlRequest, Hold, Recompose, Submit
from volvelle.live.control.retention import Retention
from volvelle.live.control.secret_box import SecretBox
from volvelle.live.control.snapshots import SnapshotWriter
from volvelle.live.control.step_fits import StepFitter
from volvelle.live.control.store_retry import StoreRetry
from volvelle.live.forecasts.forecast_update import ForecastUpdate
from volvelle.live.forecasts.forecaster import Forecaster
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import (
    AttemptEnded,
    JournalPosition,
    NodeLost,
    Order,
    Outcome,
    Report,
    Start,
    new_identity,
)
from volvelle.live.nodes.executor import Executor, ExecutorContext, OpenExecutor, open_executor
from volvelle.live.nodes.gpu_demand import gpu_demand
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.live.notifications.delivery import TOLD_ONCE, Delivery
from volvelle.live.notifications.settings import NotificationSettings
from volvelle.live.records import RateMeasured
from volvelle.live.status.metrics import ControllerMetrics
from volvelle.live.status.view import (
    ChangeEvent,
    ForecastPoint,
    Health,
    HoldingView,
    JobState,
    LoadPoint,
    StatusView,
)
from volvelle.live.store import CycleBatch, Store, StoreFailed, Superseded
from volvelle.model.cluster import NodeState, Pool
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.model.units import DAY

_MAX_SLEEP_SECONDS = 60.0
_MAX_PENDING = 20_000

_JOIN_SECONDS = 60.0
"""So long after a start a node that has not joined yet is no problem."""


class Controller:
    """The single writer of ``store``. ``header``: of a new journal; ``executor``: runs the jobs.

    keep_history: see `volvelle.live.control.retention.Retention`.

    Raises `Problem` if the store cannot be read or written, or is damaged.

    Call `start` first and `stop` last: jobs run on, and the next controller finds them. Tests may call `open`
    instead, and then `step`.
    """

    def __init__(
        self,
        store: Store,
        header: Header,
        executor: Executor,
        context: ExecutorContext,
        clock: Clock | None = None,
        secrets: SecretBox | None = None,
        notifications: NotificationSettings | None = None,
        keep_history: float | None = None,
    ) -> None:
        self.store = store
        self._secrets = secrets or SecretBox(None)
        self.notifications = notifications or NotificationSettings()
        """Settings of notifications."""
        self._delivery = Delivery(store.outbox, self.notifications)
        clock = clock or Clock()
        with store.at_start():
            store.claim()
            recovered = recover_state(store, header, clock.wall())
            calibration = restore_calibration(store, recovered.state)
            told = store.outbox.ids_of(TOLD_ONCE)
        state = recovered.state
        unreadable = self._secrets.begin(state.jobs.values())
        drift = config_drift(state, header, store.where)
        warned = (unreadable, executor.warning(header.cluster))
        self.warnings = (*recovered.notices, *drift, *filter(None, warned))
        """Findings of the recovery, changes of the configuration since the journal, secrets without key, the
        executor's warning."""
        state.joining = executor.joining
        self._recompose_first = recovered.substituted
        self._snapshots = SnapshotWriter(store)
        self._clock = JournalClock(clock, state.dates, state.last_time)
        self._began = self._clock.now()
        self._retention = Retention(store, keep_history, DAY if self._clock.leapt else 0.0)
        self._cycle = ControlCycle(
            state, CycleNotifications(state, self.notifications, told, self._delivery.admit)
        )
        self._first_seq = state.next_seq
        self._identity = new_identity()
        self._header = header
        self._executor = executor
        self.executor_context = replace(
            context,
            folder=context.folder / f"since-{state.dates.first:.3f}",
            expected=expected_nodes(state),
            placed=state.ledger.placed(),
            demand=lambda: gpu_demand(self.status),
            position=lambda: self._position,
            is_down=self._is_down,
        )
        """Its folder is of this journal: jobs of two journals have the same numbers."""
        self._open_executor: OpenExecutor | None = None
        self._dispatcher = OrderDispatcher()
        self._inbox = Inbox()
        self._stopping = threading.Event()
        self._store_retry = StoreRetry(self._stopping, self._cycle.metrics, store.use_room)
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self.awaits_nodes = True
        """Whether a node, by the status view, has neither joined since the controller began nor is lost."""
        self._position: JournalPosition | None = None
        self._nowhere: tuple[StatusView | None, str] = (None, "")
        self._failure = ""
        self._unanswered: list[Future[Any]] = []
        self._published = threading.Condition()
        self._forecaster = Forecaster(calibration, self._inbox.put)
        self.forks = ForkQueries(
            state, self._clock, self._forecaster, self._inbox.put, header.volvelle
        )
        """Questions about what would be."""
        self._fitter = StepFitter(self._inbox.put)
        self._forecast_is_stale = True
        """Whether anything happened since the last forecast."""
        self._last_forecast_at = 0.0

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        """Begin to run cycles. Raises `Problem` if the executor cannot begin."""
        self.open()
        self._forecaster.start()
        self._fitter.start()
        with self.store.at_start():
            self._delivery.start()
        self._thread.start()

    def open(self) -> None:
        """Open the executor. Unconfirmed orders are sent again when their nodes join."""
        state = self._cycle.state
        if state.next_seq == 0:
            with self.store.at_start():
                self.store.append(first_batch(state))
            self._cycle.publish_nodes([node.name for node in state.header.cluster.nodes])
        context = self.executor_context
        nodes = frozenset(node.name for node in (*context.cluster.nodes, *context.expected))
        self._inbox.put(ControllerStarted(self._identity, nodes, self.store.restored))
        self._open_executor = open_executor(self._executor, context, self.report)
        was = state.scheduler.composition.written
        wanted = self._header.composition.build().written
        changed = (was.policy, was.admission) != (wanted.policy, wanted.admission)
        if changed or self._recompose_first:
            composition = self._header.composition
            self.request(Recompose(composition.policy, composition.admission))

    def stop(self) -> None:
        """Stop. Earlier requests are answered, unless the store fails. Jobs run on."""
        self._stopping.set()
        self._inbox.close()
        self._forecaster.close()
        self._fitter.close()
        if self._thread.is_alive():
            self._thread.join()
        self._delivery.close()
        if self._open_executor is not None:
            self._open_executor.close()
        self._retention.close()
        self._snapshots.close(None if self._failure else self._cycle.state)
        self.store.close()

    def report(self, report: Report) -> None:
        """Take a report of an executor, also while an order is being sent to it."""
        if isinstance(report, NodeLost):
            self._dispatcher.loss_reported(report.name)
        self._inbox.put(report)

    @property
    def is_busy(self) -> bool:
        """Whether so many inputs are pending that no more requests should be made."""
        return len(self._inbox) >= _MAX_PENDING

    def request(self, request: ControlRequest) -> "Future[Any]":
        """The future answer to ``request``; it fails with `Problem` if the request cannot be fulfilled."""
        answer: Future[Any] = Future()
        if self._stopping.is_set():
            answer.set_exception(_stopping_problem())
            return answer
        try:
            if isinstance(request, Submit):
                request = replace(
                    request, request=self._secrets.seal(request.user, request.request)
                )
            self._inbox.put(PendingRequest(request, answer))
        except Problem as problem:
            answer.set_exception(problem)
        return answer

    @property
    def logs(self) -> NodeLogs:
        """Job logs on all nodes; after `open`."""
        assert self._open_executor is not None
        return self._open_executor.logs

    def absence(self, node: str) -> str:
        """Why the agent of a node cannot be reached; empty if it can."""
        return self.logs.absence(node)

    @property
    def status(self) -> StatusView:
        """The latest status view."""
        return self._cycle.publisher.view

    @property
    def dates(self) -> Dates:
        """The dates of the journal's moments."""
        return self._cycle.state.dates

    @property
    def holdings(self) -> list[HoldingView]:
        """The latest holdings of GPUs that are over, by their ends."""
        return list(self._cycle.state.holdings)

    @property
    def load(self) -> tuple[LoadPoint, ...]:
        """GPUs held and jobs waiting since the controller started, the earliest first."""
        return self._cycle.publisher.load.points()

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of the cluster."""
        return self._header.cluster.pools

    @property
    def composition(self) -> Composition:
        """The parts that decide now: to be asked about jobs, not about the state."""
        return self._cycle.state.scheduler.composition

    def spec(self, request: JobRequest, user: str) -> JobSpec:
        """The scheduler's view of a job that ``user`` submits now."""
        return self._cycle.state.spec(request, 0, user, 0.0)

    def measured_rates(self, user: str, name: str) -> tuple[RateMeasured, ...]:
        """Measurements of a user's jobs of this name, the latest last."""
        return self._cycle.state.measured.of(user, name)

    def forecast_history(self, number: int) -> tuple[ForecastPoint, ...]:
        """Forecasts of a job since the controller started, the earliest first."""
        return self._cycle.publisher.forecasts.of(number)

    @property
    def disk_problem(self) -> str:
        """Why no job is accepted while all else is handled; empty: jobs are."""
        if self.store.keep_room():
            return ""
        return f"the disk of {self.store.where} is full: no jobs are accepted until there is room"

    @property
    def is_ready(self) -> bool:
        """Whether requests are handled."""
        return self._thread.is_alive() and not self._failure and not self._store_retry.problem

    @property
    def health(self) -> Health:
        """Whether requests are handled."""
        failure = self._failure or self.store.loss
        failing = (failure, self._store_retry.problem, self.disk_problem)
        failures = [text for text in failing if text]
        state = self._cycle.state
        others = (
            state.servers.problem,
            self._all_down,
            self._getting_nowhere,
            self._clock.problem,
            self._forecaster.problem,
            self._fitter.problem,
            *self._delivery.problems,
        )
        texts = list(self._cycle.node_problems.values())  # one step: the cycle's thread changes it
        node_problems = [text for text in texts if text]
        of_store = (self._snapshots.problem, self._retention.problem)
        problems = (*failures, *filter(None, others), *node_problems, *filter(None, of_store))
        return Health(self.is_ready and not failure, problems, failure, self.warnings)

    @property
    def _getting_nowhere(self) -> str:
        """That some jobs get nowhere, found once for each status view: health is asked ten times a second."""
        status, state = self.status, self._cycle.state
        if self._nowhere[0] is not status:
            self._nowhere = status, getting_nowhere(state.jobs, state.scheduler.composition.policy)
        return self._nowhere[1]

    @property
    def _all_down(self) -> str:
        """That no job can run, as no node is up or draining, nor may still join after the start."""
        nodes = self.status.nodes
        if not nodes or any(node.state != NodeState.DOWN.value for node in nodes):
            return ""
        if self.awaits_nodes and self._clock.now() - self._began < _JOIN_SECONDS:
            return ""
        mend = self._executor.joining
        return f"all nodes are down ({len(nodes)}), so no job runs" + (f": {mend}" if mend else "")

    def _is_down(self, name: str) -> bool:
        """Whether a node is down, by what is stored."""
        states = (node.state for node in self.status.nodes if node.name == name)
        return next(states, NodeState.DOWN.value) == NodeState.DOWN.value

    @property
    def metrics(self) -> ControllerMetrics:
        """Metrics since the controller started."""
        return self._cycle.metrics

    def events(self, after: int, timeout: float | None = None) -> list[ChangeEvent] | None:
        """Change events after journal entry ``after``, waiting for them up to ``timeout`` seconds.

        None if they are not kept any more; the status view must be read instead.
        """
        publisher = self._cycle.publisher
        with self._published:
            self._published.wait_for(lambda: bool(publisher.events_after(after)), timeout)
            kept_from = publisher.events[0].seq if publisher.is_full else self._first_seq
            return None if 0 <= after < kept_from - 1 else publisher.events_after(after)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._run_until_stopped()
        except (Superseded, StoreFailed) as problem:
            self._failure = str(problem)
        except BaseException as error:
            self._failure = f"the controller has failed: {type(error).__name__}: {error}"
            raise
        finally:
            self._stopping.set()
            self._fail_unanswered()

    def _run_until_stopped(self) -> None:
        last = False
        while not (last and self._inbox.empty):
            stopping = self._stopping.is_set()
            inputs, closed = self._inbox.take(0.0 if stopping else self._seconds_to_sleep())
            last = stopping or closed
            self._unanswered = _answers(inputs)
            self.run_cycle(inputs)

    def _fail_unanswered(self) -> None:
        """Fail the futures of requests that will not be answered."""
        inputs, _ = self._inbox.take(0.0)
        for answer in [*self._unanswered, *_answers(inputs)]:
            if not answer.done():
                answer.set_exception(_stopping_problem())

    def _seconds_to_sleep(self) -> float:
        """Seconds to wait for inputs at most."""
        seconds = _MAX_SLEEP_SECONDS
        if (wake := self._cycle.state.scheduler.wake_at()) is not None:
            seconds = min(max(wake - self._clock.now(), 0.0), seconds)
        if (partition := self._cycle.state.partition) is not None:
            seconds = min(max(partition.next_time() - self._clock.now(), 0.0), seconds)
        pause = self._forecaster.seconds_until_ready()
        if self._forecast_is_stale and pause is not None:
            seconds = min(pause, seconds)
        return seconds

    def step(self) -> None:
        """Run one cycle with the pending inputs, for tests."""
        inputs, _ = self._inbox.take(0.0)
        self.run_cycle(inputs)

    @property
    def has_inputs(self) -> bool:
        """Whether inputs are pending."""
        return not self._inbox.empty

    def run_cycle(self, inputs: Sequence[Input]) -> None:
        """Run one cycle; returns when all is stored and ordered."""
        began = time.perf_counter()
        if (clock_set := self._clock.setting()) is not None:
            inputs = [*inputs, clock_set]
        keys = ControlCycle.idempotency_keys(inputs)
        submissions = self._store_retry.run(partial(self.store.jobs.find_submissions, keys))
        over = self._cycle.waited_for(inputs)
        ends = self._store_retry.run(partial(self.store.jobs.find_ends, over))
        now = self._cycle.cycle_time(self._clock.now())
        prepared = self._cycle.prepare(inputs, now, submissions, self._dispatcher.uncertain, ends)
        decided = time.perf_counter()
        self._dispatcher.losses_handled(each.name for each in inputs if isinstance(each, NodeLost))
        if prepared.batch is not None:
            self._store_batch(prepared.batch)
            state = self._cycle.state
            self._position = JournalPosition(
                state.servers.present, state.next_seq - 1, state.next_number
            )
        else:
            self.store.check_there()
        if prepared.batch is None and prepared.notifications:
            self._store_retry.run(partial(self.store.outbox.add, prepared.notifications))
        self._delivery.add(prepared.notifications)
        orders = self._cycle.publish(prepared)
        awaited, self.awaits_nodes = self.awaits_nodes, bool(self._cycle.state.settling.awaited)
        if awaited and not self.awaits_nodes:
            self._forecaster.hurry()  # the forecast before counted no GPU of theirs as free
        self._send(orders)
        for fit in prepared.fits:
            self._fitter.submit(fit)
        with self._published:
            self._published.notify_all()
        if prepared.batch is not None:
            self.metrics.cycle.observe(time.perf_counter() - began)
            self._snapshots.entry_stored(decided - began)
        self._store_promises(inputs)
        self._update_forecaster(prepared, now)
        self._snapshots.take_if_due(self._cycle.state)
        self._retention.forget_if_due(self._cycle.state, self._clock.earliest())

    def _store_batch(self, batch: CycleBatch) -> None:
        began = time.perf_counter()
        self._store_retry.run(partial(self.store.append, batch))
        self.metrics.commit.observe(time.perf_counter() - began)

    def _send(self, orders: Sequence[Order]) -> None:
        assert self._open_executor is not None
        opened = (self._with_secrets(order) for order in orders)
        self._dispatcher.send(self._open_executor, [order for order in opened if order is not None])

    def _with_secrets(self, order: Order) -> Order | None:
        """``order`` with the secrets of its job; None where they cannot be read, and the job is held."""
        if not isinstance(order, Start):
            return order
        if (job := self._cycle.state.jobs.get(order.number)) is None:
            return order
        try:
            return self._secrets.opened(order, job.request.secrets)
        except Problem as problem:
            reason = str(problem)
            self.report(AttemptEnded(*order.key, outcome=Outcome.STOPPED, reason=reason))
            self.request(Hold(order.number))
            return None

    def _store_promises(self, inputs: Sequence[Input]) -> None:
        for update in inputs:
            if isinstance(update, ForecastUpdate):
                if update.seconds is not None:
                    self.metrics.forecast.observe(update.seconds)
                if update.first:
                    write = partial(self.store.jobs.write_first_forecasts, update.first)
                    self._store_retry.run(write)

    def _update_forecaster(self, prepared: PreparedCycle, now: float) -> None:
        """Tell the forecaster of ended jobs, and have it forecast again if something has changed."""
        for job in prepared.ended:
            finished = job.state is JobState.FINISHED
            ended = now if job.ended is None else job.ended - self._cycle.state.epoch
            self._forecaster.job_ended(job.number, ended, finished=finished)
        outdated = now > self._last_forecast_at + _MAX_SLEEP_SECONDS
        changed = self._forecast_is_stale or prepared.batch is not None or outdated
        self._forecast_is_stale = changed and bool(self._cycle.state.jobs)
        ready = self._forecaster.seconds_until_ready() == 0.0
        if self._forecast_is_stale and ready:
            state = self._cycle.state
            self._forecaster.submit(state.scheduler.fork(), now, state.epoch)
            self._forecast_is_stale, self._last_forecast_at = False, now


def _answers(inputs: Sequence[Input]) -> list[Future[Any]]:
    return [each.answer for each in inputs if isinstance(each, PendingRequest | ForkRequest)]


def _stopping_problem() -> Problem:
    return Problem(
        "the controller is stopping, and does not answer for this",
        mend="ask again later, under the same key",
    )
