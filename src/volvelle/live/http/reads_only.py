"""The API of a cluster that is attached: requests that would change it are refused with a sentence."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from volvelle.live.http.errors import ProblemDetails, error_response

_READ = re.compile(
    r"/v1/(queue|queue/changes|holdings|load|told|shares|events|nodes|policy|jobs(/\d+(/why|/forecasts)?)?)"
)
"""Paths that are read."""
_ASKED = "/v1/forecast/site"
"""The path of what changes of the site would bring."""
_OURS = re.compile(r"/v1/(session|tokens(/\w+)?)")
"""Paths of what belongs to Volvelle itself."""


class ReadsOnly:
    """ASGI middleware: nothing of the cluster is changed, and nothing asked that needs a controller.

    owner: the scheduler that decides.
    """

    def __init__(self, app: ASGIApp, owner: str) -> None:
        self._app = app
        self._owner = owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer with an error."""
        path = scope.get("path", "")
        reads = scope.get("method") in ("GET", "HEAD") and _READ.fullmatch(path)
        if not path.startswith("/v1/") or reads or path == _ASKED or _OURS.fullmatch(path):
            await self._app(scope, receive, send)
            return
        problem = ProblemDetails(
            detail=f"{self._owner} decides here: Volvelle reads it and changes nothing",
            hint="use the commands of that scheduler",
        )
        await error_response(405, problem, {"Allow": "GET"})(scope, receive, send)
