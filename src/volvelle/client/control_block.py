"""The page: a small memory-mapped file through which a job and the agent of its node speak.

A read or a write of a field costs well under a microsecond and no message, and the page outlives both sides:
whoever is started again reads on where the other is. Each field has one writer; every field is eight bytes,
aligned, so that a reader sees the old value or the new one. Every node of an attempt has a page of its own.

How a job on several nodes ends (Blox, section 7) needs no call either. The agent of the leading rank
writes REVOKED; the leading rank, done with iteration i, writes EXIT_AT = i + 1 and waits before it begins
that iteration; its agent has the other nodes' agents write the same EXIT_AT on their pages and then writes
EXIT_TOLD on the first; the leading rank goes on. The others meet it within iteration i + 1 at the latest,
so none is past it.
"""

import mmap
import struct
from pathlib import Path
from typing import Any, Final

_MAGIC: Final = 0x564F4C56454C4C45
_SIZE: Final = 256

ATTEMPT: Final = 1  # agent: whose page this is
REVOKED: Final = 2  # agent: 1 when the lease has ended, on the page of the leading rank alone
EXIT_AT: Final = (
    3  # leading rank, on other nodes agent: last iteration of all ranks, 0 for none yet
)
ATTACHED: Final = 4  # job: 1 once a script reads the page
ITERATIONS: Final = 5  # leading rank: iterations done, of the whole job
SAVED: Final = 6  # leading rank: iterations that a checkpoint holds
TOTAL: Final = 7  # leading rank: iterations the whole job has, 0 if unknown
ITERATION_NS: Final = 8  # leading rank: nanoseconds an iteration takes of late
LEFT: Final = 9  # leading rank: 1 where it ends because its lease has, its checkpoint written
BATCH_SIZE: Final = 10  # agent: the batch size the scheduler wants, 0 for the script's own
EXIT_TOLD: Final = 11  # agent: the EXIT_AT that by now is on the pages of all other nodes


class Page:
    """One page, opened by either side."""

    def __init__(self, path: Path) -> None:
        """Open the page at ``path``. Raises OSError if it is not there, ValueError if it is none."""
        with path.open("r+b") as file:
            if path.stat().st_size != _SIZE:
                raise ValueError(f"{path} is not a page")
            self._memory = mmap.mmap(file.fileno(), _SIZE)
        self._fields: Any = memoryview(self._memory).cast("q")
        if self._fields[0] != _MAGIC:
            raise ValueError(f"{path} is not a page")

    @classmethod
    def of_nobody(cls) -> "Page":
        """A page without a file, for a job without an agent: nobody reads it, nobody revokes."""
        page = cls.__new__(cls)
        page._memory = mmap.mmap(-1, _SIZE)
        page._fields = memoryview(page._memory).cast("q")
        return page

    @classmethod
    def create(cls, path: Path, attempt: int, saved_iterations: int = 0) -> "Page":
        """A fresh page at ``path``, there all at once or not at all."""
        values = [0] * (_SIZE // 8)
        values[0], values[ATTEMPT] = _MAGIC, attempt
        values[ITERATIONS] = values[SAVED] = saved_iterations
        partial = path.with_name(path.name + ".partial")
        partial.write_bytes(struct.pack(f"{len(values)}q", *values))
        partial.replace(path)
        return cls(path)

    def __getitem__(self, field: int) -> int:
        """The value of a field."""
        return int(self._fields[field])

    def __setitem__(self, field: int, value: int) -> None:
        """Write a field."""
        self._fields[field] = value

    def close(self) -> None:
        """Let go of the memory; the file stays."""
        self._fields.release()
        self._memory.close()
