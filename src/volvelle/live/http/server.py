"""The server: a socket, uvicorn on it, and its end by Ctrl-C or SIGTERM."""

import errno
import signal
import socket
import ssl
from collections.abc import Callable
from types import FrameType

import uvicorn

from volvelle.live.config import Listen, ServeConfig
from volvelle.live.control.controller import Controller
from volvelle.live.http.app import application
from volvelle.live.http.request_limits import PatientProtocol
from volvelle.live.store import Store
from volvelle.model.problems import Problem

LARGEST_HEADERS = 32 * 1024
GOODBYE_SECONDS = 3


def bound(listen: Listen) -> socket.socket:
    """A socket at the address. Raises `Problem` where there can be none."""
    family = socket.AF_INET6 if ":" in listen.address else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place = f"{listen.address}:{listen.port}"
    try:
        opened.bind((listen.address, listen.port))
    except socket.gaierror:
        opened.close()
        raise Problem(
            f"cannot listen at {place}: there is no such address", mend="say 127.0.0.1 or 0.0.0.0"
        ) from None
    except OSError as error:
        opened.close()
        mend = "say another address"
        if error.errno == errno.EADDRINUSE:
            mend = "stop what listens there, or say --port 0 for a port that is free"
        raise Problem(
            f"cannot listen at {place}: {str(error.strerror).lower()}", mend=mend
        ) from None
    return opened


def url_of(opened: socket.socket, listen: Listen) -> str:
    """How the server is called by those on this machine."""
    port = opened.getsockname()[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen.address, listen.address)
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{'https' if listen.certificate else 'http'}://{host}:{port}"


def serve(
    controller: Controller,
    store: Store,
    config: ServeConfig,
    opened: socket.socket,
    ready: Callable[[], None],
) -> None:
    """Answer requests until told to stop; then let those that are being answered end.

    ``ready`` is called when the first request can come. Raises `Problem` for a certificate that is none.
    """

    listen, limits = config.listen, config.limits

    class Protocol(PatientProtocol):
        header_seconds = limits.request

    server = _Server(
        uvicorn.Config(
            application(
                controller,
                store,
                limits,
                controller.site.folder,
                closing=lambda: server.should_exit,
            ),
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections,
            h11_max_incomplete_event_size=LARGEST_HEADERS,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
            ssl_certfile=listen.certificate,
            ssl_keyfile=listen.key,
        ),
        ready,
    )
    try:
        server.config.load()
    except (ssl.SSLError, OSError) as error:
        raise Problem(
            f"cannot use the certificate {listen.certificate} with {listen.key}: {error}",
            mend="give a certificate and its private key, both as PEM",
        ) from None
    server.run([opened])


class _Server(uvicorn.Server):
    """uvicorn, which says when it is ready, and leaves what is to be done at the end to be done."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End when there is nothing left to answer; a second Ctrl-C does not wait for that."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
