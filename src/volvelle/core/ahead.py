"""A look ahead: when jobs would finish, if.

The scheduler is forked, jobs that are asked about are admitted, what is believed becomes true, and the
forward loop runs. Nobody else comes, no node changes, no part learns, and a job goes on as fast as it is
believed to be when it starts. A forecast (`volvelle.simulate.forecast`) foresees more: it needs a world.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np

from volvelle.core.answers import ANSWERS
from volvelle.core.decision import Promise
from volvelle.core.dependents import Dependents
from volvelle.core.entry import admit
from volvelle.core.events import JobFinished, JobSubmitted
from volvelle.core.forward.advance import begin_moment
from volvelle.core.forward.believe import fall_silent
from volvelle.core.forward.expected import expect
from volvelle.core.handlers import fold
from volvelle.core.state import (
    ARRIVAL_COLUMNS,
    ASK_NEWS,
    ASK_RATES,
    COME,
    DECISION,
    FINISHED,
    INFINITY,
    LOG_FULL,
    MILESTONE,
    NEVER,
    OBJECT,
    PAUSED,
    PHASE,
    QUEUED,
    SUBJECT,
    TRACKED,
    UNRATED,
)

if TYPE_CHECKING:
    from volvelle.core.scheduler import Scheduler

_BUDGET, _MOMENTS = 1_000_000, 256
"""Moments that a look ahead goes through at most; those between two looks at who is through."""


class Ahead:
    """What becomes of the jobs in a scheduler, if. The scheduler never notices."""

    def __init__(self, scheduler: "Scheduler") -> None:
        self._scheduler = scheduler

    @property
    def promises(self) -> dict[int, Promise]:
        """What jobs in the system are promised, by number, where that is a finish."""
        there = self._scheduler.known
        return {
            number: given
            for number, given in self._scheduler.promises.items()
            if given.finish_by is not None and number in there
        }

    def finishes(
        self, admitted: Iterable[JobSubmitted] = (), *, of: Collection[int] | None = None
    ) -> dict[int, float]:
        """When jobs finish if these too are ``admitted`` now: seconds on the world's clock, by number.

        of: the jobs that are asked about (None: all). Jobs that do not finish within a million moments are
        missing; others than those asked about may be there too.
        """
        ahead = self._fork()
        for submission in admitted:
            admit(ahead, submission)
        ahead.make_room()
        _let_believed_be_true(ahead)
        return self._run(ahead, of)

    def _fork(self) -> "Scheduler":
        ahead = self._scheduler.fork()
        ahead.compile_where_it_pays()
        s = ahead.state
        ahead.queue.clear()
        ahead.dependents = Dependents()
        ahead.coming, ahead.prepared = None, False
        s.count[QUEUED] = s.count[COME] = 0
        s.count[TRACKED] = -1
        nobody = np.zeros((ARRIVAL_COLUMNS, 0), order="F"), np.zeros(0, dtype=np.int64)
        s.arrivals, s.verdict = nobody if s.compiled else ([[]] * ARRIVAL_COLUMNS, [])
        fall_silent(s)
        ahead.apply_rules(simulated=True, learns=False, tick=0.0, pauses=NEVER)
        return ahead

    def _run(self, ahead: "Scheduler", of: Collection[int] | None) -> dict[int, float]:
        s, finishes = ahead.state, dict[int, float]()
        begin_moment(s, ahead.now)
        s.count[PHASE] = DECISION
        for _ in range(0, _BUDGET, _MOMENTS):
            while (why := ahead.advance(INFINITY, _MOMENTS)) in _ANSWERS:
                _ANSWERS[why](ahead)
            finishes |= _ends(ahead)
            if why not in (PAUSED, LOG_FULL) or (of is not None and finishes.keys() >= set(of)):
                break
        return finishes


def _let_believed_be_true(ahead: "Scheduler") -> None:
    ahead.believe()
    s = ahead.state
    for row in ahead.known.rows.values():
        s.jobs.truly_asked[row] = 0.0
    ahead.expect_ends()


def _end(ahead: "Scheduler") -> None:
    """A job is done, and with it the capacity changes: it was on a draining node."""
    jobs, row = ahead.state.jobs, int(ahead.state.count[SUBJECT])
    event = JobFinished(ahead.now, int(jobs.number[row]), int(jobs.attempt[row]))
    ahead.note(event)
    fold(ahead, event)


def _rate(ahead: "Scheduler") -> None:
    """Jobs start or resize whose rate only Python knows: they are as fast as is believed."""
    ANSWERS[ASK_RATES](ahead)
    s, jobs = ahead.state, ahead.state.jobs
    for i in range(s.count[UNRATED]):
        row = int(s.unrated[i])
        rate = jobs.true_rate[row] = jobs.rate[row]
        jobs.token[row] += 1.0
        if rate > 0.0:
            end = jobs.since[row] + (jobs.true_work[row] - jobs.true_done[row]) / rate
            expect(s, end, MILESTONE, jobs.number[row], row, jobs.token[row], 0.0)


_ANSWERS = {**ANSWERS, ASK_NEWS: _end, ASK_RATES: _rate}


def _ends(ahead: "Scheduler") -> dict[int, float]:
    """Who has finished since the last look, and when; whose time limit is over has not."""
    batch = ahead.drain()
    over = batch.kind == FINISHED
    ends = dict(zip(batch.number[over].tolist(), batch.event_time[over].tolist(), strict=True))
    if (batch.kind == OBJECT).any():
        ends |= {
            one.number: one.time for one in batch.notes.objects if isinstance(one, JobFinished)
        }
    return ends
