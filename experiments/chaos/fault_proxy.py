"""A proxy between agents and controller that injects faults, message by message.

Messages are delayed, repeated at once or later, and put after a later one about another attempt. Faults
that TCP excludes are excluded here too: a message is lost only with its connection, as in a network that
breaks, sometimes in the middle of a message and sometimes after several lost ones.
"""

import asyncio
import contextlib
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

_CONNECTION_MESSAGES = {
    "challenge", "hello", "welcome", "refused", "node-inventory", "ping", "pong", "renew-lease",
    "lease-renewal",
}  # fmt: skip
"""Messages about the connection itself, neither repeated nor reordered."""
_MAX_DROPPED = 6
_MAX_REPEAT_SECONDS = 2.0


@dataclass(frozen=True)
class FaultRates:
    """Probabilities of faults of a message."""

    cut: float = 0.0
    drop: float = 0.0
    delay: float = 0.0
    repeat: float = 0.0
    repeat_later: float = 0.0
    swap: float = 0.0
    max_delay_seconds: float = 0.5


NO_FAULTS = FaultRates()
FREQUENT_FAULTS = FaultRates(
    cut=0.02, drop=0.02, delay=0.15, repeat=0.1, repeat_later=0.1, swap=0.15
)


InjectedFault = str | None
"""An injected fault, in words; None if it was impossible."""


class ConnectionCut(Exception):  # noqa: N818 - not an error
    """The connection is closed on purpose."""


@dataclass
class Link:
    """The link of one node's agent to the controller. ``port``: to which the agent connects."""

    name: str
    port: int = 0
    open: bool = True
    writers: set[asyncio.StreamWriter] = field(default_factory=set)


class FaultProxy:
    """A link for each node of ``names`` to ``port`` of this machine, in a thread of its own.

    ``frame``: called for each message that arrives.
    """

    def __init__(
        self, names: list[str], port: int, rng: random.Random, frame: Callable[[], None]
    ) -> None:
        self.rates = NO_FAULTS
        self.injected: Counter[str] = Counter()
        self._rng, self._port, self._frame = rng, port, frame
        self._later: set[asyncio.TimerHandle] = set()
        self._loop = asyncio.new_event_loop()
        self.links = {name: Link(name) for name in names}
        for link in self.links.values():
            serve = asyncio.start_server(self._server_of(link), "127.0.0.1", 0)
            server = self._loop.run_until_complete(serve)
            link.port = server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the proxy."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def disconnect(self, name: str) -> None:
        """Close the connections of a node; it may connect again."""
        self._loop.call_soon_threadsafe(self._disconnect, self.links[name])

    def block(self, name: str) -> None:
        """Let nothing of a node through until `unblock`."""
        self.links[name].open = False
        self.disconnect(name)

    def unblock(self, name: str) -> None:
        """Let a node through again."""
        self.links[name].open = True

    def _disconnect(self, link: Link) -> None:
        for writer in link.writers:
            writer.transport.abort()

    def _server_of(self, link: Link) -> Callable[..., Any]:
        async def serve_connection(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            there = None
            try:
                if not link.open:
                    return
                onward, there = await asyncio.open_connection("127.0.0.1", self._port)
                link.writers |= {writer, there}
                ways = [self._carry(reader, there), self._carry(onward, writer)]
                done, left = await asyncio.wait(
                    [asyncio.ensure_future(way) for way in ways],
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in left:
                    task.cancel()
                await asyncio.gather(*done, *left, return_exceptions=True)
            except OSError:  # nobody listens there
                pass
            finally:
                for end in (writer, there):
                    if end is not None:
                        link.writers.discard(end)
                        end.transport.abort()

        return serve_connection

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One way of a connection, to its end."""
        held: tuple[Any, bytes] | None = None
        async for frame in _frames(reader):
            self._frame()
            kind, about = _subject(frame)
            if kind in _CONNECTION_MESSAGES:
                writer.write(frame)
            elif held is None and self._decide("swap"):
                held = about, frame
                continue
            elif held is not None and held[0] == about:
                writer.write(held[1])
                held = None
                await self._pass_on(frame, reader, writer)
            else:
                await self._pass_on(frame, reader, writer)
            if held is not None:
                self.injected["message put after a later one"] += 1
                writer.write(held[1])
                held = None
            await writer.drain()

    async def _pass_on(
        self, frame: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._decide("delay"):
            self.injected["message delayed"] += 1
            await asyncio.sleep(self._rng.uniform(0.0, self.rates.max_delay_seconds))
        if self._decide("cut"):
            self.injected["connection cut within a message"] += 1
            writer.write(frame[: self._rng.randrange(len(frame))])
            await writer.drain()
            raise ConnectionCut
        if self._decide("drop"):
            await self._drop(reader)
        writer.write(frame)
        if self._decide("repeat"):
            self.injected["message repeated at once"] += 1
            writer.write(frame)
        if self._decide("repeat_later"):
            seconds = self._rng.uniform(0.0, _MAX_REPEAT_SECONDS)
            self._loop.call_later(seconds, self._again, writer, frame)

    def _again(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        if not writer.transport.is_closing():
            self.injected["message repeated later"] += 1
            writer.write(frame)

    async def _drop(self, reader: asyncio.StreamReader) -> None:
        """Drop a message, maybe some after it, and close the connection."""
        self.injected["message lost"] += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                more = self._rng.randrange(_MAX_DROPPED)
                async for _ in _frames(reader):
                    if more == 0:
                        break
                    more -= 1
                    self.injected["message lost"] += 1
        raise ConnectionCut

    def _decide(self, fault: str) -> bool:
        probability: float = getattr(self.rates, fault)
        return self._rng.random() < probability


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            head = await reader.readexactly(4)
            yield head + await reader.readexactly(int.from_bytes(head))


def _subject(frame: bytes) -> tuple[str, Any]:
    """The kind of a message, and its attempt."""
    message = msgspec.json.decode(frame[4:])
    inner = message.get("task") or message.get("start") or message
    return message["type"], (inner.get("number"), inner.get("attempt"))
