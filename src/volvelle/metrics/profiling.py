"""The cost of profiling, and its accuracy (Chronus, SoCC'21, sections 3.2 and 5.1).

A run without a profiling partition has none of these figures: they are NaN.
"""

import numpy as np

from volvelle.metrics import measures, series
from volvelle.metrics.outcomes import Outcomes, Steps
from volvelle.model.arrays import FloatColumn


def wait(outcomes: Outcomes) -> FloatColumn:
    """Seconds from submission to the start of the job's profile (Chronus' pending overhead)."""
    if outcomes.profiled is None:
        return _nothing(outcomes)
    start = outcomes.profiled.start
    return np.where(start <= outcomes.end_time, start - outcomes.submit_time, np.nan)


def ended_there(outcomes: Outcomes) -> FloatColumn:
    """1 for jobs that ended while they were profiled, and never entered the queue; 0 for others."""
    if outcomes.profiled is None:
        return _nothing(outcomes)
    return outcomes.profiled.ended_there.astype(np.float64)


def error(outcomes: Outcomes) -> FloatColumn:
    """By how much the measured run time differs from the true one, relative to it; NaN if not measured."""
    if outcomes.profiled is None:
        return _nothing(outcomes)
    true = outcomes.exclusive_seconds
    wrong: FloatColumn = np.full(len(outcomes), np.nan)
    np.divide(np.abs(outcomes.profiled.seconds - true), true, out=wrong, where=true > 0.0)
    return wrong


def gpus(outcomes: Outcomes) -> float:
    """GPUs that were set aside for profiling, on average over the run; NaN without a partition."""
    profiled = outcomes.profiled
    if profiled is None:
        return float("nan")
    sizes = Steps(profiled.partition_times, profiled.partition_gpus)
    return measures.over_time(sizes, series.start_time(outcomes), outcomes.end_time, "mean")[0]


def _nothing(outcomes: Outcomes) -> FloatColumn:
    return np.full(len(outcomes), np.nan)
