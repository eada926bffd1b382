"""How long a node may go on without a word from its controller, which then gives its jobs to others.

Jobs are asked to stop in time to do so within their grace; what runs on after the end is killed by its
keeper, which reads the end in a file. So it holds also where the agent is dead.
"""

import contextlib
from pathlib import Path

from volvelle.live.agent.processes import since_boot

_WIDTH = 32


class Lease:
    """The lease whose end stands in a file; ``seconds`` from each word to it, 0 where it has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds = 0.0
        self._ends: float | None = None
        with contextlib.suppress(OSError, ValueError):
            self._ends = float(path.read_text(encoding="ascii"))

    @property
    def file(self) -> Path | None:
        """Where its end stands, if it has one."""
        return self._path if self.seconds else None

    def renew(self, at: float) -> None:
        """The controller heard us since ``at``, by our clock since boot."""
        if not self.seconds:
            self._ends = None
            self._path.unlink(missing_ok=True)
            return
        self._ends = at + self.seconds
        written = f"{self._ends:.3f}".ljust(_WIDTH).encode()
        mode = "r+b" if self._path.exists() else "wb"
        with contextlib.suppress(OSError), self._path.open(mode) as file:
            file.write(written)  # in place, which needs no room on a full disk

    def ends_within(self, seconds: float) -> bool:
        """Whether it is over in so many seconds; not asked for before half of it has passed."""
        if self._ends is None:
            return False
        ahead = min(seconds, self.seconds / 2) if self.seconds else seconds
        return since_boot() > self._ends - ahead

    @property
    def reason(self) -> str:
        """Why jobs are stopped."""
        return "its node was cut off from the controller"
