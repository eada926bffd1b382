"""How long jobs run, as a share of their limit: learned from those that ended and those that still run.

What jobs of the same user, name and limit took counts most, then those of the user and name, of the user, of
all; in an array its own tasks come first. Runs that were cut short (preempted, cancelled) and runs that go on
are lower bounds. Before anything is known, half of the jobs are taken to use at most ``_PRIOR``'s median.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from volvelle.incumbents.slurm.site import Job, Site
from volvelle.incumbents.slurm.survival import Curve
from volvelle.model.arrays import Floats

_PRIOR = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Ratios of jobs of which nothing is known; together they weigh as one job."""
_KEPT = 200
"""Runs of each group that count, the latest."""
_TRUST = 3.0
"""So many jobs of a group weigh as much as all that is known of larger groups."""
_WITHOUT_LIMIT = 86400.0
"""Seconds that stand for the limit of a job that has none."""

Group = tuple[object, ...]
Seen = tuple[float, bool]
"""Ratio to the limit, and whether the run ended by itself."""


class RunTimes:
    """Ratios of run time to limit, by groups."""

    def __init__(self) -> None:
        self._seen: dict[Group, deque[Seen]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._going: dict[Group, list[Seen]] = {}
        self._curves: dict[Group, Curve] = {}
        self._columns: dict[Group, tuple[Floats, NDArray[np.bool_]]] = {}
        """Ratios of groups, and whether these runs ended; with the curves, as long as nothing is learned."""

    def add(self, job: Job, seconds: float, limit: float, ended: bool) -> None:
        """Learn from a run that is over. ended: it was not cut short."""
        for group in _groups(job, limit):
            self._seen[group].append((min(seconds / limit, 1.0), ended))
            self._columns.pop(group, None)
        self._curves.clear()

    def now(self, running: Iterable[tuple[Job, float, float]]) -> None:
        """The runs that go on, each with its seconds so far and its limit."""
        going: dict[Group, list[Seen]] = defaultdict(list)
        for job, seconds, limit in running:
            for group in _groups(job, limit):
                going[group].append((min(seconds / limit, 1.0), False))
        self._going = going
        self._curves.clear()
        self._columns.clear()

    def believed(self, job: Job, limit: float, so_far: float = 0.0, share: float = 0.5) -> float:
        """Seconds of a whole run that ``share`` of such jobs do not exceed, of those that ran ``so_far``."""
        groups = _groups(job, limit)
        if groups[0] not in self._curves:
            self._curves[groups[0]] = self._curve(groups)
        ratio = self._curves[groups[0]].quantile(share, so_far / limit)
        return max(min(ratio, 1.0) * limit, so_far + 1.0)

    def _curve(self, groups: list[Group]) -> Curve:
        columns, weights, have = [self._column(group) for group in groups], [], 0.0
        for ratios, _ in columns:
            each = (
                min(1.0, _TRUST / max(len(ratios), 1)) * _TRUST / (_TRUST + have) if have else 1.0
            )
            weights.append(np.full(len(ratios), each))
            have += each * len(ratios)
        last = (1.0 if not have else _TRUST / (_TRUST + have)) / len(_PRIOR)
        columns.append((np.array(_PRIOR), np.ones(len(_PRIOR), dtype=np.bool_)))
        weights.append(np.full(len(_PRIOR), last))
        ratios, ended = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        return Curve(ratios, ended, np.concatenate(weights))

    def _column(self, group: Group) -> tuple[Floats, NDArray[np.bool_]]:
        if group not in self._columns:
            seen = [*self._seen.get(group, ()), *self._going.get(group, ())]
            ratios = np.array([ratio for ratio, _ in seen], dtype=np.float64)
            self._columns[group] = ratios, np.array([over for _, over in seen], dtype=np.bool_)
        return self._columns[group]


def _groups(job: Job, limit: float) -> list[Group]:
    """Groups of a job, the narrowest first."""
    of_all: list[Group] = [
        (job.user, job.name, limit),
        (job.user, job.name),
        (job.user,),
        (),
    ]
    return of_all if job.array is None else [("array", job.array, job.user, limit), *of_all]


def limit_of(job: Job, limits: Mapping[str, float]) -> float:
    """The longest that it may run, in seconds: its own limit, else its partition's."""
    if job.limit_seconds:
        return job.limit_seconds
    return min((limits[name] for name in job.partitions if name in limits), default=_WITHOUT_LIMIT)


def partition_limits(site: Site) -> dict[str, float]:
    """The limit of jobs without their own, by partition."""
    found: Iterator[tuple[str, float | None]] = (
        (one.name, one.default_seconds or one.max_seconds) for one in site.partitions
    )
    return {name: limit for name, limit in found if limit}
