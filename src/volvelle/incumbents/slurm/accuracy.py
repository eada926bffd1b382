"""How well was told: each told instant against what came, beside Slurm's own time of the same instant."""

import statistics
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from volvelle.incumbents.slurm.follow import Told
    from volvelle.incumbents.slurm.site import Job

_KEPT = 50_000
"""Instants that are judged, the latest."""


class _Waits(NamedTuple):
    moment: float
    told: "Told"
    slurm_end: float | None


class Judged(NamedTuple):
    """One told instant of a job whose start has come."""

    moment: float
    error: float
    """Seconds, real less told P50."""
    held: bool
    """It started by the told P90."""
    slurm_error: float | None
    slurm_held: bool | None


class Accuracy:
    """The instants that were judged, and those that wait for it."""

    def __init__(self) -> None:
        self._waits: dict[str, list[_Waits]] = {}
        self._for_end: dict[str, list[_Waits]] = {}
        self.starts: deque[Judged] = deque(maxlen=_KEPT)
        self.ends: deque[Judged] = deque(maxlen=_KEPT)

    def told(self, job: "Job", moment: float, told: "Told", slurm_end: float | None) -> None:
        """A pending job was told at ``moment``."""
        one = _Waits(moment, told, slurm_end)
        self._waits.setdefault(job.key, []).append(one)
        self._for_end.setdefault(job.key, []).append(one)

    def started(self, key: str, start: float) -> None:
        """The job started; only instants before it are judged."""
        for moment, told, _ in self._waits.pop(key, ()):
            if moment <= start + 1.0:
                own = told.slurm_start
                self.starts.append(
                    Judged(
                        moment,
                        start - told.start,
                        start <= told.start_p90 + 1.0,
                        None if own is None else start - own,
                        None if own is None else start <= own + 1.0,
                    )
                )

    def ended(self, key: str, end: float) -> None:
        """The job ended by itself."""
        for moment, told, own in self._for_end.pop(key, ()):
            self.ends.append(
                Judged(
                    moment,
                    end - told.end,
                    end <= told.end_p90 + 1.0,
                    None if own is None else end - own,
                    None if own is None else end <= own + 1.0,
                )
            )

    def forget(self, key: str | None = None) -> None:
        """Times told of a job, or of all, are not judged."""
        for kept in (self._waits, self._for_end):
            if key is None:
                kept.clear()
            else:
                kept.pop(key, None)

    def line(self) -> str:
        """One sentence: how often P90 held, mean and median error, and the same of Slurm's own times."""
        if not self.starts:
            return "Accuracy: no start has been judged yet; until then times rest on what jobs declare."
        errors = [abs(one.error) for one in self.starts]
        held = sum(one.held for one in self.starts) / len(self.starts)
        said = (
            f"Accuracy over {len(errors):,} told starts: P90 held for {held:.0%}, error mean"
            f" {_span(statistics.mean(errors))}, median {_span(statistics.median(errors))}"
        )
        own = [one for one in self.starts if one.slurm_error is not None]
        none = 1 - len(own) / len(errors)
        if not own:
            return f"{said}; Slurm told none of them."
        theirs = [abs(one.slurm_error or 0.0) for one in own]
        return (
            f"{said}; Slurm: {sum(bool(one.slurm_held) for one in own) / len(own):.0%} by its time,"
            f" mean {_span(statistics.mean(theirs))}, median {_span(statistics.median(theirs))},"
            f" {none:.0%} without an answer."
        )


def _span(seconds: float) -> str:
    """Seconds or minutes or hours, short."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
