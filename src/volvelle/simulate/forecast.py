"""The forecast: fork the scheduler and run it ahead in a world made of its beliefs.

Nobody else arrives (PCS, OSDI'24, section 4). The parent never notices.
"""

from dataclasses import dataclass

import msgspec
import numpy as np

from volvelle.core.columns import Column
from volvelle.core.decision import NO_INTS, Decision
from volvelle.core.events import Event, JobFinished
from volvelle.core.scheduler import Scheduler
from volvelle.model.job import Job
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
        for number, gpus in zip(decision.job.tolist(), decision.gpus.tolist(), strict=True):
            if gpus > 0:
                self.start.setdefault(number, time)


def forecast(scheduler: Scheduler) -> Forecast:
    """What becomes of the jobs in ``scheduler`` if beliefs hold and nobody else arrives.

    Crashes and failures of nodes are not foreseen, planned changes of nodes are. GPUs on which a
    checkpoint is just being written count as free.
    """
    ahead = scheduler.fork()
    ahead.cluster = msgspec.structs.replace(ahead.cluster, failures=None)
    watch = _Watch()
    world = World(ahead, (), [watch])
    jobs = ahead.jobs
    matrix = jobs.matrix
    for number, known in sorted(ahead.known.items()):
        row = jobs.row_of[number]
        scale = float(matrix[Column.SCALE, row])
        done = float(matrix[Column.DONE, row])
        believed = msgspec.structs.replace(known.believed, failures=())
        progress = max(ahead.now - float(matrix[Column.PROGRESS_FROM, row]), 0.0)
        reached = done + progress * float(matrix[Column.RATE, row])
        if scale != 1.0 or believed.work < reached:
            # What remains counts `scale` times: the same job with that much more to do. A job that
            # did more than was believed of it is believed to end now.
            work = reached + scale * max(believed.work - reached, 0.0)
            believed = msgspec.structs.replace(believed, work=work)
        world.place_running(
            number,
            Job(known.spec, believed),
            done=done,
            gpus=float(matrix[Column.HELD, row]),
            gpu_type=int(matrix[Column.TYPE, row]),
            slots=ahead.slots.get(number, NO_INTS),
            attempt=int(matrix[Column.ATTEMPT, row]),
            since=float(matrix[Column.PROGRESS_FROM, row]),
        )
        if not np.isnan(first := matrix[Column.FIRST_START, row]):
            watch.start[number] = float(first)
    world.resume(ahead.wake_at())
    world.run()
    return Forecast(watch.start, watch.finish)
