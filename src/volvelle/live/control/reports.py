"""Turns reports of executors into events for the scheduler, records, and orders."""

import math
from collections.abc import Container
from typing import assert_never

from volvelle.core.events import (
    UNRECORDED,
    BatchSizeChanged,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    LossReported,
    NodeChanged,
    ProgressReported,
    TrainingReported,
)
from volvelle.core.facets import FollowsRegimes
from volvelle.core.parts import Estimator
from volvelle.live.control.batch_sizes import news_of
from volvelle.live.control.cycle_changes import CycleChanges
from volvelle.live.control.gpu_ledger import Attempt, AttemptPhase
from volvelle.live.control.inputs import ControllerStarted
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.control.servers import FinishedPart
from volvelle.live.control.step_fits import StepFit
from volvelle.live.messages import (
    MAX_BATCH_SIZE,
    MAX_JOURNALS,
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    AttemptStarted,
    EndsTold,
    Forget,
    JournalPosition,
    NodeCondition,
    NodeJoined,
    NodeLost,
    Outcome,
    Report,
    SetBatchSize,
    Start,
    Stop,
    TellEnds,
    UnknownEnded,
)
from volvelle.live.records import (
    AttemptLostNode,
    ProfileConcluded,
    ProfileRunEnded,
    RateMeasured,
    ServerBegan,
    StoreBehind,
    StoreSettled,
)
from volvelle.live.scheduler_queries import attempt_number, believed_work, estimated_work
from volvelle.live.status.view import JobState
from volvelle.model.cluster import NodeState

_PROGRESS_SECONDS = 10.0
"""Between two progress events of a job: each is an entry of the journal, unless it is no news."""

_NEWS_SECONDS = 0.5
"""Least seconds between two changes of a job's batch size or rate; agents report less often."""

_MEASURED_ITERATIONS = 10
"""Iterations of an attempt from which on its rate counts as measured."""

_MAX_LOSS = 1e30
"""A loss beyond is none: curves are fitted to the fourth powers of losses."""

_SHORT_SECONDS = 60.0
"""An attempt that asks to be run again sooner than this has failed."""

_IMMEDIATE_SECONDS = 10.0
"""An attempt that crashes sooner, and alike twice, is taken to crash always."""

_KILLED_EXIT_CODES = (-9, 137)
"""Of processes that were killed and could not write a checkpoint."""

_NOTHING_TO_RUN = (126, 127)
"""Exit codes of shells for a command that is not executable, and for one that is not there."""

_NO_SCRIPT = "can't open file"
"""Python's message for a missing script."""

_SET_BACK = "before the store was set back"

_WHILE_PROFILED = "while it was profiled"


