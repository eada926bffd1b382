"""Checkpoints of a job: the script's state and its position in the data, written atomically together.

A checkpoint is a folder ``NUMBER`` in the job's checkpoint folder; the highest number is the latest. It is
written under another name, fsynced and renamed. The one before is kept, older ones are removed. It holds
``state``, the file or folder that the script saved, ``position.json``, for each rank that saved
``rank-R.json``, the states of its random number generators, and ``sums.json``, the check sums of all these.
A checkpoint that does not agree with its sums is passed over for the one before.
"""

import json
import os
import shutil
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from volvelle.client.durable_files import fsync_tree, publish, write_json

_POLL_SECONDS = 0.01
_BLOCK_BYTES = 16 << 20
_SUMS = "sums.json"


class Position:
    """Position in the data. Every call of ``iterate`` is a loop, every pass over its loader an epoch.

    batch: batches of this epoch that are done, by each of ``ranks`` ranks. iterations: over all loops.
    batch_size: the scheduler's batch size when the epoch began; 0: the script's own.
    """

    def __init__(
        self,
        loop: int = 0,
        epoch: int = 0,
        batch: int = 0,
        iterations: int = 0,
        ranks: int = 1,
        batch_size: int = 0,
    ) -> None:
        self.loop, self.epoch, self.batch = loop, epoch, batch
        self.iterations, self.ranks, self.batch_size = iterations, ranks, batch_size


class RandomStates(NamedTuple):
    """Random number generators of one rank: as the epoch began, which decides the shuffle, and now."""

    epoch: dict[str, Any]
    now: dict[str, Any]


class CheckpointFolder:
    """The checkpoints in ``folder``, as rank ``rank`` sees them. Raises OSError if it cannot be created."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self._folder = folder
        self._rank = rank
        self._intact: int | None = None
        """The latest checkpoint that is known to agree with its sums."""
        folder.mkdir(parents=True, exist_ok=True)
        if rank == 0:
            for left_over in folder.glob(".partial-*"):
                shutil.rmtree(left_over)

    def latest(self) -> Path | None:
        """Path of the state of the latest intact checkpoint; None if there is no checkpoint.

        Raises OSError if there are some and none is intact: what is left of the work is for people to see.
        """
        numbers = sorted(self._numbers(), reverse=True)
        for number in numbers:
            if number == self._intact or not (damage := _damage(self._folder / str(number))):
                self._intact = number
                return self._folder / str(number) / "state"
            warnings.warn(
                f"the checkpoint {self._folder / str(number)} is damaged: {damage}; it is passed over",
                RuntimeWarning,
                stacklevel=2,
            )
        if numbers:
            raise OSError(f"no checkpoint in {self._folder} is intact; to start over, remove them")
        return None

    def position(self) -> Position:
        """Position of the latest checkpoint; the beginning if there is none."""
        state = self.latest()
        if state is None:
            return Position()
        return Position(**json.loads((state.parent / "position.json").read_bytes()))

    def random_states(self) -> RandomStates | None:
        """Random number generators of this rank in the latest checkpoint; None if it saved none."""
        state = self.latest()
        path = None if state is None else state.parent / f"rank-{self._rank}.json"
        return RandomStates(**json.loads(path.read_bytes())) if path and path.exists() else None

    def write(
        self,
        position: Position,
        states: RandomStates,
        save: Callable[[Path], object],
        savers: int,
    ) -> None:
        """Call ``save`` to write the state, and publish it with ``position``.

        With several savers each of them calls this; the leading rank returns once all have saved. Raises
        OSError if the disk refuses the write; the checkpoint before stays.
        """
        # The name is unique to this checkpoint: another rank may write the next one before this is published.
        partial = self._folder / f".partial-{position.loop}-{position.iterations}"
        try:
            partial.mkdir(exist_ok=True)
            save(partial / "state")
            fsync_tree(partial)
            write_json(partial / f"rank-{self._rank}.json", states._asdict())
            if self._rank == 0:
                while len(list(partial.glob("rank-*.json"))) < savers:
                    time.sleep(_POLL_SECONDS)
                write_json(partial / "position.json", vars(position))
                write_json(partial / _SUMS, _sums(partial))
                self._publish(partial)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _publish(self, partial: Path) -> None:
        older = sorted(self._numbers())
        before = self._intact
        self._intact = older[-1] + 1 if older else 1
        publish(partial, self._folder / str(self._intact))
        for number in older:
            if number != before:
                shutil.rmtree(self._folder / str(number), ignore_errors=True)

    def _numbers(self) -> Iterator[int]:
        return (int(entry.name) for entry in self._folder.iterdir() if entry.name.isdecimal())


def _sums(checkpoint: Path) -> dict[str, list[int]]:
    """Size and CRC-32 of each 16 MiB of all files of ``checkpoint`` but the sums, by path. Raises OSError."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - takes long

    paths = [path for path in checkpoint.rglob("*") if path.is_file() and path.name != _SUMS]
    blocks = [
        (path, offset)
        for path in paths
        for offset in range(0, path.stat().st_size or 1, _BLOCK_BYTES)
    ]
    sums = {str(path.relative_to(checkpoint)): [path.stat().st_size] for path in paths}
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        for (path, _), found in zip(blocks, threads.map(_sum_of_block, blocks), strict=True):
            sums[str(path.relative_to(checkpoint))].append(found)
    return sums


def _sum_of_block(block: tuple[Path, int]) -> int:
    path, offset = block
    with path.open("rb") as file:
        file.seek(offset)
        return zlib.crc32(file.read(_BLOCK_BYTES))


def _damage(checkpoint: Path) -> str:
    """The first file that does not agree with its sums; empty: none, or it is of a version without sums."""
    try:
        if not (checkpoint / _SUMS).exists():
            return ""
        written = json.loads((checkpoint / _SUMS).read_bytes())
        there = _sums(checkpoint)
    except (OSError, ValueError) as error:
        return str(error)
    odd = (name for name, sums in written.items() if there.get(name) != sums)
    return next((f"{name} is not as it was written" for name in odd), "")
