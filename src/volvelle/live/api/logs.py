"""What jobs wrote: the logs that agents of this machine keep, followed over attempts."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHUNK_BYTES = 1 << 16


@dataclass
class Logs:
    """The logs of job ``number`` under ``folder``, an executor's, and how far they were read."""

    folder: Path
    number: int
    _read_to: dict[tuple[str, str], int] = field(default_factory=dict)

    def read(self) -> Iterator[bytes]:
        """What was written since last time, attempt by attempt, the nodes of each by name."""
        for key, path in self._files():
            while chunk := _chunk(path, self._read_to.get(key, 0)):
                self._read_to[key] = self._read_to.get(key, 0) + len(chunk)
                yield chunk

    def _files(self) -> list[tuple[tuple[str, str], Path]]:
        """By attempt and node; an attempt's folder is moved when it is over."""
        found = (
            ((path.parent.name, path.parents[2].name), path)
            for kept in ("attempts", "over")
            for path in self.folder.glob(f"nodes/*/{kept}/{self.number}-*/output.log")
        )
        return sorted(found, key=lambda one: (_attempt(one[0][0]), one[0][1]))


def _attempt(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _chunk(path: Path, offset: int) -> bytes:
    """Some bytes of a plain file; nothing of what is no file, or not there yet."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        file.seek(offset)
        return file.read(CHUNK_BYTES)
