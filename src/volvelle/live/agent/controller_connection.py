"""The connection of an agent: dialled again and again, proved on both sides, lost without a loss."""

import asyncio
import random
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from volvelle.live.agent import wire
from volvelle.live.agent.folders import Settings
from volvelle.live.agent.processes import since_boot

_FIRST_RETRY_SECONDS = 0.05
_LAST_RETRY_SECONDS = 1.0
_INTRODUCTION_SECONDS = 5.0
_PINGS_IN_A_LEASE = 5
_MOST_WAITING_BYTES = 16 << 20


class RefusedError(Exception):
    """The controller's side does not want this agent."""


class _NotYetError(Exception):
    """The controller's side may want this agent later."""


class Link:
    """To the controller's side of ``settings``. ``joined`` is called when there is one, then ``heard``.

    complain: is told, for people, why there is none; once, however often it is dialled.
    Raises OSError where the file of authorities cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        identity: str,
        joined: Callable[[wire.Welcome], None],
        heard: Callable[[wire.ToAgent], None],
        complain: Callable[[str], None] = lambda trouble: None,
    ) -> None:
        self._settings, self._identity = settings, identity
        self._joined, self._heard, self._complain = joined, heard, complain
        self._trouble = ""
        self._writer: asyncio.StreamWriter | None = None
        self._security = (
            ssl.create_default_context(cafile=settings.authority) if settings.authority else None
        )

    @property
    def up(self) -> bool:
        """Whether there is a connection."""
        return self._writer is not None

    def say(self, message: wire.FromAgent) -> None:
        """Send ``message`` if there is a connection; what matters is said again on the next one."""
        if self._writer is None:
            return
        if self._writer.transport.get_write_buffer_size() > _MOST_WAITING_BYTES:
            self._writer.transport.abort()
            return
        self._writer.write(wire.frame(message))

    async def keep(self) -> None:
        """Dial, talk, and dial again, for ever. Raises `RefusedError`."""
        retry_seconds = _FIRST_RETRY_SECONDS
        while True:
            began = time.monotonic()
            try:
                await self._talk()
            except (OSError, asyncio.IncompleteReadError, wire.FrameError, _NotYetError) as ended:
                self._say_why(ended)
            if time.monotonic() - began > _LAST_RETRY_SECONDS:
                retry_seconds = _FIRST_RETRY_SECONDS
            await asyncio.sleep(retry_seconds * random.uniform(0.5, 1.0))
            retry_seconds = min(2 * retry_seconds, _LAST_RETRY_SECONDS)

    def _say_why(self, ended: Exception) -> None:
        trouble = f"no connection to the controller at {self._settings.connect}: {_in_words(ended)}"
        if trouble != self._trouble:
            self._trouble = trouble
            self._complain(trouble)

    async def _talk(self) -> None:
        host, port = _address(self._settings.connect)
        async with asyncio.timeout(_INTRODUCTION_SECONDS):
            reader, writer = await asyncio.open_connection(host, port, ssl=self._security)
        pings = None
        try:
            async with asyncio.timeout(_INTRODUCTION_SECONDS):
                welcome = await self._introduce(reader, writer)
            self._writer, self._trouble = writer, ""
            self._joined(welcome)
            pings = asyncio.create_task(self._ping(welcome.lease_seconds))
            while True:
                async with asyncio.timeout(wire.QUIET_SECONDS):
                    message = await wire.receive(reader, wire.to_agent)
                self._heard(message)
        finally:
            self._writer = None
            if pings is not None:
                pings.cancel()
            writer.transport.abort()

    async def _introduce(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> wire.Welcome:
        settings, nonce = self._settings, wire.nonce()
        challenge = await wire.receive(reader, wire.to_agent, wire.MOST_BYTES_OF_STRANGERS)
        if not isinstance(challenge, wire.Challenge):
            raise wire.FrameError("no challenge")
        said = challenge.nonce, nonce, settings.node.name
        proof = wire.proof(settings.token, "agent", *said)
        writer.write(
            wire.frame(
                wire.Hello(
                    version=wire.VERSION,
                    node=settings.node,
                    identity=self._identity,
                    address=settings.address,
                    nonce=nonce,
                    proof=proof,
                )
            )
        )
        answer = await wire.receive(reader, wire.to_agent, wire.MOST_BYTES_OF_STRANGERS)
        match answer:
            case wire.Welcome() if wire.proves(answer.proof, settings.token, "controller", *said):
                return answer
            case wire.Refused(reason, for_now):
                raise _NotYetError(reason) if for_now else RefusedError(reason)
        raise wire.FrameError("the other side does not know the token")

    async def _ping(self, lease_seconds: float) -> None:
        often = lease_seconds / _PINGS_IN_A_LEASE or wire.PING_SECONDS
        while True:
            self.say(wire.Ping(since_boot()))
            await asyncio.sleep(min(often, wire.PING_SECONDS))


def _in_words(ended: Exception) -> str:
    match ended:
        case ssl.SSLCertVerificationError():
            words = f"it does not prove who it is ({ended.verify_message}). "
            words += "Give --authority its certificate, or that of its authority"
        case ssl.SSLError():
            words = (
                "it does not speak TLS. Leave --authority out, or give its executor a certificate"
            )
        case TimeoutError():
            words = "it says nothing. If it speaks TLS, say --authority"
        case ConnectionRefusedError():
            words = "nobody listens there"
        case asyncio.IncompleteReadError():
            words = "it hung up"
        case OSError():
            words = ended.strerror or str(ended)
        case _:
            words = str(ended)
    return words


def _address(connect: str) -> tuple[str, int]:
    """HOST:PORT, which may stand in a file. Raises OSError."""
    written = Path(connect).read_text(encoding="utf-8") if "/" in connect else connect
    host, _, port = written.strip().rpartition(":")
    if not port.isdecimal():
        raise OSError(f"{written!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
