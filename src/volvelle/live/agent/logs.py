"""The logs in an agent's folder: which there are of a job, and what stands in them."""

import contextlib
import os
import stat
from pathlib import Path

from volvelle.live.agent.folders import ATTEMPTS, OUTPUT, OVER


def sizes(folder: Path, number: int) -> dict[int, int]:
    """The attempts of job ``number`` that wrote in the agent's ``folder``, and how many bytes."""
    found: dict[int, int] = {}
    for kept in (ATTEMPTS, OVER):  # in this order: an attempt is moved when it is over
        for path in (folder / kept).glob(f"{number}-*/{OUTPUT}"):
            attempt = path.parent.name.rpartition("-")[2]
            with contextlib.suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and attempt.isdigit():
                    found[int(attempt)] = status.st_size
    return found


def piece(folder: Path, number: int, attempt: int, offset: int, most_bytes: int) -> bytes:
    """What an attempt wrote from byte ``offset`` on; nothing of what is no plain file, or not there."""
    for kept in (ATTEMPTS, OVER):
        path = folder / kept / f"{number}-{attempt}" / OUTPUT
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file, contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                file.seek(offset)
                return file.read(most_bytes)
    return b""
