"""The HTTP server: a socket, uvicorn on it, and its end by Ctrl-C or SIGTERM."""

import errno
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from types import FrameType
from typing import ClassVar

import uvicorn
from fastapi import FastAPI

from volvelle.live.config import Limits, Listen
from volvelle.live.http.request_limits import LimitedProtocol
from volvelle.live.http.streams import IsClosing
from volvelle.live.status.view import Health
from volvelle.model.problems import Problem

_SHUTDOWN_SECONDS = 3

_BESIDE_THE_LIMIT = 10
"""Connections that are being closed to make room for others."""


def bind(listen: Listen) -> socket.socket:
    """A socket at the address. Raises `Problem` if it cannot be bound."""
    family = socket.AF_INET6 if ":" in listen.address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place = f"{listen.address}:{listen.port}"
    try:
        bound.bind((listen.address, listen.port))
    except socket.gaierror:
        bound.close()
        raise Problem(
            f"cannot listen at {place}: there is no such address", mend="say 127.0.0.1 or 0.0.0.0"
        ) from None
    except OSError as error:
        bound.close()
        hint = "say another address"
        if error.errno == errno.EADDRINUSE:
            hint = "stop what listens there, or say --port 0 for a port that is free"
        raise Problem(
            f"cannot listen at {place}: {str(error.strerror).lower()}", mend=hint
        ) from None
    return bound


def url_of(bound: socket.socket, listen: Listen) -> str:
    """The server's URL for clients on this machine."""
    port = bound.getsockname()[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen.address, listen.address)
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{'https' if listen.certificate else 'http'}://{host}:{port}"


def serve(
    make_app: Callable[[IsClosing], FastAPI],
    listen: Listen,
    limits: Limits,
    bound: socket.socket,
    on_ready: Callable[[], None],
    health: Callable[[], Health],
) -> None:
    """Answer requests until `stop`, or until ``health`` is a failure; then finish requests in progress.

    ``on_ready`` is called when requests are answered. Raises `Problem` for an invalid certificate.
    """
    _allow_descriptors(limits.connections)

    class Protocol(LimitedProtocol):
        header_seconds = limits.request
        of_all = max(1, limits.connections - _BESIDE_THE_LIMIT)
        of_a_client = limits.connections_of_a_client
        open_connections: ClassVar[dict[LimitedProtocol, str]] = {}

    server = _Server(
        uvicorn.Config(
            make_app(lambda: server.should_exit),
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            ssl_certfile=listen.certificate,
            ssl_keyfile=listen.key,
        ),
        on_ready,
        health,
    )
    try:
        server.config.load()
    except (ssl.SSLError, OSError) as error:
        raise Problem(
            f"cannot use the certificate {listen.certificate} with {listen.key}: {error}",
            mend="give a certificate and its private key, both as PEM",
        ) from None
    server.run([bound])


def _allow_descriptors(more: int) -> None:
    """Let the process open ``more`` files than now, as far as the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        wanted = soft + more if hard == resource.RLIM_INFINITY else min(soft + more, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Server(uvicorn.Server):
    """uvicorn with a callback when it is ready, whose signal handler only asks it to stop.

    It prints what becomes a problem, and stops by itself once what it serves has failed.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        health: Callable[[], Health],
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._health = health
        self._problems: tuple[str, ...] = ()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer requests, and call ``on_ready``."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop; asked ten times a second."""
        health, before = self._health(), self._problems
        self._problems = health.problems
        for problem in health.problems:
            if problem not in before and not health.failure:
                sys.stderr.write(f"warning: {problem}\n")
        return await super().on_tick(counter) or bool(health.failure)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after the requests in progress; at once on a second Ctrl-C."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
