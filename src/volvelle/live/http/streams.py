"""Streaming responses: ``/v1/events`` and the logs of jobs."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from volvelle.live.http.authentication import Principal
from volvelle.live.http.dependencies import (
    AnyPrincipal,
    TheCluster,
    TheController,
    TheStore,
    authenticate,
)
from volvelle.live.http.errors import RETRY_AFTER_SECONDS, HttpError, error_responses
from volvelle.live.http.job_logs import JobLogs, LogFile
from volvelle.live.http.job_lookup import MAX_NUMBER, JobNumber, find_job
from volvelle.live.http.shown_cluster import ShownCluster
from volvelle.live.status.view import ChangeEvent, JobStatusView
from volvelle.live.store import StoreFailed

router = APIRouter(prefix="/v1", tags=["streams"])

IsClosing = Callable[[], bool]
"""Whether the server is about to end."""


class OpenStreams:
    """Open streams by user: at most ``of_a_user`` each."""

    def __init__(self, of_a_user: int) -> None:
        self._of_a_user = of_a_user
        self._open: Counter[str] = Counter()

    def check(self, principal: Principal) -> None:
        """Raise `HttpError` if a user may not follow one more."""
        if self._open[principal.user] >= self._of_a_user:
            raise HttpError(
                429,
                f"user {principal.user} follows {self._of_a_user} streams already",
                place="streams",
                hint="end some, or ask the operator for larger limits",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )

    async def count(
        self, principal: Principal, stream: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """``stream``, counted until its end."""
        self._open[principal.user] += 1
        try:
            async for chunk in stream:
                yield chunk
        finally:
            self._open[principal.user] -= 1


async def may_follow(request: Request) -> bool:
    """Whether a stream goes on: the server does, and the token or the session of its request still holds."""
    if request.app.state.is_closing():
        return False
    try:
        await authenticate(request)
    except StoreFailed:
        return True  # no token can be called revoked
    except HttpError:
        return False
    return True


_POLL_SECONDS = 0.25
_MAX_POLL_SECONDS = 0.5
KEEPALIVE_SECONDS = 15.0
_BEFORE_ALL = -2
NO_STORE = {"Cache-Control": "no-store"}
EVENT_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {}}}}
}
"""The answer of a stream of events, for the OpenAPI document."""

LastEvent = Annotated[
    Annotated[int, Field(ge=-1, le=MAX_NUMBER)] | SkipJsonSchema[None],
    Header(alias="Last-Event-ID", description="go on after this event"),
]


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses=error_responses(429) | EVENT_STREAM,
)
async def stream_events(
    request: Request,
    principal: AnyPrincipal,
    cluster: TheCluster,
    last: LastEvent = None,
    follow: Annotated[bool, Query(description="go on until the listener leaves")] = True,
) -> StreamingResponse:
    """State changes of one's own jobs (for operators: of all), as server-sent events.

    An event has the changes of one moment. ``gap`` says that older ones are not kept any more: read the jobs.
    """
    streams: OpenStreams = request.app.state.streams
    streams.check(principal)
    stream = _event_stream(cluster, principal, last, follow, request)
    return StreamingResponse(
        streams.count(principal, stream), media_type="text/event-stream", headers=NO_STORE
    )


async def _event_stream(
    cluster: ShownCluster,
    principal: Principal,
    last: int | None,
    follow: bool,
    request: Request,
) -> AsyncIterator[bytes]:
    """Events after ``last``, or from now on."""
    after = last if last is not None else _latest_seq(cluster)
    quiet_since = time.monotonic()
    while await may_follow(request):
        found = cluster.events(after, 0)
        if found is None:
            after = _latest_seq(cluster)
            yield b"event: gap\ndata: {}\n\n"
        elif found:
            after = found[-1].seq
            text = b"".join(_format_event(event, principal) for event in found)
            if text:
                yield text
                quiet_since = time.monotonic()
        elif not follow:
            return
        elif time.monotonic() - quiet_since > KEEPALIVE_SECONDS:
            yield b": still here\n\n"
            quiet_since = time.monotonic()
        else:
            await asyncio.sleep(_POLL_SECONDS)


def _latest_seq(cluster: ShownCluster) -> int:
    found = cluster.events(_BEFORE_ALL, 0)
    return found[-1].seq if found else _BEFORE_ALL


def _format_event(event: ChangeEvent, principal: Principal) -> bytes:
    """The changes that are visible to the principal; empty if none are."""
    changes = [
        each for each in event.changes if principal.is_operator or each.user == principal.user
    ]
    if not changes:
        return b""
    data = msgspec.json.encode({"time": event.time, "changes": changes})
    return b"id: %d\nevent: jobs\ndata: %s\n\n" % (event.seq, data)


@router.get(
    "/jobs/{number}/logs",
    response_class=StreamingResponse,
    responses=error_responses(404, 429)
    | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def stream_logs(
    number: JobNumber,
    request: Request,
    principal: AnyPrincipal,
    controller: TheController,
    store: TheStore,
    follow: Annotated[bool, Query(description="go on until the job is over")] = False,
) -> StreamingResponse:
    """Output of a job's processes, attempt by attempt, fetched from the nodes where they ran.

    If a node cannot be asked now, a line that begins with ``volvelle:`` says so in place of its logs. If
    there is nothing else to show, that is the answer (503), unless the logs are followed (``follow``).
    """

    async def job() -> JobStatusView:
        return await find_job(number, principal, controller, store)

    streams: OpenStreams = request.app.state.streams
    streams.check(principal)
    logs, first = JobLogs(request.app.state.jobs_folder, controller.logs), await job()
    grown = await logs.find_grown(first)
    if logs.unreachable and not grown and not follow:
        detail = "; ".join(logs.unreachable.values())
        hint = "try again when it is back"
        raise HttpError(503, detail, place=f"job {number}", hint=hint)
    refresh = job if follow else None
    stream = _log_stream(logs, first, grown, refresh, request)
    counted = streams.count(principal, stream)
    return StreamingResponse(counted, media_type="text/plain; charset=utf-8", headers=NO_STORE)


async def _log_stream(
    logs: JobLogs,
    job: JobStatusView,
    grown: dict[LogFile, int],
    refresh: Callable[[], Awaitable[JobStatusView]] | None,
    request: Request,
) -> AsyncIterator[bytes]:
    """The new content of logs; with ``refresh``, again until the job is over."""
    reported: dict[str, str] = {}
    pause = _POLL_SECONDS
    while True:
        async for chunk in logs.read(job, grown):
            if not await may_follow(request):
                return
            yield chunk
        for node, message in logs.unreachable.items():
            if reported.get(node) != message:
                yield f"volvelle: {message}\n".encode()
        reported = dict(logs.unreachable)
        if refresh is None or job.state.over or not await may_follow(request):
            return
        pause = _POLL_SECONDS if grown else min(2 * pause, _MAX_POLL_SECONDS)
        await asyncio.sleep(pause)
        if not await may_follow(request):
            return
        job = await refresh()  # before the logs: the last lines are still read
        grown = await logs.find_grown(job)
