"""The answer of a look-ahead (`volvelle.core.fork`), and the interface by which parts ask one."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np

from volvelle.core.decision import Promise
from volvelle.core.events import JobFinished, JobSubmitted
from volvelle.core.log import Batch
from volvelle.core.state import CONCLUDED, FINISHED, OBJECT, TIMED_OUT
from volvelle.core.view import JobView


@dataclass(frozen=True)
class Forecast:
    """When jobs, by number, are believed to start for the first time and to end, in seconds.

    Jobs that are believed never to end are missing. upcoming: when those without GPUs are given some
    next, whether they ran before or not, and when those with GPUs started. cut_off: jobs whose end is that
    of their time limit.
    """

    start: dict[int, float] = field(default_factory=dict)
    finish: dict[int, float] = field(default_factory=dict)
    upcoming: dict[int, float] = field(default_factory=dict)
    cut_off: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, jobs: JobView) -> "Forecast":
        """The starts of jobs that are known before any time has passed."""
        begun = ~np.isnan(jobs.first_start)
        numbers = jobs.number[begun].astype(np.int64).tolist()
        start = dict(zip(numbers, jobs.first_start[begun].tolist(), strict=True))
        held = zip(start, jobs.held[begun].tolist(), strict=True)
        return cls(start, upcoming={number: start[number] for number, gpus in held if gpus > 0.0})

    def take(self, batch: Batch) -> None:
        """Note the first starts and the ends of a stretch of moments."""
        over = np.isin(batch.kind, (FINISHED, CONCLUDED, TIMED_OUT))
        numbers, times = batch.number[over].tolist(), batch.event_time[over].tolist()
        self.finish.update(zip(numbers, times, strict=True))
        self.cut_off.update(batch.number[batch.kind == TIMED_OUT].tolist())
        if (batch.kind == OBJECT).any():
            for event in batch.notes.objects:
                if isinstance(event, JobFinished):
                    self.finish[event.number] = event.time
        given = batch.gpus > 0.0
        started, first = np.unique(batch.job[given], return_index=True)
        at = batch.decision_time[given][first].tolist()
        for number, time in zip(started.tolist(), at, strict=True):
            self.start.setdefault(number, time)
            self.upcoming.setdefault(number, time)

    @property
    def completed(self) -> dict[int, float]:
        """When jobs finish that no time limit ends before."""
        return {number: time for number, time in self.finish.items() if number not in self.cut_off}


class LookAhead(Protocol):
    """A question of a part about the future (`volvelle.core.fork.Fork`)."""

    @property
    def promises(self) -> Mapping[int, Promise]:
        """Guarantees of a finish to jobs in the system, or entering it, by number."""

    @property
    def recalled(self) -> Collection[JobSubmitted]:
        """Jobs with a guarantee that were stopped for others and wait to be admitted again."""

    @property
    def undisturbed(self) -> Forecast:
        """Starts and ends until jobs in `promises` are through; played out once a moment."""

    def admitting(self, *jobs: JobSubmitted) -> Self:
        """The same where these jobs enter now, without being judged."""

    def without(self, *numbers: int) -> Self:
        """The same where these jobs are stopped now, and do not come back."""

    def until(self, jobs: int | Collection[int] | None = None) -> Forecast:
        """Starts and ends until these jobs are through (None: all)."""
