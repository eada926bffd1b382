"""A look-ahead by machine code alone: one job's finish, in arrays that are used again and again.

Where no part is written in Python, what a scheduler believes is played out without the objects of a
scheduler (`volvelle.core.fork.Fork.in_arrays`), with the same numbers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from volvelle.core.forward.believe import fall_silent
from volvelle.core.forward.moments import wake_at
from volvelle.core.parts import KnownJob
from volvelle.core.scheduler_state import SchedulerState, machine_of
from volvelle.core.state import *
from volvelle.core.view import FloatColumn, JobView
from volvelle.model.tolerances import LEAST_DIVISOR

Ratios = Callable[[FloatColumn], FloatColumn]
"""Given the shares of what is believed of jobs that they have done: what they truly take over that."""


class Arrivals(NamedTuple):
    """Jobs that come, in order of submission: columns as once believed, and what is known of each."""

    columns: FloatColumn
    known: Sequence[KnownJob]


def true_work(jobs: JobView, ratios: Ratios) -> FloatColumn:
    """Units of work of jobs that err by ``ratios``: at least what they have done."""
    total, reached = jobs.column("total"), jobs.work_done
    work: FloatColumn = np.maximum(
        total * ratios(reached / np.maximum(total, LEAST_DIVISOR)), reached
    )
    return work


def can_play_out(scheduler: SchedulerState) -> bool:
    """Whether machine code knows all that decides how jobs go on, and asks no part in Python."""
    rules, s = scheduler.rules, scheduler.state
    if not s.compiled or rules.yields or ASKED in (rules.decides, rules.places):
        return False
    parts = scheduler.composition
    if (
        rules.learns
        or scheduler.admissions.dependents.aside
        or rules.divides
        or parts.reports_every is not None
        or scheduler.cluster.changes
    ):
        return False
    if parts.admission.limit(0.0) is None:
        return False
    queued = s.count[COME] > s.count[QUEUED]
    if queued and (scheduler.admissions.coming is None or not scheduler.admissions.prepared):
        return False  # what is believed of them is not in the table of arrivals
    jobs, here = JobView(s, scheduler.now), s.arrivals[:, s.count[QUEUED] : s.count[COME]]
    if jobs.column("pinned").any() or jobs.column("time_limit").any():
        return False
    asked = np.isnan(jobs.column("unit_rate")) & (jobs.column("table") < 0.0)
    return not asked.any() and machine_code_knows(here)


def machine_code_knows(arrivals: FloatColumn) -> bool:
    """Whether machine code knows all that is believed to happen to these jobs, columns of arrivals."""
    asked = np.isnan(arrivals[PLACE["unit_rate"]]) & (arrivals[PLACE["table"]] < 0.0)
    return not (asked.any() or arrivals[PLACE["time_limit"]].any())


def rules_ahead(scheduler: SchedulerState) -> Rules:
    """The rules under which machine code plays out what ``scheduler`` believes."""
    return scheduler.rules._replace(
        simulated=True, tick=0.0, admits=False, logs=False, pauses=NEVER
    )


class Arrays:
    """Arrays in which machine code plays out, again and again, what schedulers believe."""

    def __init__(self) -> None:
        self._state: State | None = None

    def finish(
        self,
        scheduler: SchedulerState,
        number: int,
        arrivals: Arrivals | None,
        ratios: Ratios | None,
    ) -> float:
        """When job ``number`` will finish; infinite for never."""
        s = self._copy(scheduler.state)
        rules = rules_ahead(scheduler)
        self._begin(s, scheduler, arrivals, ratios)
        s.clock[WAKE] = wake_at(s, rules)
        s.count[TRACKED] = 1
        s.count[TRACKED_FIRST] = s.count[TRACKED_LAST] = number
        while (why := machine_of(s).advance(rules, INFINITY, 1 << 62)) == ROWS_FULL:
            s.grow_rows()
        assert why == THROUGH, "machine code asked nobody"
        return float(s.clock[NOW]) if s.count[TRACKED] == 0 else INFINITY

    def _begin(
        self, s: State, scheduler: SchedulerState, arrivals: Arrivals | None, ratios: Ratios | None
    ) -> None:
        """Let what is believed be true, and jobs come."""
        base = scheduler.state
        machine_of(s).believe()
        while len(s.expected) < s.count[EXPECTED] + s.count[JOBS] + 8:
            s.grow_rows()
        here = base.arrivals[:, base.count[QUEUED] : base.count[COME]]
        here = here[:, base.verdict[base.count[QUEUED] : base.count[COME]] == ENTERS]
        coming = here if arrivals is None else np.concatenate([here, arrivals.columns], axis=1)
        coming = np.asfortranarray(coming)
        coming[PLACE["total"]] *= coming[PLACE["scale"]]
        coming[PLACE["scale"]] = 1.0
        work = coming[PLACE["total"]]
        if ratios is not None:
            jobs = JobView(s, scheduler.now)
            jobs.write("true_work", true_work(jobs, ratios))
            work = work * ratios(np.zeros(len(work)))
        coming[PLACE["true_work"]] = work
        coming[PLACE["true_unit_rate"]] = coming[PLACE["unit_rate"]]
        coming[PLACE["true_table"]] = coming[PLACE["table"]]
        coming[PLACE["truly_asked"]] = 0.0
        s.arrivals, s.verdict = coming, np.full(coming.shape[1], ENTERS)
        machine = machine_of(s)
        machine.replaced("arrivals", "verdict")
        machine.expect_ends()
        s.count[QUEUED], s.count[COME] = 0, here.shape[1]
        s.count[PHASE] = AHEAD
        fall_silent(s)
        s.clock[TIMED] = INFINITY  # of jobs that ended before their time limits: none here has one

    def _copy(self, base: State) -> State:
        """Copy ``base`` over the arrays of the last play-out, or to new ones where it does not fit."""
        s = self._state
        if s is None or not s.holds(base):
            s = self._state = base.copy()
        else:
            s.become(base)
            machine_of(s).replaced("rates", "memory")
        return s
