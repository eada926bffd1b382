"""The agent's connection to the agents server: authenticated on both sides, reconnects when it breaks."""

import asyncio
import random
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from volvelle.live.agent import wire
from volvelle.live.agent.folders import AgentSettings
from volvelle.live.agent.node_key import (
    ask_to_join,
    channel_of,
    prove_key,
    transcript_of,
    verifier_is_proven,
)
from volvelle.live.agent.processes import since_boot

_FIRST_RETRY_SECONDS = 0.05
_LAST_RETRY_SECONDS = 1.0
_HANDSHAKE_SECONDS = 5.0
_PINGS_IN_A_LEASE = 5
_MAX_UNSENT_BYTES = 16 << 20


class RefusedError(Exception):
    """The server does not accept this agent."""


class _RetryLaterError(Exception):
    """The server may accept this agent later."""


class ControllerConnection:
    """Connects to the server of ``settings``. Calls ``on_welcome`` after each handshake, then ``on_message``.

    on_problem: called with a message for people why there is no connection, once per reason.
    Raises OSError if the file of trusted certificates cannot be read.
    """

    def __init__(
        self,
        settings: AgentSettings,
        identity: str,
        on_welcome: Callable[[wire.Welcome], None],
        on_message: Callable[[wire.ToAgent], None],
        on_problem: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._settings, self._identity = settings, identity
        self._start = wire.new_nonce()
        self._on_welcome, self._on_message = on_welcome, on_message
        self._on_problem = on_problem
        self._last_problem = ""
        self._writer: asyncio.StreamWriter | None = None
        self._security = (
            ssl.create_default_context(cafile=settings.authority) if settings.authority else None
        )

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._writer is not None

    def send(self, message: wire.FromAgent) -> None:
        """Send ``message`` if connected; state is sent again on the next connection."""
        if self._writer is None:
            return
        if self._writer.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self._writer.transport.abort()
            return
        self._writer.write(wire.frame(message))

    async def run(self) -> None:
        """Connect, and connect again whenever the connection ends. Raises `RefusedError`."""
        retry_seconds = _FIRST_RETRY_SECONDS
        while True:
            began = time.monotonic()
            try:
                await self._session()
            except (
                OSError,
                asyncio.IncompleteReadError,
                wire.FrameError,
                _RetryLaterError,
            ) as error:
                self._report(error)
            if time.monotonic() - began > _LAST_RETRY_SECONDS:
                retry_seconds = _FIRST_RETRY_SECONDS
            await asyncio.sleep(retry_seconds * random.uniform(0.5, 1.0))
            retry_seconds = min(2 * retry_seconds, _LAST_RETRY_SECONDS)

    def _report(self, error: Exception) -> None:
        connect = self._settings.connect
        problem = f"no connection to the controller at {connect}: {_description(error)}"
        if problem != self._last_problem:
            self._last_problem = problem
            self._on_problem(problem)

    async def _session(self) -> None:
        host, port = _address(self._settings.connect)
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            reader, writer = await asyncio.open_connection(host, port, ssl=self._security)
        pings = None
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                welcome = await self._handshake(reader, writer)
            self._writer, self._last_problem = writer, ""
            self._on_welcome(welcome)
            pings = asyncio.create_task(self._ping(welcome.lease_seconds))
            while True:
                async with asyncio.timeout(wire.SILENCE_SECONDS):
                    message = await wire.receive(reader, wire.to_agent)
                self._on_message(message)
        finally:
            self._writer = None
            if pings is not None:
                pings.cancel()
            writer.transport.abort()

    async def _handshake(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> wire.Welcome:
        settings, nonce = self._settings, wire.new_nonce()
        challenge = await wire.receive(reader, wire.to_agent, wire.MAX_HANDSHAKE_BYTES)
        if not isinstance(challenge, wire.Challenge):
            raise wire.FrameError("no challenge")
        tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        channel = channel_of(tls.getpeercert(binary_form=True) or b"") if tls else ""
        transcript = transcript_of(challenge.nonce, nonce, settings.node.name, channel)
        hello = wire.Hello(
            version=wire.VERSION,
            node=settings.node,
            identity=self._identity,
            start=self._start,
            address=settings.address,
            nonce=nonce,
            channel=channel,
            proof=prove_key(settings.key, *transcript),
            join=ask_to_join(settings.token, settings.key, *transcript) if settings.token else "",
        )
        writer.write(wire.frame(hello))
        answer = await wire.receive(reader, wire.to_agent, wire.MAX_HANDSHAKE_BYTES)
        match answer:
            case wire.Welcome(given) if verifier_is_proven(given, settings.key, *transcript):
                return answer
            case wire.Refused(reason, retry):
                raise _RetryLaterError(reason) if retry else RefusedError(reason)
        raise wire.FrameError("the other side does not know our key")

    async def _ping(self, lease_seconds: float) -> None:
        interval = lease_seconds / _PINGS_IN_A_LEASE or wire.PING_SECONDS
        while True:
            self.send(wire.Ping(since_boot()))
            await asyncio.sleep(min(interval, wire.PING_SECONDS))


def _description(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            text = f"its certificate is not trusted ({error.verify_message}). "
            text += "Give --authority its certificate, or that of its authority"
        case ssl.SSLError():
            text = "it does not use TLS. Leave --authority out, or give its executor a certificate"
        case TimeoutError():
            text = "it sends nothing. If it uses TLS, give --authority"
        case ConnectionRefusedError():
            text = "nobody listens there"
        case asyncio.IncompleteReadError():
            text = "it hung up"
        case OSError():
            text = error.strerror or str(error)
        case _:
            text = str(error)
    return text


def _address(connect: str) -> tuple[str, int]:
    """HOST:PORT, or the content of a file. Raises OSError."""
    text = Path(connect).read_text(encoding="utf-8") if "/" in connect else connect
    host, _, port = text.strip().rpartition(":")
    if not port.isdecimal():
        raise OSError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
