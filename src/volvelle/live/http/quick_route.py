"""A route that reads correct submissions by itself.

FastAPI spends more on taking a request apart than everything else spends on the job in it. A request that is
in any way unusual is left to FastAPI, which says what is wrong with it.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from volvelle.live.http.dependencies import authenticate
from volvelle.live.job_request import JobRequest

MAX_KEY = 200
"""Characters of an idempotency key."""


class SubmissionRoute(APIRoute):
    """A route of ``endpoint(job, request, principal, controller, store, key)``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What handles a request."""
        by_fastapi, endpoint = super().get_route_handler(), self.endpoint

        async def handle(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            usual = key is None or 0 < len(key) <= MAX_KEY
            if not usual or request.headers.get("content-type") != "application/json":
                return await by_fastapi(request)
            try:
                job = JobRequest.model_validate(await request.json())
            except (ValueError, RecursionError):  # of what is nested too deeply
                return await by_fastapi(request)
            principal = await authenticate(request)
            app = request.app.state
            response: Response = await endpoint(
                job, request, principal, app.controller, app.store, key
            )
            return response

        return handle
