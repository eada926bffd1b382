"""Futures like the recent past, played out: when, in how many of them, a job is through."""

from dataclasses import replace

import numpy as np

from volvelle.core.fork import Fork
from volvelle.core.parts import Belief, KnownJob
from volvelle.core.play_out import Arrivals, machine_code_knows
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import ARRIVAL_COLUMNS, PLACE
from volvelle.core.view import FloatColumn
from volvelle.simulate.resample import Arrival, RecentPast

_FEW = 4
"""Futures where Python is asked, which takes its time for each."""

_ARRIVALS, _FEW_ARRIVALS = 3000, 300
"""The most in a future that machine code plays out, and in others. After them no job comes any more, and long
jobs are through too early: 300 are five days of many a cluster, and jobs may take twenty."""


def finishes(
    fork: Fork,
    past: RecentPast,
    number: int,
    *,
    horizon: float,
    next_number: int,
    play_outs: int,
    rng: np.random.Generator,
) -> FloatColumn | None:
    """When job ``number`` is through in each of the play-outs; None where the past does not say.

    horizon: seconds that it takes if no other job comes. next_number: of the next job to be submitted.
    """
    if not past.enough:
        return None
    columns = np.stack([arrival.columns for arrival in past.arrivals], axis=1)
    known = [KnownJob(arrival.spec, arrival.belief.truth) for arrival in past.arrivals]
    most = _ARRIVALS
    if fork.arrays is None or not machine_code_knows(columns):
        fork, most, play_outs = replace(fork, arrays=None), _FEW_ARRIVALS, min(play_outs, _FEW)
    fork = fork.believing(lambda done: past.ratios(done, rng))
    times = []
    for _ in range(play_outs):
        drawn, seconds = past.coming(horizon, most, rng)
        coming = columns[:, drawn]
        coming[PLACE["number"]] = np.arange(next_number, next_number + len(drawn))
        coming[PLACE["submit"]] = fork.scheduler.now + seconds
        arrivals = Arrivals(coming, [known[which] for which in drawn.tolist()])
        times.append(fork.with_arrivals(arrivals).finish_of(number))
    return np.array(times) if np.isfinite(times).all() else None


def arrival_of(scheduler: SchedulerState, number: int) -> Arrival:
    """Job ``number``, which has just come, for the past to draw from."""
    known, row = scheduler.known[number], scheduler.known.rows[number]
    jobs = scheduler.state.jobs
    columns = np.array([float(column[row]) for column in jobs.floats[:ARRIVAL_COLUMNS]])
    belief = Belief(known.believed, float(jobs.scale[row]))
    return Arrival(scheduler.now, known.spec, belief, columns)
