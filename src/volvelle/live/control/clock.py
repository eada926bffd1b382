"""The controller's clock, which never goes back, whatever happens to the system's clock."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from volvelle.model.units import DAY


@dataclass(frozen=True)
class Clock:
    """Sources of time. ``wall``: seconds since the Unix epoch; ``monotonic``: since any moment."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


_FURTHEST_SECONDS = 31 * DAY
"""Seconds that a start may set its clock ahead of a journal's last entry: more would end all deadlines."""

_TOLERATED_SECONDS = 300.0


class JournalClock:
    """Seconds since a journal's ``epoch``, monotonic. Set from the wall clock once, at a start.

    Not before ``last``, the time of the last entry, nor far behind it.
    """

    def __init__(self, clock: Clock, epoch: float, last: float) -> None:
        self._clock, self._epoch = clock, epoch
        furthest = last + _FURTHEST_SECONDS
        now = min(max(clock.wall() - epoch, last), furthest)
        self._offset = now - clock.monotonic()
        self.leapt = now > last + DAY
        """Whether it is more than a day after the last entry: the server was down, or the clock is wrong."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock.monotonic() + self._offset

    def earliest(self) -> float:
        """The earlier of this and of the wall clock, since the epoch: what is older by it is old."""
        return min(self.now(), self._clock.wall() - self._epoch)

    @property
    def problem(self) -> str:
        """How the wall clock differs, for people; empty: hardly."""
        ahead = self._clock.wall() - self._epoch - self.now()
        if abs(ahead) < _TOLERATED_SECONDS:
            return ""
        days = f"{abs(ahead) / DAY:.2g} days"
        way = "ahead of" if ahead > 0 else "behind"
        return (
            f"this machine's clock is {days} {way} the server's, which goes on from its journal: the times "
            "shown differ by that. Set the clock, and start the server again"
        )
