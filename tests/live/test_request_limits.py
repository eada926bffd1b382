"""Whatever comes over a connection is answered or closed, soon, and without a word in the log."""

import asyncio
import logging
import random
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from volvelle.live.http.request_limits import MAX_HEADER_BYTES, LimitedProtocol, RequestLimits

BODY_BYTES = 100_000
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class Protocol(LimitedProtocol):
    header_seconds = 0.5
    open_connections: ClassVar[dict[LimitedProtocol, str]] = {}


class FewConnections(LimitedProtocol):
    of_a_client = 20
    open_connections: ClassVar[dict[LimitedProtocol, str]] = {}


class Told:
    """An application that tells what it was asked; ``/slow`` after a while. ``bodies``: that it got."""

    bodies: ClassVar[list[bytes]] = []
    slow_begun = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        self.bodies.append(body)
        if request.url.path == "/slow":
            self.slow_begun.set()
            await asyncio.sleep(0.2)
        names = " ".join(name for name in request.headers)
        await PlainTextResponse(f"{request.url.path} {len(body)} {names}\n")(scope, receive, send)


@contextmanager
def serving(protocol: type[LimitedProtocol], app: ASGIApp) -> Iterator[tuple[str, int]]:
    """Where a server listens."""
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield listener.getsockname()
        server.should_exit = True
        thread.join(60.0)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    """Where a server listens that has nothing but the limits."""
    with serving(Protocol, RequestLimits(Told(), body_bytes=BODY_BYTES, seconds=0.5)) as where:
        yield where


@pytest.fixture(autouse=True)
def _silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.WARNING)
    yield
    assert caplog.records == []


def answer_to(address: tuple[str, int], *sent: bytes) -> bytes:
    """All that is answered until the connection is closed, which the server has to do."""
    with socket.create_connection(address, 60.0) as connection:
        for part in sent:
            connection.sendall(part)
        return rest_of(connection)


def rest_of(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"^HTTP/1.1 (\d+) ", answer, re.MULTILINE)]


@pytest.mark.parametrize(
    "sent",
    [
        b"NONSENSE / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/7.3\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nA\x00: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: x\x00\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab",
        b"POST / HTTP/1.1\r\nContent-Length: -2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nab",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"3\r\nabcd",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"\x00" * 100_000,
    ],
)
def test_what_is_not_http_is_refused_and_ends_the_connection(
    address: tuple[str, int], sent: bytes
) -> None:
    assert statuses(answer_to(address, sent)) == [400]


def test_a_request_before_what_is_wrong_is_answered_first(address: tuple[str, int]) -> None:
    slow = GET.replace(b"/ ", b"/slow ", 1)
    assert statuses(answer_to(address, slow + b"NONSENSE")) == [200, 400]
    assert statuses(answer_to(address, slow + GET, CHUNKED + b"zz\r\n" + GET)) == [200, 200, 400]


def test_requests_that_do_not_wait_for_answers_are_answered_in_order_and_few_at_once(
    address: tuple[str, int],
) -> None:
    asked = b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(10))
    answer = answer_to(address, asked + GET.replace(b"Host: x", b"Connection: close"))
    assert [answer.index(b"/%d " % n) for n in range(10)] == sorted(
        answer.index(b"/%d " % n) for n in range(10)
    )
    told = statuses(answer_to(address, GET * 1000))
    assert (set(told[:-1]), told[-1]) == ({200}, 400)
    assert len(told) < 100


