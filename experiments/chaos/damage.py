"""Damages checkpoints as a disk does, and keeps what that may cost: the way from the one before."""

import json
import random
from contextlib import suppress
from pathlib import Path

from commands import kill, processes_with
from fault_proxy import InjectedFault


class CheckpointDamage:
    """Damages checkpoints below ``disk``. ``before``: iterations in the one before, by the job's number."""

    def __init__(self, disk: Path, rng: random.Random) -> None:
        self._disk, self._rng = disk, rng
        self.before: dict[int, int] = {}

    def damage_one(self) -> InjectedFault:
        """Change a byte in the latest of two checkpoints of a running job and kill the job; once for each."""
        found = list(self._disk.rglob("checkpoint"))
        self._rng.shuffle(found)
        for folder in found:
            number = int(folder.parent.name.partition("-")[0])
            with suppress(OSError, ValueError):  # a checkpoint is published meanwhile
                before, latest = sorted(int(each.name) for each in folder.glob("[0-9]*"))
                running = [
                    pid
                    for pid, line in processes_with(f"VOLVELLE_CHECKPOINT={folder}").items()
                    if "traced_job.py" in line
                ]
                if number in self.before or not running:
                    continue
                position = json.loads((folder / str(before) / "position.json").read_bytes())
                self._change_a_byte(folder / str(latest) / "state")
                self.before[number] = position["iterations"]
                for pid in running:
                    kill(pid)
                return "checkpoint damaged and its job killed"
        return None

    def _change_a_byte(self, file: Path) -> None:
        with file.open("r+b") as state:
            at = self._rng.randrange(file.stat().st_size)
            state.seek(at)
            changed = state.read(1)[0] ^ 1
            state.seek(at)
            state.write(bytes([changed]))
