"""Limits on the size of a request and on the time it takes to arrive."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

import httptools
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from volvelle.live.http.dependencies import authenticate
from volvelle.live.http.errors import HttpError, ProblemDetails, error_response
from volvelle.live.uploads import MAX_UPLOAD_BYTES

MAX_HEADER_BYTES = 32 * 1024
"""Of the first line and all headers of a request, and of all that comes in a row and is of no body."""

_MAX_PIPELINED = 16
"""Requests of a connection that wait for the answers to those before them."""

_LINGER_SECONDS = 2.0
"""How long the rest of a refused request is read, and forgotten: a client that writes does not read."""

_PATIENCE = 10.0
"""So many times as long an upload may take to arrive."""

_UPLOADS_AT_ONCE = 4
"""They are in memory as a whole."""

_MAX_WAITING_UPLOADS = 8
"""Of one user, of whom one arrives at a time."""


class RequestLimits:
    """ASGI middleware: a body has at most ``body_bytes`` and arrives within ``seconds``.

    An upload, of a known principal, may have more bytes and take longer, as long as parts of it arrive; there
    are few at once, and one of a user.
    """

    def __init__(self, app: ASGIApp, body_bytes: int, seconds: float) -> None:
        self._app = app
        self._body_bytes = body_bytes
        self._seconds = seconds
        self._uploads = asyncio.Semaphore(_UPLOADS_AT_ONCE)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its whole body, or answer with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _head_bytes(scope) > MAX_HEADER_BYTES:
            await _send_error(
                431, "the headers are too large", scope, receive, send, place="headers"
            )
            return
        if not (scope["path"].startswith("/v1/uploads/") and scope["method"] == "PUT"):
            await self._pass_on(scope, receive, send, self._body_bytes, self._seconds)
            return
        try:
            principal = await authenticate(Request(scope))
            if self._waiting[principal.user] >= _MAX_WAITING_UPLOADS:
                raise HttpError(
                    429,
                    f"{_MAX_WAITING_UPLOADS} uploads of user {principal.user} are on their way",
                    hint="send one at a time",
                    headers={"Retry-After": "5"},
                )
        except HttpError as error:
            headers = {**error.headers, "Connection": "close"}
            await error_response(error.status, error.problem, headers)(scope, receive, send)
            return
        self._waiting[principal.user] += 1
        try:
            async with self._turns[principal.user], self._uploads:
                most = max(self._body_bytes, MAX_UPLOAD_BYTES)
                patience = _PATIENCE * self._seconds
                await self._pass_on(scope, receive, send, most, patience, self._seconds)
        finally:
            self._waiting[principal.user] -= 1

    async def _pass_on(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        most: int,
        seconds: float,
        part_seconds: float | None = None,
    ) -> None:
        try:
            async with asyncio.timeout(seconds):
                body = await self._body(scope, receive, most, part_seconds)
        except TimeoutError:
            await _send_error(408, "the body did not arrive in time", scope, receive, send)
        except HttpError as error:
            await _send_error(error.status, error.problem.detail, scope, receive, send)
        else:
            await self._app(scope, replay(body, receive), send)

    async def _body(
        self, scope: Scope, receive: Receive, most: int, part_seconds: float | None
    ) -> bytes:
        """The body, of which each part arrives within ``part_seconds``. Raises `HttpError`, TimeoutError."""
        too_large = HttpError(413, f"the body is larger than {most:,} bytes")
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > most:
            raise too_large
        body = bytearray()
        while True:
            async with asyncio.timeout(part_seconds):
                message = await receive()
            if message["type"] == "http.disconnect":
                raise HttpError(400, "the body breaks off")  # the connection is gone
            body += message.get("body", b"")
            if len(body) > most:
                raise too_large
            if not message.get("more_body"):
                return bytes(body)


def _head_bytes(scope: Scope) -> int:
    """Bytes of the target and the headers of a request, without the method and the version."""
    target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    return target + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


async def _send_error(
    status: int, detail: str, scope: Scope, receive: Receive, send: Send, place: str = "body"
) -> None:
    problem = ProblemDetails(
        detail=detail, place=place, hint="send less, or ask the operator for larger limits"
    )
    await error_response(status, problem, {"Connection": "close"})(scope, receive, send)


def replay(body: bytes, receive: Receive) -> Receive:
    """Messages that the application receives: the body at once, then others."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


