"""Request ingestion: validates the requests of one cycle and turns them into events for the scheduler.

A request that is wrong is answered with its `Problem`. Answers are given once the cycle is stored.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, assert_never

import msgspec

from volvelle.core.decision import encode_array
from volvelle.core.events import (
    Event,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSubmitted,
    NodeChanged,
    Recomposed,
)
from volvelle.live.control.composition_checks import check_recomposition, try_recomposition
from volvelle.live.control.cycle_changes import CycleChanges
from volvelle.live.control.inputs import PendingRequest
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.control.requests import (
    Cancel,
    Change,
    ControlRequest,
    Hold,
    KeyUsedBefore,
    Recompose,
    Release,
    Requeue,
    SetNodeState,
    Submit,
)
from volvelle.live.job_change import KEYS
from volvelle.live.job_request import digest_of_request
from volvelle.live.messages import Stop, new_identity
from volvelle.live.records import AskedBy, NodeDrained, ProfileConcluded, ProfileQueued
from volvelle.live.scheduler_queries import holds_gpus, seconds_with_gpus
from volvelle.live.status.view import JobState
from volvelle.live.store.rows import JobRecord, Submission
from volvelle.model.cluster import NodeState
from volvelle.model.job import Dependency, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.units import format_duration

MAX_SUBMISSION_BYTES = 32 << 20
"""Of all jobs of one submission together, as they are stored."""


class RequestIngestion:
    """Ingests the requests of one cycle. ``submissions``: earlier ones under the requests' keys.

    ends: how jobs ended that new ones are after, by number.
    """

    def __init__(
        self,
        changes: CycleChanges,
        submissions: Mapping[tuple[str, str], Submission],
        ends: Mapping[int, str],
    ) -> None:
        self._ends = ends
        self._changes = changes
        self._state = changes.state
        self._known_submissions = dict(submissions)
        self._cancelled: dict[int, int] = {}
        """Jobs to be cancelled, with the place of the first answer about each."""
        self.accepted: list[JobRecord] = []
        self.submissions: list[Submission] = []
        self.answers: list[tuple[Future[Any], Any]] = []
        self.arrivals: list[JobSubmitted] = []
        self.job_events: list[Event] = []
        self.recompositions: list[Recomposed] = []

    def ingest(self, pending: PendingRequest) -> None:
        """Ingest one request."""
        if not pending.answer.set_running_or_notify_cancel():
            return
        try:
            answer: Any = self._handle(pending.request)
            self._record_who(pending.request)
        except Problem as problem:
            answer = problem
        self.answers.append((pending.answer, answer))

    def name_rejected(self, rejected: Iterable[LiveJob]) -> None:
        """Let the answers about cancelled jobs be which jobs were rejected, as they were after them."""
        jobs = sorted(rejected, key=lambda job: job.number)  # after others of lower numbers
        for number, place in self._cancelled.items():
            gone = {number}
            for job in jobs:
                after = job.request.dependencies(job.position)
                gone |= {job.number for one in after if int(one.job) in gone}
            self.answers[place] = self.answers[place][0], tuple(sorted(gone - {number}))

    def _handle(self, request: ControlRequest) -> Any:
        now = self._changes.now
        match request:
            case Submit():
                return self._submit(request)
            case Cancel():
                if request.number not in self._cancelled:
                    self._check_live(request.number)
                    self._cancelled[request.number] = len(self.answers)
                    self._cancel(request.number)
                return ()
            case Hold() | Release():
                self._set_held(request.number, held=isinstance(request, Hold))
            case Change():
                self._change(request)
            case Requeue():
                self._requeue(request)
            case SetNodeState():
                self._set_node_state(request)
            case Recompose():
                check_recomposition(self._state.scheduler, request)
                try_recomposition(self._state.scheduler.fork(), request, now)
                self.recompositions.append(request.event(now))
            case _:
                assert_never(request)
        return None

    def _record_who(self, request: ControlRequest) -> None:
        """Record who asked for what was accepted; jobs have their users anyway."""
        if isinstance(request, Submit) or not request.by:
            return
        match request:
            case SetNodeState(name, state):
                what, subject = "drain" if state is NodeState.DRAINING else "resume", name
            case Recompose(policy, admission):
                what, subject = "recompose", f"{policy} {admission}"
            case _:
                what, subject = type(request).__name__.lower(), str(request.number)
        self._changes.record(AskedBy(request.by, what, subject))

    def _cancel(self, number: int) -> None:
        now = self._changes.now
        if not self._state.is_profiled(number):
            self.job_events.append(JobCancelled(now, number))
            return
        cancelled = JobState.CANCELLED.value
        self._changes.record(ProfileConcluded(number, now, cancelled, "cancelled"))

    def _submit(self, submit: Submit) -> tuple[int, ...]:
        request, state, now = submit.request, self._state, self._changes.now
        key = None if submit.key is None else (submit.user, submit.key)
        request_json = request.as_json()
        digest = digest_of_request(request_json)
        if key is not None and (before := self._known_submissions.get(key)):
            if before.digest != digest:
                raise KeyUsedBefore(
                    f"the key {submit.key!r} was sent before, with another job",
                    mend="send a new Idempotency-Key with every new job",
                )
            return tuple(range(before.first, before.first + before.count))
        first = state.next_number
        spec = state.spec(request, first, submit.user, now)
        _check_size(request_json, spec, request.array)
        self._check_runnable(first, spec)
        numbers = tuple(range(first, first + request.array))
        each = any(one.each for one in request.after)
        dependencies = [
            self._dependencies(submit, position)
            for position in (range(request.array) if each else range(1))
        ]
        state.next_number += request.array
        for position, number in enumerate(numbers):
            record = JobRecord(
                number=number,
                identity=new_identity(),
                user=submit.user,
                name=request.name,
                position=position,
                request=request_json,
                submitted=state.epoch + now,
            )
            self.accepted.append(record)
            state.add_job(record, request)
            if state.partition is not None:
                queued = ProfileQueued(number, now, submit.user, float(request.gpus))
                self._changes.record(queued)
                self._changes.touched.add(number)
                continue
            numbered = msgspec.structs.replace(spec, id=str(number))
            after = dependencies[position if each else 0] + request.row_before(position, number)
            if after:
                numbered = msgspec.structs.replace(numbered, after=after)
            self.arrivals.append(JobSubmitted(now, number, numbered))
        if key is not None:
            submission = Submission(*key, first, request.array, digest)
            self._known_submissions[key] = submission
            self.submissions.append(submission)
        return numbers

    def _dependencies(self, submit: Submit, position: int) -> tuple[Dependency, ...]:
        """The dependencies that a job still waits for. Raises `Problem` where these can never end."""
        state = self._state
        after = submit.request.dependencies(position)
        if (after or submit.request.at_once) and state.partition is not None:
            raise Problem(
                "jobs are profiled first here, and cannot wait for other jobs",
                mend="submit it when those have ended",
            )
        left = []
        for one in after:
            number = int(one.job)
            if number in state.jobs:
                left.append(one)
            elif number not in self._ends:
                raise Problem(f"there is no job {number}", mend="see: volvelle history")
            elif not one.any_end and self._ends[number] != JobState.FINISHED:
                raise Problem(
                    f"job {number} {JobState(self._ends[number]).predicate}: what is to run after its "
                    "success never would",
                    mend=f"to run it after any end: --after {number}:any",
                )
        return tuple(left)

    def _check_runnable(self, number: int, spec: JobSpec) -> None:
        """Raise `Problem` if a job can never run."""
        scheduler = self._state.scheduler
        if obstacle := scheduler.obstacle(spec):
            raise Problem(f"the job {obstacle}", mend="ask for less, or for another kind")
        pools = [pool.name for pool in scheduler.cluster.pools]
        if spec.pool and spec.pool not in pools:
            raise Problem(
                f"there is no pool {spec.pool!r}",
                mend=f"there are {', '.join(pools)}" if pools else "leave it out: there are none",
            )
        estimator, believed = scheduler.composition.estimator, list[tuple[JobSpec, Truth]]()
        with self._changes.asking_parts():
            estimator.guesses(spec)  # as forecasts will
            submitted = JobSubmitted(self._changes.now, number, spec)
            believed.append((spec, estimator.believe(submitted, scheduler.seed).truth))
        with self._changes.asking_parts(Problem):
            scheduler.composition.policy.refuse(scheduler.cluster, believed)

    def _set_held(self, number: int, *, held: bool) -> None:
        self._check_queued(number)
        job = self._state.jobs[number]
        if not held and not job.held:
            raise Problem(f"job {number} is not held", mend=f"see: volvelle why {number}")
        if job.held is not held:
            job.held = held
            kind = JobHeld if held else JobReleased
            self.job_events.append(kind(self._changes.now, number))

    def _change(self, request: Change) -> None:
        number, scheduler = request.number, self._state.scheduler
        self._check_queued(number)
        job = self._state.jobs[number]
        changes = {
            name: value
            for name, value in request.change.changes.items()
            if value != getattr(job.request, KEYS[name])
        }
        if not changes:
            return
        if holds_gpus(scheduler, number):
            raise Problem(
                f"job {number} has its GPUs: what it declares changes only while it waits",
                mend=f"put it back (volvelle requeue {number}) or hold it, and change it then",
            )
        if job.guarantee is not None and job.guarantee.finish_by is not None:
            raise Problem(
                f"job {number} has a guarantee, which holds for what it declared",
                mend="cancel it, and submit another one",
            )
        ran, limit = seconds_with_gpus(scheduler, number), changes.get("time_limit_seconds")
        if limit is not None and limit <= ran:
            raise Problem(
                f"job {number} has run for {format_duration(ran)}: a time limit of "
                f"{format_duration(limit)} is over already",
                mend="choose a longer one, or cancel it",
            )
        job.change(changes)
        self.job_events.append(JobChanged(self._changes.now, number, changes))

    def _requeue(self, request: Requeue) -> None:
        number, state = request.number, self._state
        self._check_queued(number)
        if request.attempt is not None:
            given = state.ledger.grants_of(number)
            if request.attempt > given:
                raise Problem(f"job {number} has had {given} attempts", mend="leave out which")
            current = state.ledger.attempts.get(number)
            if current is None or current.attempt != request.attempt or not current.wanted:
                return
        if not holds_gpus(state.scheduler, number):
            raise Problem(
                f"job {number} has no GPUs to give up", mend=f"see: volvelle why {number}"
            )
        self.job_events.append(JobRequeued(self._changes.now, number))

    def _check_queued(self, number: int) -> None:
        """Raise `Problem` if there is no such job, it is over, or the scheduler does not know it yet."""
        self._check_live(number)
        if self._state.is_profiled(number):
            raise Problem(
                f"job {number} is profiled first, and is not in the queue yet",
                mend="try again once it is, or cancel it",
            )

    def _check_live(self, number: int) -> None:
        """Raise `Problem` if there is no such job, or it is over."""
        if number in self._state.jobs:
            return
        if 0 <= number < self._state.next_number:
            raise Problem(f"job {number} is over")
        raise Problem(f"there is no job {number}", mend="see: volvelle queue")

    def _set_node_state(self, request: SetNodeState) -> None:
        changes, partition = self._changes, self._state.partition
        profiles = partition is not None and partition.node(request.name) is not None
        before = changes.node_state(request.name)
        if before is None and not profiles:
            raise Problem(f"there is no node {request.name!r}", mend="see: volvelle nodes")
        if request.state is NodeState.DOWN:
            raise Problem("a node that is there cannot be told to be down", mend="drain it")
        changes.record(NodeDrained(request.name, request.state is NodeState.DRAINING))
        foreign = self._state.settling.foreign_on(request.name)
        if request.state is NodeState.UP and (foreign or self._state.servers.settling):
            self._state.settling.held.add(request.name)
            changes.orders += [Stop(*key) for key in foreign]
            return  # it takes jobs once these have ended
        if request.state is NodeState.UP and request.name in self._state.troubled:
            return  # it takes jobs once it can start them
        if not profiles and before not in (request.state, NodeState.DOWN):
            changes.node_events.append(NodeChanged(changes.now, request.name, request.state))


def _check_size(request: dict[str, Any], spec: JobSpec, jobs: int) -> None:
    """Raise `Problem` if ``jobs`` rows and journal entries of a request are too large together."""
    row, event = (len(msgspec.json.encode(each, enc_hook=encode_array)) for each in (request, spec))
    if jobs * (row + event) > MAX_SUBMISSION_BYTES:
        raise Problem(
            f"{jobs:,} jobs of {row + event:,} bytes are more than {MAX_SUBMISSION_BYTES:,} bytes together",
            mend="put into a file what the jobs have in common, or submit a smaller array",
        )
