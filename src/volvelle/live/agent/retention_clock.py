"""The clock by which logs become old: one that leaps ahead deletes nothing for a day."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from volvelle.live.agent.files import write_file
from volvelle.model.units import DAY


class RetentionClock:
    """Seconds since the Unix epoch by the wall clock; ``file`` keeps what it last said.

    A wall clock that is more than a day later than that is believed only after a day in which this process
    ran: until then the clock stands still. One that was set back is believed at once.
    """

    def __init__(
        self,
        file: Path,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file, self._wall, self._monotonic = file, wall, monotonic
        self._began = monotonic()

    def now(self) -> float:
        """The time. Raises OSError if it cannot be kept."""
        wall, said = self._wall(), None
        with contextlib.suppress(OSError, ValueError):
            said = float(self._file.read_text())
        if said is not None and wall > said + DAY and self._monotonic() < self._began + DAY:
            return said
        write_file(self._file, str(wall).encode())
        return wall
