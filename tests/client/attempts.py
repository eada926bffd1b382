"""Starts jobs as an agent does."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from volvelle.client.control_block import ControlBlock

HERE = Path(__file__).parent


@dataclass
class Attempts:
    """Attempts of one job in ``folder``, one after the other."""

    folder: Path
    script: Path = HERE / "counting_job.py"
    launcher: tuple[str, ...] = ()
    python: str = sys.executable
    number: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint folder."""
        return self.folder / "checkpoint"

    @property
    def done(self) -> Path:
        """The file to which its attempts write what they did."""
        return self.folder / "done"

    @property
    def run(self) -> Path:
        """The folder of the current attempt."""
        return self.folder / f"attempt-{self.number}"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the next attempt."""
        self.number += 1
        self.run.mkdir()
        ControlBlock.create(self.run / ControlBlock.FILE_NAME, self.number).close()
        ours = {
            "VOLVELLE_RUN": str(self.run),
            "VOLVELLE_CHECKPOINT": str(self.checkpoint),
            "VOLVELLE_NODES": "1",
            "VOLVELLE_NODE_RANK": "0",
            "TMPDIR": str(self.folder),  # in which torchrun leaves a folder
        }
        with (self.folder / "output").open("ab") as output:
            process = subprocess.Popen(
                [self.python, *self.launcher, str(self.script), *arguments],
                env=os.environ | ours,
                stdout=output,
                stderr=output,
            )
        self.processes.append(process)
        return process

    def count(self, seconds: float = 0.0, every: str = "7") -> subprocess.Popen[bytes]:
        """Start the counting job."""
        return self.start(str(self.checkpoint), str(self.done), str(seconds), every)

    def kill_all(self) -> None:
        """Kill all processes that still run."""
        for process in self.processes:
            process.kill()
            process.wait()

    def block(self) -> ControlBlock:
        """The control block of the current attempt."""
        return ControlBlock(self.run / ControlBlock.FILE_NAME)

    def output(self) -> str:
        """What its attempts printed."""
        return (self.folder / "output").read_text()

    def reported(self, metric: str) -> dict[int, float]:
        """``metric`` of every iteration of the surviving history."""
        curve = {}
        for number in range(1, self.number + 1):
            file = self.folder / f"attempt-{number}" / "metrics.jsonl"
            for line in file.read_text().splitlines() if file.exists() else ():
                report = json.loads(line)
                if metric in report["metrics"]:
                    curve[int(report["iteration"])] = float(report["metrics"][metric])
        return curve

    def lines(self) -> dict[int, tuple[str, ...]]:
        """What the surviving history did in each iteration."""
        lines = [line.split() for line in self.done.read_text().splitlines()]
        return {int(iteration): tuple(rest) for iteration, *rest in lines}
