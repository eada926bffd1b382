"""Fetches job logs from agents, over the connections that carry orders.

Orders and heartbeats share these connections. So at most one chunk is in flight on each connection, and a few
in total: however many readers there are, other messages wait for one chunk at most.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from volvelle.live.agent import wire
from volvelle.live.nodes.node_logs import CHUNK_BYTES, NodeUnreachableError

T = TypeVar("T")

Answer = wire.LogSizes | wire.LogChunk

_MAX_IN_FLIGHT = 4
"""Chunks in flight from all nodes together."""
_TIMEOUT_SECONDS = 10.0


class LogFetcher:
    """The logs of ``nodes``, whose agents are asked by ``send``. tell: takes a line when one comes or goes.

    Implements `NodeLogs` for all threads; everything else belongs to the thread of ``loop``.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        loop: asyncio.AbstractEventLoop,
        send: Callable[[str, wire.ToAgent], None],
        tell: Callable[[str], None] = lambda said: None,
    ) -> None:
        self._loop, self._send, self._tell = loop, send, tell
        never = f"not connected since the server began, at {_format_time(time.time())}"
        self._absences = dict.fromkeys(nodes, never)
        """The message to readers about nodes that are not connected."""
        self._connected: set[str] = set()
        self._node_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._in_flight = asyncio.Semaphore(_MAX_IN_FLIGHT)
        self._pending: dict[int, tuple[str, asyncio.Future[Answer]]] = {}
        self._last_id = 0

    # ------------------------------------------------------------------ from any thread

    def log_sizes(self, node: str, number: int, job: str) -> Future[dict[str, int]]:
        """See `NodeLogs`."""
        return self._schedule(node, self._fetch_sizes(node, number, job))

    def absence(self, node: str) -> str:
        """See `NodeLogs`."""
        return "" if node in self._connected else self._absences.get(node, "")

    def read_log(self, node: str, attempt: str, offset: int) -> Future[bytes]:
        """See `NodeLogs`."""
        return self._schedule(node, self._fetch_chunk(node, attempt, offset))

    def _schedule(self, node: str, fetch: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(fetch, self._loop)
        except RuntimeError:  # the loop is closed
            fetch.close()
            failed: Future[T] = Future()
            failed.set_exception(
                NodeUnreachableError(f"the server ends; the logs of node {node} are there")
            )
            return failed

    # ------------------------------------------------------------------ events of the server

    def node_connected(self, node: str) -> None:
        """The agent of a node can be asked."""
        self._connected.add(node)
        self._tell(f"node {node} is connected")

    def node_disconnected(self, node: str) -> None:
        """The agent of a node cannot be asked any more; its pending requests fail."""
        if node in self._connected:
            self._connected.discard(node)
            self._absences[node] = f"disconnected since {_format_time(time.time())}"
            self._tell(f"node {node} is {self._absences[node]}")
        for pending_node, answer in self._pending.values():
            if pending_node == node and not answer.done():
                answer.set_exception(self._unreachable(node))

    def end(self) -> None:
        """No word more of agents: the server ends."""
        self._tell = lambda said: None

    def on_answer(self, node: str, answer: Answer) -> None:
        """An agent has answered, perhaps too late or twice."""
        pending_node, pending = self._pending.get(answer.request_id, ("", None))
        if pending is not None and pending_node == node and not pending.done():
            pending.set_result(answer)

    def _unreachable(self, node: str) -> NodeUnreachableError:
        absence = self._absences.get(node, "not a node of the cluster any more")
        return NodeUnreachableError(f"node {node} is {absence}; its logs are there")

    # ------------------------------------------------------------------ requests

    async def _fetch_sizes(self, node: str, number: int, job: str) -> dict[str, int]:
        answer = await self._request(node, lambda id: wire.ListLogs(id, number, job))
        return answer.sizes if isinstance(answer, wire.LogSizes) else {}

    async def _fetch_chunk(self, node: str, attempt: str, offset: int) -> bytes:
        position = attempt, offset, CHUNK_BYTES
        answer = await self._request(node, lambda id: wire.ReadLog(id, *position))
        return answer.content[:CHUNK_BYTES] if isinstance(answer, wire.LogChunk) else b""

    async def _request(
        self, node: str, make_request: Callable[[int], wire.ListLogs | wire.ReadLog]
    ) -> Answer:
        async with self._node_locks[node], self._in_flight:
            if node not in self._connected:
                raise self._unreachable(node)
            self._last_id += 1
            request_id = self._last_id
            answer: asyncio.Future[Answer] = self._loop.create_future()
            self._pending[request_id] = node, answer
            try:
                self._send(node, make_request(request_id))
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    return await answer
            except TimeoutError:
                raise NodeUnreachableError(
                    f"node {node} has not answered for {_TIMEOUT_SECONDS:.0f} s; its logs are there"
                ) from None
            finally:
                del self._pending[request_id]


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
