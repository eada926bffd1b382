"""``/healthz``, ``/readyz`` and ``/metrics``, for monitoring."""

import contextlib
from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from volvelle.live.http.dependencies import AnyPrincipal, TheCluster, authenticate
from volvelle.live.http.errors import HttpError, ProblemDetails, error_responses, unavailable
from volvelle.live.http.responses import json_response
from volvelle.live.store import StoreFailed

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=dict[str, str], responses={503: {"model": ProblemDetails}})
async def healthz(request: Request, cluster: TheCluster) -> Response:
    """Liveness: the process answers, and its controller has not failed.

    For operators, what else is wrong, and what surprised at its start.
    """
    health = cluster.health
    if health.failure:
        raise unavailable(await _shown(request, (health.failure,)))
    found = {"problems": health.problems, "warnings": health.warnings}
    said = {name: await _shown(request, texts) for name, texts in found.items() if texts}
    return json_response({"status": "alive"} | said)


@router.get("/readyz", response_model=dict[str, str], responses={503: {"model": ProblemDetails}})
async def readyz(request: Request, cluster: TheCluster) -> Response:
    """Jobs can be submitted."""
    health = cluster.health
    if not health.ready:
        raise unavailable(await _shown(request, health.problems or ("the controller has ended",)))
    return Response('{"status": "ready"}', media_type="application/json")


async def _shown(request: Request, problems: Sequence[str]) -> str:
    """Problems for operators; for others how many there are: they name nodes, hosts and paths."""
    with contextlib.suppress(HttpError, StoreFailed):
        if (await authenticate(request)).is_operator:
            return "; ".join(problems)
    return f"{len(problems)}, which operators see with their token"


@router.get(
    "/metrics",
    response_class=Response,
    responses=error_responses()
    | {200: {"content": {_METRICS_TYPE: {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, principal: AnyPrincipal) -> Response:
    """Metrics for Prometheus, in base units. Every token may read them; they name no user."""
    return Response(
        await run_in_threadpool(request.app.state.metrics_text), media_type=_METRICS_TYPE
    )
