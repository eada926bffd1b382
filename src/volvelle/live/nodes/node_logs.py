"""The interface for reading job logs from the nodes where they were written, in chunks."""

from concurrent.futures import Future
from typing import Protocol

CHUNK_BYTES = 1 << 16
"""Maximum size of one read."""


class NodeUnreachableError(Exception):
    """The node cannot be asked now. The message is for the reader of the logs."""


class NodeLogs(Protocol):
    """Job logs on nodes.

    All return at once, from any thread. Futures may fail with `NodeUnreachableError`.
    """

    def log_sizes(self, node: str, number: int, job: str) -> Future[dict[str, int]]:
        """Bytes of the logs of job ``number`` with identity ``job`` on ``node``.

        By attempt, an `AttemptKey` as text.
        """
        ...

    def absence(self, node: str) -> str:
        """Why its agent cannot be asked, as ``disconnected since ...``; empty: it can, or is not known."""
        ...

    def read_log(self, node: str, attempt: str, offset: int) -> Future[bytes]:
        """A log from byte ``offset`` on, at most `CHUNK_BYTES`; empty at its end."""
        ...
