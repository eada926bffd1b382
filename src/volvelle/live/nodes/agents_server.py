"""The server into which agents dial, in a thread of its own.

It authenticates agents, passes their messages to the `AttemptCoordinator`, and sends the coordinator's
messages to them. Nothing waits for an agent: one that does not read is disconnected, comes back, and then
receives the present state.
"""

import asyncio
import contextlib
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import MappingProxyType

from volvelle.live.agent import wire
from volvelle.live.agent.node_key import prove_verifier, transcript_of
from volvelle.live.messages import AttemptKey, JournalPosition, NodeLost, Order, Report
from volvelle.live.nodes.agent_connection import AgentConnection, refusal
from volvelle.live.nodes.attempt_coordinator import AttemptCoordinator
from volvelle.live.nodes.current_agents import CurrentAgents
from volvelle.live.nodes.log_fetcher import LogFetcher
from volvelle.live.nodes.node_keys import NodeKeys, another_key, check_key
from volvelle.live.nodes.node_logs import NodeLogs
from volvelle.live.nodes.served_tls import ServedTls
from volvelle.live.uploads import Uploads
from volvelle.model.node import Node
from volvelle.model.problems import Problem

_MAX_UNSENT_BYTES = 64 << 20
_KEYS_SECONDS = 2.0
"""So often the keys in use are looked up, for revoked ones."""

_UPLOAD_CHUNK_BYTES = 1 << 20
_MAX_STRANGERS = 64
"""Connections beside one for each node of which it is not known yet whose they are."""

_LEASE_MARGIN_SECONDS = 2 * wire.SILENCE_SECONDS
"""After a lease has expired by our clock: supervisors check once a second, and killing takes time."""


