"""``/healthz``, ``/readyz`` and ``/metrics``: for machines that watch machines."""

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from volvelle.live.http.authentication import Anybody, Live
from volvelle.live.http.errors import Trouble, described, later
from volvelle.live.http.prometheus import exposition

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """The process lives."""
    return Response('{"status": "alive"}', media_type="application/json")


@router.get("/readyz", response_model=dict[str, str], responses={503: {"model": Trouble}})
async def readyz(controller: Live) -> Response:
    """Jobs can be submitted."""
    health = controller.health
    if not health.ready:
        said = "; ".join(health.trouble) or "the controller has ended"
        raise later(said)
    return Response('{"status": "ready"}', media_type="application/json")


@router.get(
    "/metrics",
    response_class=Response,
    responses=described() | {200: {"content": {CONTENT_TYPE: {"schema": {"type": "string"}}}}},
)
async def metrics(who: Anybody, controller: Live) -> Response:
    """For Prometheus, in base units; anybody with a token may look, nothing says whose a job is."""
    return Response(await run_in_threadpool(exposition, controller), media_type=CONTENT_TYPE)
