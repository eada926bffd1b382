"""Job logs in an agent's folder."""

import contextlib
import os
import stat
from pathlib import Path

from volvelle.live.agent.folders import ATTEMPTS, ENDED, OUTPUT
from volvelle.live.messages import AttemptKey, is_attempt


def log_sizes(folder: Path, number: int, job: str) -> dict[str, int]:
    """Bytes of the logs of job ``number`` with identity ``job`` in the agent's ``folder``, by attempt."""
    found: dict[str, int] = {}
    for kept in (ATTEMPTS, ENDED):  # in this order: an ended attempt is moved
        for path in (folder / kept).glob(f"{number}-*/{OUTPUT}"):
            with contextlib.suppress(OSError, ValueError):
                key, status = AttemptKey.parse(path.parent.name), path.lstat()
                if stat.S_ISREG(status.st_mode) and key.job == job:
                    found[str(key)] = status.st_size
    return found


def read_log(folder: Path, attempt: str, offset: int, max_bytes: int) -> bytes:
    """The log of an attempt from byte ``offset`` on; empty if it is missing or no regular file.

    ``attempt``: its `AttemptKey` as text.
    """
    if not is_attempt(attempt):
        return b""  # no name of a folder
    for kept in (ATTEMPTS, ENDED):
        path = folder / kept / attempt / OUTPUT
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file, contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                file.seek(offset)
                return file.read(max_bytes)
    return b""
