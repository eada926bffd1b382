"""The controller's thread: one control cycle after another, and all that follows from each.

A cycle takes all pending inputs, so that one transaction serves many. An append that fails is retried until
it succeeds; meanwhile nothing is answered and nothing ordered.
"""

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from volvelle.live.control.clock import JournalClock
from volvelle.live.control.cycle import ControlCycle, PreparedCycle
from volvelle.live.control.inbox import Inbox
from volvelle.live.control.inputs import ForkRequest, Input, PendingRequest
from volvelle.live.control.order_dispatcher import OrderDispatcher
from volvelle.live.control.requests import Hold
from volvelle.live.control.retention import Retention
from volvelle.live.control.secret_box import SecretBox
from volvelle.live.control.snapshots import SnapshotWriter
from volvelle.live.control.step_fits import StepFitter
from volvelle.live.control.store_retry import StoreRetry
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.forecasts.forecast_update import ForecastUpdate
from volvelle.live.forecasts.forecaster import Forecaster
from volvelle.live.messages import (
    AttemptEnded,
    JournalPosition,
    NodeJoined,
    NodeLost,
    Order,
    Outcome,
    Report,
    Start,
)
from volvelle.live.nodes.executor import OpenExecutor
from volvelle.live.notifications.delivery import Delivery
from volvelle.live.status.view import JobState
from volvelle.live.store import CycleBatch, Store, StoreFailed, Superseded
from volvelle.model.problems import Problem

_MAX_SLEEP_SECONDS = 60.0

_JOIN_SECONDS = 3.0
"""How long a guarantee that is due at the start waits for the nodes of its job: agents try each second."""

_ENDS_SECONDS = 0.1
"""Ends of jobs on a node come so soon after its join."""


