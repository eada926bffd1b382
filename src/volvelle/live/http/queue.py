"""The whole cluster for many viewers: ``/v1/queue``, its changes, past holdings of GPUs, and shares."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool

from volvelle.dashboard.columns import HoldingRow
from volvelle.live.forecasts.told_at_submission import told_of
from volvelle.live.http.authentication import Principal
from volvelle.live.http.dependencies import AnyPrincipal, TheCluster, TheQueueFeed, TheStore
from volvelle.live.http.errors import error_responses
from volvelle.live.http.job_lookup import MAX_NUMBER
from volvelle.live.http.queue_feed import FRAME_SECONDS, QueueFeed
from volvelle.live.http.responses import (
    HoldingTable,
    LoadTable,
    QueueTable,
    ShareList,
    ToldTable,
    json_response,
)
from volvelle.live.http.shown_cluster import ShownCluster
from volvelle.live.http.streams import EVENT_STREAM, KEEPALIVE_SECONDS, NO_STORE, may_follow
from volvelle.live.status.view import LoadPoint
from volvelle.live.store import Store
from volvelle.metrics.told import ToldClass, told_sentence

router = APIRouter(prefix="/v1", tags=["cluster"])

_DAY_SECONDS = 86_400.0


@router.get("/queue", response_model=QueueTable, responses=error_responses())
async def show_queue(principal: AnyPrincipal, feed: TheQueueFeed) -> Response:
    """All jobs that are not over and all nodes, as rows of what every user may see."""
    return Response(await feed.table(), media_type="application/json")


@router.get(
    "/queue/changes", response_class=StreamingResponse, responses=error_responses() | EVENT_STREAM
)
async def stream_changes(
    request: Request,
    principal: AnyPrincipal,
    feed: TheQueueFeed,
    after: Annotated[
        Annotated[int, Field(ge=0, le=MAX_NUMBER)] | SkipJsonSchema[None],
        Query(description="``seq`` of the table or of the last frame"),
    ] = None,
    follow: Annotated[bool, Query(description="go on until the listener leaves")] = True,
) -> StreamingResponse:
    """Changes of ``/v1/queue``, as server-sent events: one frame a second at most.

    A frame has new rows of jobs, new forecasts (``forecast_columns``), jobs that are gone, and new
    rows of nodes. ``gap`` says that frames are missing: read the table again. The stream ends with the
    validity of the token or the session.
    """
    stream = _frames(request, feed, feed.seq if after is None else after, follow)
    return StreamingResponse(stream, media_type="text/event-stream", headers=NO_STORE)


async def _frames(
    request: Request, feed: QueueFeed, after: int, follow: bool
) -> AsyncIterator[bytes]:
    quiet_since = time.monotonic()
    while True:
        found = await feed.frames(after, at_once=not follow)
        now = time.monotonic()
        if found is None:
            after = feed.seq
            yield b"event: gap\ndata: {}\n\n"
        elif found:
            after, quiet_since = found[-1].seq, now
            yield b"".join(b"id: %d\ndata: %s\n\n" % (each.seq, each.body) for each in found)
        elif now - quiet_since > KEEPALIVE_SECONDS:
            quiet_since = now
            yield b": still here\n\n"
        if not follow:
            return
        await asyncio.sleep(FRAME_SECONDS)
        if not await may_follow(request):
            return


@router.get("/holdings", response_model=HoldingTable, responses=error_responses())
async def list_holdings(
    principal: AnyPrincipal,
    cluster: TheCluster,
    store: TheStore,
    seconds: Annotated[
        float, Query(gt=0, le=366 * _DAY_SECONDS, description="that ended within so many seconds")
    ] = _DAY_SECONDS,
) -> Response:
    """Past holdings of GPUs; the latest 20,000 are kept.

    Jobs of others that are over are without number, name and user. Present holders are in ``/v1/queue``.
    """
    rows = await run_in_threadpool(_holding_rows, cluster, store, principal, seconds)
    return json_response(HoldingTable(cluster.status.time, HoldingRow._fields, tuple(rows)))


def _holding_rows(
    cluster: ShownCluster, store: Store, principal: Principal, seconds: float
) -> list[HoldingRow]:
    view, first = cluster.status, time.time() - seconds
    holdings = [each for each in cluster.holdings if each.end >= first]
    over = {each.number for each in holdings if each.number not in view.jobs}
    names = store.jobs.find_names(over)
    rows: list[HoldingRow] = []
    for each in holdings:
        job = view.jobs.get(each.number)
        name, user = (job.name, job.user) if job else names.get(each.number, ("", ""))
        shown = job is not None or principal.is_operator or user == principal.user
        who = (each.number, name, user) if shown else (-1, "", "")
        rows.append(HoldingRow(*who, round(each.start), round(each.end), each.grants))
    return rows


@router.get("/load", response_model=LoadTable, responses=error_responses())
async def list_load(principal: AnyPrincipal, cluster: TheCluster) -> Response:
    """GPUs held and jobs waiting over time, and whether told P90s held; since the server started."""
    held = cluster.metrics.p90_held
    table = LoadTable(
        cluster.status.time, LoadPoint._fields, tuple(cluster.load), held[True], held[False]
    )
    return json_response(table)


@router.get("/told", response_model=ToldTable, responses=error_responses())
async def show_told(request: Request, principal: AnyPrincipal) -> Response:
    """Whether told times hold: of the latest 1,000 finished jobs and classes of them, told at submission."""
    return json_response(await run_in_threadpool(request.app.state.told))


def told_table(cluster: ShownCluster, store: Store) -> ToldTable:
    """Whether times told at submission hold, for the latest finished jobs."""
    view = cluster.status
    told = told_of(store.jobs, [job.submitted for job in view.jobs.values()])
    return ToldTable(view.time, told_sentence(told), ToldClass._fields, tuple(told.classes))


@router.get("/shares", response_model=ShareList, responses=error_responses())
async def list_shares(request: Request, principal: AnyPrincipal) -> Response:
    """GPUs that users and pools hold and wait for, and use within a day; use of others for operators only."""
    return json_response(await request.app.state.shares.of(principal))
