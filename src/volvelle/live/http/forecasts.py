"""``/v1/forecast`` and ``/v1/jobs/N/why``: forecasts of a job, and suggestions for it."""

from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from volvelle.live.control.controller import Controller
from volvelle.live.forecasts.explanation import JobExplanation, MeasuredRateView
from volvelle.live.forecasts.job_forecast import JobForecast
from volvelle.live.forecasts.what_if import ClusterForecast, new_nodes
from volvelle.live.http.dependencies import (
    AnyPrincipal,
    OperatorPrincipal,
    TheCluster,
    TheController,
    TheForecastThreads,
    TheStore,
)
from volvelle.live.http.errors import error_responses
from volvelle.live.http.job_checks import (
    begins_again,
    check_targets,
    notices_of,
    starts_several_times,
)
from volvelle.live.http.job_lookup import JobNumber, find_job
from volvelle.live.http.recomposition import WrittenPart, recomposition
from volvelle.live.http.responses import ForecastHistoryView, json_response
from volvelle.live.http.shown_cluster import on_absent_nodes
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import JobState, JobStatusView, StatusView
from volvelle.live.strict_model import StrictModel

router = APIRouter(prefix="/v1", tags=["forecasts"])


@router.post("/forecast", response_model=JobForecast, responses=error_responses(403, 409, 429))
async def forecast(
    job: JobRequest,
    request: Request,
    principal: AnyPrincipal,
    controller: TheController,
    threads: TheForecastThreads,
) -> Response:
    """The forecast for a job if it were submitted now. Nothing is submitted."""
    request.app.state.quota.check_priority(principal, job.priority)
    check_targets(job, controller)
    found = await threads.run(principal, partial(controller.forks.forecast, job, principal.user))
    of_user = (job, principal.user, controller)
    notices = notices_of(*of_user) + starts_several_times(*of_user) + begins_again(*of_user)
    return json_response(replace(found, notices=notices))


@router.get(
    "/jobs/{number}/why", response_model=JobExplanation, responses=error_responses(404, 409, 429)
)
async def why(
    number: JobNumber,
    principal: AnyPrincipal,
    cluster: TheCluster,
    store: TheStore,
    threads: TheForecastThreads,
) -> Response:
    """Why a job waits, or how it ended; for one that waits, what would help it."""
    job = await find_job(number, principal, cluster, store)
    notices: tuple[str, ...] = ()
    if isinstance(cluster, Controller) and not (
        job.state.over or job.preemptions or job.iterations
    ):
        declared = JobRequest.model_validate(job.request)
        notices = begins_again(declared, job.user, cluster)
    rates = cluster.measured_rates(job.user, job.name) if job.name else ()
    measured = tuple(map(MeasuredRateView.of, rates))
    if job.state not in (JobState.WAITING, JobState.HELD):
        job = on_absent_nodes(cluster, job)
        return json_response(JobExplanation(job, job.reason, measured=measured, notices=notices))
    found = await threads.run(principal, partial(cluster.forks.suggest, job))
    ahead = _jobs_ahead(cluster.status, job)
    if found.ahead is not None:  # the last forecast may be of before something ended
        p90, moved = job.predicted_p90, (found.p50 or 0.0) - (job.predicted_p50 or 0.0)
        p90 = None if p90 is None or found.p50 is None else p90 + moved
        job = replace(job, predicted_start=found.start, predicted_p50=found.p50, predicted_p90=p90)
        jobs = cluster.status.jobs
        ahead = tuple(n for n in found.ahead if n in jobs and jobs[n].state is JobState.WAITING)
    return json_response(
        JobExplanation(
            job, job.reason, ahead, found.after, found.changes, found.complete, measured, notices
        )
    )


@router.get(
    "/jobs/{number}/forecasts", response_model=ForecastHistoryView, responses=error_responses(404)
)
async def forecast_history(
    number: JobNumber, principal: AnyPrincipal, cluster: TheCluster, store: TheStore
) -> Response:
    """Forecasts of a job since the server started, by time."""
    await find_job(number, principal, cluster, store)
    points = cluster.forecast_history(number)
    return json_response(ForecastHistoryView(number, points))


class AddedNodes(StrictModel):
    """Nodes that the cluster does not have."""

    count: Annotated[int, Field(ge=1, le=1000)] = 1
    gpus: Annotated[int, Field(ge=1, le=64)]
    gpu_type: Annotated[str, Field(max_length=200)] = ""


class ClusterQuestion(StrictModel):
    """A changed cluster: with more nodes, or with another policy or admission."""

    nodes: AddedNodes | None = None
    policy: WrittenPart | None = None
    admission: WrittenPart | None = None


@router.post(
    "/forecast/cluster", response_model=ClusterForecast, responses=error_responses(403, 409, 429)
)
async def forecast_cluster(
    question: ClusterQuestion,
    principal: OperatorPrincipal,
    controller: TheController,
    threads: TheForecastThreads,
) -> Response:
    """When the present jobs would start and finish if the cluster were another. Nothing is changed."""
    added = question.nodes
    nodes = () if added is None else new_nodes(added.count, added.gpus, added.gpu_type)
    request = recomposition(question.policy, question.admission, controller)
    work = partial(controller.forks.forecast_cluster, request, nodes)
    return json_response(await threads.run(principal, work))


def _jobs_ahead(view: StatusView, job: JobStatusView) -> tuple[int, ...]:
    """Waiting jobs that are expected to start before this one."""
    if job.predicted_start is None:
        return ()
    return tuple(
        other.number
        for other in view.jobs.values()
        if other.state is JobState.WAITING
        and other.predicted_start is not None
        and other.predicted_start < job.predicted_start
    )
