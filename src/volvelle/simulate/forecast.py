"""The forecast: fork the scheduler and run it ahead in a world made of its beliefs.

Nobody else arrives (PCS, OSDI'24, section 4), unless a `Future` says who, and how beliefs err. Starts,
restores and checkpoints cost what the scheduler believes they cost, also those that are going on. The
parent never notices.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from volvelle.core.entry import waiting_for_admission
from volvelle.core.events import JobCancelled, JobFinished
from volvelle.core.log import Batch, Submission
from volvelle.core.parts import Belief, KnownJob
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import (
    COME,
    CONCLUDED,
    FINISHED,
    INFINITY,
    OBJECT,
    QUEUED,
    TIMED_OUT,
    WAKE,
)
from volvelle.core.view import FloatColumn, JobView
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.tolerances import LEAST_DIVISOR
from volvelle.simulate.coming import Coming
from volvelle.simulate.world import Recording, Watcher, World


@dataclass(frozen=True)
class Forecast:
    """When jobs, by number, are believed to start for the first time and to finish, in seconds.

    Jobs that are believed never to finish are missing. upcoming: when those without GPUs are given some
    next, whether they ran before or not, and when those with GPUs started.
    """

    start: dict[int, float]
    finish: dict[int, float]
    upcoming: dict[int, float] = field(default_factory=dict)


class _Times:
    """Takes note of first starts and finishes."""

    def __init__(self) -> None:
        self.start: dict[int, float] = {}
        self.upcoming: dict[int, float] = {}
        self.finish: dict[int, float] = {}

    def take(self, batch: Batch, submission: Submission) -> None:
        """A stretch of moments."""
        over = np.isin(batch.kind, (FINISHED, CONCLUDED, TIMED_OUT))
        numbers, times = batch.number[over].tolist(), batch.event_time[over].tolist()
        self.finish.update(zip(numbers, times, strict=True))
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


@dataclass(frozen=True)
class Future:
    """What may come: jobs, numbered from ``first``, and what will have been believed of them.

    ratios: given the shares of what is believed of jobs that they have done, what they truly take over
    what is believed.
    """

    first: int
    coming: Sequence[tuple[JobSpec, Belief]]
    ratios: Callable[[FloatColumn], FloatColumn]


def forecast(
    scheduler: Scheduler, *, until_finish_of: int | None = None, future: Future | None = None
) -> Forecast:
    """What becomes of the jobs in ``scheduler`` if beliefs hold and nobody else arrives, or in ``future``.

    Crashes and failures of nodes are not foreseen, planned changes of nodes are. ``until_finish_of``: the
    job with which the play-out may end.
    """
    ahead = scheduler.fork()
    times = _Times()
    jobs = JobView(ahead.state, ahead.now)
    numbers = jobs.number.astype(np.int64).tolist()
    rows = zip(numbers, jobs.first_start.tolist(), jobs.held.tolist(), strict=True)
    for number, start, held in rows:
        if start == start:  # noqa: PLR0124 - not NaN
            times.start[number] = start
            if held > 0.0:
                times.upcoming[number] = start
    tracked = None if until_finish_of is None else (until_finish_of, until_finish_of)
    believed_world(ahead, [times], tracked=tracked, future=future).run()
    return Forecast(times.start, times.finish, times.upcoming)


def withdrawn(scheduler: Scheduler, numbers: Iterable[int]) -> Scheduler:
    """A scheduler in the same state, except that these jobs were cancelled at this moment."""
    ahead = scheduler.fork()
    ahead.handle(ahead.now, [JobCancelled(ahead.now, number) for number in numbers])
    return ahead


def believed_world(
    ahead: Scheduler,
    watchers: Sequence[Watcher | Recording],
    *,
    tracked: tuple[int, int] | None = None,
    future: Future | None = None,
) -> World:
    """A world in which what ``ahead`` believes is true from now on, but for what errs in ``future``."""
    ahead.cluster = msgspec.structs.replace(ahead.cluster, failures=None)
    ahead.compile_where_it_pays()
    ahead.believe()
    running = _go_on(ahead, future)
    ahead.expect_ends()
    coming = _coming(ahead, future)
    world = World(ahead, coming, watchers, tracked=tracked, compiled=ahead.state.compiled)
    world.running = running
    s = ahead.state
    s.clock[WAKE] = INFINITY if (wake := ahead.wake_at()) is None else wake
    for number in running:
        row = ahead.row_of(number)
        if row is not None and s.jobs.held[row] > 0.0:
            world.go_on(row)
    return world


def _coming(ahead: Scheduler, future: Future | None) -> Coming:
    """Jobs in the admission queue, those that stand aside for others, and those that come in ``future``."""
    s, queue = ahead.state, waiting_for_admission(ahead)
    aside = list(ahead.dependents.submissions())
    places = {event.number: place for place, event in enumerate(aside, len(queue))}
    queue += aside
    told = [ahead.composition.estimator.believe(event, ahead.seed) for event in queue]
    numbers = [event.number for event in queue]
    specs = [
        msgspec.structs.replace(event.spec, after=())
        if event.spec.after and event.number not in places
        else event.spec
        for event in queue
    ]
    for number, place in places.items():
        ahead.dependents.aside[number] = ahead.dependents.aside[number]._replace(place=place)
    ahead.queue.clear()
    s.count[QUEUED], s.count[COME] = 0, len(queue)
    if future is not None:
        specs += [spec for spec, _ in future.coming]
        told += [belief for _, belief in future.coming]
        numbers += range(future.first, future.first + len(future.coming))
    believed = [_as_believed(belief.truth, belief.scale, 0.0) for belief in told]
    truths = _erring(believed, [0.0] * len(believed), future)
    jobs = [Job(spec, truth) for spec, truth in zip(specs, truths, strict=True)]
    return Coming(ahead, jobs, numbers, [Belief(truth) for truth in believed])


def _go_on(ahead: Scheduler, future: Future | None) -> dict[int, Job]:
    """Let jobs take longer or shorter in ``future``; returns those that only Python knows."""
    jobs = JobView(ahead.state, ahead.now)
    total = jobs.column("total")
    if future is not None:
        jobs.write("true_work", true_work(jobs, future.ratios))
    running, work = {}, jobs.column("true_work").tolist()
    for place in np.flatnonzero(jobs.column("truly_asked")).tolist():
        number = int(jobs.number[place])
        known = ahead.known[number]
        believed = msgspec.structs.replace(known.believed, failures=(), work=float(total[place]))
        ahead.known[number] = KnownJob(known.spec, believed)
        truth = msgspec.structs.replace(believed, work=work[place])
        running[number] = Job(known.spec, truth)
    return running


def true_work(jobs: JobView, ratios: Callable[[FloatColumn], FloatColumn]) -> FloatColumn:
    """Units of work of jobs that err by ``ratios``: at least what they have done."""
    total, reached = jobs.column("total"), jobs.work_done
    done = reached / np.maximum(total, LEAST_DIVISOR)
    work: FloatColumn = np.maximum(total * ratios(done), reached)
    return work


def _erring(
    believed: Sequence[Truth], reached: Sequence[float], future: Future | None
) -> list[Truth]:
    """What is true of jobs in ``future``, of which this is believed, and which are so far."""
    if future is None or not believed:
        return list(believed)
    done = [
        work / max(truth.work, work, LEAST_DIVISOR)
        for truth, work in zip(believed, reached, strict=True)
    ]
    ratios = future.ratios(np.array(done)).tolist()
    return [
        msgspec.structs.replace(truth, work=max(truth.work * ratio, work))
        for truth, work, ratio in zip(believed, reached, ratios, strict=True)
    ]


def _as_believed(believed: Truth, scale: float, reached: float) -> Truth:
    """What is to become true of a job that did ``reached`` units of work.

    What remains counts ``scale`` times: the same job with that much more to do. A job that did more
    than was believed of it is believed to end now.
    """
    believed = msgspec.structs.replace(believed, failures=())
    if scale == 1.0 and believed.work >= reached:
        return believed
    work = reached + scale * max(believed.work - reached, 0.0)
    return msgspec.structs.replace(believed, work=work)