class CycleLoop:
    """Runs cycles of ``cycle``, stored in ``store``, in a thread of its own.

    secrets: of jobs, put into their starts. calibration: of forecasts, so far. `executor` is set before the
    first cycle.
    """

    def __init__(
        self,
        store: Store,
        cycle: ControlCycle,
        clock: JournalClock,
        secrets: SecretBox,
        delivery: Delivery,
        retention: Retention,
        calibration: ForecastCalibration,
    ) -> None:
        self._store, self._cycle, self._clock, self._secrets = store, cycle, clock, secrets
        self._delivery, self._retention = delivery, retention
        self.executor: OpenExecutor | None = None
        self.inbox = Inbox()
        self.forecaster = Forecaster(calibration, self.inbox.put)
        self.awaits_nodes = True
        """Whether a node, by the status view, has neither joined since the controller began nor is lost."""
        self.position: JournalPosition | None = None
        """How far the journal is written; None before the first cycle."""
        self.failure = ""
        """Why no more cycles are run; empty while they are."""
        self.stopping = threading.Event()
        self.published = threading.Condition()
        """Notified after each cycle, when all of it is stored and ordered."""
        self._retry = StoreRetry(self.stopping, cycle.metrics, store.use_room)
        self._snapshots = SnapshotWriter(store)
        self._fitter = StepFitter(self.inbox.put)
        self._dispatcher = OrderDispatcher()
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self._unanswered: list[Future[Any]] = []
        self._forecast_is_stale = True
        """Whether anything happened since the last forecast."""
        self._forecast_until = math.inf
        """When the last forecast is out of date though nothing happened: a told finish has passed."""

    def start(self) -> None:
        """Begin to run cycles."""
        self.forecaster.start()
        self._fitter.start()
        self._thread.start()

    def end(self) -> None:
        """Run the last cycle, which answers earlier requests, unless the store fails."""
        self.stopping.set()
        self.inbox.close()
        self.forecaster.close()
        self._fitter.close()
        if self._thread.is_alive():
            self._thread.join()

    def close(self) -> None:
        """Finish what is being forgotten, and write the last snapshot; after the end."""
        self._retention.close()
        self._snapshots.close(None if self.failure else self._cycle.state)

    def report(self, report: Report) -> None:
        """Take a report of an executor, also while an order is being sent to it."""
        if isinstance(report, NodeLost):
            self._dispatcher.loss_reported(report.name)
        self.inbox.put(report)

    @property
    def is_ready(self) -> bool:
        """Whether cycles are run, and the store does not fail."""
        return self._thread.is_alive() and not self.failure and not self.store_problem

    @property
    def store_problem(self) -> str:
        """Why the store fails now; empty where it does not."""
        return self._retry.problem

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of forecasts, models of steps, snapshots and retention; some empty."""
        parts = (self.forecaster, self._fitter, self._snapshots, self._retention)
        return tuple(part.problem for part in parts)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._run_until_stopped()
        except (Superseded, StoreFailed) as problem:
            self.failure = str(problem)
        except Problem as problem:
            self.failure = f"the controller has failed: {problem}"
        except BaseException as error:
            self.failure = f"the controller has failed: {type(error).__name__}: {error}"
            raise
        finally:
            self.stopping.set()
            self._fail_unanswered()

    def _run_until_stopped(self) -> None:
        last = False
        if inputs := self._first_inputs():
            self._unanswered = _answers(inputs)
            self.run_cycle(inputs)
        while not (last and self.inbox.empty):
            stopping = self.stopping.is_set()
            inputs, closed = self.inbox.take(0.0 if stopping else self._seconds_to_sleep())
            last = stopping or closed
            self._unanswered = _answers(inputs)
            self.run_cycle(inputs)

    def _first_inputs(self) -> list[Input]:
        """The first reports of nodes on which a job may have ended whose guarantee is due; else nothing.

        Its end decides whether the guarantee was kept. An end waits for no other node, as its time is
        relative to its arrival.
        """
        inputs, names = list[Input](), self._due_nodes(until := self._clock.now() + _JOIN_SECONDS)
        while names and not self.stopping.is_set():
            if (seconds := until - self._clock.now()) <= 0.0:
                break
            taken, _ = self.inbox.take(seconds)
            inputs += taken
            if any(isinstance(each, AttemptEnded) for each in taken):
                break
            names -= {each.node.name for each in taken if isinstance(each, NodeJoined)}
            names -= {each.name for each in taken if isinstance(each, NodeLost)}
            if not names:
                inputs += self.inbox.take(_ENDS_SECONDS)[0]
        return inputs

    def _due_nodes(self, until: float) -> set[str]:
        """The nodes with attempts of jobs whose guarantees are due by then."""
        state, attempts = self._cycle.state, self._cycle.state.ledger.attempts
        return {
            grant.node
            for number, given in state.scheduler.promises.items()
            if number in attempts and (given.finish_by or math.inf) <= until
            for grant in state.ledger.grants(attempts[number].granted)
        }

    def _fail_unanswered(self) -> None:
        """Fail the futures of requests that will not be answered."""
        inputs, _ = self.inbox.take(0.0)
        for answer in [*self._unanswered, *_answers(inputs)]:
            if not answer.done():
                answer.set_exception(stopping_problem())

    def _seconds_to_sleep(self) -> float:
        """Seconds to wait for inputs at most."""
        seconds = min(_MAX_SLEEP_SECONDS, max(self._forecast_until - self._clock.now(), 0.0))
        if (wake := self._cycle.state.scheduler.wake_at()) is not None:
            seconds = min(max(wake - self._clock.now(), 0.0), seconds)
        if (partition := self._cycle.state.partition) is not None:
            seconds = min(max(partition.next_time() - self._clock.now(), 0.0), seconds)
        pause = self.forecaster.seconds_until_ready()
        if self._forecast_is_stale and pause is not None:
            seconds = min(pause, seconds)
        return seconds

    def run_cycle(self, inputs: Sequence[Input]) -> None:
        """Run one cycle; returns when all is stored and ordered."""
        began = time.perf_counter()
        if (clock_set := self._clock.setting()) is not None:
            inputs = [*inputs, clock_set]
        keys = ControlCycle.idempotency_keys(inputs)
        submissions = self._retry.run(partial(self._store.jobs.find_submissions, keys))
        over = self._cycle.waited_for(inputs)
        ends = self._retry.run(partial(self._store.jobs.find_ends, over))
        now = self._cycle.cycle_time(self._clock.now())
        prepared = self._cycle.prepare(inputs, now, submissions, self._dispatcher.uncertain, ends)
        decided = time.perf_counter()
        self._dispatcher.losses_handled(each.name for each in inputs if isinstance(each, NodeLost))
        if prepared.batch is not None:
            self._store_batch(prepared.batch)
            state = self._cycle.state
            self.position = JournalPosition(
                state.servers.present, state.next_seq - 1, state.next_number
            )
        else:
            self._store.check_there()
        if prepared.batch is None and prepared.notifications:
            self._retry.run(partial(self._store.outbox.add, prepared.notifications))
        self._delivery.add(prepared.notifications)
        orders = self._cycle.publish(prepared)
        awaited, self.awaits_nodes = self.awaits_nodes, bool(self._cycle.state.settling.awaited)
        if awaited and not self.awaits_nodes:
            self.forecaster.hurry()  # the forecast before counted no GPU of theirs as free
        self._send(orders)
        for fit in prepared.fits:
            self._fitter.submit(fit)
        with self.published:
            self.published.notify_all()
        if prepared.batch is not None:
            self._cycle.metrics.cycle.observe(time.perf_counter() - began)
            self._snapshots.entry_stored(decided - began)
        self._store_promises(inputs)
        self._update_forecaster(prepared, now)
        self._snapshots.take_if_due(self._cycle.state)
        self._retention.forget_if_due(self._cycle.state, self._clock.earliest())

    def _store_batch(self, batch: CycleBatch) -> None:
        began = time.perf_counter()
        self._retry.run(partial(self._store.append, batch))
        self._cycle.metrics.commit.observe(time.perf_counter() - began)

    def _send(self, orders: Sequence[Order]) -> None:
        assert self.executor is not None
        opened = (self._with_secrets(order) for order in orders)
        self._dispatcher.send(self.executor, [order for order in opened if order is not None])

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
            if not self.stopping.is_set():
                self.inbox.put(PendingRequest(Hold(order.number), Future()))
            return None

    def _store_promises(self, inputs: Sequence[Input]) -> None:
        for update in inputs:
            if isinstance(update, ForecastUpdate):
                self._forecast_until = min(self._forecast_until, update.until)
                if update.seconds is not None:
                    self._cycle.metrics.forecast.observe(update.seconds)
                if update.first:
                    write = partial(self._store.jobs.write_first_forecasts, update.first)
                    self._retry.run(write)

    def _update_forecaster(self, prepared: PreparedCycle, now: float) -> None:
        """Tell the forecaster of ended jobs, and have it forecast again if something has changed."""
        for job in prepared.ended:
            finished = job.state is JobState.FINISHED
            ended = now if job.ended is None else job.ended - self._cycle.state.epoch
            self.forecaster.job_ended(job.number, ended, finished=finished)
        outdated = now > self._forecast_until
        if outdated:
            self._forecast_until = now + _MAX_SLEEP_SECONDS
        changed = self._forecast_is_stale or prepared.batch is not None or outdated
        self._forecast_is_stale = changed and bool(self._cycle.state.jobs)
        ready = self.forecaster.seconds_until_ready() == 0.0
        if self._forecast_is_stale and ready:
            state = self._cycle.state
            self.forecaster.submit(state.scheduler.fork(), now, state.epoch)
            self._forecast_is_stale, self._forecast_until = False, now + _MAX_SLEEP_SECONDS


def _answers(inputs: Sequence[Input]) -> list[Future[Any]]:
    return [each.answer for each in inputs if isinstance(each, PendingRequest | ForkRequest)]


def stopping_problem() -> Problem:
    """The answer to requests that come too late."""
    return Problem(
        "the controller is stopping, and does not answer for this",
        mend="ask again later, under the same key",
    )
