"""Ends of attempts: what each means for its job, and how much of its work was saved."""

from collections.abc import Container

from volvelle.core.events import (
    JobChanged,
    JobFailed,
    JobFinished,
    JobStopped,
    JobSubmitted,
    TrainingReported,
)
from volvelle.live.control.cycle_changes import CycleChanges
from volvelle.live.control.gpu_ledger import Attempt
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.messages import AttemptEnded, AttemptKey, Outcome, Stop
from volvelle.live.records import AttemptLostNode, ProfileConcluded, ProfileRunEnded
from volvelle.live.scheduler_queries import attempt_number, starts_over
from volvelle.live.status.view import JobState

_SHORT_SECONDS = 60.0
"""An attempt that asks to be run again sooner than this has failed."""

_IMMEDIATE_SECONDS = 10.0
"""An attempt that crashes sooner, and alike twice, is taken to crash always."""

_NOTHING_TO_RUN = (126, 127)
"""Exit codes of shells for a command that is not executable, and for one that is not there."""

_NO_SCRIPT = "can't open file"
"""Python's message for a missing script."""

_WHILE_PROFILED = "while it was profiled"


class AttemptEnds:
    """Ends attempts in a cycle.

    uncertain: attempts that started either before or after their nodes were lost.
    """

    def __init__(self, changes: CycleChanges, uncertain: Container[AttemptKey]) -> None:
        self._changes, self._state = changes, changes.state
        self._uncertain = uncertain

    def end(self, attempt: Attempt, report: AttemptEnded) -> None:
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
        else:
            self._end_by_order(attempt, report)
        changes.touched.add(number)
        changes.record(report)

    def _end_by_order(self, attempt: Attempt, report: AttemptEnded) -> None:
        """An end by order. The scheduler learns whether stops cost the job all that it has done."""
        number, scheduler = attempt.number, self._state.scheduler
        events, grant = self._changes.job_events, self._state.ledger.pending.get(number)
        saved, ended = self._saved_work(attempt, report), self._ended(attempt, report)
        if grant is None or grant.scheduler_attempt != attempt.scheduler_attempt:
            events.append(JobStopped(ended, number, attempt.scheduler_attempt, saved))
        if attempt.killed or report.outcome is not Outcome.STOPPED:
            return
        again = report.saved_nothing(ended - attempt.since)
        if grant is not None and again is not False:
            events.append(TrainingReported(ended, number, grant.scheduler_attempt, saved))
        if grant is None and again not in (None, starts_over(scheduler, number)):
            changed = {"starts_over": again}
            events.append(JobChanged(self._changes.now, number, changed))

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
            submitted = state.time_of(job.submitted)
            spec = state.spec(job.request, job.number, job.user, submitted)
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
        saved, estimated = self._saved_work(attempt, report), self._changes.estimated_work(attempt)
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

    def _saved_work(self, attempt: Attempt, report: AttemptEnded) -> float:
        """Units of work that the job resumes from: saved iterations give the share of this attempt's work.

        For a job that counts no iterations: all if it was asked to stop and ended in order, else none.
        """
        counted = report.iterations - attempt.iterations
        if counted > 0:
            share = min(max((report.saved_iterations - attempt.iterations) / counted, 0.0), 1.0)
        else:
            share = 1.0 if report.in_order else 0.0
        return attempt.work + share * (self._changes.estimated_work(attempt) - attempt.work)

    def lose(
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
            self.end(attempt, end)
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
