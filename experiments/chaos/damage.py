"""Damages checkpoints as a disk does, and keeps what that may cost: the way from the one before."""

import json
import random
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from commands import holds_within, kill, processes_with
from fault_proxy import InjectedFault

_RUNS_SECONDS = 10.0
"""Until a job has two checkpoints and runs."""


class CheckpointDamage:
    """Damages checkpoints below ``disk``. ``before``: iterations in the one before, by the job's number."""

    def __init__(self, disk: Path, rng: random.Random) -> None:
        self._disk, self._rng = disk, rng
        self.before: dict[int, int] = {}

    def damage_one(self) -> InjectedFault:
        """Change a byte in the latest of two checkpoints of a running job and kill the job; once for each."""
        done = holds_within(_RUNS_SECONDS, self._damage_one)
        return "checkpoint damaged and its job killed" if done else None

    def _damage_one(self) -> bool:
        running = defaultdict(list)
        for pid, line in processes_with(f"{self._disk}/").items():
            if "traced_job.py" in line:
                running[_checkpoints_of(pid)].append(pid)
        for folder, pids in self._rng.sample(sorted(running.items()), len(running)):
            number = int(folder.parent.name.partition("-")[0] or -1)
            with suppress(OSError, ValueError):  # a checkpoint is published meanwhile
                before, latest = sorted(int(each.name) for each in folder.glob("[0-9]*"))
                if number in self.before:
                    continue
                position = json.loads((folder / str(before) / "position.json").read_bytes())
                self._change_a_byte(folder / str(latest) / "state")
                self.before[number] = position["iterations"]
                for pid in pids:
                    kill(pid)
                return True
        return False

    def _change_a_byte(self, file: Path) -> None:
        with file.open("r+b") as state:
            at = self._rng.randrange(file.stat().st_size)
            state.seek(at)
            changed = state.read(1)[0] ^ 1
            state.seek(at)
            state.write(bytes([changed]))


def _checkpoints_of(pid: int) -> Path:
    """The folder of the checkpoints of a job's process."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    except OSError:  # it ended meanwhile
        return Path()
    named = (each for each in variables if each.startswith("VOLVELLE_CHECKPOINT="))
    return Path(next(named, "").partition("=")[2])
