"""The control block: a memory-mapped file through which a job and the agent of its node communicate.

Reading or writing a field takes well under a microsecond and no message. The file outlives both sides: after
a restart either side continues from its content. Each field has one writer. A field is eight aligned bytes,
so a reader sees the old value or the new one. Every node of an attempt has its own control block.

Stopping a job on several nodes (Blox, section 7) needs no call between ranks. The agent of the leading rank
writes REVOKED. The leading rank, done with iteration i, writes EXIT_AT = i + 1 and waits. Its agent has the
agents of the other nodes write the same EXIT_AT, and then writes EXIT_CONFIRMED. The leading rank continues.
The others meet it within iteration i + 1 at the latest, so none is past it.
"""

import mmap
import struct
from pathlib import Path
from typing import Any, ClassVar, Final

_MAGIC: Final = 0x564F4C56454C4C45
_SIZE: Final = 256

# Indices of the fields; each comment begins with the writer.
ATTEMPT: Final = 1  # agent: number of the attempt
REVOKED: Final = (
    2  # agent: 1 once the lease is revoked; in the control block of the leading rank only
)
EXIT_AT: Final = 3  # leading rank, on other nodes agent: last iteration of all ranks; 0: not chosen
ATTACHED: Final = 4  # job: 1 once a script reads the control block
ITERATIONS: Final = 5  # leading rank: iterations done, of the whole job
SAVED_ITERATIONS: Final = 6  # leading rank: iterations that a checkpoint holds
TOTAL_ITERATIONS: Final = 7  # leading rank: iterations of the whole job; 0: unknown
ITERATION_NS: Final = 8  # leading rank: nanoseconds of an iteration, a moving mean
PREEMPTED: Final = (
    9  # leading rank: 1 if it exits because its lease was revoked, after its checkpoint
)
BATCH_SIZE: Final = 10  # agent: batch size that the scheduler wants; 0: the script's own
EXIT_CONFIRMED: Final = 11  # agent: the EXIT_AT that the control blocks of all other nodes hold
EPOCH_MILLIONTHS: Final = 12  # leading rank: epochs done of this loop, in millionths
TOTAL_EPOCHS: Final = 13  # leading rank: epochs of this loop; 0: unknown
OWN_BATCH_SIZE: Final = (
    14  # leading rank: batch size that the script's rule has chosen; 0: it has none
)
FIRST_BATCH_SIZE: Final = 15  # agent: BATCH_SIZE as the attempt began; never changed


class ControlBlock:
    """A control block, opened by either side."""

    FILE_NAME: ClassVar = "control-block"
    """Name of the file in the folder of an attempt."""

    def __init__(self, path: Path) -> None:
        """Open the control block at ``path``. Raises OSError if it is missing, ValueError if malformed."""
        with path.open("r+b") as file:
            if path.stat().st_size != _SIZE:
                raise ValueError(f"{path} is not a control block")
            self._memory = mmap.mmap(file.fileno(), _SIZE)
        self._fields: Any = memoryview(self._memory).cast("q")
        if self._fields[0] != _MAGIC:
            raise ValueError(f"{path} is not a control block")

    @classmethod
    def detached(cls) -> "ControlBlock":
        """A control block without a file, for a job that no agent started."""
        block = cls.__new__(cls)
        block._memory = mmap.mmap(-1, _SIZE)
        block._fields = memoryview(block._memory).cast("q")
        return block

    @classmethod
    def create(
        cls, path: Path, attempt: int, saved_iterations: int = 0, batch_size: int = 0
    ) -> "ControlBlock":
        """A new control block at ``path``, created atomically."""
        values = [0] * (_SIZE // 8)
        values[0], values[ATTEMPT] = _MAGIC, attempt
        values[ITERATIONS] = values[SAVED_ITERATIONS] = saved_iterations
        values[BATCH_SIZE] = values[FIRST_BATCH_SIZE] = batch_size
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
        """Unmap the file; the file stays."""
        self._fields.release()
        self._memory.close()
