"""The forecast: fork the scheduler and run it ahead in a world made of its beliefs.

Nobody else arrives (PCS, OSDI'24, section 4), unless a `Future` says who, and how beliefs err. Starts,
restores and checkpoints cost what the scheduler believes they cost, also those that are going on. The
parent never notices.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import msgspec
import numpy as np
from pydantic import PrivateAttr

from volvelle.core.columns import Column
from volvelle.core.decision import NO_INTS, Decision
from volvelle.core.events import Event, JobCancelled, JobFinished, JobSubmitted
from volvelle.core.parts import Belief, Estimator, KnownJob
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import FloatColumn
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.simulate.world import World

_DUST = 1e-12  # units of work


@dataclass(frozen=True)
class Forecast:
    """When jobs, by number, are believed to start for the first time and to finish, in seconds.

    Jobs that are believed never to finish are missing. upcoming: when those without GPUs are given some
    next, whether they ran before or not, and when those with GPUs started.
    """

    start: dict[int, float]
    finish: dict[int, float]
    upcoming: dict[int, float] = field(default_factory=dict)


class _Watch:
    def __init__(self) -> None:
        self.start: dict[int, float] = {}
        self.upcoming: dict[int, float] = {}
        self.finish: dict[int, float] = {}

    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        for event in events:
            if isinstance(event, JobFinished):
                self.finish[event.number] = event.time
        for conclusion in decision.concluded:
            self.finish[conclusion.number] = time
        for number, gpus in zip(decision.job.tolist(), decision.gpus.tolist(), strict=True):
            if gpus > 0:
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
    ahead.cluster = msgspec.structs.replace(ahead.cluster, failures=None)
    watch = _Watch()
    tracked = None if until_finish_of is None else [until_finish_of]
    world = World(ahead, (), [watch], tracked=tracked)
    place_believed(ahead, world, future)
    first, held = ahead.jobs.matrix[Column.FIRST_START], ahead.jobs.matrix[Column.HELD]
    for number, row in ahead.jobs.row_of.items():
        if not np.isnan(start := float(first[row])):
            watch.start[number] = start
            if held[row] > 0.0:
                watch.upcoming[number] = start
    if future is not None:
        world.expect(_newcomers(ahead, future), future.first)
    world.resume(ahead.wake_at())
    world.run()
    return Forecast(watch.start, watch.finish, watch.upcoming)


def withdrawn(scheduler: Scheduler, numbers: Iterable[int]) -> Scheduler:
    """A scheduler in the same state, except that these jobs were cancelled at this moment."""
    ahead = scheduler.fork()
    ahead.handle(ahead.now, [JobCancelled(ahead.now, number) for number in numbers])
    return ahead


class _Recalled(Estimator):
    """Believes of newcomers what was believed of the jobs they are drawn from; else as another does."""

    name: ClassVar[str] = "recalled"

    _other: Estimator = PrivateAttr()
    _first: int = PrivateAttr()
    _believed: Sequence[Truth] = PrivateAttr()

    @classmethod
    def of(cls, other: Estimator, first: int, believed: Sequence[Truth]) -> Self:
        made = cls()
        made._other, made._first, made._believed = other, first, believed
        return made

    @property
    def loss_every(self) -> float | None:
        return self._other.loss_every

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        if job.number < self._first:
            return self._other.believe(job, seed)
        return Belief(self._believed[job.number - self._first])

    def observe(self, spec: JobSpec, work_done: float, loss: float) -> Belief | None:
        return self._other.observe(spec, work_done, loss)

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        self._other.learn(spec, run_seconds)


def _newcomers(ahead: Scheduler, future: Future) -> list[Job]:
    """The jobs that come in ``future``; ``ahead`` is to believe of them what it says."""
    believed = [_as_believed(belief.truth, belief.scale, 0.0) for _, belief in future.coming]
    parts = ahead.composition
    recalled = _Recalled.of(parts.estimator, future.first, believed)
    ahead.composition = parts._replace(estimator=recalled)
    truths = _erring(believed, [0.0] * len(believed), future)
    specs = [spec for spec, _ in future.coming]
    return [Job(spec, truth) for spec, truth in zip(specs, truths, strict=True)]


def place_believed(ahead: Scheduler, world: World, future: Future | None = None) -> None:
    """Put the jobs of ``ahead`` into ``world``, as far as they are believed to be.

    What is believed is true from now on, for ``ahead`` too; in ``future`` only ``ahead`` believes it.
    """
    matrix, row_of = ahead.jobs.matrix, ahead.jobs.row_of
    numbers = sorted(ahead.known)
    reached = [_reached(matrix[:, row_of[number]], ahead.now) for number in numbers]
    for number, work in zip(numbers, reached, strict=True):
        known, row = ahead.known[number], row_of[number]
        believed = _as_believed(known.believed, float(matrix[Column.SCALE, row]), work)
        ahead.known[number] = KnownJob(known.spec, believed)
        matrix[Column.TOTAL, row], matrix[Column.SCALE, row] = believed.work, 1.0
    truths = [ahead.known[number].believed for number in numbers]
    if future is not None:
        truths = _erring(truths, reached, future)
    for number, truth in zip(numbers, truths, strict=True):
        row = row_of[number]
        world.place_running(
            number,
            Job(ahead.known[number].spec, truth),
            done=float(matrix[Column.DONE, row]),
            gpus=float(matrix[Column.HELD, row]),
            gpu_type=int(matrix[Column.TYPE, row]),
            slots=ahead.slots.get(number, NO_INTS),
            attempt=int(matrix[Column.ATTEMPT, row]),
            since=float(matrix[Column.PROGRESS_FROM, row]),
            beside=ahead.beside(number),
            amounts=ahead.amounts.get(number),
        )
    for event in ahead.at_the_door:
        belief = ahead.composition.estimator.believe(event, ahead.seed)
        world.place_waiting(
            event.number, Job(event.spec, _as_believed(belief.truth, belief.scale, 0.0))
        )
    for (number, attempt), stop in ahead.stopping.items():
        world.place_stopping(
            number,
            attempt,
            free_at=max(stop.free_at, ahead.now),
            gpus=stop.gpus,
            gpu_type=stop.gpu_type,
            slots=stop.slots,
        )
    if ahead.stopping:
        late = [n for n, row in row_of.items() if matrix[Column.STARTED, row] > ahead.now]
        for number in sorted(late, key=lambda n: (matrix[Column.STARTED, row_of[n]], n)):
            world.claim(number, ahead.now)


def _reached(job: FloatColumn, now: float) -> float:
    """Units of work that a job has done; ``job`` is its columns."""
    progress = max(now - float(job[Column.PROGRESS_FROM]), 0.0)
    return float(job[Column.DONE]) + progress * float(job[Column.RATE])


def _erring(believed: Sequence[Truth], reached: Sequence[float], future: Future) -> list[Truth]:
    """What is true of jobs in ``future``, of which this is believed, and which are so far."""
    done = [
        work / max(truth.work, work, _DUST) for truth, work in zip(believed, reached, strict=True)
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
