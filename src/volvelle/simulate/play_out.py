"""Compiled play-outs: what a scheduler believes, played out by machine code in arrays of its own.

The same as a forecast (`volvelle.simulate.forecast`), without the objects that one needs: a play-out copies
the state's arrays over those of the last one, lets what is believed be true, and lets time pass, unlogged.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from volvelle.core.forward.advance import wake_at
from volvelle.core.forward.believe import fall_silent
from volvelle.core.machine import Machine
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import (
    AHEAD,
    ARRIVAL_COLUMNS,
    ASKED,
    COME,
    ENTERS,
    EXPECTED,
    INFINITY,
    JOBS,
    LIMIT,
    LOG_FULL,
    NEVER,
    NEWCOMERS_CAME,
    NODE_AT,
    NOW,
    PHASE,
    QUEUED,
    ROWS_FULL,
    THROUGH,
    TRACKED,
    TRACKED_FIRST,
    TRACKED_LAST,
    WAKE,
    Jobs,
    Rules,
    State,
)
from volvelle.core.view import FloatColumn, JobView
from volvelle.simulate.coming import machine_code_knows
from volvelle.simulate.forecast import true_work
from volvelle.simulate.world import World

_PLACE = {name: place for place, name in enumerate(Jobs.float_columns[:ARRIVAL_COLUMNS])}


class Newcomers(NamedTuple):
    """Who comes in a future: columns of arrivals, in order of submission.

    ratios: given the shares of what is believed of jobs that they have done, what they truly take over what
    is believed.
    """

    columns: FloatColumn
    ratios: Callable[[FloatColumn], FloatColumn]


def can_play_out(scheduler: Scheduler) -> bool:
    """Whether machine code knows all that decides how jobs go on, and asks nobody in Python."""
    rules, s = scheduler.rules, scheduler.state
    if not s.compiled or rules.hands_over or ASKED in (rules.decides, rules.places):
        return False
    parts = scheduler.composition
    if (
        rules.learns
        or scheduler.dependents.aside
        or rules.divides
        or parts.reports_every is not None
        or scheduler.cluster.changes
    ):
        return False
    if parts.admission.limit(0.0) is None:
        return False
    queued = s.count[COME] > s.count[QUEUED]
    if queued and (scheduler.coming is None or not scheduler.prepared):
        return False  # what is believed of them is not in the table of arrivals
    jobs, here = JobView(s, scheduler.now), s.arrivals[:, s.count[QUEUED] : s.count[COME]]
    if jobs.column("pinned").any() or jobs.column("time_limit").any():
        return False
    asked = np.isnan(jobs.column("unit_rate")) & (jobs.column("table") < 0.0)
    return not asked.any() and machine_code_knows(here)


def _rules_ahead(scheduler: Scheduler) -> Rules:
    return scheduler.rules._replace(
        simulated=True, tick=0.0, admits=False, logs=False, pauses=NEVER
    )


class PlayOuts:
    """Plays out again and again what schedulers that machine code knows believe."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._machine: Machine | None = None

    def finish(
        self, scheduler: Scheduler, number: int, newcomers: Newcomers | None = None
    ) -> float:
        """When job ``number`` will finish if nobody comes, or if these do; infinite for never."""
        s = self._copy(scheduler.state)
        rules = _rules_ahead(scheduler)
        self._begin(s, scheduler, newcomers, rules)
        s.count[TRACKED] = 1
        s.count[TRACKED_FIRST] = s.count[TRACKED_LAST] = number
        while (why := self._machine_code(s).advance(rules, INFINITY, 1 << 62)) == ROWS_FULL:
            self._grow(s)
        assert why == THROUGH, "machine code asked nobody"
        return float(s.clock[NOW]) if s.count[TRACKED] == 0 else INFINITY

    def _begin(
        self, s: State, scheduler: Scheduler, newcomers: Newcomers | None, rules: Rules
    ) -> None:
        """Let what is believed be true, and these jobs come."""
        base = scheduler.state
        self._machine_code(s).believe()
        while len(s.expected) < s.count[EXPECTED] + s.count[JOBS] + 8:
            self._grow(s)
        here = base.arrivals[:, base.count[QUEUED] : base.count[COME]]
        here = here[:, base.verdict[base.count[QUEUED] : base.count[COME]] == ENTERS]
        coming = here if newcomers is None else np.concatenate([here, newcomers.columns], axis=1)
        coming = np.asfortranarray(coming)
        coming[_PLACE["total"]] *= coming[_PLACE["scale"]]
        coming[_PLACE["scale"]] = 1.0
        work = coming[_PLACE["total"]]
        if newcomers is not None:
            jobs = JobView(s, scheduler.now)
            jobs.write("true_work", true_work(jobs, newcomers.ratios))
            work = work * newcomers.ratios(np.zeros(len(work)))
        coming[_PLACE["true_work"]] = work
        coming[_PLACE["true_unit_rate"]] = coming[_PLACE["unit_rate"]]
        coming[_PLACE["true_table"]] = coming[_PLACE["table"]]
        coming[_PLACE["truly_asked"]] = 0.0
        s.arrivals, s.verdict = coming, np.full(coming.shape[1], ENTERS)
        machine = self._machine_code(s)
        machine.replaced("arrivals", "verdict")
        machine.expect_ends()
        s.count[QUEUED], s.count[COME] = 0, here.shape[1]
        s.count[PHASE] = AHEAD
        fall_silent(s)
        s.clock[WAKE] = wake_at(s, rules)

    def _copy(self, base: State) -> State:
        """Copy ``base`` over the arrays of the last play-out, or to new ones where it does not fit."""
        s = self._state
        if s is None or not s.holds(base):
            s, self._machine = base.copy(), None
            self._state = s
        else:
            s.become(base)
            self._machine_code(s).replaced("rates", "memory")
        return s

    def _grow(self, s: State) -> None:
        s.grow_rows()
        self._machine = None

    def _machine_code(self, s: State) -> Machine:
        if self._machine is None:
            self._machine = Machine(s)
        return self._machine


def run_and_predict(world: World) -> FloatColumn | None:
    """Let time pass to the end, and predict when each job will finish once it has come; NaN for never.

    None where Python has to be asked; then nothing has happened.
    """
    scheduler, s = world.scheduler, world.scheduler.state
    admits_all = s.clock[LIMIT] == INFINITY and scheduler.prepared
    if not can_play_out(scheduler) or not admits_all or s.clock[NODE_AT] < INFINITY:
        return None
    if s.arrivals[_PLACE["truly_asked"]].any() or not machine_code_knows(s.arrivals):
        return None
    scheduler.apply_rules(pauses=NEWCOMERS_CAME)
    predicted = np.full(len(world.coming.jobs), np.nan)
    told, why = np.zeros(1, dtype=np.int64), ROWS_FULL
    while why in (ROWS_FULL, LOG_FULL):
        machine = Machine(scheduler.state)
        ahead = scheduler.state.copy()
        ahead.arrivals, ahead.verdict = scheduler.state.arrivals[:, :0], np.zeros(0, dtype=np.int64)
        rules = scheduler.rules
        why = machine.foresee(Machine(ahead), rules, _rules_ahead(scheduler), predicted, told)
        if why == ROWS_FULL:
            scheduler.grow(ROWS_FULL)
        world.hand_over()
    assert why == THROUGH, "machine code asked nobody"
    return predicted
