"""What each event does to the state: the first half of the scheduler's cycle.

Nothing is decided here, except that what cannot be served is turned away and what has reached its aim ends.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from volvelle.core.columns import Column
from volvelle.core.decision import Conclusion, Rejection
from volvelle.core.events import (
    BatchSizeChanged,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStarted,
    JobStopped,
    JobSubmitted,
    LossReported,
    NodeChanged,
    ProgressReported,
    Recomposed,
    TrainingReported,
    WakeUp,
)
from volvelle.core.parts import Belief, admissions
from volvelle.core.policy import policies
from volvelle.core.standing import Aside, Standing


class Folding(Standing):
    """How things stand, and how that follows what happens."""

    _rejected: list[Rejection]
    _concluded: list[Conclusion]
    _stopped_by_hand: list[tuple[int, int]]

    def _fold(self, event: Event) -> None:
        """Let the state follow one event."""
        _FOLDS[type(event)](self, event)

    def _submitted(self, event: JobSubmitted) -> None:
        if reason := self.obstacle(event.spec):
            self._rejected.append(Rejection(event.number, reason))
        else:
            self._door.append(event)

    def _started(self, event: JobStarted) -> None:
        if self._current(event.number, event.attempt):
            matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
            gap = matrix[Column.PROGRESS_FROM, row] - matrix[Column.STARTED, row]
            if matrix[Column.FIRST_START, row] == matrix[Column.STARTED, row]:
                matrix[Column.FIRST_START, row] = event.start
            matrix[Column.STARTED, row] = event.start
            matrix[Column.PROGRESS_FROM, row] = event.start + gap

    def _finished(self, event: JobFinished) -> None:
        """Also of a job that was to stop, or to be held, and was done before it did."""
        number, attempt = event.number, event.attempt
        aside = self.aside.get(number)
        if isinstance(aside, Aside) and aside.values[Column.ATTEMPT] == attempt:
            del self.aside[number]
            self._take_back(number, aside)
        if number in self.jobs.row_of and self.jobs.get(number, Column.ATTEMPT) == attempt:
            self.stopping.pop((number, attempt), None)
            self._complete(number, event.time)

    def _complete(self, number: int, time: float) -> None:
        """Learn from a job that is done, and let it go."""
        matrix, row = self.jobs.matrix, self.jobs.row_of[number]
        spec = self.known[number].spec
        holds = bool(matrix[Column.HELD, row] > 0.0)
        last_run = time - float(matrix[Column.STARTED, row]) if holds else 0.0
        run_seconds = float(matrix[Column.ATTAINED, row]) + last_run
        service = float(matrix[Column.ATTAINED_GPU, row] + last_run * matrix[Column.HELD, row])
        self.composition.estimator.learn(spec, run_seconds)
        self.composition.policy.learn(spec, service)
        self._remove(number)

    def _stopped(self, event: JobStopped) -> None:
        self.stopping.pop((event.number, event.attempt), None)
        if event.number in self.jobs.row_of and not self.jobs.get(event.number, Column.HELD):
            self.jobs.matrix[Column.DONE, self.jobs.row_of[event.number]] = event.work_done
        elif isinstance(aside := self.aside.get(event.number), Aside):
            self.aside[event.number] = aside.having_done(event.work_done)

    def _failed(self, event: JobFailed) -> None:
        if not self._current(event.number, event.attempt):
            return
        number = event.number
        self.failures[number] += 1
        failures = self.failures[number]
        if failures > self.known[number].spec.max_retries:
            self._rejected.append(Rejection(number, f"failed {failures} times: {event.reason}"))
            self._remove(number)
            return
        self._vacate(number)
        row = self.jobs.row_of[number]
        self.jobs.matrix[Column.DONE, row] = event.work_done
        self.jobs.matrix[Column.CURVE, row] = -1.0  # it may be back at an earlier batch size
        self.jobs.matrix[Column.PREEMPTIONS, row] -= 1  # a failure is not the scheduler's doing
        self._dirty = True

    def _cancelled(self, event: JobCancelled) -> None:
        if event.number in self.known:
            self._remove(event.number)
        elif self.aside.pop(event.number, None) is None:
            self._door = deque(job for job in self._door if job.number != event.number)

    def _held(self, event: JobHeld) -> None:
        number = event.number
        if number in self.known:
            if self.jobs.get(number, Column.HELD) > 0.0:
                if self._checkpoints:
                    self._note_stops(np.array([self.jobs.row_of[number]]))
                attempt = int(self.jobs.get(number, Column.ATTEMPT))
                self._stopped_by_hand.append((number, attempt))
                self._vacate(number)
            self._set_aside(number)
        else:
            at_the_door = [job for job in self._door if job.number == number]
            self._door = deque(job for job in self._door if job.number != number)
            self.aside.update((job.number, job) for job in at_the_door)

    def _released(self, event: JobReleased) -> None:
        aside = self.aside.pop(event.number, None)
        if isinstance(aside, JobSubmitted):
            self._door.append(aside)
        elif aside is not None:
            self._take_back(event.number, aside)

    def _batch_size_changed(self, event: BatchSizeChanged) -> None:
        if event.number not in self.known:
            return
        known = self.known[event.number]
        matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
        matrix[Column.DONE, row] = event.work_done
        matrix[Column.CURVE, row] = -1.0
        matrix[Column.PROGRESS_FROM, row] = max(event.time, matrix[Column.PROGRESS_FROM, row])
        full_type = self._first_type(int(matrix[Column.TYPES, row]))
        for column, gpus in (
            (Column.FULL_RATE, known.spec.most_gpus),
            (Column.REQUEST_RATE, known.spec.gpus),
        ):
            matrix[column, row] = self._mean_rate(known.believed, gpus, full_type, event.work_done)
        if held := float(matrix[Column.HELD, row]):
            gpu_type = int(matrix[Column.TYPE, row])
            matrix[Column.RATE, row] = self._rate(event.number, known, row, held, gpu_type)
        self._dirty = True

    def _training_reported(self, event: TrainingReported) -> None:
        if not self._current(event.number, event.attempt):
            return
        matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
        matrix[Column.DONE, row] = event.work_done
        matrix[Column.PROGRESS_FROM, row] = max(event.time, matrix[Column.PROGRESS_FROM, row])
        self.composition.policy.hear(event)
        self._dirty = True

    def _progress_reported(self, event: ProgressReported) -> None:
        if not self._current(event.number, event.attempt):
            return
        matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
        if not (rate := float(matrix[Column.RATE, row])):
            return
        self._settle_work(row)
        done, scale = float(matrix[Column.DONE, row]), float(matrix[Column.SCALE, row])
        believed = scale * max(float(matrix[Column.TOTAL, row]) - done, 0.0) / rate
        left = self.composition.estimator.measure(event, believed)
        if left is None:
            return
        known = self.known[event.number]
        truth = msgspec.structs.replace(known.believed, work=done + left * rate)
        self.known[event.number] = known._replace(believed=truth)
        matrix[Column.TOTAL, row], matrix[Column.SCALE, row] = truth.work, 1.0
        self._dirty = True

    def _loss_reported(self, event: LossReported) -> None:
        if not self._current(event.number, event.attempt):
            return
        spec = self.known[event.number].spec
        if reason := self.composition.termination.judge(spec, event.work_done, event.loss):
            self._concluded.append(Conclusion(event.number, reason))
            if self._checkpoints:
                self._note_stops(np.array([self.jobs.row_of[event.number]]))
            self._complete(event.number, event.time)
        elif belief := self.composition.estimator.observe(spec, event.work_done, event.loss):
            self._believe(event, belief)

    def _believe(self, event: LossReported, belief: Belief) -> None:
        """Go on from what was seen, with another belief about what is left."""
        known = self.known[event.number]
        self.known[event.number] = known._replace(believed=belief.truth)
        matrix, row = self.jobs.matrix, self.jobs.row_of[event.number]
        matrix[Column.TOTAL, row] = belief.truth.work
        matrix[Column.SCALE, row] = belief.scale
        matrix[Column.DONE, row] = event.work_done
        matrix[Column.PROGRESS_FROM, row] = max(event.time, matrix[Column.PROGRESS_FROM, row])
        self._dirty = True

    def _recomposed(self, event: Recomposed) -> None:
        """A new policy knows nothing of the past but the state; jobs that are in stay in."""
        policy, admission = policies.make(event.policy), admissions.make(event.admission)
        if policy.label != self.composition.policy.label:
            self.composition = self.composition._replace(policy=policy)
            self.jobs.clear_own(policy.columns)
            self._eligibility = self._judge_nodes()
            self._named_wake = None
            self._dirty = True
        if admission.label != self.composition.admission.label:
            self.composition = self.composition._replace(admission=admission)

    def _node_changed(self, event: NodeChanged) -> None:
        self.resources.change(event.name, event.state, event.node)
        self._eligibility = self._judge_nodes()
        self._dirty = True
        self._count_capacity()

    def _woken(self, event: WakeUp) -> None:
        """Whether there is anything to do is for `_due` to say."""

    def _current(self, number: int, attempt: int) -> bool:
        """Whether the news is about the job's present run (the fence against late news)."""
        row = self.jobs.row_of.get(number)
        if row is None:
            return False
        matrix = self.jobs.matrix
        return bool(matrix[Column.ATTEMPT, row] == attempt and matrix[Column.HELD, row] > 0)


_FOLDS: dict[type, Callable[[Folding, Any], None]] = {
    JobSubmitted: Folding._submitted,
    JobStarted: Folding._started,
    JobFinished: Folding._finished,
    JobStopped: Folding._stopped,
    JobFailed: Folding._failed,
    JobCancelled: Folding._cancelled,
    JobHeld: Folding._held,
    JobReleased: Folding._released,
    BatchSizeChanged: Folding._batch_size_changed,
    TrainingReported: Folding._training_reported,
    ProgressReported: Folding._progress_reported,
    LossReported: Folding._loss_reported,
    Recomposed: Folding._recomposed,
    NodeChanged: Folding._node_changed,
    WakeUp: Folding._woken,
}
