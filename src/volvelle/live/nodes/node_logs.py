"""What jobs wrote, on the nodes where they wrote it: read in pieces, from whoever can reach the node."""

from concurrent.futures import Future
from typing import Protocol

PIECE_BYTES = 1 << 16
"""At most read at once."""


class NodeAway(Exception):  # noqa: N818 - it is what happened
    """The node cannot be asked now. What it says is for the reader of the logs."""


class NodeLogs(Protocol):
    """The logs of nodes. Both return at once, from any thread; their futures may fail with `NodeAway`."""

    def sizes(self, node: str, number: int) -> Future[dict[int, int]]:
        """Of which attempts of job ``number`` there are logs on ``node``, and their bytes so far."""
        ...

    def piece(self, node: str, number: int, attempt: int, offset: int) -> Future[bytes]:
        """What stands in a log from byte ``offset`` on, at most `PIECE_BYTES`; nothing at its end."""
        ...
