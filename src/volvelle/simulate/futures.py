"""Futures like the recent past, played out: when, in how many of them, a job is through.

The compiled loop plays them where it knows the policy and all jobs, now and in the past it draws from; the
general engine (`forecast`) plays a few of them under any other policy.
"""

import math

import msgspec
import numpy as np

from volvelle.core.columns import Column
from volvelle.core.parts import Belief
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import FloatColumn
from volvelle.simulate.forecast import Future, forecast
from volvelle.simulate.gear import Gear, position_of
from volvelle.simulate.gear.loop import Input
from volvelle.simulate.resample import Arrival, RecentPast

_FEW = 4
"""Futures for the general engine, which takes its time for each."""

_ARRIVALS, _FEW_ARRIVALS = 3000, 300
"""The most in a future, compiled and by the general engine. After them nobody comes any more, and long jobs
are through too early: 300 are five days of many a cluster, and jobs may take twenty."""


def finishes(
    scheduler: Scheduler,
    gear: Gear,
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
    jobs = gear.columns(scheduler)
    known = [arrival.column for arrival in past.arrivals]
    columns = [column for column in known if column is not None]
    if jobs is not None and len(columns) == len(known):
        position, matrix = position_of(scheduler, number), np.array(columns).T
        times = [
            _by_gear(scheduler, gear, past, jobs, matrix, position, horizon, rng)
            for _ in range(play_outs)
        ]
    else:
        times = [
            _by_engine(scheduler, past, number, horizon, next_number, rng)
            for _ in range(min(play_outs, _FEW))
        ]
    return np.array(times) if np.isfinite(times).all() else None


def arrival_of(scheduler: Scheduler, number: int, gear: Gear) -> Arrival:
    """Job ``number``, which has just come, for the past to draw from."""
    known = scheduler.known[number]
    scale = scheduler.jobs.get(number, Column.SCALE)
    jobs, column = gear.columns(scheduler), None
    if jobs is not None:
        column = jobs[:, position_of(scheduler, number)].copy()
        column[[Input.HELD, Input.RATE, Input.SINCE]] = 0.0
    return Arrival(scheduler.now, known.spec, Belief(known.believed, scale), column)


def _by_gear(
    scheduler: Scheduler,
    gear: Gear,
    past: RecentPast,
    jobs: FloatColumn,
    arrivals: FloatColumn,
    position: int,
    horizon: float,
    rng: np.random.Generator,
) -> float:
    drawn, seconds = past.coming(horizon, _ARRIVALS, rng)
    future = arrivals[:, drawn].copy()
    future[Input.SUBMIT] = scheduler.now + seconds
    whole = np.concatenate([jobs, future], axis=1)
    if past.beliefs_err:
        believed = whole[Input.SIZE]
        reached = np.concatenate([_reached(scheduler), np.zeros(len(drawn))])
        done = believed - whole[Input.LEFT]
        ratio = past.ratios(reached / believed, rng)
        whole[Input.TRULY_LEFT] = np.maximum(ratio * believed - done, 0.0)
    played = gear.play_columns(whole, jobs.shape[1], scheduler, position)
    return float(played.finish[position])


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


def _reached(scheduler: Scheduler) -> FloatColumn:
    """Units of work done by each job in the system, by number."""
    matrix = scheduler.jobs.matrix[:, : scheduler.jobs.count]
    matrix = matrix[:, np.argsort(matrix[Column.NUMBER])]
    progress = np.maximum(scheduler.now - matrix[Column.PROGRESS_FROM], 0.0)
    done: FloatColumn = matrix[Column.DONE] + progress * matrix[Column.RATE]
    return done
