"""The network between agents and controller, in bad weather: a proxy that knows where a message ends.

Messages are delayed, repeated at once or later, and put after a later one about another attempt. What TCP
does not do by itself is not done either: a message that is lost takes its connection with it, as in a
network that breaks, sometimes in the middle of a message and sometimes after several were swallowed.
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
"""They open or keep a connection, and are neither repeated nor reordered."""
_MOST_SWALLOWED = 6
_LATEST_REPEAT_SECONDS = 2.0


@dataclass(frozen=True)
class Weather:
    """With what chance something happens to a message."""

    cut: float = 0.0
    swallow: float = 0.0
    delay: float = 0.0
    repeat: float = 0.0
    repeat_later: float = 0.0
    swap: float = 0.0
    most_delay_seconds: float = 0.5


CALM = Weather()
STORM = Weather(cut=0.02, swallow=0.02, delay=0.15, repeat=0.1, repeat_later=0.1, swap=0.15)


Happened = str | None
"""A fault that was injected, in words; None where there was nothing to break."""


class Severed(Exception):  # noqa: N818 - it is what happened
    """This connection ends here."""


@dataclass
class Link:
    """The way from one node's agent to the controller. ``port``: where the agent dials."""

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
        self.weather = CALM
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
        """Let nothing through any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def sever(self, name: str) -> None:
        """End the connections of a node; it may dial again."""
        self._loop.call_soon_threadsafe(self._sever, self.links[name])

    def shut(self, name: str) -> None:
        """Cut a node off until `reopen`."""
        self.links[name].open = False
        self.sever(name)

    def reopen(self, name: str) -> None:
        """Let a node through again."""
        self.links[name].open = True

    def _sever(self, link: Link) -> None:
        for writer in link.writers:
            writer.transport.abort()

    def _server_of(self, link: Link) -> Callable[..., Any]:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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

        return meet

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One way of a connection, to its end."""
        held: tuple[Any, bytes] | None = None
        async for frame in _frames(reader):
            self._frame()
            kind, about = _subject(frame)
            if kind in _CONNECTION_MESSAGES:
                writer.write(frame)
            elif held is None and self._happens("swap"):
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
        if self._happens("delay"):
            self.injected["message delayed"] += 1
            await asyncio.sleep(self._rng.uniform(0.0, self.weather.most_delay_seconds))
        if self._happens("cut"):
            self.injected["connection cut within a message"] += 1
            writer.write(frame[: self._rng.randrange(len(frame))])
            await writer.drain()
            raise Severed
        if self._happens("swallow"):
            await self._swallow(reader)
        writer.write(frame)
        if self._happens("repeat"):
            self.injected["message repeated at once"] += 1
            writer.write(frame)
        if self._happens("repeat_later"):
            seconds = self._rng.uniform(0.0, _LATEST_REPEAT_SECONDS)
            self._loop.call_later(seconds, self._again, writer, frame)

    def _again(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        if not writer.transport.is_closing():
            self.injected["message repeated later"] += 1
            writer.write(frame)

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        """Let a message vanish, and maybe those after it, and with them the connection."""
        self.injected["message lost"] += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                more = self._rng.randrange(_MOST_SWALLOWED)
                async for _ in _frames(reader):
                    if more == 0:
                        break
                    more -= 1
                    self.injected["message lost"] += 1
        raise Severed

    def _happens(self, what: str) -> bool:
        chance: float = getattr(self.weather, what)
        return self._rng.random() < chance


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            head = await reader.readexactly(4)
            yield head + await reader.readexactly(int.from_bytes(head))


def _subject(frame: bytes) -> tuple[str, Any]:
    """The kind of a message, and the attempt that it is about."""
    message = msgspec.json.decode(frame[4:])
    inner = message.get("task") or message.get("start") or message
    return message["type"], (inner.get("number"), inner.get("attempt"))
