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

from volvelle.live.control.controller import Controller
from volvelle.live.http.authentication import Anybody, Live, Stored, Who
from volvelle.live.http.errors import Refusal, described
from volvelle.live.http.job_logs import Logs, Place
from volvelle.live.http.jobs import BIGGEST, Number, visible
from volvelle.live.status.view import ChangeEvent, JobStatusView

router = APIRouter(prefix="/v1", tags=["streams"])

Closing = Callable[[], bool]
"""Whether the server is about to end."""

LOOK_SECONDS = 0.25
LONGEST_LOOK_SECONDS = 1.0
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


def _as_event(happening: ChangeEvent, who: Who) -> bytes:
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
    """What a job's processes wrote, attempt by attempt, fetched from the nodes where they ran.

    Where a node cannot be asked now, a line that begins with ``volvelle:`` says so in place of its logs.
    Where there is nothing else to show, that is the answer (503), unless one waits for it (``follow``).
    """

    async def job() -> JobStatusView:
        return await visible(number, who, controller, store)

    logs, first = Logs(request.app.state.jobs_folder, controller.logs), await job()
    grown = await logs.look(first)
    if logs.away and not grown and not follow:
        said = "; ".join(logs.away.values())
        raise Refusal(503, said, place=f"job {number}", mend="try again when it is back")
    stream = _written(logs, first, grown, job if follow else None, request.app.state.closing)
    return StreamingResponse(stream, media_type="text/plain; charset=utf-8", headers=_NOT_KEPT)


async def _written(
    logs: Logs,
    job: JobStatusView,
    grown: dict[Place, int],
    again: Callable[[], Awaitable[JobStatusView]] | None,
    closing: Closing,
) -> AsyncIterator[bytes]:
    """What the logs have ``grown``, and ``again`` until the job is over."""
    said: dict[str, str] = {}
    pause = LOOK_SECONDS
    while True:
        async for piece in logs.read(job, grown):
            yield piece
        for node, away in logs.away.items():
            if said.get(node) != away:
                yield f"volvelle: {away}\n".encode()
        said = dict(logs.away)
        if again is None or job.state.over or closing():
            return
        pause = LOOK_SECONDS if grown else min(2 * pause, LONGEST_LOOK_SECONDS)
        await asyncio.sleep(pause)
        job = await again()  # before looking: what is written last is read still
        grown = await logs.look(job)


_NOT_KEPT = {"Cache-Control": "no-store"}
