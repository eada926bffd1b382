"""The lease of a node: how long it may run jobs without contact to the controller.

After its end the controller gives the jobs to other nodes. The agent asks jobs to stop early enough for their
grace period. Supervisors read the lease's end from a file and kill what still runs then, also if the agent is
dead.
"""

import contextlib
import math
from pathlib import Path

from volvelle.live.agent.processes import since_boot

_WIDTH = 32


class NodeLease:
    """A lease whose end is stored in a file. ``seconds``: its length after each renewal; 0: no lease."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds = 0.0
        self._ends: float | None = None
        with contextlib.suppress(OSError, ValueError):
            self._ends = float(path.read_text(encoding="ascii"))

    @property
    def file(self) -> Path | None:
        """The file that holds its end; None without a lease."""
        return self._path if self.seconds else None

    def renew(self, at: float) -> None:
        """The controller had contact ``at`` this time of our clock since boot."""
        if not self.seconds and not self._path.exists():
            return
        self._ends = at + self.seconds if self.seconds else math.inf  # for jobs that began with one
        text = f"{self._ends:.3f}".ljust(_WIDTH).encode()
        mode = "r+b" if self._path.exists() else "wb"
        with contextlib.suppress(OSError), self._path.open(mode) as file:
            file.write(text)  # in place: works on a full disk

    def expires_within(self, seconds: float) -> bool:
        """Whether it expires within ``seconds``; never true in the first half of the lease."""
        if self._ends is None:
            return False
        ahead = min(seconds, self.seconds / 2) if self.seconds else seconds
        return since_boot() > self._ends - ahead

    @property
    def reason(self) -> str:
        """Why jobs are stopped."""
        return "its node was cut off from the controller"
