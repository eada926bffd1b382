"""Fairness: finish-time fairness rho (Themis, Shockwave) and unfairness (PCS).

Both compare a job's completion time with the time it would take on a fair share of the cluster.
Shockwave (NSDI'23, section 2.1) writes ``rho = t_schedule / t_egalitarian`` with ``t_egalitarian =
t_exclusive * N`` for N contending jobs, and leaves open how N is counted when a job does not want
the whole cluster. `FairShare` names the three readings in use.

A job without a completion time, or whose exclusive time is unknown, is NaN.
"""

from enum import StrEnum

import numpy as np

from volvelle.metrics import per_job, series
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.arrays import FloatColumn
from volvelle.model.tolerances import SAME_SHARE


class FairShare(StrEnum):
    """By which factor the exclusive time grows on a fair share; N jobs, C GPUs, a gang of g.

    SHARE: ``max(1, g N / C)``, N the contention met during the job's stay. The job gets 1/N of the
    cluster or what it asked for, whichever is less, and slows down linearly (Themis, NSDI'20;
    Shockwave, figure 1; PCS' fair finish time). The default, because it is the only one that knows
    how wide a job is.
    STATIC: ``max(1, jobs of the trace / C)``, one constant for the trace; what Shockwave's artifact
    reports as rho.
    CONTENTION: ``max(1, N / C)``; what Shockwave's artifact stores as Themis' rho. It averages the
    active jobs over rounds, `Outcomes.contention` over events.
    """

    SHARE = "share"
    STATIC = "static"
    CONTENTION = "contention"


def rho(outcomes: Outcomes, share: FairShare = FairShare.SHARE) -> FloatColumn:
    """Completion time over that on a fair share of the cluster, above 1 unfair (Shockwave, section 2.1)."""
    return per_job.ratio(per_job.jct(outcomes), egalitarian_seconds(outcomes, share))


def egalitarian_seconds(outcomes: Outcomes, share: FairShare = FairShare.SHARE) -> FloatColumn:
    """Shockwave's t_egalitarian: seconds the job would take on its fair share."""
    gpus = present_gpus(outcomes)
    contenders = {
        FairShare.SHARE: outcomes.gpus * outcomes.contention,
        FairShare.STATIC: np.full(len(outcomes), float(len(outcomes))),
        FairShare.CONTENTION: outcomes.contention,
    }[share]
    return outcomes.exclusive_seconds * contention_factor(contenders, gpus)


def contention_factor(contenders: FloatColumn, gpus: float) -> FloatColumn:
    """``max(1, contenders / gpus)``: a fair share is never more than was requested."""
    return np.maximum(1.0, contenders / gpus)


def unfair(
    outcomes: Outcomes, share: FairShare = FairShare.SHARE, threshold: float = 1.0
) -> FloatColumn:
    """1 where rho exceeds ``threshold``, 0 where not (Shockwave, section 8.2); NaN without a rho.

    The paper's text says 1.0, its artifact 1.05, and its figure 7 was drawn with 1.1. A rho above
    it by a rounding error alone does not count.
    """
    fairness = rho(outcomes, share)
    unfair_ones = fairness > threshold * (1.0 + SAME_SHARE)
    return np.where(np.isnan(fairness), np.nan, unfair_ones.astype(np.float64))


def unfairness(outcomes: Outcomes) -> FloatColumn:
    """PCS' unfairness (OSDI'24, section 5.1): percent by which a job overran its fair finish."""
    return excess(per_job.jct(outcomes), fair_finish_seconds(outcomes))


def fair_finish_seconds(outcomes: Outcomes) -> FloatColumn:
    """PCS' fair finish time (FFT), counted in seconds from submission."""
    work = outcomes.single_gpu_seconds
    if work is None:
        work = outcomes.gpus * outcomes.exclusive_seconds
    return fair_finish(work, outcomes.gpus, outcomes.contention, present_gpus(outcomes))


def fair_finish(
    work: FloatColumn, gpus: FloatColumn, contention: FloatColumn, cluster_gpus: float
) -> FloatColumn:
    """``work / min(C / N, gpus)``: the paper has no formula, this is its artifact's.

    ``work`` is in seconds on one GPU. Linear even for jobs that do not scale so, and a share below
    one GPU is allowed.
    """
    return per_job.ratio(work, np.minimum(cluster_gpus / contention, gpus))


def excess(jct: FloatColumn, fair: FloatColumn) -> FloatColumn:
    """``100 max(0, jct / fair - 1)``, percent."""
    return 100.0 * np.maximum(0.0, per_job.ratio(jct, fair) - 1.0)


def present_gpus(outcomes: Outcomes) -> float:
    """The cluster's GPUs; their time average over the run where nodes came and went."""
    levels = outcomes.capacity.values
    if len(levels) and (levels == levels[0]).all():
        return float(levels[0])
    return series.mean(outcomes.capacity, series.start_time(outcomes), outcomes.end_time)
