"""``/v1/forecast`` and ``/v1/jobs/N/why``: what would become of a job, and what would help it."""

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from volvelle.live.forecasts.job_forecast import Forecast
from volvelle.live.http.authentication import Anybody, Live, Stored
from volvelle.live.http.errors import described
from volvelle.live.http.jobs import Number, visible
from volvelle.live.http.responses import Why, answer
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import JobState, JobStatusView, StatusView

router = APIRouter(prefix="/v1", tags=["forecasts"])


@router.post("/forecast", response_model=Forecast, responses=described(409))
async def forecast(wanted: JobRequest, who: Anybody, controller: Live) -> Response:
    """What a job would get if it were submitted now. Nothing is submitted."""
    return answer(await run_in_threadpool(controller.forecast, wanted, who.user))


@router.get("/jobs/{number}/why", response_model=Why, responses=described(404, 409))
async def why(number: Number, who: Anybody, controller: Live, store: Stored) -> Response:
    """Why a job waits, or how it ended; for one that waits, what would start it sooner."""
    job = await visible(number, who, controller, store)
    if job.state not in (JobState.WAITING, JobState.HELD):
        return answer(Why(job, job.reason))
    found = await run_in_threadpool(controller.remedies, job)
    ahead = _ahead(controller.status, job)
    return answer(Why(job, job.reason, ahead, found.after, found.changes, found.complete))


def _ahead(picture: StatusView, job: JobStatusView) -> tuple[int, ...]:
    """Jobs that wait too and are believed to start before this one."""
    if job.predicted_start is None:
        return ()
    return tuple(
        other.number
        for other in picture.jobs.values()
        if other.state is JobState.WAITING
        and other.predicted_start is not None
        and (other.predicted_start, other.number) < (job.predicted_start, job.number)
    )