class _Transport:
    """A transport that sends the head and the body of a response together, as one packet.

    has_more: whether the client may still be writing. Its bytes are read for a while, and dropped, before the
    connection is closed: otherwise it is reset, and the client may never see the answer.
    """

    def __init__(
        self, transport: Any, loop: asyncio.AbstractEventLoop, has_more: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._has_more = has_more
        self._parts: list[bytes] = []
        self._closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send it once everything that is ready now has been written."""
        if self._closing:
            return
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        """Send what was written, and close: at once the second time."""
        again, self._closing = self._closing, True
        self._flush()
        if again or self._transport.is_closing() or not self._has_more():
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol, with limits on all that is of no body, and a timeout for headers.

    After what is not HTTP/1.1 nothing more is read of a connection; requests before it are answered first.
    All clients have at most ``of_all`` connections, a client, by its address, at most ``of_a_client``. For
    another one the oldest is closed that never sent a request, else that waits for one, else for a body.
    """

    header_seconds = 10.0
    of_all = 1000
    of_a_client = 250
    open_connections: ClassVar[dict["LimitedProtocol", str]] = {}
    """The addresses of the clients, the oldest connection first."""

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(_Transport(transport, self.loop, self._has_more))  # type: ignore[arg-type]
        self._head_is_read = True
        self._bytes_of_no_body = 0
        self._refusal = b""
        """The answer to what was wrong, to be sent after all others."""
        address = str((transport.get_extra_info("peername") or ("",))[0])
        self.open_connections[self] = address
        there = [each for each in self.open_connections if not each.transport.is_closing()]
        of_client = [each for each in there if self.open_connections[each] == address]
        if len(of_client) > self.of_a_client:
            min(of_client, key=LimitedProtocol._use).transport.close()
        elif len(there) > self.of_all:
            min(there, key=LimitedProtocol._use).transport.close()
        self._deadline = self.loop.call_later(self.header_seconds, self._on_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._deadline.cancel()
        del self.open_connections[self]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read requests; what is wrong is refused, without a word in the server's log."""
        if self._refusal or self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._bytes_of_no_body += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.cycle.keep_alive = False  # it is answered; what follows is of another protocol
        except httptools.HttpParserError:
            self._refuse(400, "this is not HTTP/1.1, or too many requests wait for answers")
        else:
            if self._bytes_of_no_body > MAX_HEADER_BYTES:
                self._refuse(431, "the headers are too large")

    def on_message_begin(self) -> None:
        """A request begins."""
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise OverflowError("too many requests wait")
        self._head_is_read = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; not what follows a body in pieces, which could pretend to be one."""
        if not self._head_is_read:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer a request."""
        self._head_is_read, self._bytes_of_no_body = True, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._bytes_of_no_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has been read."""
        self._bytes_of_no_body = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        if self._refusal and not self.pipeline and not self.transport.is_closing():
            self._end(self._refusal)
        super().on_response_complete()
        self._deadline.cancel()
        self._deadline = self.loop.call_later(self.header_seconds, self._on_deadline)

    def _use(self) -> int:
        """Uses of a connection: the lowest is closed first, of equals the oldest."""
        if self.cycle is None:
            return 0
        if self.cycle.response_complete:
            return 1
        return 2 if self.cycle.more_body else 3

    def _on_deadline(self) -> None:
        busy = self.cycle is not None and not self.cycle.response_complete
        if not busy and not self.transport.is_closing():
            self.transport.close()

    def _has_more(self) -> bool:
        """Whether the client may still be writing a request that was answered."""
        return bool(self._refusal) or (self.cycle is not None and self.cycle.more_body)

    def _refuse(self, status: int, detail: str) -> None:
        """Read no more, and end the connection with an error once all requests before are answered."""
        problem = ProblemDetails(detail=detail, place="headers", hint="send HTTP/1.1")
        answer = error_response(status, problem, {"Connection": "close"})
        head = (b"%s: %s\r\n" % header for header in answer.raw_headers)
        self._refusal = b"".join((STATUS_LINE[status], *head, b"\r\n", answer.body))
        cycle = self.cycle
        waiting = cycle is not None and not cycle.response_complete
        if waiting and cycle.more_body:  # it is the request that is wrong
            if self.pipeline:
                self.pipeline.popleft()
            else:
                waiting, cycle.disconnected = False, True
                cycle.message_event.set()
        if not waiting:
            self._end(self._refusal)

    def _end(self, answer: bytes) -> None:
        self.transport.write(answer)
        self.transport.close()
