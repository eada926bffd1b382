"""Fetches working directories from the server, over the connection that carries orders."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from volvelle.live.agent.wire import FetchUpload, UploadChunk
from volvelle.live.uploads import MAX_UPLOAD_BYTES, Uploads
from volvelle.model.problems import Problem

_REPEAT_SECONDS = 5.0


class UploadFetcher:
    """Keeps fetched uploads in ``folder``. ``send``: to the server, if it is connected."""

    def __init__(self, folder: Path, send: Callable[[FetchUpload], None]) -> None:
        self._uploads, self._send = Uploads(folder), send
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._pending: dict[tuple[str, int], asyncio.Future[UploadChunk]] = {}

    def on_chunk(self, chunk: UploadChunk) -> None:
        """The server has answered, perhaps twice."""
        pending = self._pending.get((chunk.digest, chunk.offset))
        if pending is not None and not pending.done():
            pending.set_result(chunk)

    async def fetch(self, digest: str) -> Path:
        """The file with this content. Waits for the server; raises OSError if that does not have it."""
        async with self._locks[digest]:
            path = self._uploads.find(digest)
            if path is not None:
                return path
            content = bytearray()
            while len(content) <= MAX_UPLOAD_BYTES:
                chunk = await self._ask(FetchUpload(digest, len(content)))
                if chunk.content is None:
                    raise OSError("the server does not have its working directory any more")
                if not chunk.content:
                    break
                content += chunk.content
            try:
                return await asyncio.to_thread(self._uploads.keep, digest, bytes(content))
            except Problem as problem:
                raise OSError(str(problem)) from None

    async def _ask(self, request: FetchUpload) -> UploadChunk:
        answer: asyncio.Future[UploadChunk] = asyncio.get_running_loop().create_future()
        self._pending[request.digest, request.offset] = answer
        try:
            while True:
                self._send(request)
                done, _ = await asyncio.wait([answer], timeout=_REPEAT_SECONDS)
                if done:
                    return answer.result()
        finally:
            del self._pending[request.digest, request.offset]
