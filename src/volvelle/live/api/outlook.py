"""``/v1/forecast`` and ``/v1/jobs/N/why``: what would become of a job, and what would help it."""

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from volvelle.live.api.answers import Change, Why, answer
from volvelle.live.api.errors import described
from volvelle.live.api.gate import Anybody, Live, Stored
from volvelle.live.api.jobs import Number, visible
from volvelle.live.controller import Controller
from volvelle.live.foresight import Forecast
from volvelle.live.picture import JobPicture, JobState, Picture
from volvelle.live.request import JobRequest

router = APIRouter(prefix="/v1", tags=["forecasts"])

MOST_CHANGES = 3
_WORTH_SECONDS = 1.0
"""A start that comes sooner by less than this is no help."""


@router.post("/forecast", response_model=Forecast, responses=described(409))
async def forecast(wanted: JobRequest, who: Anybody, controller: Live) -> Response:
    """What a job would get if it were submitted now. Nothing is submitted."""
    return answer(await run_in_threadpool(controller.forecast, wanted, who.user))


@router.get("/jobs/{number}/why", response_model=Why, responses=described(404, 409))
async def why(number: Number, who: Anybody, controller: Live, store: Stored) -> Response:
    """Why a job waits, or how it ended; for one that waits, what would start it sooner."""
    job = await visible(number, who, controller, store)
    if job.state is not JobState.WAITING:
        return answer(Why(job, job.reason, (), ()))
    changes = await run_in_threadpool(_changes, controller, job)
    return answer(Why(job, job.reason, _ahead(controller.picture, job), changes))


def _ahead(picture: Picture, job: JobPicture) -> tuple[int, ...]:
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


def _changes(controller: Controller, job: JobPicture) -> tuple[Change, ...]:
    """Fewer GPUs with which it would start sooner, as the forecast has it, the most GPUs first."""
    wanted = JobRequest.model_validate(job.request | {"array": 1})  # this one of its array
    now = controller.forecast(wanted, job.user, job.number)
    found: list[Change] = []
    gpus = wanted.gpus // 2
    while gpus >= 1 and len(found) < MOST_CHANGES:
        fewer = wanted.model_copy(update={"gpus": gpus, "min_gpus": None, "max_gpus": None})
        then = controller.forecast(fewer, job.user, job.number)
        if then.start is not None and (
            now.start is None or then.start < now.start - _WORTH_SECONDS
        ):
            found.append(Change("fewer GPUs", gpus, then.start, then.p50))
        gpus //= 2
    return tuple(found)
