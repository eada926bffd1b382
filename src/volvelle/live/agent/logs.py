"""Job logs in an agent's folder."""

import contextlib
import os
import stat
from pathlib import Path

from volvelle.live.agent.folders import ATTEMPTS, ENDED, OUTPUT


def log_sizes(folder: Path, number: int) -> dict[int, int]:
    """Bytes of the logs of job ``number`` in the agent's ``folder``, by attempt."""
    found: dict[int, int] = {}
    for kept in (ATTEMPTS, ENDED):  # in this order: an ended attempt is moved
        for path in (folder / kept).glob(f"{number}-*/{OUTPUT}"):
            attempt = path.parent.name.rpartition("-")[2]
            with contextlib.suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and attempt.isdigit():
                    found[int(attempt)] = status.st_size
    return found


def read_log(folder: Path, number: int, attempt: int, offset: int, max_bytes: int) -> bytes:
    """The log of an attempt from byte ``offset`` on; empty if it is missing or no regular file."""
    for kept in (ATTEMPTS, ENDED):
        path = folder / kept / f"{number}-{attempt}" / OUTPUT
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file, contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                file.seek(offset)
                return file.read(max_bytes)
    return b""
