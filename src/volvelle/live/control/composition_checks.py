"""Whether a composition can schedule real jobs."""

import msgspec

from volvelle.core.composition import WrittenComposition
from volvelle.core.memory import memory_of
from volvelle.core.policy import policies
from volvelle.core.scheduler import Scheduler
from volvelle.live.control.requests import Recompose
from volvelle.live.forecasts.what_if import forecast_recomposition
from volvelle.model.cluster import Cluster
from volvelle.model.problems import Problem
from volvelle.model.units import DAY

_LEAST_PERIOD_SECONDS = 0.1


def check_recomposition(scheduler: Scheduler, request: Recompose) -> None:
    """Raise `Problem` if the requested policy or admission cannot schedule the jobs of ``scheduler``."""
    written = msgspec.structs.replace(
        scheduler.composition.written, policy=request.policy, admission=request.admission
    )
    check_composition(scheduler.cluster, written)
    if obstacle := scheduler.obstacle_to(policies.make(request.policy)):
        raise Problem(
            f"policy {request.policy!r} cannot serve the jobs that are here: {obstacle}",
            mend="choose another, or switch when that job has ended",
        )


def try_recomposition(fork: Scheduler, request: Recompose, now: float) -> None:
    """Raise `Problem` if the requested policy or admission fails at once, tried on ``fork``."""
    try:
        forecast_recomposition(fork, request.policy, request.admission, now)
    except Problem:
        raise
    except Exception as error:
        raise Problem(
            f"policy {request.policy!r} with admission {request.admission!r} cannot decide about the jobs "
            f"that are here ({type(error).__name__}: {error})",
            mend="choose another, or another parameter",
        ) from error


def check_composition(cluster: Cluster, written: WrittenComposition) -> None:
    """Raise `Problem` if a composition cannot schedule real jobs on this cluster."""
    composition = written.build()
    if not composition.placement.names_gpus:
        raise Problem(
            f"placement {composition.placement.name!r} only counts GPUs, real jobs need to know theirs",
            mend="choose one that names them, as in placement = 'consolidated'",
            usage=True,
        )
    if composition.estimator.needs_truth:
        raise Problem(
            f"estimator {composition.estimator.name!r} has to be told how long jobs really take, which "
            "is unknown for real jobs",
            mend="choose another, as in estimator = 'declared'",
            usage=True,
        )
    if composition.policy.shares_gpus:
        raise Problem(
            f"policy {composition.policy.label!r} lets two jobs hold the same GPUs, and a live GPU is "
            "given to one",
            mend="choose another, or a parameter under which it does not",
            usage=True,
        )
    period = composition.policy.round
    if period is not None and not _LEAST_PERIOD_SECONDS <= period <= 366 * DAY:
        raise Problem(
            f"policy {composition.policy.label!r} would decide every {period:g} s",
            mend=f"write a round from {_LEAST_PERIOD_SECONDS:g} s to a year",
            usage=True,
        )
    composition.policy.refuse(cluster, ())
    for part in composition:
        memory_of(part)


def check_partition(whole: Cluster | None) -> None:
    """Raise `Problem` if real jobs cannot be profiled on the partition of this cluster."""
    profiling = None if whole is None else whole.profiling
    if profiling is not None and profiling.most > profiling.nodes:
        raise Problem(
            f"profiling.most_nodes is {profiling.most}, and the partition of a server keeps its "
            f"{profiling.nodes} nodes",
            mend="leave out profiling.most_nodes",
            usage=True,
        )
