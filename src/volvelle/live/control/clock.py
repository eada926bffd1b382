"""The controller's clock, which never goes back, whatever happens to the system's clock."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Sources of time. ``wall``: seconds since the Unix epoch; ``monotonic``: since any moment."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


class JournalClock:
    """Seconds since a journal's ``epoch``, monotonic. Set from the wall clock once, not before ``last``."""

    def __init__(self, clock: Clock, epoch: float, last: float) -> None:
        self._monotonic = clock.monotonic
        self._offset = max(clock.wall() - epoch, last) - clock.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._monotonic() + self._offset
