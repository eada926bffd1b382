"""The controller's side of the agents: a server into which they dial, in a thread of its own.

It proves and lets in, hands what agents say to `Gangs`, and takes from there what they are to be told.
Nothing waits for anybody: who does not read is cut off and comes back, and then learns how things stand.
"""

import asyncio
import contextlib
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from volvelle.live.agent import wire
from volvelle.live.messages import NodeLost, Order, Report
from volvelle.live.nodes.attempt_coordinator import Gangs
from volvelle.live.nodes.current_agents import Speakers
from volvelle.live.nodes.log_fetcher import LogFetcher
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.model.node import Node
from volvelle.model.problems import Problem

_MOST_WAITING_BYTES = 64 << 20
_MARGIN_SECONDS = 2 * wire.QUIET_SECONDS
"""After a lease has run out by our clock: keepers look once a second, killing takes its time."""


@dataclass
class _Guest:
    """The agent of a node that is connected."""

    identity: str
    writer: asyncio.StreamWriter


class AgentsServer:
    """Listens at ``host``:``port`` (0: any) for the agents of ``nodes`` and of those that are ``leaving``.

    lease_seconds: how long an agent that hears nothing lets its jobs run; after that and a margin its node is
    reported as lost. 0: for ever; then somebody else has to know when a node is lost, and say `lost`.
    speakers: who spoke last for each node. Another, who knows nothing of what that one began, is let in only
    once that is over. None: no other ever comes.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        token: str,
        report: Callable[[Report], None],
        *,
        leaving: Iterable[Node] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        lease_seconds: float = 0.0,
        speakers: Speakers | None = None,
        security: ssl.SSLContext | None = None,
    ) -> None:
        nodes, leaving = tuple(nodes), tuple(leaving)
        self._nodes = {node.name: node for node in (*nodes, *leaving)}
        self._token, self._lease_seconds, self._speakers = token, lease_seconds, speakers
        self._patience_seconds = lease_seconds + _MARGIN_SECONDS
        self._report = report
        self._orders: deque[Order] = deque()
        self._gangs = Gangs(nodes, report, self._tell, leaving)
        self._guests: dict[str, _Guest] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._last_heard = dict.fromkeys(self._nodes, time.monotonic())
        self._loop = asyncio.new_event_loop()
        self._fetcher = LogFetcher(self._nodes, self._loop, self._tell)
        self._server = self._listen(host, port, security)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._work, name="agents", daemon=True)
        self._thread.start()

    @property
    def logs(self) -> NodeLogs:
        """What jobs wrote on the nodes, asked of their agents."""
        return self._fetcher

    def send(self, order: Order) -> None:
        """Carry ``order`` out as soon as its nodes are there; returns at once, from any thread."""
        self._orders.append(order)
        with contextlib.suppress(RuntimeError):  # closed: the next to open is told again
            self._loop.call_soon_threadsafe(self._carry_out)

    def know(self, node: Node) -> None:
        """Let the agent of ``node`` in too, once it dials; from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._know, node)

    def lost(self, name: str, reason: str, *, for_good: bool = False) -> None:
        """A node is gone and nothing on it runs; from any thread. ``for_good``: until we `know` it again."""
        with contextlib.suppress(RuntimeError):
            if for_good:
                self._loop.call_soon_threadsafe(self._nodes.pop, name, None)
            self._loop.call_soon_threadsafe(self._lost, name, reason)

    def hears(self, name: str) -> bool:
        """Whether the agent of a node is connected; from any thread."""
        return name in self._guests

    def release(self, name: str, reason: str) -> bool:
        """A node is given up for good, if nothing of ours is there; whether so. From any other thread."""
        answer: Future[bool] = Future()

        def decide() -> None:
            free = not self._gangs.uses(name)
            if free:
                self._nodes.pop(name, None)
                self._lost(name, reason)
            answer.set_result(free)

        self._loop.call_soon_threadsafe(decide)
        return answer.result()

    def close(self) -> None:
        """Let go; agents and jobs go on."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    # ------------------------------------------------------------------ the thread

    def _listen(self, host: str, port: int, security: ssl.SSLContext | None) -> asyncio.Server:
        starting = asyncio.start_server(self._meet, host, port, ssl=security, backlog=1024)
        try:
            return self._loop.run_until_complete(starting)
        except OSError as error:
            self._loop.close()
            raise Problem(
                f"cannot listen for agents at {host}:{port}: {error.strerror}",
                mend="choose another address or port",
            ) from None

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        leases = self._loop.create_task(self._mind_leases()) if self._lease_seconds else None
        try:
            self._loop.run_forever()
        finally:
            if leases is not None:
                leases.cancel()
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()
            ending = asyncio.gather(*asyncio.all_tasks(self._loop), return_exceptions=True)
            self._loop.run_until_complete(ending)
            self._loop.close()

    async def _mind_leases(self) -> None:
        """Report the nodes that were not heard of until nothing on them can run any more."""
        while True:
            await asyncio.sleep(min(1.0, self._lease_seconds / 10))
            now = time.monotonic()
            for name, heard in list(self._last_heard.items()):
                if name not in self._guests and now - heard > self._patience_seconds:
                    self._lost(name, f"not heard of for {now - heard:.0f} s")

    def _know(self, node: Node) -> None:
        self._nodes[node.name] = node
        self._last_heard[node.name] = time.monotonic()
        self._gangs.know(node)

    def _carry_out(self) -> None:
        while self._orders:
            self._gangs.order(self._orders.popleft())

    def _lost(self, name: str, reason: str) -> None:
        """Say so, and only then lose with the node what it was told before that: nobody counts on it."""
        self._last_heard.pop(name, None)
        if guest := self._guests.pop(name, None):
            guest.writer.transport.abort()
            self._fetcher.away(name)
        self._report(NodeLost(name, reason))
        self._carry_out()
        self._gangs.lost(name, reason)

    def _tell(self, name: str, message: wire.ToAgent) -> None:
        """To the agent of a node, if it is connected."""
        guest = self._guests.get(name)
        if guest is None or guest.writer.transport.is_closing():
            return
        guest.writer.write(wire.frame(message))
        if guest.writer.transport.get_write_buffer_size() > _MOST_WAITING_BYTES:
            guest.writer.transport.abort()

    # ------------------------------------------------------------------ one connection

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk with whoever dialled in, until it goes, is silent or makes no sense."""
        self._writers.add(writer)
        try:
            with contextlib.suppress(
                OSError, TimeoutError, asyncio.IncompleteReadError, wire.FrameError
            ):
                async with asyncio.timeout(wire.QUIET_SECONDS):
                    hello = await self._let_in(reader, writer)
                    here = await wire.receive(reader, wire.from_agent) if hello else None
                if hello is not None and isinstance(here, wire.Here):
                    await self._host(hello, here, reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _let_in(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> wire.Hello | None:
        nonce = wire.nonce()
        writer.write(wire.frame(wire.Challenge(nonce)))
        hello = await wire.receive(reader, wire.from_agent, wire.MOST_BYTES_OF_STRANGERS)
        if not isinstance(hello, wire.Hello):
            return None
        said = nonce, hello.nonce, hello.node.name
        never = self._objection(hello, said)
        if refused := never or self._reservation(hello):
            writer.write(wire.frame(wire.Refused(refused, for_now=not never)))
            await writer.drain()
            return None
        proof = wire.proof(self._token, "controller", *said)
        writer.write(wire.frame(wire.Welcome(proof, self._lease_seconds)))
        return hello

    def _objection(self, hello: wire.Hello, said: tuple[str, ...]) -> str:
        """Why this agent is not wanted; empty: it is."""
        if not wire.proves(hello.proof, self._token, "agent", *said):
            return "the token is not that of this site"
        if hello.version != wire.VERSION:
            return f"the agent speaks version {hello.version}, the controller {wire.VERSION}"
        wanted = self._nodes.get(hello.node.name)
        if wanted is None:
            return f"the cluster has no node {hello.node.name!r}"
        if (wanted.gpus, wanted.gpu_type) != (hello.node.gpus, hello.node.gpu_type):
            return (
                f"node {wanted.name!r} is to have {wanted.gpus} GPUs of type {wanted.gpu_type!r}, "
                f"the agent has {hello.node.gpus} of {hello.node.gpu_type!r}"
            )
        guest = self._guests.get(wanted.name)
        if guest is not None and guest.identity != hello.identity:
            return f"another agent speaks for node {wanted.name!r}"
        return ""

    def _reservation(self, hello: wire.Hello) -> str:
        """Why this agent is not wanted yet; empty: it is. Raises OSError where that cannot be read."""
        name = hello.node.name
        known = self._speakers is None or not self._speakers.another(name, hello.identity)
        if known or name not in self._last_heard or not self._gangs.may_use(name):
            return ""
        return (
            f"the agent of another folder spoke for node {name!r}, and its jobs may run "
            f"until its lease has run out, in {self._patience_seconds:.0f} s at most"
        )

    async def _host(
        self,
        hello: wire.Hello,
        here: wire.Here,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Listen to an agent that was let in. Raises OSError where it is not noted who it is."""
        name = hello.node.name
        if self._speakers is not None:
            self._speakers.note(name, hello.identity)
        if before := self._guests.get(name):
            before.writer.transport.abort()
        guest = self._guests[name] = _Guest(hello.identity, writer)
        self._last_heard[name] = time.monotonic()
        address = hello.address or writer.get_extra_info("peername")[0]
        try:
            self._gangs.joined(name, address, here.parts)
            self._fetcher.joined(name)
            while True:
                async with asyncio.timeout(wire.QUIET_SECONDS):
                    message = await wire.receive(reader, wire.from_agent)
                if self._guests.get(name) is not guest:
                    return
                self._last_heard[name] = time.monotonic()
                if isinstance(message, wire.Ping):
                    self._tell(name, wire.Pong(message.at))
                elif isinstance(message, wire.LogSizes | wire.LogPiece):
                    self._fetcher.answered(name, message)
                else:
                    self._gangs.said(name, message)
        finally:
            if self._guests.get(name) is guest:
                del self._guests[name]
                self._gangs.away(name)
                self._fetcher.away(name)