class ReportIngestion:
    """Ingests the reports of one cycle.

    uncertain: attempts that started either before or after their nodes were lost.
    """

    def __init__(self, changes: CycleChanges, uncertain: Container[AttemptKey]) -> None:
        self._changes = changes
        self._state = changes.state
        self._uncertain = uncertain

    def ingest(self, report: Report) -> None:
        """Ingest one report."""
        match report:
            case AttemptStarted():
                self._attempt_started(report)
            case AttemptProgress():
                self._attempt_progress(report)
            case AttemptEnded():
                self._attempt_ended(report)
            case UnknownEnded():
                self._unknown_ended(report)
            case EndsTold():
                self._state.settling.untold.pop(report.node, None)
            case NodeJoined():
                self._node_joined(report)
            case NodeCondition():
                self._node_condition(report)
            case NodeLost():
                self._node_lost(report)
            case _:
                assert_never(report)

    # ------------------------------------------------------------------ attempts

    def _attempt_started(self, report: AttemptStarted) -> None:
        attempt = self._state.ledger.current(report.key)
        if attempt is not None and attempt.phase is AttemptPhase.STARTING:
            self._record_start(attempt)

    def _record_start(self, attempt: Attempt) -> None:
        changes = self._changes
        changes.record(AttemptStarted(*attempt.key))
        changes.touched.add(attempt.number)
        if not attempt.profiles:
            changes.job_events.append(
                JobStarted(changes.now, attempt.number, attempt.scheduler_attempt, attempt.since)
            )

    def _attempt_progress(self, report: AttemptProgress) -> None:
        attempt = self._state.ledger.current(report.key)
        job = self._state.jobs.get(report.number)
        if attempt is None or job is None:
            return
        if attempt.phase is AttemptPhase.STARTING:
            self._record_start(attempt)
        job.update_progress(report)
        self._changes.touched.add(report.number)
        self._measure(attempt, job, report)
        if not attempt.wanted or attempt.profiles:
            return
        fit = 0 < report.batch_size <= MAX_BATCH_SIZE and report.batch_size != job.batch_size
        if fit and self._changes.now >= job.next_batch_size_event:
            self._add_batch_size_event(attempt, job, report)
        elif self._changes.now >= job.next_progress_event:
            self._add_progress_events(attempt, job, report)

    def _measure(self, attempt: Attempt, job: LiveJob, report: AttemptProgress) -> None:
        """Keep how fast a job is where it runs, for later jobs of its name, once enough was seen of it."""
        if job.measured_from is None:
            job.measured_from = report.iterations, report.epochs
        changes_batch_size = job.request.batch_sizes is not None or report.batch_size
        iterations = report.iterations - job.measured_from[0]
        unfit = not job.request.name or changes_batch_size or attempt.profiles
        if unfit or iterations < _MEASURED_ITERATIONS:
            return
        grants = self._state.ledger.grants(attempt.granted)
        resources = self._state.scheduler.resources
        kinds = {resources.nodes[resources.index[each.node]].gpu_type for each in grants}
        rate = 1.0 / report.iteration_seconds if report.iteration_seconds > 0.0 else 0.0
        if report.total_epochs:
            rate *= max(report.epochs - job.measured_from[1], 0.0) / iterations
        if rate <= 0.0 or len(kinds) != 1:
            return
        measured = RateMeasured(
            user=job.user,
            name=job.request.name,
            gpu_type=kinds.pop(),
            gpus=len(attempt.granted),
            nodes=len(grants),
            rate=rate,
            epochs=report.total_epochs > 0,
            total=float(report.total_epochs or report.total_iterations),
        )
        if self._changes.now >= job.next_measured and self._state.measured.is_news(measured):
            job.next_measured = self._changes.now + _NEWS_SECONDS
            self._changes.record(measured)

    def _add_batch_size_event(
        self, attempt: Attempt, job: LiveJob, report: AttemptProgress
    ) -> None:
        """Tell the scheduler at which size an attempt begins, or goes on."""
        job.batch_size = report.batch_size
        job.next_batch_size_event = self._changes.now + _NEWS_SECONDS
        if self._predicts_regimes:
            done = self._reported_work(attempt, report)
            event = BatchSizeChanged(self._changes.now, attempt.number, report.batch_size, done)
            self._changes.job_events.append(event)

    @property
    def _predicts_regimes(self) -> bool:
        return isinstance(self._state.scheduler.composition.estimator, FollowsRegimes)

    def _reported_work(self, attempt: Attempt, report: AttemptProgress) -> float:
        """Units of work done by the epochs that the script counts; by estimate where it counts none."""
        total = believed_work(self._state.scheduler, attempt.number)
        if not report.total_epochs or total is None:
            return self._estimated_work(attempt)
        return total * min(max(report.epochs / report.total_epochs, 0.0), 1.0)

    def _add_progress_events(self, attempt: Attempt, job: LiveJob, report: AttemptProgress) -> None:
        """Tell the scheduler what its estimator and its termination rule use."""
        now, events = self._changes.now, self._changes.job_events
        job.next_progress_event = now + _PROGRESS_SECONDS
        composition = self._state.scheduler.composition
        every = composition.progress_every
        adapts = bool(job.request.batch_sizes or report.batch_size)
        measures = type(composition.estimator).measure is not Estimator.measure
        if every is not None and adapts and report.total_epochs:
            job.next_progress_event = now + every
            done = self._reported_work(attempt, report)
            events.append(TrainingReported(now, attempt.number, attempt.scheduler_attempt, done))
        elif measures and job.total_iterations and job.iteration_seconds > 0.0:
            progress = ProgressReported(
                now,
                attempt.number,
                attempt.scheduler_attempt,
                job.iterations,
                job.total_iterations,
                job.iteration_seconds,
            )
            beliefs = self._state.scheduler.beliefs
            left = beliefs.measured_seconds_left(progress, now, composition.estimator)
            if left is not None:
                events.append(progress)
        if composition.policy.tunes_batch_size and job.training is not None:
            self._add_training_event(attempt, job, report)
        loss = report.metrics.get("loss")
        if composition.loss_every is not None and loss is not None and abs(loss) <= _MAX_LOSS:
            job.next_progress_event = now + min(composition.loss_every, _PROGRESS_SECONDS)
            done = self._estimated_work(attempt)
            events.append(LossReported(now, attempt.number, attempt.scheduler_attempt, done, loss))

    def _add_training_event(self, attempt: Attempt, job: LiveJob, report: AttemptProgress) -> None:
        """Tell the policy a job's goodput, if that is news, and the job the batch size that follows."""
        grants, now = self._state.ledger.grants(attempt.granted), self._changes.now
        assert job.training is not None
        goodput = news_of(job, job.training, len(grants), len(attempt.granted))
        if job.steps_seen != job.steps_fitted and job.number not in self._state.fitting:
            self._state.fitting.add(job.number)
            self._changes.fits.append(StepFit(job.number, job.steps_seen))
        if goodput is not None:
            job.goodput = goodput
            done = self._reported_work(attempt, report)
            event = TrainingReported(now, attempt.number, attempt.scheduler_attempt, done, goodput)
            self._changes.job_events.append(event)
        size = self._state.chosen_batch_size(attempt)
        if len(grants) == 1 and size not in (0, job.training.batch_size):
            self._changes.orders.append(SetBatchSize(*attempt.key, batch_size=size))

    def steps_fitted(self, fit: StepFit) -> None:
        """A model of a job's steps is made; the policy is told with the job's next report."""
        self._state.fitting.discard(fit.number)
        if (job := self._state.jobs.get(fit.number)) is not None:
            job.steps, job.steps_fitted = fit.steps or job.steps, fit.seen
            job.next_progress_event = self._changes.now

    def _attempt_ended(self, report: AttemptEnded) -> None:
        self._changes.orders.append(Forget(*report.key))
        self._state.settling.ended(report.key)
        attempt = self._state.ledger.current(report.key)
        if attempt is not None:
            self._end_attempt(attempt, report)

    def _unknown_ended(self, report: UnknownEnded) -> None:
        """An attempt that the store does not know of has ended on a node; its job may have finished by it."""
        state = self._state
        self._changes.orders.append(Forget(*report.key))
        state.settling.ended_on(report.node, report.key)
        ours = state.servers.settling and state.is_ours(report.key)
        if ours and report.outcome is Outcome.FINISHED:
            ended = self._changes.now - max(report.ago or 0.0, 0.0)
            part = FinishedPart(report.key, report.nodes, ended)
            state.settling.finished.setdefault(report.number, {})[report.node] = part

    def _end_attempt(self, attempt: Attempt, report: AttemptEnded) -> None:
        """End an attempt. The event for the scheduler depends on whether it had ordered the end."""
        number, changes = attempt.number, self._changes
        if attempt.profiles:
            self._end_profile_run(attempt, report)
            return
        if report.outcome is Outcome.FINISHED and number in self._state.jobs:
            current = attempt_number(self._state.scheduler, number)
            finished_attempt = attempt.scheduler_attempt if current is None else current
            ended = self._ended(attempt, report)
            changes.job_events.append(JobFinished(ended, number, finished_attempt))
        elif attempt.wanted:
            changes.job_events.append(self._failure(attempt, report))
        elif not self._is_resized(attempt):
            saved = self._saved_work(attempt, report)
            ended = self._ended(attempt, report)
            changes.job_events.append(JobStopped(ended, number, attempt.scheduler_attempt, saved))
        changes.touched.add(number)
        changes.record(report)

    def _end_profile_run(self, attempt: Attempt, report: AttemptEnded) -> None:
        """A run on the profiling partition ended; its job is over, or runs again, or goes on."""
        number, changes, state = attempt.number, self._changes, self._state
        in_time = attempt.wanted
        changes.record(report)
        changes.touched.add(number)
        if not state.is_profiled(number):
            return
        if report.outcome is Outcome.FINISHED:
            finished = JobState.FINISHED.value
            changes.record(ProfileConcluded(number, changes.now, finished, _WHILE_PROFILED))
        elif attempt.killed or report.node_failed or (in_time and report.outcome is Outcome.LOST):
            changes.record(ProfileRunEnded(number, again=True))
        elif in_time:
            reason = f"{report.reason or _describe_end(report)}, {_WHILE_PROFILED}"
            changes.record(ProfileConcluded(number, changes.now, JobState.FAILED.value, reason))
        else:
            self._end_profile(state.jobs[number])

    def _end_profile(self, job: LiveJob) -> None:
        """The time of a run is over: the job goes on to the queue, or runs on two nodes."""
        changes, state = self._changes, self._state
        assert state.partition is not None
        changes.record(ProfileRunEnded(job.number, again=False))
        profile = state.partition.profile(job, changes.now)
        if profile is not None:
            state.partition.left(job.number)
            spec = state.spec(job.request, job.number, job.user, job.submitted - state.epoch)
            changes.profiled.append(JobSubmitted(changes.now, job.number, spec, profile=profile))

    def _ended(self, attempt: Attempt, report: AttemptEnded) -> float:
        """When an attempt ended: after its start was ordered, and not in the future, whatever is reported."""
        now = self._changes.now
        if report.ago is None or not report.ago > 0.0:
            return now
        return min(max(now - report.ago, attempt.since), now)

    def _failure(self, attempt: Attempt, report: AttemptEnded) -> JobFailed:
        """An end without an order. An end that asks for another run is no failure of its job.

        Such an end within a minute is one: else a script that never gets anywhere would run for ever. A start
        that failed for a reason of the node's own is no failure of the job either.
        """
        ended = self._ended(attempt, report)
        ran = ended - attempt.since
        again = report.outcome is Outcome.STOPPED and ran >= _SHORT_SECONDS
        saved, estimated = self._saved_work(attempt, report), self._estimated_work(attempt)
        gained = estimated - attempt.work
        lost = 1.0 if gained <= 0.0 else (estimated - saved) / gained
        gpu_seconds = lost * ran * len(attempt.granted)
        reason = report.reason or _describe_end(report)
        always = self._crashes_always(attempt, report, ran)
        if always:
            reason += (
                f"; twice alike within {_IMMEDIATE_SECONDS:g} s (--retries 3 tries on all the same)"
            )
        return JobFailed(
            ended,
            attempt.number,
            attempt.scheduler_attempt,
            saved,
            gpu_seconds,
            reason,
            requeued=again or report.node_failed,
            permanent=always or _is_permanent(report),
        )

    def _crashes_always(self, attempt: Attempt, report: AttemptEnded, ran: float) -> bool:
        """Whether a job crashed within seconds, as its attempt before, and no retries were asked for."""
        job = self._state.jobs.get(attempt.number)
        if job is None:
            return False
        crashed = report.outcome is Outcome.FAILED and (report.exit_code or 0) > 0
        immediate = ran < _IMMEDIATE_SECONDS and report.iterations <= attempt.iterations
        before = job.immediate_crash
        job.immediate_crash = report.reason if crashed and immediate else ""
        return before == job.immediate_crash != "" and not job.request.asks_for_retries

    def _is_resized(self, attempt: Attempt) -> bool:
        """Whether it makes room for its own job, which the scheduler considers as still running."""
        grant = self._state.ledger.pending.get(attempt.number)
        return grant is not None and grant.scheduler_attempt == attempt.scheduler_attempt

    def _estimated_work(self, attempt: Attempt) -> float:
        """Units of work that the job has done by estimate, at least those at the attempt's start."""
        estimated = estimated_work(self._state.scheduler, attempt.number, self._changes.now)
        return max(estimated, attempt.work)

    def _saved_work(self, attempt: Attempt, report: AttemptEnded) -> float:
        """Units of work that the job resumes from: saved iterations give the share of this attempt's work.

        For a job that counts no iterations: all if it was stopped by order and in time, else none.
        """
        counted = report.iterations - attempt.iterations
        if counted > 0:
            share = min(max((report.saved_iterations - attempt.iterations) / counted, 0.0), 1.0)
        else:
            in_time = (
                report.outcome is Outcome.STOPPED and report.exit_code not in _KILLED_EXIT_CODES
            )
            share = 1.0 if in_time else 0.0
        return attempt.work + share * (self._estimated_work(attempt) - attempt.work)

    # ------------------------------------------------------------------ nodes

    def begin(self, started: ControllerStarted) -> None:
        """Let nodes take no new jobs before they join; what runs there runs on."""
        changes, resources = self._changes, self._state.scheduler.resources
        changes.record(ServerBegan(started.identity))
        if started.restored:
            changes.record(StoreBehind(None, self._state.servers.first_number))
        self._state.settling.awaited |= started.nodes
        for node, state in zip(resources.nodes, resources.node_states, strict=True):
            if state is NodeState.UP:
                name = node.name
                problem = f"node {name!r} has not joined since the controller began"
                changes.node_problems[name] = problem
                changes.node_events.append(NodeChanged(changes.now, name, NodeState.DRAINING))

    def _node_joined(self, report: NodeJoined) -> None:
        node, changes = report.node, self._changes
        if self._joins_partition(report):
            return
        resources = self._state.scheduler.resources
        index = resources.index.get(node.name)
        if index is not None and resources.nodes[index].gpus != node.gpus:
            changes.node_problems[node.name] = (
                f"node {node.name!r} has {node.gpus} GPUs, and had {resources.nodes[index].gpus}: "
                "give it another name"
            )
            self._state.settling.forget_node(node.name)
            return
        changes.node_problems[node.name] = self._set_trouble(node.name, report.problem)
        self._reconcile(report)
        drains = report.leaving or node.name in self._state.drained | self._state.troubled
        held = not drains and self._hold(node.name)
        state = NodeState.DRAINING if drains or held else NodeState.UP
        if changes.node_state(node.name) is not state:
            changes.node_events.append(NodeChanged(changes.now, node.name, state, node))

    def _set_trouble(self, name: str, problem: str) -> str:
        """Note whether a node can start jobs. Returns the problem as it is shown."""
        (self._state.troubled.add if problem else self._state.troubled.discard)(name)
        return problem and f"node {name!r} takes no new jobs: {problem}"

    def _node_condition(self, report: NodeCondition) -> None:
        """Set a node aside while it can start nothing, and let it in again."""
        changes, partition = self._changes, self._state.partition
        mine = None if partition is None else partition.node(report.name)
        before = changes.node_state(report.name)
        if mine is None and before in (None, NodeState.DOWN):
            return
        changes.node_problems[report.name] = self._set_trouble(report.name, report.problem)
        if not report.problem:
            if report.name not in self._state.settling.held:
                self._let_in(report.name)
        elif mine is not None:
            mine.since = math.inf
        elif before is NodeState.UP:
            changes.node_events.append(NodeChanged(changes.now, report.name, NodeState.DRAINING))

    def _hold(self, name: str) -> bool:
        """Let a node that joined take no new jobs yet, if that is not safe. Returns whether so."""
        state = self._state
        if not state.servers.settling and not state.settling.foreign_on(name):
            return False
        state.settling.held.add(name)
        self._changes.node_problems[name] = state.settling.problem(name)
        return True

    def settle(self) -> None:
        """After the store was set back: go on once it is known what runs where."""
        state, changes = self._state, self._changes
        settling = state.settling
        if state.servers.settling:
            numbers = tuple(sorted(state.jobs))
            changes.orders += [TellEnds(name, numbers) for name in settling.ask()]
        if state.servers.settling and settling.is_known:
            changes.record(StoreSettled())
            for number in sorted(settling.finished.keys() & state.jobs.keys()):
                self._finish_lost(number)
            settling.finished.clear()
            for attempt in list(state.ledger.attempts.values()):
                self._go_on(attempt)
        if state.servers.settling:
            return
        for name in sorted(settling.held):
            if not settling.foreign_on(name):
                settling.held.discard(name)
                self._let_in(name)

    def _finish_lost(self, number: int) -> None:
        """End a job that has finished in what the store has lost, unless it runs by what its nodes say."""
        state, changes = self._state, self._changes
        ended, attempt = state.settling.finish(number), state.ledger.attempts.get(number)
        if ended is None or (attempt is not None and attempt.key not in state.settling.missing):
            return
        changes.touched.add(number)
        if state.is_profiled(number):
            finished = JobState.FINISHED.value
            changes.record(ProfileConcluded(number, changes.now, finished, _SET_BACK))
        else:
            submitted = state.jobs[number].submitted - state.epoch
            ended = min(max(ended, submitted), changes.now)
            changes.job_events.append(JobFinished(ended, number, UNRECORDED))

    def _go_on(self, attempt: Attempt) -> None:
        """Send the order about an attempt again, now that it is known what runs where.

        One that no node has may have run, and ended, in what the store has lost: it is not started again.
        """
        order = self._state.unconfirmed_order(attempt)
        if isinstance(order, Start) and attempt.key not in self._state.settling.there:
            self._lose_attempt(
                attempt, "", set(), "the store was set back, and no node knows of it"
            )
        elif order is not None:
            self._changes.orders.append(order)
        elif attempt.key in self._state.settling.missing:
            self._changes.orders.append(Stop(*attempt.key, kill=True))

    def _let_in(self, name: str) -> None:
        """A node that was held takes new jobs, if it can start them."""
        changes, state = self._changes, self._state
        if name in state.troubled:
            return
        changes.node_problems[name] = ""
        if state.partition is not None and (mine := state.partition.node(name)) is not None:
            mine.since = 0.0
        elif name not in state.drained and changes.node_state(name) is NodeState.DRAINING:
            changes.node_events.append(NodeChanged(changes.now, name, NodeState.UP))

    def _joins_partition(self, report: NodeJoined) -> bool:
        """Whether a node that joined is one on which jobs are profiled, which the scheduler does not know."""
        partition, node = self._state.partition, report.node
        mine = None if partition is None else partition.node(node.name)
        if partition is None or mine is None:
            return False
        problem = ""
        if node.gpus != mine.gpus:
            problem = f"node {node.name!r} has {node.gpus} GPUs, and {mine.gpus:g} are profiled on"
        problem = problem or self._set_trouble(node.name, report.problem)
        self._changes.node_problems[node.name] = problem
        self._reconcile(report)
        closed = problem or report.leaving or self._hold(node.name)
        mine.since = math.inf if closed else 0.0
        return True

    def _reconcile(self, report: NodeJoined) -> None:
        """Compare the attempts on a node with those that should be there, and order what differs."""
        ledger, orders = self._state.ledger, self._changes.orders
        self._state.settling.forget_node(report.node.name)
        self._compare_journals(report)
        for key in report.attempts:
            attempt = ledger.current(key)
            if attempt is None:
                self._reconcile_unknown(key, report.node.name)
            elif not attempt.wanted:
                orders.append(attempt.stop)
            elif attempt.phase is AttemptPhase.STARTING:  # it runs, and that was not stored
                self._state.settling.there.add(key)
                if not self._state.servers.settling:
                    orders.append(self._state.start_order(attempt))
        for attempt in ledger.attempts_on(report.node.name):
            if attempt.key in report.attempts:
                continue
            if self._state.servers.settling:  # it may have ended in what the store has lost
                self._state.settling.missing.setdefault(attempt.key, set()).add(report.node.name)
            else:
                again = self._state.unconfirmed_order(attempt)
                orders.append(again or Stop(*attempt.key, kill=True))
        if report.keeps_ends:
            self._state.settling.untold[report.node.name] = False

    def _compare_journals(self, report: NodeJoined) -> None:
        """Notice that a node knows more than the journal."""
        for position in report.known[-MAX_JOURNALS:]:
            if self._state.servers.lacks(position):
                self._record_loss(position, report.node.name)
        for key in report.attempts:
            if self._state.shows_loss(key):
                self._record_loss(JournalPosition(key.server, 0, key.number + 1), report.node.name)

    def _record_loss(self, position: JournalPosition, node: str) -> None:
        found = self._state.servers.behind(position, node)
        if found is not None:
            self._changes.record(found)

    def _reconcile_unknown(self, key: AttemptKey, node: str) -> None:
        """Decide about an attempt that is not in the GPU ledger."""
        state, orders = self._state, self._changes.orders
        earlier = key.server != state.servers.present  # else it was never ordered, or is over
        if state.is_ours(key) and state.servers.settling and earlier:
            state.settling.superseded.setdefault(key, set()).add(node)
            orders.append(Stop(*key))
        elif state.is_foreign(key):
            state.settling.foreign.setdefault(key, set()).add(node)
        else:
            orders.append(Stop(*key, kill=True))

    def _node_lost(self, report: NodeLost) -> None:
        changes, ledger = self._changes, self._state.ledger
        partition = self._state.partition
        mine = None if partition is None else partition.node(report.name)
        self._state.settling.forget_node(report.name)
        if mine is not None:
            mine.since = math.inf
        elif changes.node_state(report.name) is None:
            return
        changes.node_problems[report.name] = self._set_trouble(report.name, "")
        lost_slots = ledger.slots_of(report.name)
        reason = f"node {report.name} was lost: {report.reason}"
        for attempt in ledger.attempts_on(report.name):
            self._lose_attempt(attempt, report.name, lost_slots, reason, report.ago)
        for grant in list(ledger.pending.values()):
            if not lost_slots.isdisjoint(grant.slots):
                failure = JobFailed(
                    changes.now, grant.number, grant.scheduler_attempt, grant.work, 0.0, reason
                )
                changes.job_events.append(failure)
        if mine is None and changes.node_state(report.name) is not NodeState.DOWN:
            changes.node_events.append(NodeChanged(changes.now, report.name, NodeState.DOWN))

    def _lose_attempt(
        self,
        attempt: Attempt,
        node: str,
        lost_slots: set[int],
        reason: str,
        ago: float | None = None,
    ) -> None:
        """An attempt has lost a node: end it if it was only there and that is certain, else kill it."""
        changes, job = self._changes, self._state.jobs.get(attempt.number)
        end = AttemptEnded(
            *attempt.key,
            outcome=Outcome.LOST,
            reason=reason,
            iterations=0 if job is None else job.iterations,
            saved_iterations=0 if job is None else job.saved_iterations,
            ago=ago,
        )
        uncertain = attempt.key in self._uncertain
        if attempt.slots <= lost_slots and not uncertain:
            self._end_attempt(attempt, end)
            return
        if attempt.wanted and not attempt.profiles:
            changes.job_events.append(self._failure(attempt, end))
        if not uncertain:
            changes.record(AttemptLostNode(*attempt.key, node=node))
        changes.orders.append(Stop(*attempt.key, kill=True))


def _is_permanent(report: AttemptEnded) -> bool:
    """Whether the next attempt would fail like this one, as what is to run is not there."""
    return report.outcome is Outcome.FAILED and (
        report.permanent or report.exit_code in _NOTHING_TO_RUN or _NO_SCRIPT in report.reason
    )


def _describe_end(report: AttemptEnded) -> str:
    """A reason for an end that was reported without one."""
    match report.outcome:
        case Outcome.STOPPED:
            return "it was stopped from outside"
        case Outcome.LOST:
            return "it was lost"
        case _ if report.exit_code is not None:
            return f"it ended with exit code {report.exit_code}"
        case _:
            return "it failed"
