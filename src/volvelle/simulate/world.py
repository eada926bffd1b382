"""The simulated world: it knows the truth about every job and lets time pass exactly, from event to event.

The truth stands beside the scheduler's columns (`volvelle.core.state.Jobs`), and one loop moves both on
(`volvelle.core.forward.advance`). Where no formula there does, a course answers (`volvelle.core.course`).
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from volvelle.core.course import Course
from volvelle.core.events import Event, JobSubmitted
from volvelle.core.execution import Execution
from volvelle.core.forward.moments import boundary, jobs_left, next_moment
from volvelle.core.log import Batch, Submission
from volvelle.core.scheduler import Scheduler
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import *
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.nodes import node_changes
from volvelle.simulate.trainer import Trainer
from volvelle.simulate.users import Users

_MOMENTS, _FEW = 4096, 64
"""Moments between two looks at what else there is to do; where Python decides."""


class Watcher(Protocol):
    """A watcher of a run."""

    def take(self, batch: Batch, submission: Submission) -> None:
        """A stretch of moments."""
        ...


class Switcher(Protocol):
    """A composition switcher: it steers the scheduler while it runs, as an operator would, through events."""

    every: float
    """Seconds; it is asked at multiples of this, as long as jobs are left."""

    def choose(self, scheduler: Scheduler, now: float) -> Sequence[Event]:
        """Further events at ``now``; ``scheduler`` has not decided yet."""
        ...


class World:
    """A cluster on which the jobs of ``arrivals`` really happen.

    scheduler: at the start, or anywhere in between. tick: ends of jobs are noticed at multiples of it (None:
    at once). tracked: first and last number of the jobs that are waited for (None: all). switcher:
    switches the composition. users: submit again when their jobs end; ``arrivals`` then has what they do
    first, open-ended. compiled: let machine code do it.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        arrivals: ArrivalTable,
        watchers: Sequence[Watcher] = (),
        *,
        tick: float | None = None,
        tracked: tuple[int, int] | None = None,
        switcher: Switcher | None = None,
        users: Users | None = None,
        compiled: bool = False,
    ) -> None:
        self.scheduler = scheduler
        self.arrivals = arrivals
        self._users = users
        self._watchers = watchers if users is None else [*watchers, users]
        self._switcher = switcher
        scheduler.notes.refused = arrivals.refused
        if arrivals.prepared:
            scheduler.known.ask(arrivals.known, arrivals)
        if compiled:
            scheduler.compile()
        scheduler.admissions.foresee(
            arrivals.submission,
            arrivals.columns,
            arrivals.verdict,
            prepared=arrivals.prepared,
            refused=arrivals.refused,
        )
        s = scheduler.state
        s.count[TRACKED] = -1
        if tracked is not None:
            s.count[TRACKED_FIRST], s.count[TRACKED_LAST] = tracked
            s.count[TRACKED] = tracked[1] - tracked[0] + 1
        cluster = scheduler.cluster
        nodes = node_changes(cluster, scheduler.seed)
        self._course = Course(scheduler, self._execution_of, nodes, tick=tick)
        s.count[ENDLESS] = int(cluster.failures is not None)
        composition = scheduler.composition
        self._announces = composition.foresees and len(arrivals.jobs) > 0
        s.clock[SWITCH_AT] = s.clock[NOW] if self._announces else self._first_switch()
        scheduler.apply_rules(simulated=True, tick=tick or 0.0, pauses=NEVER)
        self.asked, self.asked_seconds = 0, 0.0
        """How often a policy in Python was asked, and the CPU seconds that it took."""
        self._answers = self._course.answers | {
            ASK_SWITCHER: lambda _: self._ask_switcher(),
            ASK_POLICY: self._ask_policy,
        }

    def _execution_of(self, number: int) -> Execution:
        job = self.arrivals.job(number)
        tuned = self.scheduler.composition.policy.tunes_batch_size
        return Execution(job, None if job.training is None else Trainer(job.training, tuned=tuned))

    def _ask_policy(self, scheduler: SchedulerState) -> None:
        began = time.process_time()
        self._course.answers[ASK_POLICY](scheduler)
        self.asked += 1
        self.asked_seconds += time.process_time() - began

    # ------------------------------------------------------------------ time

    def run(
        self,
        on_pause: Callable[["World"], None] | None = None,
        *,
        pauses: int = EVERY_MOMENT,
        until: float = INFINITY,
    ) -> None:
        """Let time pass until every job is through, nothing can happen any more, or it is ``until``.

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
                why = scheduler.run(self._answers, until, pause_after - self.moments)
                if why in (THROUGH, UNTIL):
                    break
                if why == LOG_FULL:
                    self.hand_over()
                else:
                    pause_after = self._next_pause()
                    if on_pause is not None or self._users is not None:
                        self.hand_over()
                    self._submit_again()
                    if on_pause is not None:
                        on_pause(self)
        finally:
            if scheduler.state.count[LOGGED_MOMENTS]:
                self.hand_over()
        if why == UNTIL:
            scheduler.now = until
            for watcher in self._watchers:
                if hasattr(watcher, "end"):
                    watcher.end(until)

    def _next_pause(self) -> int:
        return self.moments + (_FEW if self.scheduler.rules.decides == ASKED else _MOMENTS)

    def hand_over(self) -> None:
        """Let the watchers know what is in the log, or make it larger where no moment fits."""
        if not self.scheduler.state.count[LOGGED_MOMENTS]:
            self.scheduler.grow(LOG_FULL)
            return
        batch = self.scheduler.drain()
        for watcher in self._watchers:
            watcher.take(batch, self._submission)

    def _submit_again(self) -> None:
        """Let users react to what the moment brought."""
        if self._users is None or not (jobs := self._users.submit()):
            return
        scheduler, arrivals = self.scheduler, self.arrivals
        s = scheduler.state
        verdict = np.array(
            s.verdict, dtype=np.int64
        )  # the scheduler notes there which jobs are gone
        arrivals.verdict = verdict
        arrivals.insert(scheduler, jobs, int(s.count[COME]))
        scheduler.admissions.expect(arrivals.columns, arrivals.verdict)
        composition = scheduler.composition
        if composition.foresees:
            self._announces = True
            s.clock[SWITCH_AT] = self.now

    def let_arrivals_go(self) -> None:
        """Forget the table of arrivals, which is large, where no job comes any more."""
        s = self.scheduler.state
        dependents = self.scheduler.admissions.dependents
        nobody = s.count[QUEUED] == len(s.verdict) and not dependents.returned
        if s.compiled and nobody and not dependents.blocked:
            self.arrivals.columns = np.zeros((ARRIVAL_COLUMNS, 0), order="F")
            self.arrivals.verdict = np.zeros(0, dtype=np.int64)
            self.scheduler.admissions.expect(self.arrivals.columns, self.arrivals.verdict)
            s.count[COME] = s.count[QUEUED] = 0

    def _submission(self, time: float, number: int) -> JobSubmitted:
        return self.arrivals.submission(number, time)

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
        return jobs_left(self.scheduler.state)

    @property
    def settled(self) -> bool:
        """Whether nothing more happens at this moment."""
        return next_moment(self.scheduler.state) > self.now

    # ------------------------------------------------------------------ steering

    def _first_switch(self) -> float:
        return INFINITY if self._switcher is None else self._switcher.every

    def _ask_switcher(self) -> None:
        """Let the switcher choose; a date at which no job was there is passed over.

        At the first moment future arrivals are announced to a policy that goes by them.
        """
        s, switcher = self.scheduler.state, self._switcher
        if self._announces:
            self._announces = False
            s.count[EVENTS] += 1
            self._course.happen(self.arrivals.announce(self.now))
            s.clock[SWITCH_AT] = self._first_switch()
        if switcher is None:
            return
        date = float(s.clock[SWITCH_AT])
        while date < self.now:
            date = boundary(date, switcher.every, True)
        if date == self.now:
            for event in switcher.choose(self.scheduler, self.now):
                s.count[EVENTS] += 1
                self._course.happen(event)
            date = boundary(date, switcher.every, True)
        s.clock[SWITCH_AT] = date
