"""Central lease renewal: each check of a lease goes to the agents server and back. For comparison only.

Blox (section 7, figure 19) compares it with optimistic renewal, which is what agents otherwise do: there a
job only reads its control block. An agent with ``central_renewal`` in its settings listens on this machine;
its port is in its folder as ``renewal-port``. A request is the number of the job and of its attempt, eight
bytes each; the answer is one byte, 1 while the lease is valid.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

from volvelle.live.agent import wire
from volvelle.live.agent.files import write_file
from volvelle.live.messages import AttemptKey

_PORT_FILE = "renewal-port"
_REQUEST_BYTES = 16


class CentralRenewal:
    """The agent's side: forwards requests with ``send`` and answers them when `on_renewal` is called."""

    def __init__(self, folder: Path, send: Callable[[wire.RenewLease], None]) -> None:
        self._folder, self._send = folder, send
        self._pending: dict[int, tuple[wire.RenewLease, asyncio.Future[bool]]] = {}
        self._last_id = 0

    async def serve(self) -> None:
        """Listen, for ever."""
        server = await asyncio.start_server(self._serve_connection, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        write_file(self._folder / _PORT_FILE, str(port).encode())
        async with server:
            await server.serve_forever()

    def on_renewal(self, renewal: wire.LeaseRenewal) -> None:
        """The server has answered."""
        _, answer = self._pending.pop(renewal.request_id, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(renewal.valid)

    def resend(self) -> None:
        """There is a new connection: requests on the last one may never be answered."""
        for request, _ in self._pending.values():
            self._send(request)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                content = await reader.readexactly(_REQUEST_BYTES)
                self._last_id += 1
                number, attempt = int.from_bytes(content[:8]), int.from_bytes(content[8:])
                request = wire.RenewLease(number, attempt, self._last_id)
                answer = asyncio.get_running_loop().create_future()
                self._pending[self._last_id] = request, answer
                self._send(request)
                writer.write(bytes([await answer]))
        writer.transport.abort()


class CentralRenewalClient:
    """The job's side, for the agent in ``folder``."""

    def __init__(self, folder: Path, key: AttemptKey) -> None:
        port = int((folder / _PORT_FILE).read_text(encoding="ascii"))
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request = key.number.to_bytes(8) + key.attempt.to_bytes(8)

    def is_valid(self) -> bool:
        """Whether the lease is valid; waits for the answer."""
        self._connection.sendall(self._request)
        return self._connection.recv(1) == b"\x01"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
