"""A proxy between users and the HTTP API that injects faults, request by request.

A request is lost before it arrives or in the middle, delayed behind later ones, repeated at once or later;
its answer is lost after it had its effect.
"""

import asyncio
import random
import threading
from collections import Counter

_MAX_DELAY_SECONDS = 0.5
_MAX_REPEAT_SECONDS = 2.0
_FAULTS = {
    "request lost": 2,
    "request cut in the middle": 1,
    "answer lost": 3,
    "request delayed": 5,
    "request repeated at once": 4,
    "request repeated later": 4,
}
"""With their weights."""


class RequestProxy:
    """Listens at ``port`` for requests to ``target``, another port of this machine, in a thread of its own.

    rate: probability of a fault of a request. Each connection has one request, as those of `ApiClient`.
    """

    def __init__(self, target: int, rng: random.Random) -> None:
        self.rate = 0.0
        self.injected: Counter[str] = Counter()
        self._target, self._rng = target, rng
        self._repeats: set[asyncio.Task[None]] = set()
        """Of requests, while they run: the loop does not hold them."""
        self._loop = asyncio.new_event_loop()
        serve = asyncio.start_server(self._serve, "127.0.0.1", 0)
        server = self._loop.run_until_complete(serve)
        self.port: int = server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, name="requests", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the proxy."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _message(reader)
            writer.write(await self._answer(request))
            await writer.drain()
        except (OSError, EOFError):  # one side is gone
            pass
        finally:
            writer.close()

    async def _answer(self, request: bytes) -> bytes:
        """What the client receives. Raises EOFError: nothing, OSError."""
        fault = ""
        if self._rng.random() < self.rate:
            (fault,) = self._rng.choices(list(_FAULTS), list(_FAULTS.values()))
            self.injected[fault] += 1
        match fault:
            case "request lost":
                raise EOFError
            case "request cut in the middle":
                await self._send(request[: self._rng.randrange(len(request))], whole=False)
                raise EOFError
            case "answer lost":
                await self._send(request)
                raise EOFError
            case "request delayed":
                await asyncio.sleep(self._rng.uniform(0.0, _MAX_DELAY_SECONDS))
            case "request repeated at once":
                sent = await asyncio.gather(
                    self._send(request), self._send(request), return_exceptions=True
                )
                return next((each for each in sent if isinstance(each, bytes)), b"")
            case "request repeated later":
                seconds = self._rng.uniform(0.0, _MAX_REPEAT_SECONDS)
                self._loop.call_later(seconds, self._repeat, request)
        return await self._send(request)

    def _repeat(self, request: bytes) -> None:
        async def repeat() -> None:
            await asyncio.gather(self._send(request), return_exceptions=True)

        self._repeats.add(task := self._loop.create_task(repeat()))
        task.add_done_callback(self._repeats.discard)

    async def _send(self, request: bytes, *, whole: bool = True) -> bytes:
        """The server's answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            writer.write(request)
            await writer.drain()
            return await _message(reader) if whole else b""
        finally:
            writer.transport.abort()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """A request or an answer, with its body. Raises EOFError."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.partition(b":")[2]))
    return head
