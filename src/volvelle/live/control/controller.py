"""The controller: the single writer, and what other threads ask of it. Its cycles run in `cycle_loop`."""

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from msgspec.structs import asdict

from volvelle.core.composition import Composition
from volvelle.core.journal import Header
from volvelle.live.control.clock import Clock, Dates, JournalClock
from volvelle.live.control.composition_checks import check_start
from volvelle.live.control.config_drift import config_drift
from volvelle.live.control.cycle import ControlCycle
from volvelle.live.control.cycle_loop import CycleLoop, stopping_problem
from volvelle.live.control.fork_queries import ForkQueries
from volvelle.live.control.inputs import ControllerStarted, PendingRequest
from volvelle.live.control.live_jobs import getting_nowhere
from volvelle.live.control.notifying import CycleNotifications
from volvelle.live.control.recovery import (
    expected_nodes,
    first_batch,
    recover_state,
    restore_calibration,
)
from volvelle.live.control.requests import ControlRequest, Recompose, Submit
from volvelle.live.control.retention import Retention
from volvelle.live.control.secret_box import SecretBox
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import Report, new_identity
from volvelle.live.nodes.executor import Executor, ExecutorContext, open_executor
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
    LoadPoint,
    StatusView,
)
from volvelle.live.store import Store
from volvelle.model.cluster import NodeState, Pool
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.model.units import DAY

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
        self._clock = JournalClock(clock, state.dates, state.last_time)
        was, wanted = state.scheduler.composition.written, header.composition.build().written
        self._first_request: Recompose | None = None
        if was != wanted or recovered.substituted:
            self._first_request = Recompose(**asdict(header.composition))
            check_start(state.scheduler, self._first_request, self._clock.now())
        self._began = self._clock.now()
        retention = Retention(store, keep_history, DAY if self._clock.leapt else 0.0)
        self._cycle = ControlCycle(
            state, CycleNotifications(state, self.notifications, told, self._delivery.admit)
        )
        self._loop = CycleLoop(
            store,
            self._cycle,
            self._clock,
            self._secrets,
            self._delivery,
            retention,
            calibration,
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
            position=lambda: self._loop.position,
            is_down=self._is_down,
        )
        """Its folder is of this journal: jobs of two journals have the same numbers."""
        self._nowhere: tuple[StatusView | None, str] = (None, "")
        self.forks = ForkQueries(
            state, self._clock, self._loop.forecaster, self._loop.inbox.put, header.volvelle
        )
        """Questions about what would be."""

    def start(self) -> None:
        """Begin to run cycles. Raises `Problem` if the executor cannot begin."""
        self.open()
        with self.store.at_start():
            self._delivery.start()
        self._loop.start()

    def open(self) -> None:
        """Open the executor. Unconfirmed orders are sent again when their nodes join."""
        state = self._cycle.state
        if state.next_seq == 0:
            with self.store.at_start():
                self.store.append(first_batch(state))
            self._cycle.publish_nodes([node.name for node in state.header.cluster.nodes])
        context = self.executor_context
        nodes = frozenset(node.name for node in (*context.cluster.nodes, *context.expected))
        self._loop.inbox.put(ControllerStarted(self._identity, nodes, self.store.restored))
        self._loop.executor = open_executor(self._executor, context, self.report)
        if self._first_request is not None:
            self.request(self._first_request).add_done_callback(self._cycle.recomposition_answered)

    def stop(self) -> None:
        """Stop. Earlier requests are answered, unless the store fails. Jobs run on."""
        self._loop.end()
        self._delivery.close()
        if self._loop.executor is not None:
            self._loop.executor.close()
        self._loop.close()
        self.store.close()

    def report(self, report: Report) -> None:
        """Take a report of an executor, also while an order is being sent to it."""
        self._loop.report(report)

    @property
    def awaits_nodes(self) -> bool:
        """Whether a node, by the status view, has neither joined since the controller began nor is lost."""
        return self._loop.awaits_nodes

    @property
    def is_busy(self) -> bool:
        """Whether so many inputs are pending that no more requests should be made."""
        return len(self._loop.inbox) >= _MAX_PENDING

    def request(self, request: ControlRequest) -> "Future[Any]":
        """The future answer to ``request``; it fails with `Problem` if the request cannot be fulfilled."""
        answer: Future[Any] = Future()
        if self._loop.stopping.is_set():
            answer.set_exception(stopping_problem())
            return answer
        try:
            if isinstance(request, Submit):
                request = replace(
                    request, request=self._secrets.seal(request.user, request.request)
                )
            self._loop.inbox.put(PendingRequest(request, answer))
        except Problem as problem:
            answer.set_exception(problem)
        return answer

    @property
    def logs(self) -> NodeLogs:
        """Job logs on all nodes; after `open`."""
        assert self._loop.executor is not None
        return self._loop.executor.logs

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
        return self._loop.is_ready

    @property
    def health(self) -> Health:
        """Whether requests are handled."""
        failure = self._loop.failure or self.store.loss
        failing = (failure, self._loop.store_problem, self.disk_problem)
        failures = [text for text in failing if text]
        state = self._cycle.state
        others = (
            state.servers.problem,
            self._all_down,
            self._getting_nowhere,
            *self._cycle.part_problems.values(),
            self._clock.problem,
            *self._loop.problems,
            *self._delivery.problems,
        )
        texts = list(self._cycle.node_problems.values())  # one step: the cycle's thread changes it
        node_problems = [text for text in texts if text]
        problems = (*failures, *filter(None, others), *node_problems)
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
        with self._loop.published:
            self._loop.published.wait_for(lambda: bool(publisher.events_after(after)), timeout)
            kept_from = publisher.events[0].seq if publisher.is_full else self._first_seq
            return None if 0 <= after < kept_from - 1 else publisher.events_after(after)

    # ------------------------------------------------------------------ for tests

    def step(self) -> None:
        """Run one cycle with the pending inputs."""
        inputs, _ = self._loop.inbox.take(0.0)
        self._loop.run_cycle(inputs)

    @property
    def has_inputs(self) -> bool:
        """Whether inputs are pending."""
        return not self._loop.inbox.empty
