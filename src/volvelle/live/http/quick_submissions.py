"""Answers correct submissions before FastAPI sees them.

FastAPI spends more on finding a route and taking a request apart than all else spends on the job in it.
A request that is in any way unusual is left to FastAPI, which says what is wrong with it.
"""

import json
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from volvelle.live.http.dependencies import authenticate
from volvelle.live.http.errors import HANDLED, handle
from volvelle.live.http.large_bodies import JOB
from volvelle.live.http.request_limits import replay
from volvelle.live.job_request import JobRequest

MAX_KEY = 200
"""Characters of an idempotency key."""


class QuickSubmissions:
    """ASGI middleware behind `LargeBodies`.

    path: where jobs are posted. submit: ``submit(job, request, principal, controller, store, key)`` answers.
    """

    def __init__(self, app: ASGIApp, path: str, submit: Callable[..., Awaitable[Response]]) -> None:
        self._app = app
        self._path = path
        self._submit = submit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a submission that is correct; pass anything else on."""
        if scope["type"] != "http" or scope["path"] != self._path or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body: bytes = (await receive())["body"]
        request = Request(scope)
        key = request.headers.get("idempotency-key")
        job = scope.get(JOB) or _read(request, body)
        if key is not None and not 0 < len(key) <= MAX_KEY:
            job = None
        if job is None:
            await self._app(scope, replay(body, receive), send)
            return
        try:
            principal, state = await authenticate(request), request.app.state
            response = await self._submit(
                job, request, principal, state.controller, state.store, key
            )
        except HANDLED as error:
            response = await handle(request, error)
        await response(scope, receive, send)


def _read(request: Request, body: bytes) -> JobRequest | None:
    """The job in a body; None where it is not usual JSON, or no job."""
    if request.headers.get("content-type") != "application/json":
        return None
    try:
        return JobRequest.model_validate(json.loads(body))
    except (ValueError, RecursionError):  # of what is nested too deeply
        return None
