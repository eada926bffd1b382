"""The forecast: fork the scheduler and run it ahead in a world made of its beliefs.

Nobody else arrives (PCS, OSDI'24, section 4). Starts, restores and checkpoints cost what the scheduler
believes they cost, also those that are going on. The parent never notices.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from volvelle.core.columns import Column
from volvelle.core.decision import NO_INTS, Decision
from volvelle.core.events import Event, JobCancelled, JobFinished
from volvelle.core.parts import KnownJob
from volvelle.core.scheduler import Scheduler
from volvelle.model.job import Job, Truth
from volvelle.simulate.world import World


@dataclass(frozen=True)
class Forecast:
    """When jobs, by number, are believed to start for the first time and to finish, in seconds.

    Jobs that are believed never to finish are missing.
    """

    start: dict[int, float]
    finish: dict[int, float]


class _Watch:
    def __init__(self) -> None:
        self.start: dict[int, float] = {}
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


def forecast(scheduler: Scheduler, *, until_finish_of: int | None = None) -> Forecast:
    """What becomes of the jobs in ``scheduler`` if beliefs hold and nobody else arrives.

    Crashes and failures of nodes are not foreseen, planned changes of nodes are. ``until_finish_of``: the
    job with which the play-out may end.
    """
    ahead = scheduler.fork()
    ahead.cluster = msgspec.structs.replace(ahead.cluster, failures=None)
    watch = _Watch()
    tracked = None if until_finish_of is None else [until_finish_of]
    world = World(ahead, (), [watch], tracked=tracked)
    _place(ahead, world, watch)
    world.resume(ahead.wake_at())
    world.run()
    return Forecast(watch.start, watch.finish)


def withdrawn(scheduler: Scheduler, numbers: Iterable[int]) -> Scheduler:
    """A scheduler in the same state, except that these jobs were cancelled at this moment."""
    ahead = scheduler.fork()
    ahead.handle(ahead.now, [JobCancelled(ahead.now, number) for number in numbers])
    return ahead


def _place(ahead: Scheduler, world: World, watch: _Watch) -> None:
    """Put the jobs of ``ahead`` into ``world``, as far as they are believed to be."""
    matrix, row_of = ahead.jobs.matrix, ahead.jobs.row_of
    for number, known in sorted(ahead.known.items()):
        row = row_of[number]
        done = float(matrix[Column.DONE, row])
        progress = max(ahead.now - float(matrix[Column.PROGRESS_FROM, row]), 0.0)
        reached = done + progress * float(matrix[Column.RATE, row])
        believed = _as_believed(known.believed, float(matrix[Column.SCALE, row]), reached)
        ahead.known[number] = KnownJob(known.spec, believed)  # what is believed is true there
        matrix[Column.TOTAL, row], matrix[Column.SCALE, row] = believed.work, 1.0
        world.place_running(
            number,
            Job(known.spec, believed),
            done=done,
            gpus=float(matrix[Column.HELD, row]),
            gpu_type=int(matrix[Column.TYPE, row]),
            slots=ahead.slots.get(number, NO_INTS),
            attempt=int(matrix[Column.ATTEMPT, row]),
            since=float(matrix[Column.PROGRESS_FROM, row]),
            beside=ahead.beside(number),
            amounts=ahead.amounts.get(number),
        )
        if not np.isnan(first := matrix[Column.FIRST_START, row]):
            watch.start[number] = float(first)
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
