"""Futures like the recent past, played out: when, in how many of them, a job is through."""

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from volvelle.core.parts import Belief
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import ARRIVAL_COLUMNS, Jobs
from volvelle.core.view import FloatColumn
from volvelle.simulate.coming import machine_code_knows
from volvelle.simulate.forecast import Future, forecast
from volvelle.simulate.resample import Arrival, RecentPast

if TYPE_CHECKING:
    from volvelle.simulate.play_out import PlayOuts

_NUMBER, _SUBMIT = (Jobs.float_columns.index(name) for name in ("number", "submit"))

_FEW = 4
"""Futures where Python is asked, which takes its time for each."""

_ARRIVALS, _FEW_ARRIVALS = 3000, 300
"""The most in a future that machine code plays out, and in others. After them nobody comes any more, and long
jobs are through too early: 300 are five days of many a cluster, and jobs may take twenty."""


def finishes(
    scheduler: Scheduler,
    past: RecentPast,
    number: int,
    *,
    horizon: float,
    next_number: int,
    play_outs: int,
    rng: np.random.Generator,
    compiled: "PlayOuts | None",
) -> FloatColumn | None:
    """When job ``number`` is through in each of the play-outs; None where nobody can say.

    horizon: seconds that it takes if nobody comes. next_number: of the next job to be submitted. compiled:
    with which machine code plays them out, None where Python is asked.
    """
    if not past.enough:
        return None
    columns = np.stack([arrival.columns for arrival in past.arrivals], axis=1)
    if compiled is not None and machine_code_knows(columns):
        times = [
            _by_machine_code(scheduler, past, columns, number, horizon, next_number, rng, compiled)
            for _ in range(play_outs)
        ]
    else:
        times = [
            _by_forecast(scheduler, past, number, horizon, next_number, rng)
            for _ in range(min(play_outs, _FEW))
        ]
    return np.array(times) if np.isfinite(times).all() else None


def arrival_of(scheduler: Scheduler, number: int) -> Arrival:
    """Job ``number``, which has just come, for the past to draw from."""
    known, row = scheduler.known[number], scheduler.known.rows[number]
    jobs = scheduler.state.jobs
    columns = np.array([float(column[row]) for column in jobs.floats[:ARRIVAL_COLUMNS]])
    belief = Belief(known.believed, float(jobs.scale[row]))
    return Arrival(scheduler.now, known.spec, belief, columns)


def _by_machine_code(
    scheduler: Scheduler,
    past: RecentPast,
    columns: FloatColumn,
    number: int,
    horizon: float,
    next_number: int,
    rng: np.random.Generator,
    compiled: "PlayOuts",
) -> float:
    from volvelle.simulate.play_out import Newcomers  # noqa: PLC0415 - loads Numba

    drawn, seconds = past.coming(horizon, _ARRIVALS, rng)
    coming = columns[:, drawn]
    coming[_NUMBER] = np.arange(next_number, next_number + len(drawn))
    coming[_SUBMIT] = scheduler.now + seconds
    newcomers = Newcomers(coming, lambda done: past.ratios(done, rng))
    return compiled.finish(scheduler, number, newcomers)


def _by_forecast(
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
        at = msgspec.structs.replace(spec, submit_time=scheduler.now + after, after=())
        coming.append((at, belief))
    future = Future(next_number, tuple(coming), lambda done: past.ratios(done, rng))
    foreseen = forecast(scheduler, until_finish_of=number, future=future)
    return foreseen.finish.get(number, math.inf)
