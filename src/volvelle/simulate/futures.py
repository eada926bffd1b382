"""Futures like the recent past, played out: when, in how many of them, a job is through."""

import math

import msgspec
import numpy as np

from volvelle.core.parts import Belief
from volvelle.core.scheduler import Scheduler
from volvelle.core.view import FloatColumn
from volvelle.simulate.forecast import Future, forecast
from volvelle.simulate.resample import Arrival, RecentPast

_FEW = 4
"""Futures for policies that are asked in Python, which take their time for each."""

_ARRIVALS, _FEW_ARRIVALS = 3000, 300
"""The most in a future, compiled and otherwise. After them nobody comes any more, and long jobs
are through too early: 300 are five days of many a cluster, and jobs may take twenty."""


def finishes(
    scheduler: Scheduler,
    past: RecentPast,
    number: int,
    *,
    horizon: float,
    next_number: int,
    play_outs: int,
    rng: np.random.Generator,
) -> FloatColumn | None:
    """When job ``number`` is through in each of the play-outs; None where nobody can say.

    horizon: seconds that it takes if nobody comes. next_number: of the next job to be submitted.
    """
    if not past.enough:
        return None
    times = [
        _by_engine(scheduler, past, number, horizon, next_number, rng)
        for _ in range(min(play_outs, _FEW))
    ]
    return np.array(times) if np.isfinite(times).all() else None


def arrival_of(scheduler: Scheduler, number: int) -> Arrival:
    """Job ``number``, which has just come, for the past to draw from."""
    known, row = scheduler.known[number], scheduler.row_of(number)
    scale = float(scheduler.state.jobs.scale[row])
    return Arrival(scheduler.now, known.spec, Belief(known.believed, scale), None)


def _by_engine(
    scheduler: Scheduler,
    past: RecentPast,
    number: int,
    horizon: float,
    next_number: int,
    rng: np.random.Generator,
) -> float:
    drawn, seconds = past.coming(horizon, _FEW_ARRIVALS, rng)
    arrivals = past.arrivals
    coming = []
    for which, after in zip(drawn.tolist(), seconds.tolist(), strict=True):
        spec, belief = arrivals[which].spec, arrivals[which].belief
        at = msgspec.structs.replace(spec, submit_time=scheduler.now + after)
        coming.append((at, belief))
    future = Future(next_number, tuple(coming), lambda done: past.ratios(done, rng))
    foreseen = forecast(scheduler, until_finish_of=number, future=future)
    return foreseen.finish.get(number, math.inf)
