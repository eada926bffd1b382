"""Checkpoints of a job: the script's state and its position in the data, written atomically together.

A checkpoint is a folder ``NUMBER`` in the job's checkpoint folder; the highest number is the latest. It is
written under another name, fsynced and renamed; then the one before is removed. It holds ``state``, the file
or folder that the script saved, ``position.json``, and for each rank that saved ``rank-R.json``, the states
of its random number generators.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from volvelle.client.durable_files import fsync_tree, publish, write_json

_POLL_SECONDS = 0.01


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
        folder.mkdir(parents=True, exist_ok=True)
        if rank == 0:
            for left_over in folder.glob(".partial-*"):
                shutil.rmtree(left_over)

    def latest(self) -> Path | None:
        """Path of the latest checkpoint's state; None if there is no checkpoint."""
        newest = max(self._numbers(), default=None)
        return None if newest is None else self._folder / str(newest) / "state"

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
                self._publish(partial)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _publish(self, partial: Path) -> None:
        older = sorted(self._numbers())
        publish(partial, self._folder / str(older[-1] + 1 if older else 1))
        for number in older:
            shutil.rmtree(self._folder / str(number), ignore_errors=True)

    def _numbers(self) -> Iterator[int]:
        return (int(entry.name) for entry in self._folder.iterdir() if entry.name.isdecimal())
