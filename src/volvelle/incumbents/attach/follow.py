"""Following a cluster: each snapshot teaches how long jobs run and how well was told, then all are told anew.

::

    snapshot ─▶ observe: starts, ends, requeues ─▶ run times, calibration, accuracy
             └▶ tell: believed run times ─▶ mechanism ─▶ calibration ─▶ start and end of each job, and P90

Jobs are told apart by (key, submission, restarts): a requeue moves the submission and counts as a restart; a
number that a controller gave twice (it lost its state) is another job.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Generic

from volvelle.estimate.likeness import ARRIVALS_SECONDS, Observed
from volvelle.estimate.told import ToldTimes
from volvelle.incumbents.attach.accuracy import Accuracy, Told
from volvelle.incumbents.attach.incumbent import Incumbent, Job, SiteT, SnapshotT
from volvelle.incumbents.attach.run_times import RunTimes

_BY_THEMSELVES = frozenset(("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY"))
_CUT_SHORT = frozenset(
    ("CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REVOKED", "LAUNCH_FAILED")
)
_JUMP = 60.0
"""Seconds that a clock may go back between polls before what was told earlier is dropped."""

_KEPT = 100_000
_FOLLOWED = 1000
"""Jobs that are told one by one, and learned from; of more an even part, and the others as those alike."""
_STEPS = 8
"""Times are alike within the eighth part of an octave."""
_Alike = tuple[object, ...]


_LATEST = 20
"""Starts of a queue that are averaged (a moving average a queue, as Kueue's users propose)."""


class QueueWaits:
    """Naive starts: a job waits as long as the latest of its queue did, on average, in seconds."""

    def __init__(self) -> None:
        self._waits: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_LATEST))

    def started(self, job: Job, start: float) -> None:
        """A job started."""
        self._waits[job.queue].append(max(start - (job.eligible or job.submit), 0.0))

    def start(self, job: Job, now: float) -> float | None:
        """The start of a job that waits, at once where it is overdue; None before any other started."""
        waits = self._waits.get(job.queue)
        if not waits:
            return None
        return max((job.eligible or job.submit) + sum(waits) / len(waits), now)


@dataclass
class _Track:
    """A job as it was last seen."""

    job: Job
    over: bool = False


