"""The control cycle, without clock, threads or sockets::

    inputs ─▶ ingestion ─▶ scheduler.handle ─▶ apply ─▶ [store] ─▶ answers, orders, status

`ControlCycle.prepare` is the part before the store, `ControlCycle.publish` the part after it. The caller must
store what `prepare` returns before it calls `publish`: nothing is answered, shown or ordered before it is
durable.
"""

import time
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import Decision
from volvelle.core.events import Event, JobStopped, NodeChanged, Recomposed, WakeUp
from volvelle.core.forward.moments import boundary
from volvelle.core.journal import Entry
from volvelle.core.solver_clock import on_the_clock
from volvelle.live.control.composition_checks import CHANGEABLE
from volvelle.live.control.cycle_changes import CycleChanges
from volvelle.live.control.cycle_effects import CycleEffects
from volvelle.live.control.ingestion import RequestIngestion
from volvelle.live.control.inputs import ControllerStarted, ForkRequest, Input, PendingRequest
from volvelle.live.control.notifying import CycleNotifications
from volvelle.live.control.reports import ReportIngestion
from volvelle.live.control.requests import Submit
from volvelle.live.control.state import ControllerState
from volvelle.live.control.step_fits import StepFit
from volvelle.live.control.views import ViewBuilder
from volvelle.live.forecasts.forecast_update import ForecastUpdate
from volvelle.live.messages import AttemptEnded, AttemptKey, Order
from volvelle.live.records import ClockSet, ControlRecord, ProfileRunOver, SolverEnded
from volvelle.live.status.metrics import ControllerMetrics
from volvelle.live.status.publisher import StatusPublisher
from volvelle.live.status.reasons import NO_REASON
from volvelle.live.status.view import JobState, JobStatusView
from volvelle.live.store.rows import CycleBatch, JobEnd, Notification, StoredEntry, Submission
from volvelle.model.problems import Problem

_PLAIN = WrittenComposition("fifo", "consolidated", "accept-all", "declared", "completion")
"""The parts that decide once a user's own have failed: they stop nothing that runs."""


@dataclass
class PreparedCycle:
    """A cycle that waits for the store. ``batch``: what to store; None: nothing."""

    batch: CycleBatch | None
    orders: list[Order]
    answers: list[tuple[Future[Any], Any]]
    touched: set[int]
    ended: list[JobStatusView] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    node_problems: dict[str, str] = field(default_factory=dict)
    fits: list[StepFit] = field(default_factory=list)
    """Models of jobs' steps to be made."""
    notifications: tuple[Notification, ...] = ()
    """To store with the batch, or alone, and then to deliver."""


