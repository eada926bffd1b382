"""The course of jobs and nodes where no formula of the forward loop says it: the answers to its questions.

Jobs crash, train, change their batch size and report their loss; nodes drain, go and come back. A simulated
world and a look-ahead (`volvelle.core.fork`) follow the same course, one by what is true, one by what is
believed.
"""

import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from volvelle.core.answers import ANSWERS
from volvelle.core.dividing import divide_cpus
from volvelle.core.events import (
    BatchSizeChanged,
    Event,
    JobFailed,
    JobFinished,
    JobStopped,
    LossReported,
    NodeChanged,
    TrainingReported,
)
from volvelle.core.execution import Execution, Trainer
from volvelle.core.forward.expected import expect
from volvelle.core.forward.jobs import at_tick
from volvelle.core.forward.moments import boundary
from volvelle.core.handlers import fold
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import *
from volvelle.core.view import rows_by_submission
from volvelle.model.cluster import NodeState


class Course:
    """The course of jobs and nodes of ``scheduler``.

    execution_of: the execution of a job, by number. nodes: changes in order of time; those before now are
    left out. tick: ends of jobs are noticed at multiples of it, in seconds (None: at once).
    """

    def __init__(
        self,
        scheduler: SchedulerState,
        execution_of: Callable[[int], Execution],
        nodes: Iterator[NodeChanged],
        *,
        tick: float | None = None,
    ) -> None:
        self.scheduler = scheduler
        self._execution_of = execution_of
        self._executions: dict[int, Execution] = {}
        self._tick = tick
        self._last_work: dict[int, float] = {}
        """Units of work of jobs that left while they wrote a checkpoint."""
        self._reports_every = scheduler.composition.reports_every
        self._nodes = nodes
        self._next_node = next(nodes, None)
        while self._next_node is not None and self._next_node.time <= scheduler.now > 0.0:
            self._next_node = next(nodes, None)
        self._count_away()
        clock = scheduler.state.clock
        clock[NODE_AT] = INFINITY if self._next_node is None else self._next_node.time
        self.answers: dict[int, Callable[[SchedulerState], object]] = ANSWERS | {
            ASK_NEWS: lambda _: self._tell_news(),
            ASK_NODES: lambda _: self._change_nodes(),
            ASK_RATES: lambda _: self._say_rates(),
            ASK_DIVISION: lambda _: self._share(),
        }

    def happen(self, event: Event) -> None:
        """Log an event that the forward loop does not know, and let the scheduler follow it."""
        self.scheduler.note(event)
        fold(self.scheduler, event)

    # ------------------------------------------------------------------ what happens to jobs

    def _tell_news(self) -> None:
        """Something happens to a job that the forward loop does not know."""
        s, now = self.scheduler.state, self.scheduler.now
        row, kind = int(s.count[SUBJECT]), int(s.count[SUBJECT_KIND])
        number, stamp = int(s.clock[SUBJECT_NUMBER]), int(s.clock[SUBJECT_STAMP])
        if kind == STOPPED:
            here = self.scheduler.row_of(number)
            work = self._last_work.pop(number, 0.0) if here is None else self._told(here)
            self.happen(JobStopped(now, number, stamp, work))
        elif kind == REPORT:
            self._report(row, number)
        else:
            self.happen(self._milestone(row, number, kind))

    def _milestone(self, row: int, number: int, kind: int) -> Event:
        jobs, now = self.scheduler.state.jobs, self.scheduler.now
        attempt = int(jobs.attempt[row])
        if jobs.truly_asked[row] == 0.0:
            return JobFinished(now, number, attempt)
        execution = self._execution(number)
        trainer, milestone = execution.trainer, execution.milestone
        if trainer is not None and (kind == TUNING or milestone < trainer.training.work):
            return self._train_on(row, number, trainer, epoch_over=kind == MILESTONE)
        if trainer is not None or milestone >= execution.job.truth.work:
            self._executions.pop(number)
            return JobFinished(now, number, attempt)
        truth = execution.job.truth
        failures = truth.failures
        if execution.failures < len(failures) and failures[execution.failures] <= milestone:
            execution.failures += 1
            return self._fail(row, "the job crashed")
        self._save_passed(row)
        jobs.true_done[row], jobs.since[row] = milestone, now
        regime = truth.regime_at(milestone)
        self.go_on(row)
        return BatchSizeChanged(now, number, regime.batch_size if regime else 0, milestone)

    def _train_on(
        self, row: int, number: int, trainer: Trainer, *, epoch_over: bool
    ) -> TrainingReported:
        """Let the job go on with its next epoch, or with another batch size; it tells how it is."""
        jobs, now = self.scheduler.state.jobs, self.scheduler.now
        self._save_passed(row)
        work = self._work_at(row)
        trainer.tune(float(jobs.true_done[row]), epoch_over=epoch_over)
        jobs.true_done[row] = self._execution(number).milestone if epoch_over else work
        jobs.since[row] = float(round(now)) if trainer.training.whole_seconds else now
        self.go_on(row)
        attempt = int(jobs.attempt[row])
        return TrainingReported(now, number, attempt, self._told(row), trainer.goodput)

    def _report(self, row: int, number: int) -> None:
        """A job says of its loss, or how far it is; the next report follows a period later."""
        jobs, execution = self.scheduler.state.jobs, self._execution(number)
        self._report_after(self.scheduler.now, row)
        truth = execution.job.truth
        work = min(self._work_at(row), truth.work)
        attempt = int(jobs.attempt[row])
        if not truth.loss_curve:
            self.happen(TrainingReported(self.scheduler.now, number, attempt, work))
            return
        self._last_work[number] = execution.told(self._work_at(row))
        self.happen(LossReported(self.scheduler.now, number, attempt, work, truth.loss_at(work)))
        if self.scheduler.row_of(number) is not None:
            del self._last_work[number]

    def _report_after(self, time: float, row: int) -> None:
        """Expect a job's next report: at the first multiple after ``time``."""
        assert self._reports_every is not None
        jobs = self.scheduler.state.jobs
        following = boundary(time, self._reports_every, True)
        expect(self.scheduler.state, following, REPORT, jobs.number[row], row, jobs.token[row], 0.0)

    def _fail(self, row: int, reason: str) -> JobFailed:
        """Throw a running job back to its last checkpoint."""
        jobs, now = self.scheduler.state.jobs, self.scheduler.now
        self._save_passed(row)
        number, saved = int(jobs.number[row]), float(jobs.saved[row])
        lost = max(now - float(jobs.saved_at[row]), 0.0) * float(jobs.held[row])
        jobs.true_done[row], jobs.true_rate[row] = saved, 0.0
        jobs.token[row] += 1.0
        told = saved
        if jobs.truly_asked[row] == 1.0:
            told = self._execution(number).told(saved)
        return JobFailed(now, number, int(jobs.attempt[row]), told, lost, reason)

    def _requeue(self, row: int, reason: str) -> JobFailed:
        """Take a running job's GPUs from it; all that it did is safe."""
        jobs, now = self.scheduler.state.jobs, self.scheduler.now
        jobs.saved[row], jobs.saved_at[row] = self._work_at(row), now
        jobs.cadence_from[row] = jobs.since[row] = now
        event = self._fail(row, reason)
        return msgspec.structs.replace(event, lost_gpu_seconds=0.0, requeued=True)

    def _save_passed(self, row: int) -> None:
        """Note the last checkpoint that the job wrote of its own accord before now."""
        jobs, now, every = (
            self.scheduler.state.jobs,
            self.scheduler.now,
            self.scheduler.overheads.checkpoint_every,
        )
        if every is None or now <= jobs.since[row]:
            return
        written = math.floor((now - jobs.cadence_from[row]) / every)
        if written > 0:
            jobs.cadence_from[row] += written * every
            jobs.saved_at[row] = jobs.cadence_from[row]
            done, rate = float(jobs.true_done[row]), float(jobs.true_rate[row])
            jobs.saved[row] = done + rate * max(float(jobs.saved_at[row] - jobs.since[row]), 0.0)

    # ------------------------------------------------------------------ how fast jobs are

    def _say_rates(self) -> None:
        """Jobs start or resize that are neither linear nor a table of rates."""
        ANSWERS[ASK_RATES](self.scheduler)
        s = self.scheduler.state
        for i in range(s.count[UNRATED]):
            row = int(s.unrated[i])
            if s.jobs.truly_asked[row] == 0.0:
                continue
            trainer = self._execution(int(s.jobs.number[row])).trainer
            if trainer is not None:
                slots = np.array(self.scheduler.slots_of(row), dtype=np.int64)
                trainer.place(int(s.jobs.held[row]), slots, self.scheduler.resources)
            self._go_on_from_now(row)

    def _share(self) -> None:
        """Let jobs go on with the CPUs and memory that the policy divides."""
        scheduler, s = self.scheduler, self.scheduler.state
        jobs = s.jobs
        changed = {int(s.changed[i]) for i in range(s.count[CHANGED])}
        for row in divide_cpus(scheduler):
            number = int(jobs.number[row])
            if (
                jobs.truly_asked[row] == 0.0
                or self._execution(number).job.truth.sensitivity is None
            ):
                continue
            if row in changed:
                self.go_on(row)
            else:
                self._go_on_from_now(row)

    def _go_on_from_now(self, row: int) -> None:
        """Let a job make progress at another rate; one that starts does so from ``since`` on."""
        jobs = self.scheduler.state.jobs
        self._save_passed(row)
        jobs.true_done[row] = self._work_at(row)
        jobs.since[row] = max(self.scheduler.now, *map(float, (jobs.since[row], jobs.started[row])))
        self.go_on(row)

    def go_on(self, row: int) -> None:
        """Let a job make progress from ``since`` on, and expect what happens to it next."""
        s, jobs = self.scheduler.state, self.scheduler.state.jobs
        number, since, done = (
            int(jobs.number[row]),
            float(jobs.since[row]),
            float(jobs.true_done[row]),
        )
        execution = self._execution(number)
        trainer = execution.trainer
        if trainer is not None:
            rate = trainer.rate(done)
        else:
            rate = self.scheduler.beliefs.rate_now(row, execution.job.truth, done)
        execution.milestone = milestone = execution.next_milestone(done)
        jobs.true_rate[row] = rate
        jobs.token[row] += 1.0
        token = jobs.token[row]
        if rate > 0.0:
            time = since + (milestone - done) / rate
            if self._tick is not None and milestone >= execution.work:
                time = at_tick(time, self._tick)
            expect(s, time, MILESTONE, number, row, token, 0.0)
            if self._reports_every is not None and self._tells(execution):
                self._report_after(max(since, self.scheduler.now), row)
        if trainer is not None and (tuning := trainer.next_tuning(since)) < INFINITY:
            expect(s, tuning, TUNING, number, row, token, 0.0)

    def _tells(self, execution: Execution) -> bool:
        """Whether a job has anything to report between its milestones that a part asks for."""
        truth, asked = execution.job.truth, self.scheduler.composition
        if truth.loss_curve:
            return asked.loss_every is not None
        progress = asked.progress_every
        return progress is not None and bool(truth.regimes) and execution.trainer is None

    def _execution(self, number: int) -> Execution:
        if number not in self._executions:
            self._executions[number] = self._execution_of(number)
        return self._executions[number]

    def _work_at(self, row: int) -> float:
        """Units of work done now."""
        jobs = self.scheduler.state.jobs
        worked = max(self.scheduler.now - float(jobs.since[row]), 0.0)
        return float(jobs.true_done[row]) + float(jobs.true_rate[row]) * worked

    def _told(self, row: int) -> float:
        """Work done in the unit in which it is declared and reported."""
        jobs = self.scheduler.state.jobs
        done = float(jobs.true_done[row])
        if jobs.truly_asked[row] == 0.0:
            return done
        return self._execution(int(jobs.number[row])).told(done)

    # ------------------------------------------------------------------ nodes

    def _change_nodes(self) -> None:
        """Nodes change; jobs on a node that goes down are thrown back, those on a vacated one are not."""
        s, now = self.scheduler.state, self.scheduler.now
        changes: list[NodeChanged] = []
        while self._next_node is not None and self._next_node.time <= now:
            changes.append(self._next_node)
            self._next_node = next(self._nodes, None)
        s.clock[NODE_AT] = INFINITY if self._next_node is None else self._next_node.time
        for change in changes:
            if change.state in (NodeState.DOWN, NodeState.VACATED):
                for event in self._lose_node(change.name, change.state):
                    s.count[EVENTS] += 1
                    self.happen(event)
        for change in changes:
            s.count[EVENTS] += 1
            vacated = change.state is NodeState.VACATED
            state = NodeState.DOWN if vacated else change.state
            self.happen(msgspec.structs.replace(change, state=state))
        self._count_away()

    def _count_away(self) -> None:
        states = self.scheduler.resources.node_states
        away = sum(state is not NodeState.UP for state in states)
        self.scheduler.state.count[AWAY] = away

    def _lose_node(self, name: str, state: NodeState) -> Iterator[JobFailed]:
        resources, jobs = self.scheduler.resources, self.scheduler.state.jobs
        node = resources.index[name]
        for row in [int(row) for row in rows_by_submission(self.scheduler.state)]:
            slots = self.scheduler.slots_of(row) if jobs.held[row] > 0.0 else []
            if any(resources.slot_node[slot] == node for slot in slots):
                if state is NodeState.DOWN:
                    yield self._fail(row, f"node {name} went down")
                else:
                    yield self._requeue(row, f"node {name} was vacated")
