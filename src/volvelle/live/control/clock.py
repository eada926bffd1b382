"""The controller's clock: it never goes back, whatever becomes of the clock on the wall."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Where time comes from. ``wall``: seconds since the Unix epoch; ``monotonic``: since any moment."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


class JournalTime:
    """Seconds since a journal's ``epoch``: set by the wall once, not before ``last``, then monotonic."""

    def __init__(self, clock: Clock, epoch: float, last: float) -> None:
        self.epoch = epoch
        self._monotonic = clock.monotonic
        self._offset = max(clock.wall() - epoch, last) - clock.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._monotonic() + self._offset

    def on_the_wall(self, time: float) -> float:
        """A time of the journal as seconds since the Unix epoch."""
        return self.epoch + time
