"""One look-ahead: what becomes of the jobs in a scheduler, if. The scheduler never notices.

    Fork(scheduler) ─▶ under ─▶ admitting ─▶ without_queue ─▶ until

What is believed becomes true, and the forward loop runs on a copy of the tables (PCS, OSDI'24, section 4).
Jobs in the admission queue and jobs blocked on others come too, and no other jobs.
Starts, restores and checkpoints cost what the scheduler believes, also those that are going on. Changes of
batch sizes and planned changes of nodes are foreseen; crashes, failures of nodes and switches of the policy
are not (`volvelle.core.forward.believe.fall_silent`).
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import numpy as np

from volvelle.core.admissions import HeldJob
from volvelle.core.course import Course
from volvelle.core.decision import Promise
from volvelle.core.dependents import Dependents
from volvelle.core.entry import admit, take_out
from volvelle.core.events import Event, JobSubmitted, NodeChanged
from volvelle.core.execution import Execution
from volvelle.core.facets import FollowsLoss, FollowsRegimes
from volvelle.core.forecast import Forecast
from volvelle.core.forward.believe import fall_silent
from volvelle.core.forward.moments import begin_moment, wake_at
from volvelle.core.forward.ranking import order_again
from volvelle.core.log import Batch
from volvelle.core.parts import Belief, KnownJob
from volvelle.core.paying import compile_where_it_pays
from volvelle.core.promises import LATENESS
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import *
from volvelle.core.view import JobView
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth

_STRETCH, _STRETCHES = 256, 4096
"""Moments between two looks at which of several jobs are through, and how many such looks there are."""


@dataclass(frozen=True)
class Fork:
    """A question about a scheduler's future. Each method returns a fork of which one thing more is asked.

    admitted: jobs that enter now. stopped: numbers of jobs that leave now. queue: whether jobs in the
    admission queue and jobs blocked on others come. overrun: the seconds for which each job goes on that took
    longer than was believed of it; None: it ends at once.
    """

    scheduler: SchedulerState
    admitted: tuple[JobSubmitted, ...] = ()
    stopped: tuple[int, ...] = ()
    queue: bool = True
    overrun: Callable[[JobView], FloatColumn] | None = None

    def under(self, *events: Event) -> "Fork":
        """These events happen first, all at this moment: another policy, other nodes, jobs that leave."""
        other = self.scheduler.fork()
        other.handle(other.now, events)
        return replace(self, scheduler=other)

    def admitting(self, *jobs: JobSubmitted) -> "Fork":
        """These jobs enter now, without being judged."""
        return replace(self, admitted=(*self.admitted, *jobs))

    def without(self, *numbers: int) -> "Fork":
        """These jobs are stopped now, and do not come back."""
        return replace(self, stopped=(*self.stopped, *numbers))

    def without_queue(self) -> "Fork":
        """No job enters that has not been admitted. Guarantees do not fall due."""
        return replace(self, queue=False)

    @property
    def promises(self) -> dict[int, Promise]:
        """Guarantees of a finish to jobs in the system, or entering it, by number."""
        there = {*self.scheduler.known, *(job.number for job in self.admitted)}
        return {
            number: given
            for number, given in self.scheduler.promises.items()
            if given.finish_by is not None and number in there
        }

    @property
    def recalled(self) -> list[JobSubmitted]:
        """Jobs with a guarantee that were stopped for others and wait to be admitted again."""
        admissions, promises = self.scheduler.admissions, self.scheduler.promises
        return [
            admissions.submission(number)
            for number in sorted(admissions.recalled)
            if number in promises and promises[number].finish_by is not None
        ]

    @cached_property
    def undisturbed(self) -> Forecast:
        """Starts and ends until jobs in `promises` are through."""
        return self.until(self.promises.keys())

    def until(self, jobs: int | Collection[int] | None = None, *, begun: bool = False) -> Forecast:
        """Starts and ends until these jobs are through (None: all), or of several jobs until they have begun.

        Of several jobs, jobs that do not get there within a million moments are missing.
        """
        foreseen = Forecast.of(JobView(self.scheduler.state, self.scheduler.now))
        if jobs is None or isinstance(jobs, int):
            self.play(foreseen.take, until=jobs)
        else:
            asked = set(jobs)
            there = foreseen.upcoming if begun else foreseen.finish
            self.play(foreseen.take, enough=lambda: there.keys() >= asked)
        return foreseen

    def play(
        self,
        take: Callable[[Batch], None],
        *,
        until: int | None = None,
        enough: Callable[[], bool] | None = None,
    ) -> SchedulerState:
        """Let time pass on a copy, which is returned; ``take`` is given each stretch of moments.

        until: the job with whose end it may end. enough: asked now and then whether it may.
        """
        ahead = self.scheduler.fork()
        course = self._begin(ahead)
        count = ahead.state.count
        count[TRACKED] = -1
        if until is not None:
            count[TRACKED] = 1
            count[TRACKED_FIRST] = count[TRACKED_LAST] = until
        stretches, moments = 0, 1 << 62 if enough is None else _STRETCH
        while (why := ahead.run(course.answers, moments=moments)) in (PAUSED, LOG_FULL):
            if not ahead.state.count[LOGGED_MOMENTS]:
                ahead.grow(LOG_FULL)
                continue
            take(ahead.drain())
            stretches += why == PAUSED
            if stretches == _STRETCHES or (enough is not None and enough()):
                break
        if ahead.state.count[LOGGED_MOMENTS]:
            take(ahead.drain())
        return ahead

    # ------------------------------------------------------------------ how it begins

    def _begin(self, ahead: SchedulerState) -> Course:
        """Let what is believed be true, and jobs come."""
        ahead.cluster = msgspec.structs.replace(ahead.cluster, failures=None)
        compile_where_it_pays(ahead)
        for number in self.stopped:
            take_out(ahead, number)
        for submission in self.admitted:
            admit(ahead, submission)
        ahead.make_room()
        clock = ahead.state.clock
        foreseen = float(clock[PROMISED]), float(clock[ELIGIBLE])
        if self.overrun is not None:
            _overrun(ahead, self.overrun)
        fall_silent(ahead.state)
        ahead.believe()
        jobs = self._go_on(ahead)
        ahead.expect_ends()
        there = list(jobs)
        jobs |= self._take_in(ahead)
        s = ahead.state
        if self.queue:
            s.clock[PROMISED], s.clock[ELIGIBLE] = foreseen
        learns = self.queue and _learns(ahead, come=bool(s.count[COME]))
        course = Course(
            ahead, lambda number: Execution(jobs[number]), _planned_changes(ahead.cluster)
        )
        ahead.apply_rules(
            simulated=True, ahead=True, learns=learns, watches=False, tick=0.0, pauses=NEVER
        )
        s.clock[WAKE] = wake_at(s, ahead.rules)
        for number in there:
            row = ahead.row_of(number)
            if row is not None and s.jobs.held[row] > 0.0:
                course.go_on(row)
        if s.count[PHASE] != AHEAD or s.count[DIRTY] == 1:
            begin_moment(s, ahead.now)
            s.count[PHASE] = DECISION
        return course

    def _go_on(self, ahead: SchedulerState) -> dict[int, Job]:
        """Jobs in the system of which only Python knows what happens next."""
        jobs = JobView(ahead.state, ahead.now)
        total = jobs.column("total")
        running, work = {}, jobs.column("true_work").tolist()
        for place in np.flatnonzero(jobs.column("truly_asked")).tolist():
            number = int(jobs.number[place])
            known = ahead.known[number]
            believed = msgspec.structs.replace(
                known.believed, failures=(), work=float(total[place])
            )
            ahead.known[number] = KnownJob(known.spec, believed)
            running[number] = Job(known.spec, msgspec.structs.replace(believed, work=work[place]))
        return running

    def _take_in(self, ahead: SchedulerState) -> dict[int, Job]:
        """Write the table of arrivals: the queue, and jobs blocked on others.

        Returns the jobs of which only Python knows what happens next.
        """
        s = ahead.state
        table = _Table(ahead)
        if self.queue:
            recalled = ahead.admissions.recalled
            queue = [one for one in ahead.admissions.waiting if one.number not in recalled]
            dependents = ahead.admissions.dependents
            for event in queue:
                table.add(msgspec.structs.replace(event.spec, after=()), event)
            for event in list(dependents.submissions()):
                blocked = dependents.blocked[event.number]
                dependents.blocked[event.number] = blocked._replace(place=len(table.events))
                table.add(event.spec, event)
        else:
            ahead.admissions.dependents = Dependents()
        come = len(table.events)
        jobs = table.write()
        ahead.admissions.queue.clear()
        ahead.admissions.dependents.returned.clear()
        s.count[QUEUED], s.count[COME] = 0, come
        return jobs | self._take_back(ahead)

    def _take_back(self, ahead: SchedulerState) -> dict[int, Job]:
        """Let recalled jobs wait, of which what is believed is true; those of which only Python knows."""
        admissions, jobs = ahead.admissions, dict[int, Job]()
        if not self.queue:
            admissions.recalled.clear()
        ahead.state.count[RETURNED] = len(admissions.recalled)
        for number in admissions.recalled:
            held = admissions.held[number]
            assert isinstance(held, HeldJob)
            admissions.held[number] = held = held.as_believed
            if held.value("truly_asked"):
                believed = msgspec.structs.replace(
                    held.known.believed, failures=(), work=held.value("total")
                )
                jobs[number] = Job(held.known.spec, believed)
        return jobs


def seconds_to_stop(jobs: JobView) -> FloatColumn:
    """Seconds that stopping each job takes, seen to late: the `Fork.overrun` of guarantees.

    A guarantee that this breaks is one for which overdue jobs would have to be stopped now.
    """
    seconds: FloatColumn = LATENESS + jobs.column("checkpoint")
    return seconds


def _overrun(ahead: SchedulerState, seconds_of: Callable[[JobView], FloatColumn]) -> None:
    """Let jobs that took longer than was believed go on for that many seconds."""
    jobs, s = JobView(ahead.state, ahead.now), ahead.state
    if not (overdue := jobs.overdue).any():
        return
    done, more = jobs.work_done, jobs.present_rate * seconds_of(jobs)
    for place in np.flatnonzero(overdue).tolist():
        row = int(jobs.rows[place])
        s.jobs.total[row] = float(done[place] + more[place] / s.jobs.scale[row])
        order_again(s, ahead.rules, row, ahead.now)


def _learns(ahead: SchedulerState, *, come: bool) -> bool:
    """Whether Python hears of ends: their lessons matter to jobs that wait, to regimes and to losses."""
    if ahead.admissions.dependents.watched:
        return True
    follows = isinstance(ahead.composition.estimator, FollowsLoss | FollowsRegimes)
    return ahead.others_learn and (come or follows)


def _planned_changes(cluster: Cluster) -> Iterator[NodeChanged]:
    nodes = {node.name: node for node in cluster.nodes}
    for change in cluster.changes:
        if change.foreseen:
            yield NodeChanged(change.time, change.node, change.state, nodes[change.node])


class _Table:
    """The table of arrivals of a look-ahead, in which what is believed is true."""

    def __init__(self, ahead: SchedulerState) -> None:
        self.events: list[JobSubmitted] = []
        self._ahead = ahead
        self._known: dict[int, KnownJob] = {}
        self._columns: list[list[float] | FloatColumn] = []
        self._verdict: list[int] = []
        self._refused: dict[int, str] = {}

    def add(self, spec: JobSpec, event: JobSubmitted) -> None:
        """A job that was submitted and is not in the system."""
        ahead, number = self._ahead, event.number
        belief = ahead.composition.estimator.believe(event, ahead.seed)
        truth, verdict = _believed(belief), ENTERS
        values: list[float] | str = ahead.obstacle(spec)
        if values:
            verdict = OBSTACLE
        else:
            values = ahead.beliefs.newcomer(number, spec, Belief(truth))
            if isinstance(values, str):
                verdict = NO_PROGRESS
            elif spec.after:
                verdict = DEPENDS
        if isinstance(values, str):
            self._refused[number] = values
            values = [0.0] * ARRIVAL_COLUMNS
            values[PLACE["number"]], values[PLACE["gpus"]] = float(number), spec.gpus
            if spec.after and verdict != OBSTACLE:
                verdict = DEPENDS
        submitted = spec.submit_time if event.profile is None else event.profile.ended
        values[PLACE["submit"]] = submitted
        self._columns.append(values)
        self._verdict.append(verdict)
        self._known[number] = KnownJob(spec, truth)
        self.events.append(msgspec.structs.replace(event, spec=spec))

    def write(self) -> dict[int, Job]:
        """Let the scheduler know of them; returns the jobs of which only Python knows what happens next."""
        ahead = self._ahead
        columns = np.asfortranarray(np.array(self._columns, dtype=np.float64).T)
        if not self.events:
            columns = np.zeros((ARRIVAL_COLUMNS, 0), order="F")
        jobs, reports = {}, ahead.composition.loss_every is not None
        for place, event in enumerate(self.events):
            job = Job(*self._known[event.number])
            if self._verdict[place] != OBSTACLE:
                columns[TRUTH, place] = ahead.beliefs.true_columns(job, reports=reports)
            if columns[PLACE["truly_asked"], place]:
                jobs[event.number] = job
        verdict = np.array(self._verdict, dtype=np.int64)
        ahead.notes.refused = self._refused
        ahead.known.ask(self._known.__getitem__, self._known)
        ahead.admissions.foresee(
            self.events.__getitem__, columns, verdict, prepared=True, refused=self._refused
        )
        return jobs


def _believed(belief: Belief) -> Truth:
    """The truth about a job that has done nothing yet, as it is believed."""
    truth = msgspec.structs.replace(belief.truth, failures=())
    if belief.scale == 1.0 and truth.work >= 0.0:
        return truth
    return msgspec.structs.replace(truth, work=belief.scale * max(truth.work, 0.0))
