"""``--publish``: told starts where users look, in the AdminComment of waiting jobs; removed at the end.

A comment of anybody else is never touched. A job's own comment says what was told, so that a later attach
finds what a killed one left.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from volvelle.incumbents.attach.accuracy import Told
from volvelle.incumbents.attach.follow import Follower
from volvelle.incumbents.slurm.site import Site
from volvelle.incumbents.slurm.snapshot import Job, Snapshot

PREFIX = "volvelle: "
EVERY = 300.0
"""Seconds from one round of comments to the next, at least."""
_MOST = 100
"""Comments that a round writes: each is a question that the controller answers."""
_MOVED, _MOVED_SECONDS = 0.1, 300.0
"""A start is told anew once it moved by this share of the time until it, and by so many seconds."""


class Commented(Protocol):
    """The one part that writes to Slurm (`volvelle.incumbents.slurm.ask.Slurm`)."""

    def comment(self, key: str, text: str) -> None:
        """Write a job's AdminComment. Raises `Problem` where that is not allowed."""


class Publisher:
    """Comments of the jobs that wait, the soonest first."""

    def __init__(self, slurm: Commented) -> None:
        self._slurm = slurm
        self._at = -EVERY
        self._told: dict[str, Told] = {}
        """The times that comments say, of jobs whose comment this process wrote."""

    def publish(self, follower: Follower[Site, Snapshot], told: Sequence[Told]) -> None:
        """Write what changed, if a round is due. Raises `Problem` where Slurm refuses a comment."""
        now = follower.snapshot.time
        if now - self._at < EVERY:
            return
        self._at = now
        jobs = {job.key: job for job in follower.snapshot.jobs}
        for key in [key for key, job in jobs.items() if self._is_ours(job) and not job.pending]:
            self._write(key, "")
        waiting = sorted((one for one in told if jobs[one.key].pending), key=lambda one: one.start)
        due = (one for one in waiting if self._is_due(jobs[one.key], one, now))
        for one, _ in zip(due, range(_MOST), strict=False):
            self._write(one.key, _text(one))
            self._told[one.key] = one

    def withdraw(self, follower: Follower[Site, Snapshot]) -> None:
        """Remove the comments that are there."""
        for job in follower.snapshot.jobs:
            if self._is_ours(job):
                self._write(job.key, "")

    def _is_ours(self, job: Job) -> bool:
        return job.key in self._told or job.admin_comment.startswith(PREFIX)

    def _is_due(self, job: Job, told: Told, now: float) -> bool:
        if not self._is_ours(job):
            return not job.admin_comment
        before = self._told.get(job.key)
        if before is None:
            return job.admin_comment != _text(told)
        moved = max(abs(told.start - before.start), abs(told.start_p90 - before.start_p90))
        return moved > max(_MOVED * (told.start - now), _MOVED_SECONDS)

    def _write(self, key: str, text: str) -> None:
        self._slurm.comment(key, text)
        if not text:
            self._told.pop(key, None)


def _text(told: Told) -> str:
    """``volvelle: starts 2026-11-26T14:20 to 2026-11-26T15:10 (P50 to P90)``, in this machine's time."""
    first, last = (
        datetime.fromtimestamp(time).strftime("%Y-%m-%dT%H:%M")
        for time in (told.start, told.start_p90)
    )
    return f"{PREFIX}starts {first} to {last} (P50 to P90)"
