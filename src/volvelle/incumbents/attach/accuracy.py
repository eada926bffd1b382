"""How well was told: each told instant against what came, beside a naive time of the same instant."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

_KEPT = 50_000
"""Instants that are judged, the latest."""
_KEPT_OF_A_JOB = 200
"""Instants that wait for a job's event; of more every second is dropped, and the others count twice."""


class Told(NamedTuple):
    """The times told of one job at one moment; seconds since 1970."""

    key: str
    start: float
    """As the mechanism expects it, which stands for P50; of a job that runs, when it started."""
    start_p90: float
    end: float
    """As the mechanism expects it."""
    end_p90: float
    naive_start: float | None
    """The time that the scheduler itself told, or the usual wait of the queue, where it has not passed."""


class _Instant(NamedTuple):
    moment: float
    told: Told
    naive_end: float | None


@dataclass
class _Waits:
    """The instants of one job, evenly spread: each stands for ``step`` polls."""

    kept: list[_Instant] = field(default_factory=list)
    step: int = 1
    polls: int = 0

    def add(self, instant: _Instant) -> None:
        if self.polls % self.step == 0:
            self.kept.append(instant)
        self.polls += 1
        if len(self.kept) == _KEPT_OF_A_JOB:
            self.kept, self.step = self.kept[::2], 2 * self.step


class Judged(NamedTuple):
    """One told instant of a job whose event has come. ``polls``: how many it stands for."""

    moment: float
    error: float
    """Seconds, real less told P50."""
    held: bool
    """It came by the told P90."""
    naive_error: float | None
    naive_held: bool | None
    polls: int = 1


class Figures(NamedTuple):
    """Statistics of errors: the share that came by the time of P90, mean and median in seconds."""

    polls: int
    held: float
    mean: float
    median: float


class Accuracy:
    """The instants that were judged, and those that wait for it."""

    def __init__(self, naive: str = "Slurm") -> None:
        """``naive``: what tells naive times, as a word."""
        self.naive = naive
        self._for_start: dict[str, _Waits] = {}
        self._for_end: dict[str, _Waits] = {}
        self.starts: deque[Judged] = deque(maxlen=_KEPT)
        self.ends: deque[Judged] = deque(maxlen=_KEPT)

    def told(self, moment: float, told: Told, naive_end: float | None) -> None:
        """A pending job was told at ``moment``."""
        for waits in (self._for_start, self._for_end):
            waits.setdefault(told.key, _Waits()).add(_Instant(moment, told, naive_end))

    def started(self, key: str, start: float) -> None:
        """The job started; only instants before it are judged."""
        waits = self._for_start.pop(key, _Waits())
        for moment, told, _ in waits.kept:
            if moment <= start + 1.0:
                times = told.start, told.start_p90, told.naive_start
                self.starts.append(_judged(moment, start, *times, waits.step))

    def ended(self, key: str, end: float) -> None:
        """The job ended by itself."""
        waits = self._for_end.pop(key, _Waits())
        for moment, told, naive_end in waits.kept:
            self.ends.append(_judged(moment, end, told.end, told.end_p90, naive_end, waits.step))

    def forget(self, key: str | None = None) -> None:
        """Times told of a job, or of all, are not judged."""
        for kept in (self._for_start, self._for_end):
            if key is None:
                kept.clear()
            else:
                kept.pop(key, None)

    def judged_starts(self) -> list[Judged]:
        """The judged starts at one moment, from any thread."""
        return list(self.starts)

    def of_starts(self) -> tuple[Figures | None, Figures | None]:
        """The figures of told starts, and those of naive times; None where none was judged."""
        starts = self.judged_starts()
        own = [one for one in starts if one.naive_error is not None]
        return (
            _figures([(abs(one.error), one.held, one.polls) for one in starts]),
            _figures(
                [(abs(one.naive_error or 0.0), bool(one.naive_held), one.polls) for one in own]
            ),
        )

    def line(self) -> str:
        """One sentence: how often P90 held, mean and median error, and the same of naive times."""
        ours, theirs = self.of_starts()
        if ours is None:
            return "Accuracy: no start has been judged yet; until then times rest on what jobs declare."
        said = (
            f"Accuracy over {ours.polls:,} told starts: P90 held for {ours.held:.0%}, error mean"
            f" {_span(ours.mean)}, median {_span(ours.median)}"
        )
        if theirs is None:
            return f"{said}; {self.naive} told none of them."
        return (
            f"{said}; {self.naive}: {theirs.held:.0%} by its time, mean {_span(theirs.mean)}, median"
            f" {_span(theirs.median)}, {1 - theirs.polls / ours.polls:.0%} without an answer."
        )


def _judged(
    moment: float, came: float, told: float, p90: float, naive: float | None, polls: int
) -> Judged:
    error, held = (None, None) if naive is None else (came - naive, came <= naive + 1.0)
    return Judged(moment, came - told, came <= p90 + 1.0, error, held, polls)


def _figures(errors: Sequence[tuple[float, bool, int]]) -> Figures | None:
    """Of (error, held, polls)."""
    polls = sum(count for *_, count in errors)
    if not polls:
        return None
    held = sum(count for _, held, count in errors if held)
    total = sum(error * count for error, _, count in errors)
    ordered = sorted(errors)
    up_to = list(accumulate(count for *_, count in ordered))
    median = ordered[bisect_left(up_to, polls / 2)][0]
    return Figures(polls, held / polls, total / polls, median)


def _span(seconds: float) -> str:
    """Seconds or minutes or hours, short."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
