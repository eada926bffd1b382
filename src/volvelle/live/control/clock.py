"""The times of a journal: a clock that never goes back, and the dates of its moments.

Seconds of a journal are those that passed, as far as they can be known. A server's clock is set at its start,
by the machine's clock since boot where that has gone on since the last start, else by the wall clock. Dates
follow the wall clock: one that was set, and stands, is a record of the journal (`ClockSet`).
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from volvelle.live.records import ClockSet
from volvelle.model.units import DAY


@dataclass(frozen=True)
class Clock:
    """Sources of time. ``wall``: seconds since the Unix epoch; ``monotonic``: since any moment.

    kept: a file for what ``since_boot``, seconds since the boot with the id ``boot``, say of the journal;
    None: they say nothing.
    """

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    since_boot: Callable[[], float] = time.monotonic
    boot: Callable[[], str] = str
    kept: Path | None = None


_FURTHEST_SECONDS = 31 * DAY
"""Seconds that a start may set its clock ahead of a journal's last entry: more would end all deadlines."""

_TOLERATED_SECONDS = 300.0

_STANDS_SECONDS = 600.0
"""How long a wall clock has to differ by the same before dates follow it."""


class Dates:
    """The dates of a journal's moments, in seconds since the Unix epoch. ``epoch``: of its time 0.

    Where the wall clock was set, later moments have the dates of another epoch.
    """

    def __init__(self, epoch: float) -> None:
        self.first = epoch
        self.settings: tuple[ClockSet, ...] = ()
        """Settings of the wall clock that hold, the earliest first."""

    @property
    def present(self) -> ClockSet:
        """The setting by which dates of the present and the future go."""
        return self._all[-1]

    @property
    def epochs(self) -> Iterator[float]:
        """The epochs that dates have."""
        return (each.epoch for each in self._all)

    @property
    def _all(self) -> tuple[ClockSet, ...]:
        return (ClockSet(-math.inf, self.first), *self.settings)

    def date(self, time: float) -> float:
        """The date of a moment of the journal."""
        epochs = (each.epoch for each in reversed(self.settings) if time > each.since)
        return time + next(epochs, self.first)

    def time(self, date: float) -> float:
        """The moment that had a date: of several, the earliest."""
        ends = (*(each.since for each in self.settings), math.inf)
        times = ((date - each.epoch, end) for each, end in zip(self._all, ends, strict=True))
        return next(time for time, end in times if time <= end)

    def set(self, setting: ClockSet) -> Callable[[float], float]:
        """Take over a setting. Returns what dates of the past become that were of the one before.

        Settings that began later are no more, nor is what a clock said that is back where it was.
        """
        was = self.present
        same = (at for at, each in enumerate(self.epochs) if _are_close(each, setting.epoch))
        if (at := next(same, None)) is not None:
            self.settings = self.settings[:at]
        else:
            before = (each for each in self.settings if each.since < setting.since)
            self.settings = (*before, setting)

        def again(date: float) -> float:
            time = date - was.epoch
            return self.date(time) if time > was.since else date

        return again


def _are_close(a: float, b: float) -> bool:
    return abs(a - b) < _TOLERATED_SECONDS


class _Kept(msgspec.Struct, frozen=True):
    """A start's record: by the clock since this boot, the journal with that epoch began at ``zero``."""

    boot: str
    epoch: float
    zero: float


class JournalClock:
    """Seconds since a journal's time 0, monotonic. ``dates``: of that journal.

    last: the time of its last entry. The clock does not start before it. Where the wall clock is more than a
    day ahead of what passed since the last start by the clock since boot, it was set and is not believed;
    after another boot it is believed up to 31 days after ``last``.
    """

    def __init__(self, clock: Clock, dates: Dates, last: float) -> None:
        self._clock, self._dates = clock, dates
        by_wall, passed = clock.wall() - dates.present.epoch, self._passed()
        now = min(by_wall, last + _FURTHEST_SECONDS)
        if passed is not None and by_wall > passed + DAY:
            now = passed
        now = max(now, last)
        self._offset = now - clock.monotonic()
        self._keep(now)
        self.leapt = now > last + DAY
        """Whether it is more than a day after the last entry: the server was down, or the clock is wrong."""
        self._set: tuple[float, float] | None = None
        """Since when, by the monotonic clock, the wall clock is ahead by how much."""

    def _passed(self) -> float | None:
        """The journal's time by the clock since boot; None if it was another boot, or that is not known."""
        clock = self._clock
        if clock.kept is None:
            return None
        with contextlib.suppress(OSError, msgspec.DecodeError):
            kept = msgspec.json.decode(clock.kept.read_bytes(), type=_Kept)
            if (kept.boot, kept.epoch) == (clock.boot(), self._dates.first):
                return clock.since_boot() - kept.zero
        return None

    def _keep(self, now: float) -> None:
        clock = self._clock
        if clock.kept is not None:
            with contextlib.suppress(OSError):  # the next start goes by the wall clock
                kept = _Kept(clock.boot(), self._dates.first, clock.since_boot() - now)
                clock.kept.write_bytes(msgspec.json.encode(kept))

    def now(self) -> float:
        """Seconds since time 0."""
        return self._clock.monotonic() + self._offset

    def earliest(self) -> float:
        """The earliest of this and of what the wall clock says by any epoch: what is older by it is old."""
        return min(self.now(), self._clock.wall() - max(self._dates.epochs))

    def setting(self) -> ClockSet | None:
        """The record that the wall clock was set, once it has stood for ten minutes; else None.

        A clock that was set back takes the dates with it of all that is later by them.
        """
        ahead, since = self._ahead, self._clock.monotonic()
        if _are_close(ahead, 0.0):
            self._set = None
        elif self._set is None or not _are_close(ahead, self._set[1]):
            self._set = since, ahead
        elif since - self._set[0] >= _STANDS_SECONDS:
            self._set = None
            return ClockSet(self.now() + min(ahead, 0.0), self._dates.present.epoch + ahead)
        return None

    @property
    def _ahead(self) -> float:
        """Seconds that the wall clock is ahead of this one."""
        return self._clock.wall() - self._dates.present.epoch - self.now()

    @property
    def problem(self) -> str:
        """How the wall clock differs, for people; empty: hardly."""
        ahead = self._ahead
        if _are_close(ahead, 0.0):
            return ""
        days = f"{abs(ahead) / DAY:.2g} days"
        way = "ahead of" if ahead > 0 else "behind"
        minutes = math.ceil(_STANDS_SECONDS / 60)
        return (
            f"this machine's clock is {days} {way} the server's, which goes on: the dates "
            f"shown differ by that, and follow the clock once it has stood so for {minutes} minutes"
        )
