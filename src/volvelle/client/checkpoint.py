"""Checkpoints of a job: the script's state and where it stood in its data, durable together or not at all.

A checkpoint is a folder ``NUMBER`` within the job's folder, the highest the latest. It is written under
another name, forced to the disk, and renamed; only then is the one before removed. In it: ``state``, a
file or a folder, as the script saved it; ``position.json``; and for each rank that saved ``rank-R.json``, its
random generators.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from volvelle.client.durable_files import force, put, write_whole

_POLL_SECONDS = 0.01


@dataclass
class Position:
    """How far a job is. Every call of ``iterate`` is a loop, every pass over its loader an epoch.

    batch: batches of this epoch that are done, by each of ``ranks`` ranks. iterations: over all loops.
    batch_size: what the scheduler wanted when the epoch began, 0 for the script's own.
    """

    loop: int = 0
    epoch: int = 0
    batch: int = 0
    iterations: int = 0
    ranks: int = 1
    batch_size: int = 0


class Chances(NamedTuple):
    """A rank's random generators: when the epoch began, which decides how its loader shuffles, and now."""

    epoch: dict[str, Any]
    now: dict[str, Any]


class Checkpoints:
    """The checkpoints in ``folder``, as rank ``rank`` sees them. Raises OSError where it cannot be made."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self._folder = folder
        self._rank = rank
        folder.mkdir(parents=True, exist_ok=True)
        if rank == 0:
            for left_over in folder.glob(".partial-*"):
                shutil.rmtree(left_over)

    def latest(self) -> Path | None:
        """The state of the latest checkpoint."""
        newest = max(self._numbers(), default=None)
        return None if newest is None else self._folder / str(newest) / "state"

    def position(self) -> Position:
        """Where the latest checkpoint stands; the beginning where there is none."""
        state = self.latest()
        if state is None:
            return Position()
        return Position(**json.loads((state.parent / "position.json").read_bytes()))

    def chances(self) -> Chances | None:
        """This rank's random generators at the latest checkpoint, if it saved them."""
        state = self.latest()
        path = None if state is None else state.parent / f"rank-{self._rank}.json"
        return Chances(**json.loads(path.read_bytes())) if path and path.exists() else None

    def write(
        self,
        position: Position,
        chances: Chances,
        save: Callable[[Path], object],
        savers: int,
    ) -> None:
        """Have ``save`` write the state and publish it with ``position``.

        With several savers every one of them calls this; the leading rank returns when all have saved.
        Raises OSError where the disk refuses; what there was before stays.
        """
        # Of this checkpoint alone: another rank may be at the next one before this is published.
        partial = self._folder / f".partial-{position.loop}-{position.iterations}"
        try:
            partial.mkdir(exist_ok=True)
            save(partial / "state")
            force(partial)
            write_whole(partial / f"rank-{self._rank}.json", chances._asdict())
            if self._rank == 0:
                while len(list(partial.glob("rank-*.json"))) < savers:
                    time.sleep(_POLL_SECONDS)
                write_whole(partial / "position.json", asdict(position))
                self._publish(partial)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _publish(self, partial: Path) -> None:
        older = sorted(self._numbers())
        put(partial, self._folder / str(older[-1] + 1 if older else 1))
        for number in older:
            shutil.rmtree(self._folder / str(number), ignore_errors=True)

    def _numbers(self) -> Iterator[int]:
        return (int(entry.name) for entry in self._folder.iterdir() if entry.name.isdecimal())
