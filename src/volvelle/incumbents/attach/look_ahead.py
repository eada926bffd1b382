"""From a snapshot of a scheduler to a forecast of all its jobs, by the one look-ahead of the core.

The core sees each job as work that lasts as long as is believed on whatever the policy gives it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.core.policy import Policy
from volvelle.core.scheduler import Scheduler
from volvelle.incumbents.attach.incumbent import Expected, Job, SnapshotT
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec
from volvelle.model.throughput import Table

MOST, NEAR = 1000, 200
"""So many waiting jobs are all played out; of more the first `NEAR`."""
_ALONE, _TURNS = 200, 20
"""So many running jobs are let in one by one; more in so many turns, by start, as if those of one turn had
started together."""
_STEADY = Table((1.0,))
"""A second of work a second, on however many GPUs."""
_UNKNOWN = 3600.0
"""Seconds of a job of which nothing is believed."""


def in_flight(
    policy: Policy,
    cluster: Cluster,
    jobs: Sequence[Job],
    now: float,
    durations: Mapping[str, float],
) -> Scheduler:
    """A scheduler in the state of a snapshot: running jobs hold what they hold, with what they have run.

    durations: how long each job is believed to take in all, in seconds, by key; jobs that run longer
    already are believed to end at once. Times are seconds since 1970.
    """
    running = sorted((job for job in jobs if job.running), key=started)
    written = WrittenComposition(
        policy="fifo", placement="first-free", estimator="declared"
    ).build()
    scheduler = Scheduler(cluster, written._replace(policy=policy))
    most, before = float(cluster.gpus), now - 1e-3
    at_once = 1 if len(running) <= _ALONE else -(-len(running) // _TURNS)
    turns = [running[at : at + at_once] for at in range(0, len(running), at_once)]
    for turn in (*turns, [job for job in jobs if job.pending]):
        time = min(started(turn[0]), before) if turn and turn[0].running else before
        first = len(scheduler.known)
        scheduler.handle(
            time,
            [
                JobSubmitted(time, first + at, _spec(job, most, time, durations.get(job.key), now))
                for at, job in enumerate(turn)
            ],
        )
    scheduler.handle(now, [])
    return scheduler


def foresee(
    scheduler_of: Callable[[SnapshotT], Scheduler],
    snapshot: SnapshotT,
    waiting: Sequence[Job],
    durations: Mapping[str, float],
    near: int = 0,
) -> dict[str, Expected]:
    """When each job of a snapshot starts next and ends, if jobs take so long and nobody else comes.

    waiting: the jobs that wait, the first to be served first. Where more than `MOST` wait, the first `NEAR`
    are played out, or ``near`` where that is more, and the others told by the work before them.
    """
    near = max(near, NEAR)
    far = {job.key for job in waiting[near:]} if len(waiting) > MOST else set()
    jobs = tuple(job for job in snapshot.jobs if job.key not in far)
    scheduler = scheduler_of(replace(snapshot, jobs=jobs) if far else snapshot)
    numbers = {scheduler.spec(number).id: number for number in scheduler.known}
    why = scheduler.composition.policy.why
    if not far:
        forecast = Fork(scheduler).until()
        return {
            key: Expected(forecast.upcoming.get(number), forecast.finish.get(number), why(number))
            for key, number in numbers.items()
        }
    first = [numbers[job.key] for job in waiting[:near] if job.key in numbers]
    forecast = Fork(scheduler).until(first, begun=True)
    found = {}
    for job in jobs:
        if job.key not in numbers:
            continue
        number, seconds = numbers[job.key], durations.get(job.key, _UNKNOWN)
        start, end = forecast.upcoming.get(number), forecast.finish.get(number)
        if end is None and start is not None:
            end = started(job) + seconds if job.running else start + seconds
        end = end if end is None else max(end, snapshot.time + 1.0)
        found[job.key] = Expected(start, end, why(number))
    return found | _behind(waiting, found, durations, snapshot.time)


def _behind(
    waiting: Sequence[Job],
    near: Mapping[str, Expected],
    durations: Mapping[str, float],
    now: float,
) -> dict[str, Expected]:
    """Starts of those that are not ``near``: as fast as the work of the near ones starts, the rest follows.

    Work is GPU-seconds before a job in its queue; without GPUs a job counts as one. A queue of which none is
    near has an even part of the whole pace.
    """
    work: dict[str, float] = defaultdict(float)
    last: dict[str, float] = {}
    reached: dict[str, float] = {}
    found = {}
    whole, latest = 1.0, now + 1.0
    for job in waiting:
        of, seconds = job.queue, durations.get(job.key, _UNKNOWN)
        if job.key in near:
            start = near[job.key].start
            if start is not None:
                last[of] = max(last.get(of, now + 1.0), start)
                latest = max(latest, start)
            work[of] += max(job.gpus, 1.0) * seconds
            whole += max(job.gpus, 1.0) * seconds
            reached[of] = work[of]
            continue
        pace = reached[of] if of in last else whole / max(len(last), 1)
        pace /= last.get(of, latest) - now
        start = last.get(of, latest) + (work[of] - reached.get(of, 0.0)) / pace
        found[job.key] = Expected(start, start + seconds)
        work[of] += max(job.gpus, 1.0) * seconds
    return found


def started(job: Job) -> float:
    """When a running job started."""
    return job.start or job.submit


def _spec(job: Job, most: float, time: float, believed: float | None, now: float) -> JobSpec:
    """The job as the core sees it: it lasts as long as is believed on whatever it gets."""
    seconds = believed if believed is not None else job.limit_seconds or _UNKNOWN
    if job.running:
        seconds = max(seconds + max(started(job) - time, 0.0), now + 1.0 - time)
    return JobSpec(
        id=job.key,
        submit_time=time,
        gpus=1.0,
        min_gpus=1.0,
        max_gpus=most,
        user=job.user,
        pool="",
        name=job.name,
        throughput=_STEADY,
        estimate_seconds=max(seconds, 1.0),
        starts_over=True,
    )