class Follower(Generic[SiteT, SnapshotT]):
    """The knowledge of a cluster so far, and the times told from it."""

    def __init__(self, site: SiteT, incumbent: Incumbent[SiteT, SnapshotT]) -> None:
        self.site, self.incumbent = site, incumbent
        self._tracks: dict[str, _Track] = {}
        self._run_times = RunTimes()
        self._scale = scale = site.launch_seconds
        self._starts = ToldTimes[str](offset_seconds=scale)
        self._ends = ToldTimes[str](offset_seconds=scale)
        self._told_alike: set[str] = set()
        """Jobs of a long queue that are told as others are, and not learned from."""
        self._waits = QueueWaits()
        self.accuracy = Accuracy(incumbent.naive.word)
        self._snapshot: SnapshotT | None = None
        self.remarks: list[str] = []
        self.over = deque[Job](maxlen=_KEPT)
        """Jobs whose end was seen, the latest last: a scheduler shows them for minutes only."""
        self.why: dict[str, str] = {}
        """The cause that keeps a job waiting, by its key, as of the last time told."""

    @property
    def snapshot(self) -> SnapshotT:
        """The last one. Raises `ValueError` before the first."""
        if self._snapshot is None:
            raise ValueError("nothing was observed yet")
        return self._snapshot

    @property
    def seen(self) -> Mapping[str, Job]:
        """Every job that the scheduler still shows, by key."""
        return {key: track.job for key, track in self._tracks.items()}

    def observe(self, snapshot: SnapshotT) -> None:
        """Learn from a snapshot: what started, ended, was requeued or has gone since the last."""
        before = self._snapshot.time if self._snapshot is not None else 0.0
        now = snapshot.time
        self.remarks = list(snapshot.remarks)
        if now < before - _JUMP:
            self.remarks.append(
                f"The clock went back by {before - now:.0f} s: times told before are not judged."
            )
            self._forget()
        seen = {job.key: job for job in snapshot.jobs}
        for key in self._tracks.keys() - seen.keys():
            self._gone(key)
        for job in snapshot.jobs:
            self._see(job)
        self._snapshot = snapshot
        self.site = self.site.at(snapshot)
        self._run_times.now(
            (self.site.groups(job), max(now - job.start, 0.0), self.site.limit_of(job))
            for job in snapshot.jobs
            if job.state == "RUNNING" and job.start is not None
        )

    def _see(self, job: Job) -> None:
        track = self._tracks.get(job.key)
        if track is None:
            self._tracks[job.key] = _Track(job, over=not (job.pending or job.running))
            if self._tracks[job.key].over:
                self.over.append(job)
                self._learn(job, job.start, job.end, job.state in _BY_THEMSELVES)
            return
        last = track.job
        again = job.restarts > last.restarts or (job.pending and last.running)
        if job.submit > last.submit and not again and not track.over and last.submit:
            self._gone(job.key)  # the number was given again: the controller lost its state
            self._see(job)
            return
        if again and not track.over:
            self._cut_short(last, job)
        track.job = job
        if job.start is not None and not job.pending and (again or not last.running):
            self._came(self._starts, job.key, job.start)
            self.accuracy.started(job.key, job.start)
            self._waits.started(job, job.start)
        if not (job.pending or job.running) and not track.over:
            track.over = True
            self._over(job)
        elif job.pending or job.running:
            track.over = False

    def _cut_short(self, last: Job, job: Job) -> None:
        """A run was stopped and its job waits anew, or runs anew: a lower bound of its run time."""
        if last.pending:  # it started and was stopped between two polls
            self._came(self._starts, job.key, job.submit)
            self.accuracy.started(job.key, job.submit)
        elif last.start is not None:
            self._learn(last, last.start, job.submit, False)

    def _over(self, job: Job) -> None:
        self.over.append(job)
        itself = job.state in _BY_THEMSELVES
        self._learn(job, job.start, job.end, itself)
        if itself and job.end is not None:
            self._came(self._ends, job.key, job.end)
            self.accuracy.ended(job.key, job.end)
        self._starts.withdraw(job.key)
        self._ends.withdraw(job.key)
        self.accuracy.forget(job.key)

    def _came(self, times: ToldTimes[str], key: str, when: float) -> None:
        if key not in self._told_alike:
            times.came(key, when)

    def _learn(self, job: Job, start: float | None, end: float | None, ended: bool) -> None:
        if start is not None and end is not None and end > start:
            groups, limit = self.site.groups(job), self.site.limit_of(job)
            self._run_times.add(groups, end - start, limit, ended=ended)

    def _gone(self, key: str) -> None:
        """A job that is not shown any more: purged after its end, or lost; how it ended is not known."""
        del self._tracks[key]
        self._starts.withdraw(key)
        self._ends.withdraw(key)
        self.accuracy.forget(key)

    def _forget(self) -> None:
        self._starts.withdraw()
        self._ends.withdraw()
        self.accuracy.forget()

    def tell(self) -> list[Told]:
        """Starts and ends of all jobs that wait or run, told at the last snapshot's moment."""
        now, seconds = self.snapshot.time, self.believed()
        courses = self.incumbent.foresee(self.site, self.snapshot, seconds)
        self.why = {key: one.why for key, one in courses.items() if one.why}
        foreseen = [one.start for one in courses.values() if one.start is not None]
        last = max(now, *foreseen) if foreseen else now
        found = []
        for job in self._jobs():
            course = courses.get(job.key)
            start = job.start if job.running else getattr(course, "start", None)
            if start is None:  # after all that is foreseen
                start = last
            end = getattr(course, "end", None)
            end = start + seconds[job.key] if end is None else end
            found.append((job, max(start, now) if job.pending else start, max(end, now)))
        return self._tell(found, seconds)

    def _jobs(self) -> list[Job]:
        return [job for job in self.snapshot.jobs if job.pending or job.running]

    def believed(self, share: float = 0.5) -> dict[str, float]:
        """Seconds that whole runs are believed to take, by job's key, of those that wait or run.

        share: of such jobs that take no longer.
        """
        return {job.key: self._believed(job, share) for job in self._jobs()}

    def _believed(self, job: Job, share: float) -> float:
        site = self.site
        so_far = max(self.snapshot.time - job.start, 0.0) if job.running and job.start else 0.0
        return self._run_times.believed(site.groups(job), site.limit_of(job), so_far, share)

    def remember(self, told: Sequence[Told]) -> None:
        """Keep what was told at the last snapshot's moment, to judge it by what comes."""
        jobs = {job.key: job for job in self.snapshot.jobs}
        self._tell([(jobs[one.key], one.start, one.end) for one in told], self.believed())

    def _tell(
        self, expected: Sequence[tuple[Job, float, float]], seconds: Mapping[str, float]
    ) -> list[Told]:
        """Tell of jobs their start and end as they are expected."""
        now, found = self.snapshot.time, []
        submitted = sorted(job.submit for job in self._jobs())
        arrivals = len(submitted) - bisect_left(submitted, now - ARRIVALS_SECONDS)
        each, ratios = -(-len(expected) // _FOLLOWED), dict[_Alike, tuple[float, float]]()
        self._told_alike = set()
        for job, start, end in expected:
            observed = Observed(
                len(submitted),
                arrivals,
                seconds[job.key],
                job.gpus or job.cpus,
                self.site.kinds(job),
            )
            naive = self._naive(job, now) if job.pending else None
            followed = job.number % each == 0 or job.key in self._ends
            start_p90 = start
            if followed:
                end_p90 = now + self._ends.tell(job.key, now, observed, end - now).p90
                if job.pending:
                    start_p90 = now + self._starts.tell(job.key, now, observed, start - now).p90
            else:
                self._told_alike.add(job.key)
                start_p90, end_p90 = self._as_alike(observed, now, start, end, ratios)
            told = Told(job.key, start, max(start_p90, start), end, max(end_p90, end), naive)
            if job.pending and followed:
                limit = self.site.limit_of(job) if self.incumbent.naive.told else seconds[job.key]
                self.accuracy.told(now, told, naive and limit and naive + limit)
            found.append(told)
        return found

    def _naive(self, job: Job, now: float) -> float | None:
        """The start that the scheduler tells, or by the usual wait of its queue."""
        if not self.incumbent.naive.told:
            return self._waits.start(job, now)
        return job.start if job.start and job.start >= now - 15.0 else None

    def _as_alike(
        self,
        observed: Observed,
        now: float,
        start: float,
        end: float,
        ratios: dict[_Alike, tuple[float, float]],
    ) -> tuple[float, float]:
        """P90 of start and end, by what they are of the times of the first job that is alike."""
        scale = self._scale
        waits, lasts = max(start - now, 0.0) + scale, max(end - now, 0.0) + scale
        steps = (round(_STEPS * log2(one)) for one in (waits, lasts, max(observed.service, 1.0)))
        alike = observed.kinds, observed.width, *steps
        if alike not in ratios:
            tellings = ((self._starts, waits), (self._ends, lasts))
            first, last = (
                (times.ask(now, observed, seconds - scale).p90 + scale) / seconds
                for times, seconds in tellings
            )
            ratios[alike] = first, last
        first, last = ratios[alike]
        return now + first * waits - scale, now + last * lasts - scale


Attached = Follower[Any, Any]
"""A follower of any scheduler."""
