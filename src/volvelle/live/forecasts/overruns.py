"""Forecasts in which a job that took longer than was believed of it goes on: nothing but that is known of it.

Its rest is of a Pareto distribution of index 1, the heavy tail of durations (decision 120): in half of all
cases as long as it has run, in one of ten over nine times as long. While it is hardly late its rest is in
proportion to that, and a tenth of what it has run at least.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from volvelle.core.forecast import Forecast
from volvelle.core.fork import Fork
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.view import JobView
from volvelle.model.arrays import FloatColumn

_LATE_OVER_USUAL = 9.0
"""The rest that one job of ten outlasts over the rest that one of two does, of a Pareto tail of index 1."""
_LEAST, _PER_LATENESS = 0.1, 2.0
"""The usual rest: over the time run at least, and over the time by which the job is late."""


def foresee(scheduler: SchedulerState, until: int | None = None) -> Forecast:
    """Starts and ends until this job is through (None: all), where overdue jobs take as long as is usual."""
    return Fork(scheduler, overrun=_usual_rest).until(until)


def late_finishes(scheduler: SchedulerState, until: int | None = None) -> Mapping[int, float]:
    """Ends as in `foresee` where overdue jobs last as long as one of ten does; empty without such jobs."""
    if not JobView(scheduler.state, scheduler.now).overdue.any():
        return {}
    return Fork(scheduler, overrun=_late_rest).until(until).finish


def _usual_rest(jobs: JobView, times: float = 1.0) -> FloatColumn:
    """Seconds for which each overdue job goes on."""
    rate = np.where(jobs.overdue, jobs.present_rate, 1.0)
    run, late = jobs.work_done / rate, (jobs.work_done - jobs.column("total")) / rate
    rest: FloatColumn = times * np.minimum(np.maximum(_PER_LATENESS * late, _LEAST * run), run)
    return rest


_late_rest = partial(_usual_rest, times=_LATE_OVER_USUAL)