class ControlCycle:
    """Runs cycles on ``state``."""

    def __init__(
        self,
        state: ControllerState,
        notifications: CycleNotifications,
    ) -> None:
        self.state = state
        self._notifications = notifications
        self.metrics = ControllerMetrics()
        self.node_problems: dict[str, str] = {}
        """Problems of nodes, by name."""
        self.part_problems: dict[str, str] = {}
        """By kind, why another part decides than was asked for."""
        self._views = ViewBuilder(state)
        self.publisher = StatusPublisher(self._views.update(state.jobs))
        self._revoked_at: dict[AttemptKey, float] = {}
        """When leases were revoked, of attempts that have not ended yet."""

    @staticmethod
    def idempotency_keys(inputs: Sequence[Input]) -> list[tuple[str, str]]:
        """Users and keys of the submissions in ``inputs``: `prepare` needs the earlier submissions."""
        requests = (each.request for each in inputs if isinstance(each, PendingRequest))
        return [
            (request.user, request.key)
            for request in requests
            if isinstance(request, Submit) and request.key is not None
        ]

    def waited_for(self, inputs: Sequence[Input]) -> list[int]:
        """Numbers of jobs that are not live and after which ``inputs`` want others to run."""
        requests = (each.request for each in inputs if isinstance(each, PendingRequest))
        named = (each.request.waits_for for each in requests if isinstance(each, Submit))
        numbers: set[int] = set().union(*named)
        return sorted(number for number in numbers if number not in self.state.jobs)

    def cycle_time(self, now: float) -> float:
        """The time of a cycle at ``now``. Under a policy with rounds: the latest boundary, if one has passed.

        Such a policy decides at exact multiples of its period, and the controller wakes up a little later.
        """
        last, wake = self.state.last_time, self.state.scheduler.wake_at()
        period = self.state.scheduler.composition.policy.round
        if period is not None and wake is not None and wake <= now:
            index = round(boundary(now, period, True) / period) - 1
            if last <= index * period <= now:
                return index * period
        return max(now, last)

    # ------------------------------------------------------------------ before the store

    def prepare(
        self,
        inputs: Sequence[Input],
        now: float,
        submissions: Mapping[tuple[str, str], Submission],
        uncertain: Container[AttemptKey] = (),
        ends: Mapping[int, str] = MappingProxyType({}),
    ) -> PreparedCycle:
        """Handle ``inputs`` at ``now``, which is not before the last cycle.

        submissions: earlier ones under the inputs' idempotency keys. uncertain: see `ReportIngestion`.
        ends: the final states of the jobs that are over and `waited_for`.
        """
        changes = CycleChanges(self.state, now)
        published = self.publisher.view
        told: list[Notification] = []
        reports = ReportIngestion(changes, uncertain)
        requests = RequestIngestion(changes, submissions, ends)
        fork_requests: list[ForkRequest] = []
        for each in inputs:
            if isinstance(each, PendingRequest):
                requests.ingest(each)
            elif isinstance(each, ForkRequest):
                fork_requests.append(each)
            elif isinstance(each, ClockSet):
                changes.record(each)
                changes.touched |= self.state.jobs.keys()
            elif isinstance(each, ControllerStarted):
                reports.begin(each)
            elif isinstance(each, StepFit):
                reports.steps_fitted(each)
            elif isinstance(each, ForecastUpdate):
                changed = self._apply_forecasts(each, now)
                told += self._notifications.of_forecasts(changed, published, now)
                changes.touched |= changed
            else:
                reports.ingest(each)
        reports.settle()
        self._profile(changes)
        prepared = self._decide(changes, requests, told)
        for fork_request in fork_requests:
            fork = self.state.scheduler.fork()
            fork.now = max(fork.now, now)
            prepared.answers.append((fork_request.answer, fork))
        return prepared

    def _profile(self, changes: CycleChanges) -> None:
        """Let runs on the profiling partition end whose time is over, and others begin."""
        state = self.state
        if (partition := state.partition) is None:
            return
        for number in partition.overdue(changes.now):
            job = state.jobs[number]
            lasts, total = job.iteration_seconds or None, job.total_iterations
            changes.record(ProfileRunOver(number, lasts, total))
            changes.orders.append(state.ledger.attempts[number].stop)
            changes.touched.add(number)
        for start in partition.starts(changes.now, state.drained, state.ledger):
            changes.record(start)
            changes.touched.add(start.number)

    def _apply_forecasts(self, update: ForecastUpdate, now: float) -> set[int]:
        """Take over forecasts; the numbers of the jobs whose status changes."""
        jobs, epoch = self.state.jobs, self.state.epoch
        for first in update.first:
            if (job := jobs.get(first.number)) is not None:
                job.set_first_forecast(first)
        changed = set()
        for number, times in update.times.items():
            start, p50, p90 = (
                None if each is None else epoch + each
                for each in (times.start, times.p50, times.p90)
            )
            reason = update.reasons.get(number, NO_REASON)
            job = jobs.get(number)
            if job is not None and job.update_forecast(
                start, p50, p90, reason, guessed=times.guessed, now=epoch + now
            ):
                changed.add(number)
        return changed

    def _decide(
        self, changes: CycleChanges, requests: RequestIngestion, told: list[Notification]
    ) -> PreparedCycle:
        """Let the scheduler decide on the changes, and apply its decision."""
        state, now = self.state, changes.now
        events = self._events(changes, requests)
        prepared = PreparedCycle(
            batch=None,
            orders=changes.orders,
            answers=requests.answers,
            touched=changes.touched,
            fits=changes.fits,
            node_problems=changes.node_problems,
            notifications=self._notifications.admit(told),
        )
        if not (events or changes.records or changes.part_failures):
            return prepared
        began = time.perf_counter()
        with on_the_clock() as clock:
            events, decision = self._handle(now, events, changes.part_failures)
        if clock.ended:
            changes.record(SolverEnded(clock.ended))
        self.metrics.decision.observe(time.perf_counter() - began)
        seq = state.next_seq
        effects = state.apply_decision(now, events, decision)
        requests.name_rejected(
            each.job for each in effects.ended if each.state is JobState.REJECTED
        )
        published = self.publisher.view
        prepared.ended = [self._views.final_view(each, published.jobs) for each in effects.ended]
        told = self._notifications.of_decision(events, effects, prepared.ended, published)
        prepared.notifications += self._notifications.admit(told)
        self._count(len(requests.accepted), changes.records, effects)
        prepared.batch = CycleBatch(
            StoredEntry(seq, Entry(now, events, decision), tuple(changes.records)),
            tuple(requests.accepted),
            tuple(requests.submissions),
            tuple(map(_job_end, prepared.ended)),
            prepared.notifications,
        )
        starts = [state.start_order(attempt) for attempt in effects.starts]
        prepared.orders += [*effects.stops, *starts]
        prepared.touched |= effects.touched
        prepared.nodes = [event.name for event in events if isinstance(event, NodeChanged)]
        return prepared

    def _handle(
        self, now: float, events: tuple[Event, ...], failures: Mapping[str, str]
    ) -> tuple[tuple[Event, ...], Decision]:
        """The scheduler's decision, and the events it is about.

        Where a user's own part fails, or is among ``failures`` (what happened, by kind), `_PLAIN`'s decides
        from then on: one event more, before all others, which a replay has too.
        """
        state = self.state
        changed = [event for event in events if isinstance(event, Recomposed)]
        parts, problems = {"policy": state.policy, "admission": state.admission}, dict[str, str]()
        for event in changed:
            parts |= {
                kind: name for kind in _PLAIN.__struct_fields__ if (name := getattr(event, kind))
            }
        if changed:
            failures = {kind: what for kind, what in failures.items() if kind not in CHANGEABLE}
        while True:
            for kind, what in failures.items():
                parts[kind] = getattr(_PLAIN, kind)
                problems[kind] = f"{what}; {_replaced(kind, parts[kind])}"
                self.metrics.part_failures += 1
            if failures:
                rest = [event for event in events if not isinstance(event, Recomposed)]
                events = (Recomposed(now, **parts), *rest)
            scheduler = state.scheduler
            before = scheduler.fork() if changed or scheduler.composition.own else None
            try:
                decision = scheduler.handle(now, events)
            except Exception as error:
                if before is None:
                    raise
                kind, what = scheduler.composition.failed(error)
                if parts.get(kind) == getattr(_PLAIN, kind):
                    raise
                failures = {kind: what}
                state.go_on_with(before)
            else:
                break
        over = CHANGEABLE if changed else ()
        before_it = {k: problem for k, problem in self.part_problems.items() if k not in over}
        self.part_problems = before_it | problems
        return events, decision

    def _events(self, changes: CycleChanges, requests: RequestIngestion) -> tuple[Event, ...]:
        """All events of the cycle, in the order in which a scheduler expects them."""
        state, now = self.state, changes.now
        wake = state.scheduler.wake_at()
        revoked_grants = [
            JobStopped(now, grant.number, grant.scheduler_attempt, grant.work)
            for grant in state.ledger.revoked.values()
        ]
        return (
            *revoked_grants,
            *changes.job_events,
            *changes.node_events,
            *sorted(changes.profiled, key=lambda event: event.number),
            *requests.arrivals,
            *requests.job_events,
            *requests.recompositions,
            *([WakeUp(now)] if wake is not None and wake <= now else []),
        )

    def _count(
        self, accepted: int, records: Sequence[ControlRecord], effects: CycleEffects
    ) -> None:
        metrics, state = self.metrics, self.state
        wall = state.last_wall_time
        metrics.accepted += accepted
        metrics.preemptions += effects.preempted
        for record in records:
            if isinstance(record, AttemptEnded):
                revoked_at = self._revoked_at.pop(record.key, None)
                if revoked_at is not None:
                    metrics.revocation.observe(state.last_time - revoked_at)
        for stop in effects.stops:
            if not stop.kill:
                self._revoked_at[stop.key] = state.last_time
        for attempt in effects.starts:
            started = state.jobs.get(attempt.number)
            if attempt.attempt == 1 and started is not None:
                metrics.queue_wait.observe(wall - started.submitted)
        for ended in effects.ended:
            metrics.ended_jobs[ended.state.value] += 1
            job = ended.job
            wall = state.dates.date(ended.ended)
            if ended.state is JobState.FINISHED and job.first_p50 is not None:
                jct = max(wall - job.submitted, 1e-9)
                metrics.eta_error.observe(abs(wall - job.first_p50) / jct)
                if job.first_p90 is not None:
                    metrics.p90_held[wall <= job.first_p90] += 1
        gaps = state.scheduler.composition.policy.solver_gaps
        if gaps is not None and gaps.solved:
            metrics.solver_gap = gaps.latest

    # ------------------------------------------------------------------ after the store

    def publish(self, prepared: PreparedCycle) -> list[Order]:
        """Publish what is stored now: the status view and the answers. Returns the orders to send."""
        self.node_problems |= prepared.node_problems
        update = self._views.update(prepared.touched, prepared.ended, prepared.nodes)
        self.publisher.publish(update)
        for future, answer in prepared.answers:
            if isinstance(answer, Problem):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        return prepared.orders

    def recomposition_answered(self, answer: Future[Any]) -> None:
        """Note where the policy of the configuration could not take over."""
        if isinstance(error := answer.exception(), Problem):
            self.part_problems["policy"] = f"{error.args[0]}; {self.state.policy} goes on deciding"

    def publish_nodes(self, names: Sequence[str]) -> None:
        """Publish the states of these nodes, outside of a cycle."""
        self.publisher.publish(self._views.update((), nodes=names))


def _replaced(kind: str, plain: str) -> str:
    mend = f"mend the {kind} and start the server again"
    if kind in CHANGEABLE:
        mend += ", or set another (volvelle policy set)"
    return f"{plain} decides instead, and what runs goes on: {mend}"


def _job_end(job: JobStatusView) -> JobEnd:
    assert job.ended is not None
    return JobEnd(
        number=job.number,
        state=job.state.value,
        reason=job.reason,
        ended=job.ended,
        status=asdict(job),
    )
