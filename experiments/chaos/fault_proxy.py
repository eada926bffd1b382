"""A proxy between agents and controller that injects faults, message by message.

Messages are delayed, repeated at once or later, and put after a later one about another attempt. Faults
that TCP excludes are excluded here too: a message is lost only with its connection, as in a network that
breaks, sometimes in the middle of a message and sometimes after several lost ones. What a hostile agent would
say is put in between: that a part of a job has ended which runs on another node.
"""

import asyncio
import contextlib
import random
import threading
from collections import Counter, defaultdict, deque
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
_FORGED_LATER = 0.3
_NEVER_REACHED = 1000
"""Attempts ahead of those that are ordered."""


@dataclass(frozen=True)
class FaultRates:
    """Probabilities of faults of a message. ``request``: of any fault of a user's request."""

    cut: float = 0.0
    drop: float = 0.0
    delay: float = 0.0
    repeat: float = 0.0
    repeat_later: float = 0.0
    swap: float = 0.0
    forge: float = 0.0
    request: float = 0.0
    max_delay_seconds: float = 0.5


NO_FAULTS = FaultRates()
FREQUENT_FAULTS = FaultRates(
    cut=0.02, drop=0.02, delay=0.3, repeat=0.5, repeat_later=0.5, swap=0.4, forge=0.3, request=0.3
)


InjectedFault = str | None
"""An injected fault, in words; None if it was impossible."""


class ConnectionCut(Exception):  # noqa: N818 - not an error
    """The connection is closed on purpose."""


@dataclass
class Link:
    """A link of agents to the controller at ``target``. ``port``: to which agents connect."""

    name: str
    port: int = 0
    target: tuple[str, int] | None = None
    open: bool = True
    writers: set[asyncio.StreamWriter] = field(default_factory=set)


@dataclass
class Session:
    """What is known of one connection. ``node``: of its agent."""

    node: str = ""


class FaultProxy:
    """A link for each of ``names`` to its target, in a thread of its own.

    ``frame``: called for each message that arrives.
    """

    def __init__(self, names: list[str], rng: random.Random, frame: Callable[[], None]) -> None:
        self.rates = NO_FAULTS
        self.injected: Counter[str] = Counter()
        self._rng, self._frame = rng, frame
        self._started: dict[str, deque[dict[str, Any]]] = defaultdict(lambda: deque(maxlen=3))
        """The last parts of jobs that the agents of nodes were told to start."""
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
                if not link.open or link.target is None:
                    return
                onward, there = await asyncio.open_connection(*link.target)
                link.writers |= {writer, there}
                session = Session()
                ways = [
                    self._carry(reader, there, session, from_agent=True),
                    self._carry(onward, writer, session, from_agent=False),
                ]
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

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        session: Session,
        *,
        from_agent: bool,
    ) -> None:
        """One way of a connection, to its end."""
        held: tuple[Any, bytes] | None = None
        async for frame in _frames(reader):
            self._frame()
            message = msgspec.json.decode(frame[4:])
            kind, about = _subject(message)
            if kind == "hello":
                session.node = message["node"]["name"]
            elif kind == "start-task":
                self._started[session.node].append(message)
            elif from_agent and kind != "node-inventory" and self._decide("forge"):
                self._forge(session.node, writer)
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

    def _forge(self, node: str, writer: asyncio.StreamWriter) -> None:
        """Report in the name of a node that part of a job has ended, or will, which runs on another one.

        Or of a later attempt of that job, which was never ordered.
        """
        own = [each["start"]["number"] for each in self._started[node]]
        others = [
            each
            for other, started in self._started.items()
            for each in started
            if other != node and each["start"]["number"] not in own
        ]
        if not others:
            return
        order = self._rng.choice(others)
        start = order["start"]
        attempt = {name: start[name] for name in ("number", "attempt", "identity")}
        later = self._rng.random() < _FORGED_LATER
        attempt["attempt"] += _NEVER_REACHED if later else 0
        claimed = [[node]] if later else [[grant["node"] for grant in start["grants"]], [node]]
        nodes = self._rng.choice(claimed)
        task = attempt | {"rank": 0 if later else order["rank"], "nodes": nodes}
        forged = self._rng.choice(
            [
                {"type": "task-ended", "task": task, "outcome": "finished", "exit_code": 0},
                {"type": "task-started", "task": task, "port": 1},
                {"type": "exit-at", "iteration": 1} | attempt,
                {"type": "attempt-progress", "iterations": 9, "saved_iterations": 9} | attempt,
            ]
        )
        body = msgspec.json.encode(forged)
        writer.write(len(body).to_bytes(4) + body)
        what = "of an attempt never ordered" if later else "for another node"
        self.injected[f"report forged {what}"] += 1

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


def _subject(message: dict[str, Any]) -> tuple[str, Any]:
    """The kind of a message, and its attempt."""
    if message["type"] in _CONNECTION_MESSAGES:
        return message["type"], None
    inner = message.get("task") or message.get("start") or message
    return message["type"], (inner.get("number"), inner.get("attempt"))
