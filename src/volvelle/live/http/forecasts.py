"""``/v1/forecast`` and ``/v1/jobs/N/why``: forecasts of a job, and suggestions for it."""

from functools import partial

from fastapi import APIRouter, Response

from volvelle.live.forecasts.job_forecast import JobForecast
from volvelle.live.http.dependencies import (
    AnyPrincipal,
    TheController,
    TheForecastThreads,
    TheStore,
)
from volvelle.live.http.errors import error_responses
from volvelle.live.http.job_lookup import JobNumber, find_job
from volvelle.live.http.responses import JobExplanation, json_response
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import JobState, JobStatusView, StatusView

router = APIRouter(prefix="/v1", tags=["forecasts"])


@router.post("/forecast", response_model=JobForecast, responses=error_responses(409, 429))
async def forecast(
    job: JobRequest, principal: AnyPrincipal, controller: TheController, threads: TheForecastThreads
) -> Response:
    """The forecast for a job if it were submitted now. Nothing is submitted."""
    work = partial(controller.forecast, job, principal.user)
    return json_response(await threads.run(principal, work))


@router.get(
    "/jobs/{number}/why", response_model=JobExplanation, responses=error_responses(404, 409, 429)
)
async def why(
    number: JobNumber,
    principal: AnyPrincipal,
    controller: TheController,
    store: TheStore,
    threads: TheForecastThreads,
) -> Response:
    """Why a job waits, or how it ended; for one that waits, what would start it sooner."""
    job = await find_job(number, principal, controller, store)
    if job.state not in (JobState.WAITING, JobState.HELD):
        return json_response(JobExplanation(job, job.reason))
    found = await threads.run(principal, partial(controller.suggest, job))
    ahead = _jobs_ahead(controller.status, job)
    return json_response(
        JobExplanation(job, job.reason, ahead, found.after, found.changes, found.complete)
    )


def _jobs_ahead(view: StatusView, job: JobStatusView) -> tuple[int, ...]:
    """Waiting jobs that are expected to start before this one."""
    if job.predicted_start is None:
        return ()
    return tuple(
        other.number
        for other in view.jobs.values()
        if other.state is JobState.WAITING
        and other.predicted_start is not None
        and (other.predicted_start, other.number) < (job.predicted_start, job.number)
    )
