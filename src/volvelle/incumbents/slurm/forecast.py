"""From a snapshot of a running Slurm to a forecast of all its jobs, by the one look-ahead of the core."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.core.scheduler import Scheduler
from volvelle.incumbents.attach.incumbent import Expected
from volvelle.incumbents.slurm.past import past_of
from volvelle.incumbents.slurm.policy import NO_GPUS, Slurm
from volvelle.incumbents.slurm.site import Job, Site, Snapshot
from volvelle.model.cluster import Cluster, Node
from volvelle.model.job import JobSpec
from volvelle.model.throughput import Table

MOST, NEAR = 1000, 200
"""So many waiting jobs are all played out; of more the first `NEAR`."""
_ALONE, _TURNS = 200, 20
"""So many running jobs are let in one by one; more in so many turns, by start, as if those of one turn had
started together."""
_STEADY = Table((1.0,))
"""A second of work a second, on however many GPUs."""


def scheduler_of(site: Site, snapshot: Snapshot, durations: Mapping[str, float]) -> Scheduler:
    """A scheduler in the state of a snapshot: running jobs on their nodes with what they have run.

    durations: how long each job is believed to take in all, in seconds, by key; jobs that run longer
    already are believed to end at once. Times are Slurm's, in seconds since 1970.
    """
    site = site.at(snapshot)
    jobs = [job for job in snapshot.jobs if job.pending or job.running]
    running = sorted((job for job in jobs if job.running), key=_started)
    policy = Slurm.of(site, jobs, past_of(site, snapshot))
    written = WrittenComposition(
        policy="fifo", placement="first-free", estimator="declared"
    ).build()
    scheduler = Scheduler(_cluster(site, len(jobs)), written._replace(policy=policy))
    most = float(max(sum(sum(node.gpus.values()) for node in site.nodes), 1))
    before = snapshot.time - 1e-3
    at_once = 1 if len(running) <= _ALONE else -(-len(running) // _TURNS)
    turns = [running[at : at + at_once] for at in range(0, len(running), at_once)]
    for turn in (*turns, [job for job in jobs if job.pending]):
        time = min(_started(turn[0]), before) if turn and turn[0].running else before
        first = len(scheduler.known)
        scheduler.handle(
            time,
            [
                JobSubmitted(
                    time, first + at, _spec(job, most, time, durations.get(job.key), snapshot.time)
                )
                for at, job in enumerate(turn)
            ],
        )
    scheduler.handle(snapshot.time, [])
    return scheduler


def foresee(site: Site, snapshot: Snapshot, durations: Mapping[str, float]) -> dict[str, Expected]:
    """When each job of a snapshot starts next and ends, if jobs take so long and nobody else comes.

    Where more than `MOST` wait, the first `NEAR` by priority are played out, and the others told by the work
    before them.
    """
    waiting = sorted((job for job in snapshot.jobs if job.pending), key=_rank)
    far = {job.key for job in waiting[NEAR:]} if len(waiting) > MOST else set()
    near = replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.key not in far))
    scheduler = scheduler_of(site, near, durations)
    numbers = {scheduler.spec(number).id: number for number in scheduler.known}
    why = scheduler.composition.policy.why
    if not far:
        forecast = Fork(scheduler).until()
        return {
            key: Expected(forecast.upcoming.get(number), forecast.finish.get(number), why(number))
            for key, number in numbers.items()
        }
    first = [numbers[job.key] for job in waiting[:NEAR]]
    forecast = Fork(scheduler).until(first, begun=True)
    found = {}
    for job in near.jobs:
        if job.key not in numbers:
            continue
        number, seconds = numbers[job.key], durations.get(job.key, 3600.0)
        start, end = forecast.upcoming.get(number), forecast.finish.get(number)
        if end is None and start is not None:
            end = _started(job) + seconds if job.running else start + seconds
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

    Work is GPU-seconds before a job in the queue of its partitions; without GPUs a job counts as one.
    """
    work: dict[tuple[str, ...], float] = defaultdict(float)
    last: dict[tuple[str, ...], float] = {}
    reached: dict[tuple[str, ...], float] = {}
    found = {}
    whole, latest = 1.0, now + 1.0
    for job in waiting:
        of, seconds = job.partitions, durations.get(job.key, 3600.0)
        if job.key in near:
            start = near[job.key].start
            if start is not None:
                last[of] = max(last.get(of, now + 1.0), start)
                latest = max(latest, start)
            work[of] += max(job.gpus, 1.0) * seconds
            whole += max(job.gpus, 1.0) * seconds
            reached[of] = work[of]
            continue
        pace = reached[of] / (last[of] - now) if of in last else whole / (latest - now)
        start = last.get(of, latest) + (work[of] - reached.get(of, 0.0)) / pace
        found[job.key] = Expected(start, start + seconds)
        work[of] += max(job.gpus, 1.0) * seconds
    return found


def _rank(job: Job) -> tuple[bool, float, int]:
    """The place of a job in the queue: those that are held behind all others."""
    return not job.priority, -(job.priority or 0.0), job.id


def _started(job: Job) -> float:
    return job.start or job.submit


def _cluster(site: Site, jobs: int) -> Cluster:
    nodes = [Node(node.name, max(sum(node.gpus.values()), 1)) for node in site.nodes]
    return Cluster((*nodes, Node(NO_GPUS, max(jobs, 1))))


def _spec(job: Job, most: float, time: float, believed: float | None, now: float) -> JobSpec:
    """The job as the core sees it: it lasts as long as is believed on whatever it gets."""
    seconds = believed if believed is not None else job.limit_seconds or 3600.0
    if job.running:
        seconds = max(seconds + max(_started(job) - time, 0.0), now + 1.0 - time)
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
