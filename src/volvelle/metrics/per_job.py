"""One number for each job: `Outcomes` in, a column in the order of its rows out.

A number that a job does not have (a completion time before it completes, a first start if it never
started) is NaN, so a mean can neither count it as zero nor lose it silently: `volvelle.metrics.summary`
counts the statuses beside the figures. A rejected job was never the scheduler's to serve and is NaN
throughout.
"""

import numpy as np

from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.model.arrays import BoolColumn, FloatColumn
from volvelle.model.tolerances import SAME_MOMENT


def has_status(outcomes: Outcomes, *statuses: JobStatus) -> BoolColumn:
    """Which jobs stood so when the run ended."""
    found = np.zeros(len(outcomes), dtype=np.bool_)
    for status in statuses:
        found |= outcomes.status == status.value
    return found


def jct(outcomes: Outcomes) -> FloatColumn:
    """Job completion time, seconds: finish minus submission.

    NaN unless the job finished: a failed or cancelled job left early and would flatter the mean.
    """
    return np.where(has_status(outcomes, JobStatus.FINISHED), outcomes.jct, np.nan)


def queueing_delay(outcomes: Outcomes) -> FloatColumn:
    """Seconds in the system without a GPU, before the first start and after preemptions.

    NaN unless the job finished.
    """
    return np.where(has_status(outcomes, JobStatus.FINISHED), outcomes.queueing_delay, np.nan)


def responsiveness(outcomes: Outcomes) -> FloatColumn:
    """The wait: seconds from submission to the first GPU (Blox, EuroSys'24, section 4.2).

    Counts every job that ever started, finished or not; NaN for the others.
    """
    return np.where(has_status(outcomes, JobStatus.REJECTED), np.nan, outcomes.responsiveness)


def slowdown(outcomes: Outcomes) -> FloatColumn:
    """Completion time over the time alone on the requested GPUs; 1 is a job that never waited.

    An elastic job that got more than it requested may go below 1. NaN unless the job finished and
    its ``exclusive_seconds`` are known and positive. Not the slowdown against a baseline run: that
    is `volvelle.metrics.baseline`.
    """
    return ratio(jct(outcomes), outcomes.exclusive_seconds)


def attained_service(outcomes: Outcomes) -> FloatColumn:
    """GPU-seconds held, overheads included (Tiresias, NSDI'19); so far, if unfinished."""
    return _admitted(outcomes, outcomes.gpu_seconds)


def preemptions(outcomes: Outcomes) -> FloatColumn:
    """Times the scheduler took the job's GPUs away; so far, if unfinished."""
    return _admitted(outcomes, outcomes.preemptions.astype(np.float64))


def restarts(outcomes: Outcomes) -> FloatColumn:
    """Times the job started again after a preemption or a failure; so far, if unfinished."""
    return _admitted(outcomes, outcomes.restarts.astype(np.float64))


def lost_gpu_seconds(outcomes: Outcomes) -> FloatColumn:
    """GPU-seconds whose work was lost in failures; so far, if unfinished."""
    return _admitted(outcomes, outcomes.lost_gpu_seconds)


def prediction_error(outcomes: Outcomes) -> FloatColumn:
    """PCS' Pred_err (OSDI'24, section 2), percent: ``100 |JCT - predicted| / predicted``.

    The paper prints the difference without the bars; its artifact and its figures take the absolute
    value, and so does this. The prediction is the one made at submission. NaN unless the job
    finished and had one.
    """
    if outcomes.predicted_finish is None:
        return np.full(len(outcomes), np.nan)
    return relative_error(jct(outcomes), outcomes.predicted_finish - outcomes.submit_time)


def signed_prediction_error(outcomes: Outcomes) -> FloatColumn:
    """As the ETA error, with its sign: above 0 where the job took longer than predicted."""
    if outcomes.predicted_finish is None:
        return np.full(len(outcomes), np.nan)
    predicted = outcomes.predicted_finish - outcomes.submit_time
    return 100.0 * ratio(jct(outcomes) - predicted, predicted)


def within_p50(outcomes: Outcomes) -> FloatColumn:
    """Jobs that finished by their P50; the mean is its coverage, ideally 50.

    One that finished at its P50 to the microsecond counts half: of many that are predicted exactly, half lie
    on either side of the median.
    """
    return _covered(outcomes, outcomes.predicted_p50, tie=50.0)


def within_p90(outcomes: Outcomes) -> FloatColumn:
    """Jobs that finished by their P90; the mean is its coverage, ideally 90."""
    return _covered(outcomes, outcomes.predicted_p90)


def p90_width(outcomes: Outcomes) -> FloatColumn:
    """From P50 to P90 over the time predicted, percent: how much is left open.

    NaN unless the job finished, so that coverage and width are of the same jobs.
    """
    early, late, finish = (
        outcomes.predicted_p50,
        outcomes.predicted_p90,
        outcomes.predicted_finish,
    )
    if early is None or late is None or finish is None:
        return np.full(len(outcomes), np.nan)
    open_ = np.where(np.isnan(jct(outcomes)), np.nan, late - early)
    return 100.0 * ratio(open_, finish - outcomes.submit_time)


def _covered(outcomes: Outcomes, bound: FloatColumn | None, *, tie: float = 100.0) -> FloatColumn:
    if bound is None:
        return np.full(len(outcomes), np.nan)
    return covered(outcomes.submit_time + jct(outcomes), bound, tie=tie)


def covered(finish: FloatColumn, bound: FloatColumn, *, tie: float = 100.0) -> FloatColumn:
    """100 where ``finish`` is before ``bound``, 0 where later, ``tie`` just then; NaN without either."""
    late = finish - bound
    held = np.where(np.abs(late) <= SAME_MOMENT, tie, np.where(late < 0.0, 100.0, 0.0))
    return np.where(np.isnan(late), np.nan, held)


def relative_error(actual: FloatColumn, predicted: FloatColumn) -> FloatColumn:
    """``100 |actual - predicted| / predicted``, percent; NaN unless ``predicted`` is positive."""
    return 100.0 * ratio(np.abs(actual - predicted), predicted)


def ratio(numerator: FloatColumn, denominator: FloatColumn) -> FloatColumn:
    """Element by element; NaN where the denominator is not positive."""
    return numerator / np.where(denominator > 0, denominator, np.nan)


def _admitted(outcomes: Outcomes, column: FloatColumn) -> FloatColumn:
    return np.where(has_status(outcomes, JobStatus.REJECTED), np.nan, column)
