"""Whether a composition can schedule real jobs."""

from msgspec.structs import asdict

from volvelle.core.composition import Composition, WrittenComposition, mistakes_of_parts
from volvelle.core.events import UNRECORDED, JobFinished, JobSubmitted, WakeUp
from volvelle.core.memory import memory_of
from volvelle.core.policy import policies
from volvelle.core.scheduler import Scheduler
from volvelle.live.control.requests import Recompose
from volvelle.live.forecasts.what_if import forecast_recomposition
from volvelle.live.scheduler_queries import gpus_decided
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.model.units import DAY

_LEAST_PERIOD_SECONDS = 0.1
CHANGEABLE = ("policy", "admission")
"""Kinds of parts that an operator changes while the server runs."""


def check_recomposition(scheduler: Scheduler, request: Recompose) -> None:
    """Raise `Problem` if the requested policy or admission cannot schedule the jobs of ``scheduler``."""
    wanted = scheduler.composition.changed(request.event(scheduler.now))
    check_composition(scheduler.cluster, wanted.written)
    if obstacle := scheduler.obstacle_to(policies.make(request.policy)):
        raise Problem(
            f"policy {request.policy!r} cannot serve the jobs that are here: {obstacle}",
            mend="choose another, or switch when that job has ended",
        )


def try_recomposition(fork: Scheduler, request: Recompose, now: float) -> None:
    """Raise `Problem` if the requested policy or admission fails at once, tried on ``fork``."""
    parts = f"policy {request.policy!r} with admission {request.admission!r}"
    try:
        forecast_recomposition(fork, request.event(now))
    except Problem:
        raise
    except Exception as error:
        raise Problem(
            f"{parts} cannot decide about the jobs that are here ({type(error).__name__}: {error})",
            mend="choose another, or another parameter",
        ) from error


def check_start(scheduler: Scheduler, request: Recompose, now: float) -> None:
    """Raise `Problem` if the parts that a server is started with cannot take over its ``scheduler``."""
    before = scheduler.composition.written
    try:
        check_recomposition(scheduler, request)
        try_recomposition(scheduler.fork(), request, now)
    except Problem as problem:
        said = "; ".join(filter(None, (str(problem.args[0]), problem.mend)))
        others = [
            f"{kind} = {part!r}"
            for kind, part in asdict(before).items()
            if kind in CHANGEABLE or part != getattr(request, kind)
        ]
        raise Problem(
            f"the server cannot be started under policy {request.policy!r}: {said}",
            mend=f"mend it, or start with {', '.join(others)}, which decided before; jobs run on meanwhile",
        ) from problem


@mistakes_of_parts()
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
    if composition.own:
        _try_out(cluster, composition)


def _try_out(cluster: Cluster, composition: Composition) -> None:
    """Raise `Problem` if a user's own part fails on made-up jobs, more than the cluster has GPUs for."""
    pool = cluster.pools[0].name if cluster.pools else ""
    widths = [*(node.gpus for node in cluster.nodes), 1, 1]
    jobs = [
        JobSpec(id=str(n), submit_time=0.0, gpus=gpus, pool=pool, estimate_seconds=60.0)
        for n, gpus in enumerate(widths)
    ]
    try:
        scheduler = Scheduler(cluster, composition)
        _ = composition.reports_every  # asked once a job runs
        given = gpus_decided(
            scheduler.handle(0.0, [JobSubmitted(0.0, n, job) for n, job in enumerate(jobs)])
        )
        if (wake := scheduler.wake_at()) is not None:
            given |= gpus_decided(scheduler.handle(wake, [WakeUp(wake)]))
        now = max(scheduler.now, 1.0)
        scheduler.handle(now, [JobFinished(now, n, UNRECORDED) for n in [*given][:1]])
    except Exception as error:
        raise Problem(
            composition.failed(error)[1],
            mend=f"mend it: it was tried on {len(jobs)} made-up jobs, more than there are GPUs for, "
            "and has decided about no others",
        ) from error


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
