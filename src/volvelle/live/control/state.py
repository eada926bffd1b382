"""The controller state, a fold of the journal: the scheduler, the GPU ledger, and the live jobs.

A cycle calls `apply_record` for its records, lets the scheduler handle the events, and calls
`apply_decision`. The controller does so as things happen, recovery as the store replays them; both reach the
same state.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from volvelle.core.decision import Decision
from volvelle.core.events import (
    Event,
    JobCancelled,
    JobChanged,
    JobFailed,
    JobFinished,
    JobHeld,
    JobProfile,
    JobReleased,
    JobRequeued,
    JobStopped,
    JobSubmitted,
    Recomposed,
    TrainingReported,
)
from volvelle.core.journal import Header
from volvelle.core.scheduler import Scheduler
from volvelle.live.control.batch_sizes import best_size
from volvelle.live.control.clock import Dates
from volvelle.live.control.cycle_effects import CycleEffects, EndedJob
from volvelle.live.control.gpu_ledger import Attempt, AttemptPhase, GpuLedger
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.control.profiling import LivePartition
from volvelle.live.control.servers import Servers
from volvelle.live.control.settling import Settling
from volvelle.live.job_request import JobRequest
from volvelle.live.measured_rates import MeasuredRates
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptStarted,
    Order,
    Start,
    attempt_identity,
)
from volvelle.live.records import (
    AskedBy,
    AttemptLostNode,
    ClockSet,
    ControlRecord,
    NodeDrained,
    ProfileConcluded,
    ProfileQueued,
    ProfileRecord,
    ProfileRunEnded,
    ProfileRunOver,
    ProfileStarted,
    RateMeasured,
    ServerBegan,
    SolverEnded,
    StoreBehind,
    StoreSettled,
)
from volvelle.live.scheduler_queries import declared_spec, estimated_work
from volvelle.live.status.view import Guarantee, HoldingView, JobState, ProfileView
from volvelle.live.store.rows import JobRecord
from volvelle.model.job import JobSpec

MAX_HOLDINGS = 20_000
"""Past holdings of GPUs that are kept, the latest."""

_SHORT_RUN_ROUNDS = 1.5
"""Up to so many rounds of its policy a run may be too short to get anywhere."""


class ControllerState:
    """The state under a journal. ``header``: the journal's; ``epoch``: its time 0.

    scheduler: None for the journal's at its very start.
    """

    def __init__(self, header: Header, epoch: float, scheduler: Scheduler | None = None) -> None:
        self.header = header
        self.dates = Dates(epoch)
        self.scheduler: Scheduler = scheduler or header.scheduler()
        self.policy, self.admission = header.composition.policy, header.composition.admission
        """As the journal says, which may name a file."""
        whole = header.whole
        self.partition = None if whole is None else LivePartition(whole)
        """On which jobs are profiled first."""
        nodes = () if self.partition is None else self.partition.nodes
        self.ledger = GpuLedger(self.scheduler.resources, nodes)
        self._concluded: list[ProfileConcluded] = []
        """Jobs of which the next decision hears that they are over."""
        self.jobs: dict[int, LiveJob] = {}
        self.measured = MeasuredRates()
        self.drained: set[str] = set()
        """Nodes that an operator has drained, whether they are connected or not."""
        self.holdings: deque[HoldingView] = deque(maxlen=MAX_HOLDINGS)
        """The latest holdings of GPUs that are over, by their ends."""
        self.next_number = 0
        """Number of the next job."""
        self.next_seq = 0
        """Sequence number of the next journal entry."""
        self.last_time = 0.0
        """Time of the last journal entry."""
        self.servers = Servers()
        """The servers that have written the journal."""
        self.troubled: set[str] = set()
        """Connected nodes that can start nothing, for a reason of their own."""
        self.settling = Settling()
        """Nodes and attempts awaited after the store was set back; no part of the journal."""
        self.joining = ""
        """How nodes join, as `Executor.joining`; no part of the journal."""
        self.fitting: set[int] = set()
        """Numbers of the jobs to whose steps a model is being fitted; in memory only."""

    @property
    def last_wall_time(self) -> float:
        """Time of the last journal entry, in seconds since the Unix epoch."""
        return self.dates.date(self.last_time)

    @property
    def epoch(self) -> float:
        """Time 0 by the dates of the present, in seconds since the Unix epoch."""
        return self.dates.present.epoch

    def time_of(self, date: float) -> float:
        """When in the journal a date of the past was, at the latest now."""
        return min(date - self.epoch, self.last_time)

    def add_job(self, record: JobRecord, request: JobRequest) -> None:
        """Add an accepted job."""
        self.jobs[record.number] = LiveJob.of(record, request)

    def spec(self, request: JobRequest, number: int, user: str, time: float) -> JobSpec:
        """The scheduler's view of a job that is submitted at ``time``, with what was measured of its like."""
        return declared_spec(self.scheduler, self.measured, request, number, user, time)

    def is_profiled(self, number: int) -> bool:
        """Whether a job waits for a profile or is profiled, and the scheduler does not know it yet."""
        return self.partition is not None and number in self.partition.jobs

    def apply_record(self, record: ControlRecord, time: float) -> None:
        """Apply a record of a cycle at ``time``."""
        match record:
            case NodeDrained():
                (self.drained.add if record.drained else self.drained.discard)(record.name)
            case RateMeasured():
                self.measured.add(record)
            case AskedBy() | SolverEnded():
                pass  # for people
            case AttemptStarted() | AttemptEnded() | AttemptLostNode():
                self._apply_attempt(record, time)
            case ClockSet():
                self._set_clock(record)
            case ServerBegan() | StoreBehind() | StoreSettled():
                self.servers.apply_record(record, self.next_seq, self.next_number)
                self.next_number = max(self.next_number, self.servers.next_number)
            case _:
                self._apply_profile(record)

    def _set_clock(self, record: ClockSet) -> None:
        """Dates go by another epoch, also those that live jobs and holdings have from the one before."""
        again = self.dates.set(record)
        for job in self.jobs.values():
            names = ["submitted", "first_started"]
            if again(job.submitted) != job.submitted:
                names += ["first_p50", "first_p90", "forecast_finish"]
            for name in names:
                if (date := getattr(job, name)) is not None:
                    setattr(job, name, again(date))
        moved = (
            replace(each, start=again(each.start), end=again(each.end)) for each in self.holdings
        )
        self.holdings = deque(moved, maxlen=MAX_HOLDINGS)

    def _apply_attempt(
        self, record: AttemptStarted | AttemptEnded | AttemptLostNode, time: float
    ) -> None:
        attempt = self.ledger.recorded(record)
        if attempt is None:
            return
        job = self.jobs.get(record.number)
        if isinstance(record, AttemptEnded) and job is not None:
            rounds = _SHORT_RUN_ROUNDS * (self.scheduler.composition.policy.round or 0.0)
            job.run_ended(attempt, record, time - (record.ago or 0.0) - attempt.since, rounds)
            job.iterations = record.saved_iterations
            job.saved_iterations = max(record.saved_iterations, job.saved_iterations)
        starting, occupied = attempt.phase is AttemptPhase.STARTING, attempt.slots
        self.ledger.apply_record(record)
        if released := tuple(sorted(occupied - attempt.slots)):
            grants = tuple((each.node, each.gpus) for each in self.ledger.grants(released))
            ago = (record.ago or 0.0) if isinstance(record, AttemptEnded) else 0.0
            since, until = (
                self.dates.date(each) for each in (attempt.since, max(time - ago, attempt.since))
            )
            self.holdings.append(HoldingView(record.number, grants, since, until))
        if attempt.profiles and self.partition is not None:
            if isinstance(record, AttemptStarted) and starting:
                self.partition.running(record.number, time)
            elif isinstance(record, AttemptEnded):
                self.partition.released(record.number)

    def _apply_profile(self, record: ProfileRecord) -> None:
        partition = self.partition
        assert partition is not None
        match record:
            case ProfileQueued():
                partition.queued(record)
            case ProfileStarted():
                partition.started(record, [g.node for g in self.ledger.grants(record.slots)])
                self.ledger.grant_profile(record.number, record.slots)
            case ProfileRunOver():
                partition.stopping(record)
                if (job := self.jobs.get(record.number)) is not None:
                    job.total_iterations = record.total_iterations
                self.ledger.revoke(record.number, kill=False)
            case ProfileRunEnded():
                partition.ended(record)
            case ProfileConcluded():
                self._conclude_profile(record)

    def _conclude_profile(self, record: ProfileConcluded) -> None:
        """A job is over before it came to the scheduler; `apply_decision` ends it."""
        assert self.partition is not None
        started = self.partition.jobs[record.number].started
        if (job := self.jobs.get(record.number)) is not None and not math.isnan(started):
            job.profile = ProfileView.of(JobProfile(started, record.time), self.epoch)
            job.first_started = self.epoch + started
        self.partition.left(record.number)
        self._concluded.append(record)

    def go_on_with(self, scheduler: Scheduler) -> None:
        """Let another scheduler in the same state decide from now on."""
        self.scheduler, self.ledger.resources = scheduler, scheduler.resources

    def apply_decision(
        self, time: float, events: Sequence[Event], decision: Decision
    ) -> CycleEffects:
        """Apply ``events`` and the ``decision`` on them, the next journal entry."""
        self.next_seq += 1
        self.last_time = time
        effects = CycleEffects()
        for record in self._concluded:
            ended = JobState(record.state)
            kill = ended is not JobState.FINISHED
            self._end_job(record.number, ended, record.reason, effects, kill=kill)
        self._concluded = []
        for event in events:
            self._apply_event(event, effects)
        stops = self.ledger.apply_decision(
            decision, lambda number: estimated_work(self.scheduler, number, time)
        )
        ordered = (self.jobs.get(stop.number) for stop in stops if not stop.kill)
        effects.preempted += sum(job is None or not job.held for job in ordered)
        effects.stops += stops
        effects.touched.update(decision.job.tolist())
        failed_at = {each.number: each.time for each in events if isinstance(each, JobFailed)}
        for rejection in decision.rejected:
            job = self.jobs.get(rejection.number)
            failed = job is not None and job.failures
            state = JobState.FAILED if failed else JobState.REJECTED
            since = failed_at.get(rejection.number)
            self._end_job(rejection.number, state, rejection.reason, effects, since, kill=True)
        for promise in decision.promises:
            if (job := self.jobs.get(promise.number)) is not None:
                job.guarantee = Guarantee.of(promise, self.epoch, job.guarantee)
                effects.touched.add(promise.number)
        for conclusion in decision.concluded:
            ended = JobState.FAILED if conclusion.timed_out else JobState.FINISHED
            self._end_job(conclusion.number, ended, conclusion.reason, effects, kill=False)
        if not self.servers.settling:
            for attempt in self.ledger.start_pending(time, self._new_identity):
                self._start_attempt(attempt, time)
                effects.starts.append(attempt)
                effects.touched.add(attempt.number)
        return effects

    def _new_identity(self, number: int) -> str:
        """The identity of a new attempt of a job."""
        job = self.jobs.get(number)
        return attempt_identity("" if job is None else job.identity, self.servers.present)

    def _start_attempt(self, attempt: Attempt, time: float) -> None:
        job = self.jobs.get(attempt.number)
        if job is None:  # it is over by now
            return
        attempt.iterations = job.saved_iterations
        job.batch_size, job.measured_from, job.training = 0, None, None
        if attempt.profiles:
            job.iteration_seconds = 0.0  # those of an earlier run are no measure of this one
        else:
            job.start(self.epoch + time)
        grants = self.ledger.grants(attempt.granted)
        job.ran_on = job.ran_on | {grant.node: attempt.attempt for grant in grants}

    def _apply_event(self, event: Event, effects: CycleEffects) -> None:
        number: int | None = getattr(event, "number", None)
        job = None if number is None else self.jobs.get(number)
        if number is not None:
            effects.touched.add(number)
        match event:
            case JobSubmitted() if event.profile is not None and self.partition is not None:
                self.partition.left(event.number)
                if job is not None:
                    job.profile = ProfileView.of(event.profile, self.epoch)
            case JobFinished():
                self._end_job(event.number, JobState.FINISHED, "", effects, event.time, kill=False)
            case JobCancelled():
                self._end_job(event.number, JobState.CANCELLED, "cancelled", effects, kill=True)
            case JobFailed():
                effects.stops += self.ledger.revoke(event.number, kill=True)
                if job is not None:
                    job.failures += not event.requeued
                    job.failure_reason = event.reason
            case JobHeld() | JobReleased() if job is not None:
                job.held = isinstance(event, JobHeld)
            case JobChanged() if job is not None:
                job.change(event.changes)
            case JobRequeued():
                effects.stops += self.ledger.take_back(event.number)
            case TrainingReported():
                self.ledger.note_work(event)
                if job is not None and event.goodput is not None:
                    job.goodput = event.goodput
            case JobStopped():
                self.ledger.revoked.pop(event.number, None)
            case Recomposed():
                self.policy, self.admission = event.policy, event.admission

    def _end_job(
        self,
        number: int,
        state: JobState,
        reason: str,
        effects: CycleEffects,
        ended: float | None = None,
        *,
        kill: bool,
    ) -> None:
        """A job is over; ``ended``: since when, if not since now."""
        effects.stops += self.ledger.revoke(number, kill=kill)
        self.ledger.forget_job(number)
        if (job := self.jobs.pop(number, None)) is not None:
            ended = self.last_time if ended is None else ended
            effects.ended.append(EndedJob(job, state, reason, ended))
        effects.touched.add(number)

    # ------------------------------------------------------------------ orders

    def start_order(self, attempt: Attempt) -> Start:
        """The order to start an attempt."""
        job = self.jobs[attempt.number]
        return Start(
            *attempt.key,
            user=job.user,
            grants=self.ledger.grants(attempt.granted),
            launch=job.request.launch(job.position),
            saved_iterations=attempt.iterations,
            batch_size=self.chosen_batch_size(attempt),
        )

    def chosen_batch_size(self, attempt: Attempt) -> int:
        """The batch size that the policy wants an attempt to have; 0: the script's own."""
        job = self.jobs[attempt.number]
        if job.goodput is None or not self.scheduler.composition.policy.tunes_batch_size:
            return 0
        grants = self.ledger.grants(attempt.granted)
        return best_size(job.goodput, len(grants), len(attempt.granted))

    def unconfirmed_order(self, attempt: Attempt) -> Order | None:
        """The order that must be sent again, because its arrival is unknown; None if it arrived."""
        if attempt.phase is AttemptPhase.STARTING:
            return self.start_order(attempt)
        return attempt.stop if attempt.phase is AttemptPhase.STOPPING else None

    def is_ours(self, key: AttemptKey) -> bool:
        """Whether an attempt is of a job that is here, and not of another one with its number."""
        job = self.jobs.get(key.number)
        return job is not None and job.identity == key.job

    def is_foreign(self, key: AttemptKey) -> bool:
        """Whether an attempt is of a job that is not in the store, as it was set back."""
        if key.server in ("", self.servers.present) or self.is_ours(key):
            return False
        replaced = key.number in self.jobs or key.number >= self.next_number
        return replaced or self.servers.is_foreign(key)

    def shows_loss(self, key: AttemptKey) -> bool:
        """Whether an attempt shows that the store was set back, and nothing had before."""
        if key.server in ("", self.servers.present) or self.ledger.current(key) is not None:
            return False
        later = key.attempt > self.ledger.grants_of(key.number)
        news = later if self.is_ours(key) else self.is_foreign(key)
        return news and (key.number >= self.next_number or not self.servers.is_lost(key.server))
