"""Central renewal: each check of a lease goes to the controller's side and back. For comparison only.

Blox (section 7, figure 19) sets it against optimistic renewal, which is what agents otherwise do: there a job
reads its page and nobody is asked. An agent whose settings say ``central`` listens on this machine; its port
stands in its folder as ``renewals``. A question is the number of the job and of its attempt, eight bytes
each, the answer one byte: 1 while the lease holds.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

from volvelle.live.agent import wire
from volvelle.live.agent.folders import write

_QUESTION_BYTES = 16


class Renewals:
    """The agent's end: passes questions on with ``ask`` and answers as they are `answered`."""

    def __init__(self, folder: Path, ask: Callable[[wire.Renew], None]) -> None:
        self._folder, self._ask = folder, ask
        self._waiting: dict[int, tuple[wire.Renew, asyncio.Future[bool]]] = {}
        self._tickets = 0

    async def serve(self) -> None:
        """Listen, for ever."""
        server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        write(self._folder / "renewals", str(port).encode())
        async with server:
            await server.serve_forever()

    def answered(self, answer: wire.Renewed) -> None:
        """The controller's side has answered."""
        _, waiting = self._waiting.pop(answer.ticket, (None, None))
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.holds)

    def ask_again(self) -> None:
        """There is a new connection: what was asked on the last may never be answered."""
        for question, _ in self._waiting.values():
            self._ask(question)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                asked = await reader.readexactly(_QUESTION_BYTES)
                self._tickets += 1
                number, attempt = int.from_bytes(asked[:8]), int.from_bytes(asked[8:])
                question = wire.Renew(number, attempt, self._tickets)
                answer = asyncio.get_running_loop().create_future()
                self._waiting[self._tickets] = question, answer
                self._ask(question)
                writer.write(bytes([await answer]))
        writer.transport.abort()


class Renewal:
    """A job's end, for the agent in ``folder``."""

    def __init__(self, folder: Path, key: wire.Key) -> None:
        port = int((folder / "renewals").read_text(encoding="ascii"))
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._question = key[0].to_bytes(8) + key[1].to_bytes(8)

    def holds(self) -> bool:
        """Whether the lease still holds; waits for the answer."""
        self._connection.sendall(self._question)
        return self._connection.recv(1) == b"\x01"

    def close(self) -> None:
        """Ask no more."""
        self._connection.close()
