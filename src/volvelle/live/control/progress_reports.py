"""Progress of attempts: what the scheduler's estimator, termination rule and policy are told, and when."""

import numpy as np

from volvelle.core.events import (
    BatchSizeChanged,
    JobChanged,
    LossReported,
    ProgressReported,
    TrainingReported,
)
from volvelle.core.facets import FollowsRegimes
from volvelle.core.parts import Estimator
from volvelle.live.control.batch_sizes import news_of
from volvelle.live.control.cycle_changes import CycleChanges
from volvelle.live.control.gpu_ledger import Attempt
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.control.step_fits import StepFit
from volvelle.live.messages import MAX_BATCH_SIZE, AttemptProgress, SetBatchSize
from volvelle.live.records import RateMeasured
from volvelle.live.scheduler_queries import believed_work, starts_over

_PROGRESS_SECONDS = 10.0
"""Between two progress events of a job: each is an entry of the journal, unless it is no news."""

_NEWS_SECONDS = 0.5
"""Least seconds between two changes of a job's batch size or rate; agents report less often."""

_MEASURED_ITERATIONS, _MEASURED_SECONDS = 10, 60.0
"""An attempt's rate counts as measured from so many iterations on, or from two on that took so long."""

_MAX_LOSS = 1e30
"""A loss beyond is none: curves are fitted to the fourth powers of losses."""


class ProgressReports:
    """Turns the progress of running attempts into events of a cycle."""

    def __init__(self, changes: CycleChanges) -> None:
        self._changes, self._state = changes, changes.state

    def ingest(self, attempt: Attempt, job: LiveJob, report: AttemptProgress) -> None:
        """Ingest the progress of an attempt that has started."""
        if job.measured_from is None:
            job.measured_from = report.iterations, report.epochs
        if _is_measured(job, report):
            self._keep_rate(attempt, job, report)
        if not attempt.wanted or attempt.profiles:
            return
        if report.iterations > 0 and starts_over(self._state.scheduler, attempt.number):
            saves = JobChanged(self._changes.now, attempt.number, {"starts_over": False})
            self._changes.job_events.append(saves)
        fit = 0 < report.batch_size <= MAX_BATCH_SIZE and report.batch_size != job.batch_size
        if fit and self._changes.now >= job.next_batch_size_event:
            self._add_batch_size_event(attempt, job, report)
        elif self._changes.now >= job.next_progress_event:
            with self._changes.asking_parts():
                self._add_progress_events(attempt, job, report)

    def _keep_rate(self, attempt: Attempt, job: LiveJob, report: AttemptProgress) -> None:
        """Keep how fast a job is where it runs, for later jobs of its name."""
        changes_batch_size = job.request.batch_sizes is not None or report.batch_size
        if not job.request.name or changes_batch_size or attempt.profiles:
            return
        assert job.measured_from is not None
        grants = self._state.ledger.grants(attempt.granted)
        resources = self._state.scheduler.resources
        there = np.array([resources.index[each.node] for each in grants], dtype=np.int64)
        kinds = {resources.nodes[at].gpu_type for at in there}
        rate = 1.0 / report.iteration_seconds if report.iteration_seconds > 0.0 else 0.0
        if report.total_epochs:
            rate *= max(report.epochs - job.measured_from[1], 0.0)
            rate /= report.iterations - job.measured_from[0]
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
            nodes_apart=resources.nodes_apart(there, len(attempt.granted)),
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
            return self._changes.estimated_work(attempt)
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
        elif measures and not _is_measured(job, report):
            job.next_progress_event = now  # with the next report
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
            if beliefs.measured_seconds_left(progress, now, composition.estimator) is not None:
                events.append(progress)
        if composition.policy.tunes_batch_size and job.training is not None:
            self._add_training_event(attempt, job, report)
        loss = report.metrics.get("loss")
        if composition.loss_every is not None and loss is not None and abs(loss) <= _MAX_LOSS:
            job.next_progress_event = now + min(composition.loss_every, _PROGRESS_SECONDS)
            done = self._changes.estimated_work(attempt)
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


def _is_measured(job: LiveJob, report: AttemptProgress) -> bool:
    """Whether enough of an attempt was seen since its first report: its first iterations warm up."""
    iterations = report.iterations - (job.measured_from or (0, 0.0))[0]
    lasted = iterations > 1 and iterations * report.iteration_seconds >= _MEASURED_SECONDS
    return lasted or iterations >= _MEASURED_ITERATIONS
