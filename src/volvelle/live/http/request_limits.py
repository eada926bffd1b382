"""Limits on the size of a request and on the time it takes to arrive."""

import asyncio
from collections import Counter
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from volvelle.live.http.dependencies import authenticate
from volvelle.live.http.errors import HttpError, ProblemDetails, error_response
from volvelle.live.uploads import MAX_UPLOAD_BYTES

MAX_HEADER_BYTES = 32 * 1024
"""Of all headers of a request; the parser refuses more only where they come in pieces."""


_PATIENCE = 10.0
"""So many times as long an upload may take to arrive."""

_UPLOADS_AT_ONCE = 4
"""They are in memory as a whole."""


class RequestLimits:
    """ASGI middleware: a body has at most ``body_bytes`` and arrives within ``seconds``.

    An upload, of a principal that is known, may have more and take longer; there are few at once.
    """

    def __init__(self, app: ASGIApp, body_bytes: int, seconds: float) -> None:
        self._app = app
        self._body_bytes = body_bytes
        self._seconds = seconds
        self._uploads = asyncio.Semaphore(_UPLOADS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its whole body, or answer with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            await _send_error(
                431, "the headers are too large", scope, receive, send, place="headers"
            )
            return
        if not scope["path"].startswith("/v1/uploads/"):
            await self._pass_on(scope, receive, send, self._body_bytes, self._seconds)
            return
        try:
            await authenticate(Request(scope))
        except HttpError as error:
            headers = {**error.headers, "Connection": "close"}
            await error_response(error.status, error.problem, headers)(scope, receive, send)
            return
        async with self._uploads:
            most = max(self._body_bytes, MAX_UPLOAD_BYTES)
            await self._pass_on(scope, receive, send, most, _PATIENCE * self._seconds)

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, most: int, seconds: float
    ) -> None:
        try:
            async with asyncio.timeout(seconds):
                body = await self._body(scope, receive, most)
        except TimeoutError:
            await _send_error(408, "the body did not arrive in time", scope, receive, send)
        except HttpError as error:
            await _send_error(error.status, error.problem.detail, scope, receive, send)
        else:
            await self._app(scope, _replay(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive, most: int) -> bytes:
        too_large = HttpError(413, f"the body is larger than {most:,} bytes")
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > most:
            raise too_large
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > most:
                raise too_large
            if not message.get("more_body"):
                return bytes(body)


async def _send_error(
    status: int, detail: str, scope: Scope, receive: Receive, send: Send, place: str = "body"
) -> None:
    problem = ProblemDetails(
        detail=detail, place=place, hint="send less, or ask the operator for larger limits"
    )
    await error_response(status, problem, {"Connection": "close"})(scope, receive, send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body at once, then further messages."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


class _Gathering:
    """A transport that sends the head and the body of a response together, as one packet."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it once everything that is ready now has been written."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol, with a timeout for the headers of each request.

    A client, by its address, has at most ``of_a_client`` connections; more are closed at once.
    """

    header_seconds = 10.0
    of_a_client = 250
    open_connections: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(_Gathering(transport, self.loop))  # type: ignore[arg-type]
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self.open_connections[self._address] += 1
        if self.open_connections[self._address] > self.of_a_client:
            transport.close()
        self._deadline = self.loop.call_later(self.header_seconds, self._on_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._deadline.cancel()
        self.open_connections[self._address] -= 1
        if not self.open_connections[self._address]:
            del self.open_connections[self._address]
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._deadline.cancel()
        self._deadline = self.loop.call_later(self.header_seconds, self._on_deadline)

    def _on_deadline(self) -> None:
        busy = self.cycle is not None and not self.cycle.response_complete
        if not busy and not self.transport.is_closing():
            self.transport.close()
