"""What is known of each job that is not over, beside what the scheduler and the tenancy know."""

from dataclasses import dataclass, field
from typing import Any

from volvelle.core.columns import Column
from volvelle.core.scheduler import Scheduler
from volvelle.core.standing import Aside
from volvelle.live.control.gpu_ledger import Phase, Tenancy
from volvelle.live.forecasts.forecaster import Expected
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import AttemptProgress
from volvelle.live.status.view import JobState, JobStatusView
from volvelle.live.store.rows import JobRecord

_SHOWN_SECONDS = 0.5
"""Predictions that changed by less are not drawn anew."""

_STATES = {
    Phase.STARTING: JobState.STARTING,
    Phase.RUNNING: JobState.RUNNING,
    Phase.STOPPING: JobState.STOPPING,
}


@dataclass(slots=True)
class Life:
    """One job. ``written``: its request as it was; times are seconds since the Unix epoch."""

    number: int
    user: str
    request: JobRequest
    written: dict[str, Any]
    position: int
    submitted: float
    held: bool = False
    failures: int = 0
    first_started: float | None = None
    ran_on: dict[str, int] = field(default_factory=dict)
    """Its latest attempt by node. Pictures hold it: it is replaced, never changed."""
    note: str = ""
    """Why its last attempt failed."""
    waits: str = ""
    """Why it waits."""
    iterations: int = 0
    saved_iterations: int = 0
    total_iterations: int = 0
    iteration_seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    tell_from: float = 0.0
    """When the scheduler is to hear of its progress again, on the scheduler's clock."""
    predicted_start: float | None = None
    predicted_p50: float | None = None
    predicted_p90: float | None = None
    promised: float | None = None
    promised_p90: float | None = None
    foreseen: float | None = None

    @classmethod
    def of(cls, record: JobRecord, request: JobRequest) -> "Life":
        """The life of a job as it was accepted."""
        return cls(
            number=record.number,
            user=record.user,
            request=request,
            written=record.request,
            position=record.position,
            submitted=record.submitted,
            promised=record.promised_p50,
            promised_p90=record.promised_p90,
            foreseen=record.foreseen,
        )

    def progressed(self, report: AttemptProgress) -> None:
        """Take over how far the job says it is."""
        self.iterations = report.iterations
        self.saved_iterations = max(report.saved_iterations, self.saved_iterations)
        self.total_iterations = report.total_iterations or self.total_iterations
        self.iteration_seconds = report.iteration_seconds or self.iteration_seconds
        self.metrics = self.metrics | report.metrics

    def foresee(self, expected: Expected, reason: str, epoch: float) -> bool:
        """Take over what is expected of it and why it waits; whether that differs enough to be shown."""
        before = (self.predicted_start, self.predicted_p50, self.predicted_p90)
        after = [
            None if time is None else epoch + time
            for time in (expected.start, expected.p50, expected.p90)
        ]
        news = reason != self.waits or any(
            (old is None) is not (new is None) or (old and new and abs(old - new) > _SHOWN_SECONDS)
            for old, new in zip(before, after, strict=True)
        )
        if news:
            self.predicted_start, self.predicted_p50, self.predicted_p90 = after
            self.waits = reason
        return news

    def _reason(self, state: JobState) -> str:
        match state:
            case JobState.HELD:
                return "held until it is released"
            case JobState.WAITING:
                return self.waits or self.note
            case _:
                return self.note

    def picture(self, scheduler: Scheduler, tenancy: Tenancy, epoch: float) -> JobStatusView:
        """How the job stands. ``epoch``: time 0 of the scheduler."""
        attempt, due = tenancy.attempts.get(self.number), tenancy.due.get(self.number)
        if attempt is not None:
            state, slots = _STATES[attempt.phase], tuple(sorted(attempt.slots))
        elif due is not None:
            state, slots = JobState.STARTING, due.slots
        else:
            state, slots = JobState.HELD if self.held else JobState.WAITING, ()
        preemptions = 0
        if (row := scheduler.jobs.row_of.get(self.number)) is not None:
            preemptions = int(scheduler.jobs.matrix[Column.PREEMPTIONS, row])
        return JobStatusView(
            number=self.number,
            name=self.request.name,
            user=self.user,
            state=state,
            gpus=float(len(slots) or self.request.gpus),
            submitted=self.submitted,
            request=self.written,
            started=None if attempt is None else epoch + attempt.since,
            first_started=self.first_started,
            grants=tuple((grant.node, grant.gpus) for grant in tenancy.grants(slots)),
            attempt=0 if attempt is None else attempt.attempt,
            ran_on=self.ran_on,
            preemptions=preemptions,
            failures=self.failures,
            reason=self._reason(state),
            iterations=self.iterations,
            saved_iterations=self.saved_iterations,
            total_iterations=self.total_iterations,
            iteration_seconds=self.iteration_seconds,
            metrics=self.metrics,
            predicted_start=self.predicted_start,
            predicted_p50=self.predicted_p50,
            predicted_p90=self.predicted_p90,
            promised=self.promised,
        )


def believed_done(scheduler: Scheduler, number: int, now: float) -> float:
    """Units of work believed done by a job; none by one that is over."""
    if isinstance(aside := scheduler.aside.get(number), Aside):
        return aside.values[Column.DONE]
    if (row := scheduler.jobs.row_of.get(number)) is None:
        return 0.0
    matrix = scheduler.jobs.matrix
    worked = max(now - float(matrix[Column.PROGRESS_FROM, row]), 0.0)
    done = float(matrix[Column.DONE, row])
    return done + worked * float(matrix[Column.RATE, row]) if matrix[Column.HELD, row] else done
