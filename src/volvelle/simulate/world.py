"""The simulated world: it knows the truth about every job and lets time pass exactly, from event to event.

The truth stands beside the scheduler's columns (`volvelle.core.state.Jobs`), and one loop moves both on
(`volvelle.core.forward.advance`). The world answers where a formula there does not do: what happens to jobs
that crash, train or change their batch size, and to nodes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec
import numpy as np

from volvelle.core.answers import ANSWERS, divide_cpus
from volvelle.core.beliefs import rate_now
from volvelle.core.decision import Decision
from volvelle.core.dependents import End
from volvelle.core.events import (
    BatchSizeChanged,
    Event,
    JobFailed,
    JobFinished,
    JobStopped,
    JobSubmitted,
    LossReported,
    NodeChanged,
    TrainingReported,
)
from volvelle.core.forward.advance import boundary, next_moment
from volvelle.core.forward.expected import expect
from volvelle.core.forward.jobs import at_tick
from volvelle.core.handlers import fold
from volvelle.core.log import Batch
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import (
    ARRIVAL_COLUMNS,
    ASK_DIRECTOR,
    ASK_DIVISION,
    ASK_NEWS,
    ASK_NODES,
    ASK_RATES,
    ASKED,
    AWAY,
    CHANGED,
    COME,
    DEPENDS,
    DIRECT_AT,
    ENDLESS,
    EVENTS,
    EVERY_MOMENT,
    INFINITY,
    JOBS,
    LOG_FULL,
    LOGGED_MOMENTS,
    MILESTONE,
    MOMENTS,
    NEVER,
    NODE_AT,
    NOW,
    OBSTACLE,
    PAUSED,
    QUEUED,
    REPORT,
    STOPPED,
    SUBJECT,
    SUBJECT_KIND,
    SUBJECT_NUMBER,
    SUBJECT_STAMP,
    THROUGH,
    TRACKED,
    TRACKED_FIRST,
    TRACKED_LAST,
    TUNING,
    UNRATED,
    UNTIL,
)
from volvelle.core.view import rows_by_submission
from volvelle.model.cluster import NodeState
from volvelle.model.job import Job
from volvelle.simulate.coming import Coming
from volvelle.simulate.execution import Execution
from volvelle.simulate.nodes import node_changes
from volvelle.simulate.trainer import Trainer
from volvelle.simulate.users import Users

_MOMENTS, _FEW = 4096, 64
"""Moments between two looks at what else there is to do; where Python decides."""


class Watcher(Protocol):
    """Whoever wants to know each moment of a run."""

    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        """One moment: what happened and what was decided."""
        ...


class Recording(Protocol):
    """Whoever wants to know all moments of a run, many at once."""

    def take(self, batch: Batch, submission: Callable[[float, int], JobSubmitted]) -> None:
        """A stretch of moments."""
        ...


class Director(Protocol):
    """Whoever steers the scheduler while it runs, as an operator would: through events."""

    every: float
    """Seconds; it is asked at multiples of this, as long as there are jobs."""

    def choose(self, scheduler: Scheduler, now: float) -> Sequence[Event]:
        """What else is to happen at ``now``; ``scheduler`` has not decided yet."""
        ...


class World:
    """A cluster on which the jobs of ``coming`` really happen.

    scheduler: at the start, or anywhere in between. tick: ends of jobs are noticed at multiples of it (None:
    at once). until: the world ends at this time. tracked: first and last number of the jobs that are waited
    for (None: all). director: steers the scheduler. users: who submits again; ``coming`` is what they do
    first, open-ended. compiled: let machine code do it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        coming: Coming,
        watchers: Sequence[Watcher | Recording] = (),
        *,
        tick: float | None = None,
        until: float = INFINITY,
        tracked: tuple[int, int] | None = None,
        director: Director | None = None,
        users: Users | None = None,
        compiled: bool = False,
    ) -> None:
        self.scheduler = scheduler
        self.coming = coming
        self._users = users
        self._watchers = watchers if users is None else [*watchers, users]
        self._until = until
        self._tick = tick
        self._director = director
        self.running: dict[int, Job] = {}
        """Jobs that were in the system from the beginning, where only Python knows how they go on."""
        self._executions: dict[int, Execution] = {}
        self._last_work: dict[int, float] = {}
        """What was done of jobs that left while they wrote a checkpoint."""
        self._reports_every = scheduler.composition.reports_every
        scheduler.prepared, scheduler.foretold = coming.prepared, coming.foretold
        scheduler.notes.foretold = coming.foretold
        scheduler.coming = coming.submission
        if coming.prepared:
            scheduler.known.ask(coming.known, coming)
        self._watch_ends()
        s = scheduler.state
        s.arrivals, s.verdict = coming.arrivals, coming.verdict
        if not compiled:
            s.arrivals, s.verdict = coming.arrivals.tolist(), coming.verdict.tolist()
        s.count[TRACKED] = -1
        if tracked is not None:
            s.count[TRACKED_FIRST], s.count[TRACKED_LAST] = tracked
            s.count[TRACKED] = tracked[1] - tracked[0] + 1
        cluster = scheduler.cluster
        self._nodes = node_changes(cluster, scheduler.seed)
        self._next_node = next(self._nodes, None)
        while self._next_node is not None and self._next_node.time <= self.now > 0.0:
            self._next_node = next(self._nodes, None)
        self._count_away()
        s.count[ENDLESS] = int(cluster.failures is not None)
        s.clock[NODE_AT] = INFINITY if self._next_node is None else self._next_node.time
        composition = scheduler.composition
        self._foretells = bool(
            composition.policy.foresees and composition.estimator.foretells and len(coming.jobs)
        )
        s.clock[DIRECT_AT] = s.clock[NOW] if self._foretells else self._first_direction()
        scheduler.apply_rules(simulated=True, tick=tick or 0.0, pauses=NEVER)
        if compiled:
            scheduler.compile()
        self._answers: dict[int, Callable[[], None]] = {
            ASK_NEWS: self._tell_news,
            ASK_NODES: self._change_nodes,
            ASK_DIRECTOR: self._ask_director,
            ASK_RATES: self._say_rates,
            ASK_DIVISION: self._share,
        }

    def _watch_ends(self) -> None:
        """Keep how jobs end where one comes that is after others; those that cannot run here fail."""
        dependents, coming = self.scheduler.dependents, self.coming
        dependents.watched = bool((coming.verdict == DEPENDS).any())
        if dependents.watched:
            for place in np.flatnonzero(coming.verdict == OBSTACLE).tolist():
                spec = coming.jobs[place].spec
                dependents.ended[spec.id] = End(spec.submit_time, ok=False)

    # ------------------------------------------------------------------ time

    def run(
        self,
        on_pause: Callable[["World"], None] | None = None,
        *,
        pauses: int = EVERY_MOMENT,
    ) -> None:
        """Let time pass until every job is through, or nothing can happen any more.

        on_pause: called after each moment, or as ``pauses`` says (NEVER: now and then).
        """
        scheduler = self.scheduler
        if on_pause is not None:
            scheduler.apply_rules(pauses=pauses)
        if self._users is not None:
            scheduler.apply_rules(pauses=EVERY_MOMENT)
        pause_after = self._next_pause()
        try:
            while True:
                why = scheduler.advance(self._until, pause_after - self.moments)
                if why in (THROUGH, UNTIL):
                    break
                if why == LOG_FULL:
                    self.hand_over()
                elif why != PAUSED:
                    self.answer(why)
                else:
                    pause_after = self._next_pause()
                    if on_pause is not None or self._users is not None:
                        self.hand_over()
                    self._submit_again()
                    if on_pause is not None:
                        on_pause(self)
        finally:
            self.hand_over()
        if why == UNTIL:
            scheduler.now = self._until
            for watcher in self._watchers:
                if hasattr(watcher, "end"):
                    watcher.end(self._until)

    def _next_pause(self) -> int:
        return self.moments + (_FEW if self.scheduler.rules.decides == ASKED else _MOMENTS)

    def answer(self, question: int) -> None:
        """Ask the part that a question of the forward loop is for."""
        if question in self._answers:
            self._answers[question]()
        else:
            ANSWERS[question](self.scheduler)

    def hand_over(self) -> None:
        """Let the watchers know what is in the log, or make it larger where no moment fits."""
        if not self.scheduler.state.count[LOGGED_MOMENTS]:
            self.scheduler.grow(LOG_FULL)
            return
        batch = self.scheduler.drain()
        for watcher in self._watchers:
            if hasattr(watcher, "take"):
                watcher.take(batch, self._submission)
            else:
                for time, events, decision in batch.moments(self._submission):
                    watcher.record(time, events, decision)

    def _submit_again(self) -> None:
        """Let users react to what the moment brought."""
        if self._users is None or not (jobs := self._users.submit()):
            return
        scheduler, coming = self.scheduler, self.coming
        s = scheduler.state
        verdict = np.array(s.verdict, dtype=np.int64)  # the scheduler notes there who is gone
        coming.verdict = verdict
        coming.insert(scheduler, jobs, int(s.count[COME]))
        s.arrivals, s.verdict = coming.arrivals, coming.verdict
        if not s.compiled:
            s.arrivals, s.verdict = coming.arrivals.tolist(), coming.verdict.tolist()
        scheduler.renew()
        composition = scheduler.composition
        if composition.policy.foresees and composition.estimator.foretells:
            self._foretells = True
            s.clock[DIRECT_AT] = self.now

    def let_arrivals_go(self) -> None:
        """Forget the table of arrivals, which is large, where nobody comes any more."""
        s = self.scheduler.state
        if s.compiled and s.count[QUEUED] == len(s.verdict) and not self.scheduler.dependents.aside:
            s.arrivals = self.coming.arrivals = np.zeros((ARRIVAL_COLUMNS, 0), order="F")
            s.verdict = self.coming.verdict = np.zeros(0, dtype=np.int64)
            s.count[COME] = s.count[QUEUED] = 0
            self.scheduler.renew()

    def _submission(self, time: float, number: int) -> JobSubmitted:
        return self.coming.submission(self.coming.place(number), time)

    @property
    def now(self) -> float:
        """Seconds since the run's start."""
        return self.scheduler.now

    @property
    def moments(self) -> int:
        """Distinct times gone through."""
        return int(self.scheduler.state.count[MOMENTS])

    @property
    def events(self) -> int:
        """Events gone through."""
        return int(self.scheduler.state.count[EVENTS])

    @property
    def submitted(self) -> int:
        """Jobs submitted so far."""
        return int(self.scheduler.state.count[COME])

    @property
    def in_system(self) -> int:
        """Jobs submitted and not yet through."""
        count = self.scheduler.state.count
        return int(count[JOBS] + count[COME] - count[QUEUED])

    @property
    def settled(self) -> bool:
        """Whether nothing more happens at this moment."""
        return next_moment(self.scheduler.state) > self.now

    def _happen(self, event: Event) -> None:
        """Log an event that the forward loop does not know, and let the scheduler follow it."""
        self.scheduler.note(event)
        fold(self.scheduler, event)

    # ------------------------------------------------------------------ what happens to jobs

    def _tell_news(self) -> None:
        """Something happens to a job that the forward loop does not know."""
        s, now = self.scheduler.state, self.now
        row, kind = int(s.count[SUBJECT]), int(s.count[SUBJECT_KIND])
        number, stamp = int(s.clock[SUBJECT_NUMBER]), int(s.clock[SUBJECT_STAMP])
        if kind == STOPPED:
            here = self.scheduler.row_of(number)
            work = self._last_work.pop(number, 0.0) if here is None else self._told(here)
            self._happen(JobStopped(now, number, stamp, work))
        elif kind == REPORT:
            self._report(row, number)
        else:
            self._happen(self._milestone(row, number, kind))

    def _milestone(self, row: int, number: int, kind: int) -> Event:
        jobs, now = self.scheduler.state.jobs, self.now
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
        jobs, now = self.scheduler.state.jobs, self.now
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
        self._report_after(self.now, row)
        truth = execution.job.truth
        work = min(self._work_at(row), truth.work)
        attempt = int(jobs.attempt[row])
        if not truth.loss_curve:
            self._happen(TrainingReported(self.now, number, attempt, work))
            return
        self._last_work[number] = execution.told(self._work_at(row))
        self._happen(LossReported(self.now, number, attempt, work, truth.loss_at(work)))
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
        jobs, now = self.scheduler.state.jobs, self.now
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
        jobs, now = self.scheduler.state.jobs, self.now
        jobs.saved[row], jobs.saved_at[row] = self._work_at(row), now
        jobs.cadence_from[row] = jobs.since[row] = now
        event = self._fail(row, reason)
        return msgspec.structs.replace(event, lost_gpu_seconds=0.0, requeued=True)

    def _save_passed(self, row: int) -> None:
        """Note the last checkpoint that the job wrote of its own accord before now."""
        jobs, now, every = (
            self.scheduler.state.jobs,
            self.now,
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
            self.go_on(row)

    def _share(self) -> None:
        """Let jobs go on with the CPUs and memory that the policy divides."""
        scheduler, s = self.scheduler, self.scheduler.state
        jobs = s.jobs
        changed = {int(s.changed[i]) for i in range(s.count[CHANGED])}
        for row in divide_cpus(scheduler):
            number = int(jobs.number[row])
            if jobs.truly_asked[row] == 0.0 or self._job(number).truth.sensitivity is None:
                continue
            if row not in changed:
                self._save_passed(row)
                jobs.true_done[row] = self._work_at(row)
                jobs.since[row] = max(self.now, float(jobs.since[row]))
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
            rate = rate_now(self.scheduler, row, execution.job.truth, done)
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
                self._report_after(max(since, self.now), row)
        if trainer is not None and (tuning := trainer.next_tuning(since)) < INFINITY:
            expect(s, tuning, TUNING, number, row, token, 0.0)

    def _tells(self, execution: Execution) -> bool:
        """Whether a job has anything to report between its milestones that somebody asks for."""
        truth, asked = execution.job.truth, self.scheduler.composition
        if truth.loss_curve:
            return asked.loss_every is not None
        progress = asked.estimator.progress_every
        return progress is not None and bool(truth.regimes) and execution.trainer is None

    def _execution(self, number: int) -> Execution:
        if number not in self._executions:
            tuned = self.scheduler.composition.policy.tunes_batch_size
            self._executions[number] = Execution(self._job(number), tuned=tuned)
        return self._executions[number]

    def _job(self, number: int) -> Job:
        return self.running[number] if number in self.running else self.coming.job(number)

    def _work_at(self, row: int) -> float:
        """Units of work done now."""
        jobs = self.scheduler.state.jobs
        worked = max(self.now - float(jobs.since[row]), 0.0)
        return float(jobs.true_done[row]) + float(jobs.true_rate[row]) * worked

    def _told(self, row: int) -> float:
        """Work done in the unit in which it is declared and told."""
        jobs = self.scheduler.state.jobs
        done = float(jobs.true_done[row])
        if jobs.truly_asked[row] == 0.0:
            return done
        return self._execution(int(jobs.number[row])).told(done)

    # ------------------------------------------------------------------ nodes, and who steers

    def _change_nodes(self) -> None:
        """Nodes change; jobs on a node that goes down are thrown back, those on a vacated one are not."""
        s, now = self.scheduler.state, self.now
        changes: list[NodeChanged] = []
        while self._next_node is not None and self._next_node.time <= now:
            changes.append(self._next_node)
            self._next_node = next(self._nodes, None)
        s.clock[NODE_AT] = INFINITY if self._next_node is None else self._next_node.time
        for change in changes:
            if change.state in (NodeState.DOWN, NodeState.VACATED):
                for event in self._lose_node(change.name, change.state):
                    s.count[EVENTS] += 1
                    self._happen(event)
        for change in changes:
            s.count[EVENTS] += 1
            vacated = change.state is NodeState.VACATED
            state = NodeState.DOWN if vacated else change.state
            self._happen(msgspec.structs.replace(change, state=state))
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

    def _first_direction(self) -> float:
        return INFINITY if self._director is None else self._director.every

    def _ask_director(self) -> None:
        """Let whoever steers the scheduler do so; a date that nobody was there for is passed over.

        At the first moment a scheduler that is to know what comes is told.
        """
        s, director = self.scheduler.state, self._director
        if self._foretells:
            self._foretells = False
            s.count[EVENTS] += 1
            self._happen(self.coming.foretell(self.now))
            s.clock[DIRECT_AT] = self._first_direction()
        if director is None:
            return
        date = float(s.clock[DIRECT_AT])
        while date < self.now:
            date = boundary(date, director.every, True)
        if date == self.now:
            for event in director.choose(self.scheduler, self.now):
                s.count[EVENTS] += 1
                self._happen(event)
            date = boundary(date, director.every, True)
        s.clock[DIRECT_AT] = date
