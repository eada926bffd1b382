"""Effects of a change of the site on the jobs that wait now: by queue and by user."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from volvelle.incumbents.attach.follow import Attached
from volvelle.incumbents.attach.incumbent import Course, Incumbent, Job, Site, Snapshot

SHARES = (0.5, 0.25, 0.75)
"""Shares of jobs that take no longer than believed: run times of the middle, of quick and of slow jobs."""


class Effect(NamedTuple):
    """Mean waits of the jobs of a queue or a user from now on, in seconds, as it is and changed.

    never: jobs that would not start any more, which the means leave out. least, most: of the difference, with
    run times of quick, usual and slow jobs.
    """

    kind: str
    name: str
    jobs: int
    never: int
    before: float
    after: float
    least: float
    most: float


class Present(NamedTuple):
    """A cluster as of the last poll. seconds: believed run times by job's key, for each of `SHARES`."""

    incumbent: Incumbent[Any, Any]
    site: Site
    snapshot: Snapshot[Any]
    seconds: tuple[Mapping[str, float], ...]

    @classmethod
    def of(cls, follower: Attached) -> "Present":
        """The present of a follower, which may go on meanwhile."""
        seconds = tuple(follower.believed(share) for share in SHARES)
        return cls(follower.incumbent, follower.site, follower.snapshot, seconds)


class _Pair(NamedTuple):
    """Waits of a job from now on, in seconds: as it is, and changed (None: it does not start any more)."""

    job: Job
    before: float
    after: float | None


def effects(now: Present, changes: Sequence[str]) -> list[Effect]:
    """The effect of changes on the jobs that wait at the last poll. Raises `Problem` for one that is none."""
    of, site, snapshot, _ = now
    other, changed = of.changed(site, snapshot, changes)
    by_share = []
    for seconds in now.seconds:
        before, after = of.foresee(site, snapshot, seconds), of.foresee(other, changed, seconds)
        by_share.append(list(_pairs(snapshot, before, after)))
    found = []
    for kind, name_of in _GROUPINGS.items():
        for name in dict.fromkeys(name_of(one.job) for one in by_share[0]):
            mine = [[one for one in pairs if name_of(one.job) == name] for pairs in by_share]
            found.append(_effect(kind, name, mine))
    return sorted(found, key=lambda one: (one.kind, -abs(one.after - one.before) * one.jobs))


_GROUPINGS: dict[str, Callable[[Job], str]] = {
    "all": lambda job: "",
    "queue": lambda job: job.queue,
    "user": lambda job: job.user,
}


def _pairs(
    snapshot: Snapshot[Any], before: Mapping[str, Course], after: Mapping[str, Course]
) -> Iterator[_Pair]:
    """The waits of jobs that start as it is."""
    for job in snapshot.jobs:
        start = before[job.key].start if job.pending and job.key in before else None
        if start is not None:
            other = after[job.key].start if job.key in after else None
            yield _Pair(
                job, start - snapshot.time, None if other is None else other - snapshot.time
            )


def _effect(kind: str, name: str, by_share: Sequence[Sequence[_Pair]]) -> Effect:
    means, moved = [], []
    for pairs in by_share:
        both = [(one.before, one.after) for one in pairs if one.after is not None]
        before, after = (
            (statistics.fmean(side) for side in zip(*both, strict=True)) if both else (0.0, 0.0)
        )
        means.append((before, after))
        moved.append(after - before)
    never = sum(one.after is None for one in by_share[0])
    return Effect(kind, name, len(by_share[0]), never, *means[0], min(moved), max(moved))