class AgentsServer:
    """Listens at ``host``:``port`` (0: any) for the agents of ``nodes`` and of those that are ``leaving``.

    keys: an agent is accepted for the node whose key it has, for as long as that is valid.
    lease_seconds: how long an agent without contact lets its jobs run; after that and a margin its node is
    reported lost. 0: for ever; then the caller has to know when a node is lost, and call `node_lost`.
    current_agents: the last agent of each node. An agent with another folder does not know the attempts of
    the last one, and is accepted only once these have ended and the node ``is_down`` by the journal: else
    orders that were carried out would be repeated to it. Without leases it is on the same machine, and has
    ended the jobs there (`run_agent`). None: the folder of a node never changes.
    position: how far the journal is written, for agents to remember. placed: see `AttemptCoordinator`.
    uploads: working directories of jobs; None: there are none. tell: takes a line when an agent comes, goes.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        keys: NodeKeys,
        report: Callable[[Report], None],
        *,
        leaving: Iterable[Node] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        lease_seconds: float = 0.0,
        current_agents: CurrentAgents | None = None,
        tls: ServedTls | None = None,
        position: Callable[[], JournalPosition | None] = lambda: None,
        placed: Mapping[AttemptKey, tuple[str, ...]] = MappingProxyType({}),
        is_down: Callable[[str], bool] = lambda name: True,
        uploads: Uploads | None = None,
        tell: Callable[[str], None] = lambda said: None,
    ) -> None:
        nodes, leaving = tuple(nodes), tuple(leaving)
        self._nodes = {node.name: node for node in (*nodes, *leaving)}
        self._keys, self._current_agents = keys, current_agents
        self._lease_seconds = lease_seconds
        self._lost_after_seconds = lease_seconds + _LEASE_MARGIN_SECONDS
        self._report = report
        self._position, self._is_down, self._uploads = position, is_down, uploads
        self._orders: deque[Order | Node] = deque()
        """Orders, and nodes that are known from then on."""
        self._coordinator = AttemptCoordinator(nodes, report, self._send_to_agent, leaving, placed)
        self._connections: dict[str, AgentConnection] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._strangers: dict[asyncio.StreamWriter, None] = {}
        """Connections of which it is not known yet whose they are, the oldest first."""
        self._last_contact = dict.fromkeys(self._nodes, time.monotonic())
        self._loop = asyncio.new_event_loop()
        self._log_fetcher = LogFetcher(self._nodes, self._loop, self._send_to_agent, tell)
        self._channel = tls.channel if tls else ""
        self._server = self._listen(host, port, tls.context if tls else None)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="agents", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ from any thread

    @property
    def logs(self) -> NodeLogs:
        """Job logs, fetched from the agents."""
        return self._log_fetcher

    def send(self, order: Order) -> None:
        """Carry ``order`` out as soon as its nodes are connected. Returns at once."""
        self._enqueue(order)

    def add_node(self, node: Node) -> None:
        """Accept the agent of ``node`` too, before orders that are sent later."""
        self._enqueue(node)

    def _enqueue(self, what: Order | Node) -> None:
        self._orders.append(what)
        with contextlib.suppress(RuntimeError):  # closed: the next server receives the order again
            self._loop.call_soon_threadsafe(self._process_orders)

    def node_lost(self, name: str, reason: str, *, permanent: bool = False) -> None:
        """A node is lost and nothing on it runs. ``permanent``: its agent is refused until `add_node`."""
        with contextlib.suppress(RuntimeError):
            if permanent:
                self._loop.call_soon_threadsafe(self._nodes.pop, name, None)
            self._loop.call_soon_threadsafe(self._node_lost, name, reason)

    def task_ended(self, name: str, ended: wire.TaskEnded) -> None:
        """The task of a node has certainly ended, and its agent has not said so."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._coordinator.end_task, name, ended)

    def dismiss(self, name: str) -> None:
        """The agent of a node is not needed any more, once it has no job."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send_to_agent, name, wire.Dismissed())

    def remove_node(self, name: str) -> None:
        """A node is gone for good, and all attempts on it are forgotten."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._remove_node, name)

    def is_connected(self, name: str) -> bool:
        """Whether the agent of a node is connected."""
        return name in self._connections

    def release_node(self, name: str, reason: str) -> bool:
        """Give a node up for good if no attempt is on it. Returns whether so, after the server decided."""
        released: Future[bool] = Future()

        def decide() -> None:
            unused = not self._coordinator.in_use(name)
            if unused:
                self._nodes.pop(name, None)
                self._node_lost(name, reason)
            released.set_result(unused)

        self._loop.call_soon_threadsafe(decide)
        return released.result()

    def close(self, *, dismiss: bool = False) -> None:
        """Stop the server. Jobs go on, and agents, unless idle ones are to ``dismiss``."""

        def stop() -> None:
            for name in list(self._connections) if dismiss else ():
                self._send_to_agent(name, wire.Dismissed())
            self._loop.stop()

        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(stop)
        self._thread.join()

    # ------------------------------------------------------------------ the thread

    def _listen(self, host: str, port: int, security: ssl.SSLContext | None) -> asyncio.Server:
        starting = asyncio.start_server(
            self._handle_connection, host, port, ssl=security, backlog=1024
        )
        try:
            return self._loop.run_until_complete(starting)
        except OSError as error:
            self._loop.close()
            raise Problem(
                f"cannot listen for agents at {host}:{port}: {error.strerror}",
                mend="choose another address or port",
            ) from None

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        checks = [self._loop.create_task(self._check_keys())]
        if self._lease_seconds:
            checks.append(self._loop.create_task(self._check_leases()))
        try:
            self._loop.run_forever()
        finally:
            for check in checks:
                check.cancel()
            self._server.close()
            self._log_fetcher.end()
            for writer in self._writers:
                writer.transport.abort()
            ending = asyncio.gather(*asyncio.all_tasks(self._loop), return_exceptions=True)
            self._loop.run_until_complete(ending)
            self._loop.close()

    async def _check_leases(self) -> None:
        """Report nodes without contact as lost, once nothing on them can run any more."""
        while True:
            await asyncio.sleep(min(1.0, self._lease_seconds / 10))
            now = time.monotonic()
            for name, contact in list(self._last_contact.items()):
                if name not in self._connections and now - contact > self._lost_after_seconds:
                    silent = now - contact
                    ago = silent - self._lease_seconds  # by then all on it had ended
                    self._node_lost(name, f"no contact for {silent:.0f} s", ago)

    async def _check_keys(self) -> None:
        """Disconnect agents whose keys are not valid any more; they are refused when they come back."""
        while True:
            await asyncio.sleep(_KEYS_SECONDS)
            used = {name: each.verifier for name, each in self._connections.items()}
            for name in await asyncio.to_thread(self._keys.invalid, used):
                connection = self._connections.get(name)
                if connection is not None and connection.verifier == used[name]:
                    connection.writer.transport.abort()

    def _remove_node(self, name: str) -> None:
        for known in (self._nodes, self._last_contact):
            known.pop(name, None)
        if connection := self._connections.pop(name, None):
            connection.writer.transport.abort()
            self._log_fetcher.node_disconnected(name)
        self._coordinator.remove_node(name)

    def _process_orders(self) -> None:
        while self._orders:
            match self._orders.popleft():
                case Node() as node:
                    self._nodes[node.name] = node
                    self._last_contact[node.name] = time.monotonic()
                    self._coordinator.add_node(node)
                case order:
                    self._coordinator.order(order)

    def _node_lost(self, name: str, reason: str, ago: float | None = None) -> None:
        """Report the loss first; then lose with the node the orders that were sent before the report."""
        self._last_contact.pop(name, None)
        if connection := self._connections.pop(name, None):
            connection.writer.transport.abort()
            self._log_fetcher.node_disconnected(name)
        self._report(NodeLost(name, reason, ago))
        self._process_orders()
        self._coordinator.node_lost(name, reason)

    def _send_to_agent(self, name: str, message: wire.ToAgent) -> None:
        """Send to the agent of a node, if it is connected."""
        connection = self._connections.get(name)
        if connection is None or connection.writer.transport.is_closing():
            return
        connection.writer.write(wire.frame(message))
        if connection.writer.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            connection.writer.transport.abort()

    # ------------------------------------------------------------------ one connection

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a connection until it ends, is silent or violates the protocol."""
        self._writers.add(writer)
        self._strangers[writer] = None
        if len(self._strangers) > len(self._nodes) + _MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.transport.abort()
        try:
            with contextlib.suppress(
                OSError, TimeoutError, asyncio.IncompleteReadError, wire.FrameError
            ):
                async with asyncio.timeout(wire.SILENCE_SECONDS):
                    accepted = await self._handshake(reader, writer)
                    inventory = await self._receive(reader) if accepted else None
                self._strangers.pop(writer, None)
                if accepted is not None and isinstance(inventory, wire.NodeInventory):
                    await self._serve_agent(*accepted, inventory, reader, writer)
        finally:
            self._writers.discard(writer)
            self._strangers.pop(writer, None)
            writer.transport.abort()

    async def _handshake(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[wire.Hello, str] | None:
        """Authenticate an agent. Returns its hello and its verifier if it is accepted. Raises OSError."""
        nonce = wire.new_nonce()
        writer.write(wire.frame(wire.Challenge(nonce)))
        hello = await wire.receive(reader, wire.from_agent, wire.MAX_HANDSHAKE_BYTES)
        if not isinstance(hello, wire.Hello):
            return None
        transcript = transcript_of(nonce, hello.nonce, hello.node.name, hello.channel)
        proven = await asyncio.to_thread(check_key, self._keys, hello, *transcript)
        permanent = self._refusal(hello) if proven.verifier else proven.refusal
        reason = permanent or self._wait_reason(hello)
        if not reason and proven.joins:
            joined = await asyncio.to_thread(self._keys.join, hello.node.name, proven.verifier)
            reason = permanent = "" if joined else another_key(hello.node.name)
        if reason:
            writer.write(wire.frame(wire.Refused(reason, retry=not permanent)))
            await writer.drain()
            return None
        proof = prove_verifier(proven.verifier, *transcript)
        writer.write(wire.frame(wire.Welcome(proof, self._lease_seconds)))
        return hello, proven.verifier

    def _refusal(self, hello: wire.Hello) -> str:
        name = hello.node.name
        known, contact = self._connections.get(name), self._last_contact.get(name, 0.0)
        return refusal(hello, self._nodes.get(name), known, contact)

    def _wait_reason(self, hello: wire.Hello) -> str:
        """Why this agent has to wait; empty if it does not. Raises OSError if that cannot be read."""
        name = hello.node.name
        if hello.channel != self._channel:
            return "its TLS connection ends before this server: something between them has a certificate, too"
        connection = self._connections.get(name)
        if connection is not None and connection.start != hello.start:
            return f"an agent with the same identity is connected for node {name!r}"
        known = self._current_agents
        if known is None or not known.is_different(name, hello.identity):
            return ""
        other = f"the last agent of node {name!r} had another folder"
        if self._lease_seconds and name in self._last_contact:
            if not self._coordinator.may_be_in_use(name):
                return ""
            lease = f"its lease has run out, in {self._lost_after_seconds:.0f} s at most"
            return f"{other}, and its jobs may run until {lease}"
        if not self._lease_seconds and not self._is_down(name):
            self._node_lost(name, "its agent has another folder than before")
        return "" if self._is_down(name) else f"{other}, and its loss is not stored yet"

    @staticmethod
    async def _receive(reader: asyncio.StreamReader) -> wire.FromAgent:
        return await wire.receive(reader, wire.from_agent, wire.MAX_AGENT_FRAME_BYTES)

    async def _send_upload(self, name: str, asked: wire.FetchUpload) -> None:
        where, content = (asked.digest, asked.offset), None
        if self._uploads is not None:
            try:
                content = await asyncio.to_thread(self._uploads.read, *where, _UPLOAD_CHUNK_BYTES)
            except OSError:
                return  # asked again
        self._send_to_agent(name, wire.UploadChunk(*where, content))

    async def _serve_agent(
        self,
        hello: wire.Hello,
        verifier: str,
        inventory: wire.NodeInventory,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Receive an accepted agent's messages. Raises OSError if its identity cannot be recorded."""
        name = hello.node.name
        if self._current_agents is not None:
            self._current_agents.record(name, hello.identity)
        if before := self._connections.get(name):
            before.writer.transport.abort()
        connection = self._connections[name] = AgentConnection(
            hello.identity, hello.start, verifier, writer
        )
        self._last_contact[name] = time.monotonic()
        address = hello.address or writer.get_extra_info("peername")[0]
        try:
            self._coordinator.node_joined(
                name,
                address,
                inventory.tasks,
                inventory.known,
                inventory.problem,
                keeps_ends=inventory.keeps_ends,
            )
            self._log_fetcher.node_connected(name)
            while True:
                async with asyncio.timeout(wire.SILENCE_SECONDS):
                    message = await self._receive(reader)
                if self._connections.get(name) is not connection:
                    return
                self._last_contact[name] = time.monotonic()
                if isinstance(message, wire.Ping):
                    connection.pinged(message)
                    self._send_to_agent(name, wire.Pong(message.at, self._position()))
                elif isinstance(message, wire.FetchUpload):
                    await self._send_upload(name, message)
                elif isinstance(message, wire.LogSizes | wire.LogChunk):
                    self._log_fetcher.on_answer(name, message)
                else:
                    self._coordinator.on_message(name, connection.dated(message))
        finally:
            if self._connections.get(name) is connection:
                del self._connections[name]
                self._coordinator.node_disconnected(name)
                self._log_fetcher.node_disconnected(name)
