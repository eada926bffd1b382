"""What goes on for as long as somebody listens: ``/v1/events`` and the logs of jobs."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import iterate_in_threadpool

from volvelle.live.api.errors import described
from volvelle.live.api.gate import Anybody, Live, Stored, Who
from volvelle.live.api.jobs import BIGGEST, Number, visible
from volvelle.live.api.logs import Logs
from volvelle.live.controller import Controller
from volvelle.live.picture import Happening

router = APIRouter(prefix="/v1", tags=["streams"])

Closing = Callable[[], bool]
"""Whether the server is about to end."""

LOOK_SECONDS = 0.25
ALIVE_SECONDS = 15.0
NEVER = -2

LastEvent = Annotated[
    Annotated[int, Field(ge=-1, le=BIGGEST)] | SkipJsonSchema[None],
    Header(alias="Last-Event-ID", description="go on after this event"),
]


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses=described()
    | {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    request: Request,
    who: Anybody,
    controller: Live,
    last: LastEvent = None,
    follow: Annotated[bool, Query(description="go on until the listener leaves")] = True,
) -> StreamingResponse:
    """What becomes of one's own jobs (for operators: of all), as server-sent events.

    An event has the changes of one moment. ``gap`` says that older ones are known no more: look at the jobs.
    """
    stream = _events(controller, who, last, follow, request.app.state.closing)
    return StreamingResponse(stream, media_type="text/event-stream", headers=_NOT_KEPT)


async def _events(
    controller: Controller, who: Who, last: int | None, follow: bool, closing: Closing
) -> AsyncIterator[bytes]:
    """From the event after ``last`` on, or from now on."""
    after = last if last is not None else _latest(controller)
    quiet_since = time.monotonic()
    while not closing():
        found = controller.events(after, 0)
        if found is None:
            after = _latest(controller)
            yield b"event: gap\ndata: {}\n\n"
        elif found:
            after = found[-1].seq
            said = b"".join(_as_event(one, who) for one in found)
            if said:
                yield said
                quiet_since = time.monotonic()
        elif not follow:
            return
        elif time.monotonic() - quiet_since > ALIVE_SECONDS:
            yield b": still here\n\n"
            quiet_since = time.monotonic()
        else:
            await asyncio.sleep(LOOK_SECONDS)


def _latest(controller: Controller) -> int:
    found = controller.events(NEVER, 0)
    return found[-1].seq if found else NEVER


def _as_event(happening: Happening, who: Who) -> bytes:
    """What of it is theirs to see, which may be nothing."""
    changes = [one for one in happening.changes if who.operates or one.user == who.user]
    if not changes:
        return b""
    data = msgspec.json.encode({"time": happening.time, "changes": changes})
    return b"id: %d\nevent: jobs\ndata: %s\n\n" % (happening.seq, data)


@router.get(
    "/jobs/{number}/logs",
    response_class=StreamingResponse,
    responses=described(404) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def written(
    number: Number,
    request: Request,
    who: Anybody,
    controller: Live,
    store: Stored,
    follow: Annotated[bool, Query(description="go on until the job is over")] = False,
) -> StreamingResponse:
    """What a job's processes wrote, attempt by attempt."""
    await visible(number, who, controller, store)

    async def is_over() -> bool:
        return not follow or (await visible(number, who, controller, store)).state.over

    logs = Logs(request.app.state.jobs_folder, number)
    stream = _written(logs, is_over, request.app.state.closing)
    return StreamingResponse(stream, media_type="text/plain; charset=utf-8", headers=_NOT_KEPT)


async def _written(
    logs: Logs, is_over: Callable[[], Awaitable[bool]], closing: Closing
) -> AsyncIterator[bytes]:
    while not closing():
        ends = await is_over()  # before reading: what is written last is read still
        async for chunk in iterate_in_threadpool(logs.read()):
            yield chunk
        if ends:
            return
        await asyncio.sleep(LOOK_SECONDS)


_NOT_KEPT = {"Cache-Control": "no-store"}