@pytest.mark.parametrize(
    ("begun", "repeated"),
    [
        (b"", b"\r\n"),
        (b"GET /", b"a"),
        (b"GET / HTTP/1.1\r\nA: ", b"a"),
        (b"GET / HTTP/1.1\r\n", b"A: a\r\n"),
        (CHUNKED + b"1;", b"a"),
        (CHUNKED + b"1\r\na\r\n0\r\n", b"A: a\r\n"),
        (CHUNKED + b"1\r\na\r\n0\r\nA: ", b"a"),
    ],
)
def test_headers_without_end_are_refused_and_the_answer_can_be_read(
    address: tuple[str, int], begun: bytes, repeated: bytes
) -> None:
    endless = repeated * (40 * MAX_HEADER_BYTES // len(repeated))
    answer = answer_to(address, begun, endless)
    assert statuses(answer) == [431]
    assert b"the headers are too large" in answer


@pytest.mark.parametrize(
    "head",
    [
        b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * MAX_HEADER_BYTES),
        b"GET / HTTP/1.1\r\n%s\r\n" % (b"A:\r\n" * 10_000),
    ],
)
def test_large_headers_in_one_piece_are_refused(address: tuple[str, int], head: bytes) -> None:
    assert statuses(answer_to(address, head)) == [431]


@pytest.mark.parametrize("announced", [True, False])
def test_the_answer_to_a_body_that_is_too_large_can_be_read(
    address: tuple[str, int], announced: bool
) -> None:
    size = 40 * BODY_BYTES
    length = b"Content-Length: %d" % size if announced else b"Transfer-Encoding: chunked"
    head = b"POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % length
    body = b"a" * size if announced else b"%x\r\n%s\r\n0\r\n\r\n" % (size, b"a" * size)
    answer = answer_to(address, head, body)
    assert statuses(answer) == [413]
    assert b"the body is larger than 100,000 bytes" in answer


def test_what_follows_a_body_in_pieces_is_no_header(address: tuple[str, int]) -> None:
    last = b"Connection: close\r\n\r\n"
    asked = (
        CHUNKED.replace(b"\r\n\r\n", b"\r\n" + last) + b"2\r\nab\r\n0\r\nAuthorization: a\r\n\r\n"
    )
    answer = answer_to(address, asked)
    assert answer.endswith(b"/ 2 host transfer-encoding connection\n")


def test_who_wants_another_protocol_is_answered_in_this_one(address: tuple[str, int]) -> None:
    wanted = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
    assert statuses(answer_to(address, wanted % b"websocket" + b"\x81\x05Hello")) == [200]
    assert statuses(answer_to(address, wanted % b"h2c", GET)) == [200]


def test_a_body_that_breaks_off_is_not_passed_on(address: tuple[str, int]) -> None:
    Told.bodies.clear()
    with socket.create_connection(address, 60.0) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nbroken off")
    assert statuses(answer_to(address, GET.replace(b"Host: x", b"Connection: close"))) == [200]
    assert Told.bodies == [b""]


def test_mutilated_requests_are_answered_or_closed(address: tuple[str, int]) -> None:
    draw = random.Random(1)
    whole = (
        CHUNKED + b"2\r\nab\r\n0\r\n\r\n" + GET + b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"
    )
    connections = []
    for _ in range(200):
        mutilated = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(mutilated))
            mutilated[at : at + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
        connections.append(socket.create_connection(address, 60.0))
        connections[-1].sendall(mutilated[: draw.randint(1, len(mutilated))])
    for connection in connections:
        with connection:
            assert set(statuses(rest_of(connection))) <= {200, 400, 408, 431}


def test_idle_connections_of_an_address_keep_no_request_behind_it_from_an_answer() -> None:
    limited = RequestLimits(Told(), body_bytes=BODY_BYTES, seconds=10.0)
    with serving(FewConnections, limited) as address, ExitStack() as opened:
        used = opened.enter_context(socket.create_connection(address, 20.0))
        used.sendall(GET)
        assert used.recv(65_536).startswith(b"HTTP/1.1 200 ")
        slow = opened.enter_context(socket.create_connection(address, 20.0))
        Told.slow_begun.clear()
        slow.sendall(GET.replace(b"/ ", b"/slow ", 1))
        assert Told.slow_begun.wait(20.0)
        for _ in range(60):
            opened.enter_context(socket.create_connection(address, 20.0))
        assert slow.recv(65_536).startswith(b"HTTP/1.1 200 ")
        used.sendall(GET)
        assert used.recv(65_536).startswith(b"HTTP/1.1 200 ")
        for _ in range(30):
            assert statuses(answer_to(address, GET.replace(b"Host: x", b"Connection: close"))) == [
                200
            ]
