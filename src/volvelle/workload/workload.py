"""A workload: jobs in order of submission, and where they came from.

Readers and generators make workloads, worlds replay them. Columns are derived from the jobs when they
are first asked for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import msgspec
import numpy as np

from volvelle.model.alone import seconds_alone
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job, JobSpec, Recorded

_NEARLY_ALL = 0.9
"""Share of jobs from which on a contradiction is no accident."""
_MOST_LISTED = 12


@dataclass
class ImportReport:
    """Counts of a trace's rows that were read, kept, repaired and dropped, with reasons.

    ``examples`` holds for each reason the first few places (file, line, column, value). ``assumed``: how
    whole columns were taken, where the trace does not say it. ``node_gpus``: the most GPUs
    that a job had on each of its nodes, by GPU type, where the trace says on how many nodes it ran.
    ``columns``: our names of columns on the file's, as they were given, as was ``dates``, the form of points
    in time. ``states``: of jobs kept, "" where the trace tells none. ``contradicted``: jobs whose mapped
    duration is another than the time from start to end. ``odd``: of rows kept as they are, though they can
    hardly be true.
    """

    source: str = ""
    format: str = ""
    rows: int = 0
    kept: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    assumed: list[str] = field(default_factory=list)
    examples: dict[str, list[str]] = field(default_factory=dict)
    node_gpus: dict[str, float] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    dates: str = ""
    states: Counter[str] = field(default_factory=Counter)
    contradicted: int = 0
    odd: Counter[str] = field(default_factory=Counter)

    @property
    def contradiction(self) -> str:
        """A sentence on mapped durations that contradict nearly all starts and ends; "" elsewhere."""
        if self.contradicted <= _NEARLY_ALL * self.kept:
            return ""
        return (
            f"{self.source}: for {self.contradicted:,} of {self.kept:,} jobs the duration (column "
            f"{self.columns['duration']}) is not the time from start_time to end_time; if these are right, "
            "map no duration"
        )

    def __str__(self) -> str:
        """One line: ``41,208 rows: 39,882 jobs kept, 611 repaired (...), 715 dropped (...)``."""
        rows, jobs = ("" if count == 1 else "s" for count in (self.rows, self.kept))
        parts = [f"{self.rows:,} row{rows}: {self.kept:,} job{jobs} kept"]
        if any(self.states):
            parts[0] += f" ({_listed(self.states)})"
        for verb, reasons in (
            ("repaired", self.repaired),
            ("odd", self.odd),
            ("dropped", self.dropped),
        ):
            if total := reasons.total():
                parts.append(f"{total:,} {verb} ({_listed(reasons)})")
        return ", ".join(parts)


def _listed(counts: Counter[str]) -> str:
    """The commonest first: ``completed 3,912, failed 611, others 3``."""
    first = counts.most_common(_MOST_LISTED)
    others = counts.total() - sum(count for _, count in first)
    told = [f"{name or 'no state'} {count:,}" for name, count in first]
    return ", ".join([*told, f"others {others:,}"] if others else told)


class Specs(Sequence[JobSpec]):
    """The declarations of ``jobs`` that are made when they are looked at."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs

    def __len__(self) -> int:
        return len(self._jobs)

    @overload
    def __getitem__(self, place: int) -> JobSpec: ...

    @overload
    def __getitem__(self, place: slice) -> list[JobSpec]: ...

    def __getitem__(self, place: int | slice) -> JobSpec | list[JobSpec]:
        if isinstance(place, slice):
            return [job.spec for job in self._jobs[place]]
        return self._jobs[place].spec

    def __iter__(self) -> Iterator[JobSpec]:
        return (job.spec for job in self._jobs)


@dataclass(frozen=True)
class Workload:
    """Jobs sorted by submission (ties keep the order given), with the report of how they were read."""

    jobs: Sequence[Job]
    name: str = ""
    report: ImportReport | None = None

    @classmethod
    def of(
        cls, jobs: Iterable[Job], name: str = "", report: ImportReport | None = None
    ) -> "Workload":
        """The workload of ``jobs`` in any order; submission times are kept as they are."""
        ordered = sorted(jobs, key=lambda job: job.spec.submit_time)
        return cls(ordered, name, report)

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    @cached_property
    def specs(self) -> Sequence[JobSpec]:
        """The declarations of each job."""
        return [job.spec for job in self.jobs] if isinstance(self.jobs, list) else Specs(self.jobs)

    @cached_property
    def submit_times(self) -> FloatColumn:
        """Seconds, ascending."""
        return np.fromiter((spec.submit_time for spec in self.specs), np.float64, len(self))

    @cached_property
    def gpus(self) -> FloatColumn:
        """GPUs requested."""
        return np.fromiter((spec.gpus for spec in self.specs), np.float64, len(self))

    @cached_property
    def durations(self) -> FloatColumn:
        """Seconds each job takes alone on the GPUs it requests (of its first wished type)."""
        return seconds_alone(self.jobs, self.gpus)

    @cached_property
    def single_gpu_seconds(self) -> FloatColumn:
        """Seconds each job would take on one GPU (of its first wished type)."""
        return seconds_alone(self.jobs, np.ones(len(self)))

    def of_any_type(self) -> "Workload":
        """The same jobs, that run on any GPU type."""
        replace = msgspec.structs.replace
        jobs = [
            replace(job, spec=replace(job.spec, gpu_types=())) if job.spec.gpu_types else job
            for job in self.jobs
        ]
        return Workload(jobs, self.name, self.report)

    def rebased(self) -> "Workload":
        """The same jobs with the first submitted at 0 s."""
        if not self.jobs or self.jobs[0].spec.submit_time == 0.0:
            return self
        start = self.jobs[0].spec.submit_time
        replace = msgspec.structs.replace
        moved = [
            replace(
                job,
                spec=replace(job.spec, submit_time=job.spec.submit_time - start),
                recorded=earlier(job.recorded, start),
            )
            for job in self.jobs
        ]
        return Workload(moved, self.name, self.report)


def after_earlier(jobs: Sequence[Job]) -> Sequence[Job]:
    """``jobs`` in order of submission; what each is after counts only where that comes before it."""
    if not any(job.spec.after for job in jobs):
        return jobs
    replace = msgspec.structs.replace
    before: set[str] = set()
    found = []
    for job in jobs:
        after = tuple(one for one in job.spec.after if one.job in before)
        changed = after != job.spec.after
        found.append(replace(job, spec=replace(job.spec, after=after)) if changed else job)
        before.add(job.spec.id)
    return found


def earlier(recorded: Recorded | None, seconds: float) -> Recorded | None:
    """The same so many seconds earlier."""
    if recorded is None:
        return None
    return Recorded(recorded.start - seconds, recorded.end - seconds)
