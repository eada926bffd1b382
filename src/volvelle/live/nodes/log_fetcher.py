"""Fetches what jobs wrote from the agents of their nodes, over the connections on which they are ordered.

Orders and signs of life share these connections, so there is never more than one piece of a log under way
on each, and few at all: however many read logs, and however fast, a piece is all that others wait for.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from volvelle.live.agent import wire
from volvelle.live.nodes.node_logs import PIECE_BYTES, NodeAway

T = TypeVar("T")

Answer = wire.LogSizes | wire.LogPiece

_AT_ONCE = 4
"""Pieces under way at once, from all nodes together."""
_PATIENCE_SECONDS = 10.0


class LogFetcher:
    """The logs of ``nodes``, whose agents are asked by ``tell``.

    A `NodeLogs` for all threads; everything else belongs to the thread of ``loop``.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        loop: asyncio.AbstractEventLoop,
        tell: Callable[[str, wire.ToAgent], None],
    ) -> None:
        self._loop, self._tell = loop, tell
        began = f"has not been here since the server began, at {_in_words(time.time())}"
        self._away = dict.fromkeys(nodes, began)
        """What is said of the nodes that cannot be asked."""
        self._here: set[str] = set()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._awaited: dict[int, tuple[str, asyncio.Future[Answer]]] = {}
        self._tickets = 0

    # ------------------------------------------------------------------ from any thread

    def sizes(self, node: str, number: int) -> Future[dict[int, int]]:
        """As `NodeLogs` has it."""
        return self._begin(node, self._sizes(node, number))

    def piece(self, node: str, number: int, attempt: int, offset: int) -> Future[bytes]:
        """As `NodeLogs` has it."""
        return self._begin(node, self._piece(node, number, attempt, offset))

    def _begin(self, node: str, asking: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:  # closed
            asking.close()
            ended: Future[T] = Future()
            ended.set_exception(NodeAway(f"the server ends; the logs of node {node} are there"))
            return ended

    # ------------------------------------------------------------------ what becomes of nodes

    def joined(self, node: str) -> None:
        """Its agent can be asked."""
        self._here.add(node)

    def away(self, node: str) -> None:
        """It cannot any more, and will not answer what it was asked."""
        if node in self._here:
            self._here.discard(node)
            self._away[node] = f"is away since {_in_words(time.time())}"
        for asked, answer in self._awaited.values():
            if asked == node and not answer.done():
                answer.set_exception(self._missed(node))

    def answered(self, node: str, answer: Answer) -> None:
        """An agent has answered, perhaps too late or twice."""
        asked, waiting = self._awaited.get(answer.ticket, ("", None))
        if waiting is not None and asked == node and not waiting.done():
            waiting.set_result(answer)

    def _missed(self, node: str) -> NodeAway:
        how = self._away.get(node, "is not a node of the cluster any more")
        return NodeAway(f"node {node} {how}; its logs are there")

    # ------------------------------------------------------------------ asking

    async def _sizes(self, node: str, number: int) -> dict[int, int]:
        answer = await self._ask(node, lambda ticket: wire.ListLogs(ticket, number))
        return answer.sizes if isinstance(answer, wire.LogSizes) else {}

    async def _piece(self, node: str, number: int, attempt: int, offset: int) -> bytes:
        place = number, attempt, offset, PIECE_BYTES
        answer = await self._ask(node, lambda ticket: wire.ReadLog(ticket, *place))
        return answer.content if isinstance(answer, wire.LogPiece) else b""

    async def _ask(
        self, node: str, question: Callable[[int], wire.ListLogs | wire.ReadLog]
    ) -> Answer:
        async with self._turns[node], self._slots:
            if node not in self._here:
                raise self._missed(node)
            self._tickets += 1
            ticket = self._tickets
            answer: asyncio.Future[Answer] = self._loop.create_future()
            self._awaited[ticket] = node, answer
            try:
                self._tell(node, question(ticket))
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    return await answer
            except TimeoutError:
                raise NodeAway(
                    f"node {node} has not answered for {_PATIENCE_SECONDS:.0f} s; its logs are there"
                ) from None
            finally:
                del self._awaited[ticket]


def _in_words(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
