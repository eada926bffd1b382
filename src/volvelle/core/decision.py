"""The scheduler's answer: one decision, carrying arrays of changes."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volvelle.model.arrays import scalar_type

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

NO_INTS: IntArray = np.zeros(0, dtype=np.int64)
NO_FLOATS: FloatArray = np.zeros(0)


class Rejection(msgspec.Struct, frozen=True, gc=False):
    """Job ``number`` will not be served."""

    number: int
    reason: str


class Conclusion(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Job ``number`` is done before its work is: it is to write its last checkpoint and end.

    timed_out: because its time limit is over, so that it failed.
    """

    number: int
    reason: str
    timed_out: bool = False


class Promise(msgspec.Struct, frozen=True, gc=False):
    """The guarantee to job ``number`` from now on, in place of earlier ones.

    finish_by: seconds on the world's clock; None: nothing is guaranteed. step: the first of its
    rewards that this keeps, -1 for none. earliest: where nothing is, the earliest finish that could be,
    if that is known. reason: why no more is guaranteed; never empty where a guarantee is taken back.
    """

    number: int
    finish_by: float | None = None
    step: int = -1
    earliest: float | None = None
    reason: str = ""


class Sharing(msgspec.Struct, frozen=True):
    """From now on job ``job[i]`` has ``cpus[i]`` CPUs and ``memory_gb[i]`` GB; the others keep theirs.

    It has them on each of its nodes in proportion to its GPUs there, and is not restarted for it. Every
    job that starts or resizes is named.
    """

    job: IntArray
    cpus: FloatArray
    memory_gb: FloatArray

    def __eq__(self, other: object) -> bool:
        """Whether both give the same to the same jobs."""
        if not isinstance(other, Sharing):
            return NotImplemented
        arrays = ("job", "cpus", "memory_gb")
        return all(np.array_equal(getattr(self, a), getattr(other, a)) for a in arrays)

    __hash__ = None  # type: ignore[assignment]


class Decision(msgspec.Struct, frozen=True):
    """From now on job ``job[i]`` holds ``gpus[i]`` GPUs; jobs not named keep what they hold.

    0 GPUs means stop at a checkpoint; the other rows start or resize. Rows that take GPUs which a row
    of the same decision or a job in ``concluded`` gives up start when these are free. ``gpu_type[i]``
    indexes the cluster's GPU types. The GPUs themselves, where the placement names them, are
    ``slots[slot_offsets[i]:slot_offsets[i + 1]]`` by their cluster-wide numbers. ``wake_at`` replaces
    the wake-up asked for before; None asks for none. Where jobs share GPUs, ``partner[i]`` is the job
    with which job ``job[i]`` does, each holding one half of them (-1: none); else it is empty.
    ``sharing`` says which CPUs and memory jobs have, where a policy divides them; elsewhere a job has what
    its nodes have for as many GPUs. ``promises`` are those that were made or changed at this moment.
    ``notices`` are what the policy says of itself: that predictions do not hold, say.
    """

    job: IntArray = NO_INTS
    gpus: FloatArray = NO_FLOATS
    gpu_type: IntArray = NO_INTS
    attempt: IntArray = NO_INTS
    slot_offsets: IntArray = NO_INTS
    slots: IntArray = NO_INTS
    rejected: tuple[Rejection, ...] = ()
    concluded: tuple[Conclusion, ...] = ()
    wake_at: float | None = None
    partner: IntArray = NO_INTS
    sharing: Sharing | None = None
    promises: tuple[Promise, ...] = ()
    notices: tuple[str, ...] = ()

    def slots_of(self, row: int) -> IntArray:
        """The GPUs of row ``row``; empty where the placement only counts."""
        if not len(self.slot_offsets):
            return NO_INTS
        return self.slots[self.slot_offsets[row] : self.slot_offsets[row + 1]]

    def without_words(self) -> "Decision":
        """The same without reasons and notices, which another version words otherwise."""
        return msgspec.structs.replace(
            self,
            rejected=tuple(Rejection(one.number, "") for one in self.rejected),
            concluded=tuple(msgspec.structs.replace(one, reason="") for one in self.concluded),
            promises=tuple(msgspec.structs.replace(one, reason="") for one in self.promises),
            notices=(),
        )

    def __eq__(self, other: object) -> bool:
        """Whether both ask for the same, array by array."""
        if not isinstance(other, Decision):
            return NotImplemented
        arrays = ("job", "gpus", "gpu_type", "attempt", "slot_offsets", "slots", "partner")
        return (
            self.rejected == other.rejected
            and self.concluded == other.concluded
            and self.wake_at == other.wake_at
            and self.sharing == other.sharing
            and self.promises == other.promises
            and self.notices == other.notices
            and all(np.array_equal(getattr(self, a), getattr(other, a)) for a in arrays)
        )

    __hash__ = None  # type: ignore[assignment]


def encode_array(value: Any) -> Any:
    """The form in which msgspec writes an array."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"cannot write a {type(value).__name__} to a journal")


def decode_array(kind: Any, value: Any) -> Any:
    """The array of type ``kind`` (`IntArray` or `FloatArray`) that msgspec read as a list."""
    return np.array(value, dtype=scalar_type(kind))
