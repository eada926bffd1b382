"""On from a snapshot: what becomes of the jobs of a system, under its own or another composition.

What is believed of the jobs is taken for true and nobody else arrives, as in a forecast; but it is watched
like a run and measured by the same metrics, all times counted from the snapshot: what was waited before it
is over, and part of no figure.
"""

import time
from typing import TypeVar

import msgspec
import numpy as np

from volvelle.core.columns import Column
from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import NO_INTS, Conclusion, Decision, Rejection
from volvelle.core.events import (
    Event,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeChanged,
    Recomposed,
    WakeUp,
)
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot
from volvelle.metrics.recorder import Recorder
from volvelle.model.job import Job, JobSpec
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.simulate.forecast import place_believed
from volvelle.simulate.run import Setting, Simulation
from volvelle.simulate.world import World
from volvelle.workload.workload import Workload


def setting_of(snapshot: Snapshot, composition: WrittenComposition) -> Setting:
    """All that decides how it goes on. Raises `Problem` where the placement does not name GPUs."""
    if not composition.build().placement.names_gpus and any(job.slots for job in snapshot.jobs):
        raise Problem(
            f"placement {composition.placement!r} only counts GPUs, and jobs of the snapshot hold some",
            mend="choose one that names them, as in --placement consolidated",
            usage=True,
        )
    header = snapshot.header
    return Setting(
        cluster=header.cluster,
        composition=composition,
        overheads=Overheads.model_validate(header.overheads),
        seed=header.seed,
    )


def onward(snapshot: Snapshot, setting: Setting) -> Simulation:
    """Let the jobs of ``snapshot`` go on under ``setting`` to their believed ends."""
    header = msgspec.structs.replace(snapshot.header, composition=setting.composition)
    scheduler = msgspec.structs.replace(snapshot, header=header).scheduler()
    recorder = Recorder(setting.cluster)
    watch = _Renumbered(recorder, scheduler)
    began = time.process_time()
    world = World(scheduler, (), [watch])
    place_believed(scheduler, world)
    world.resume(scheduler.now)
    world.run()
    cpu_seconds = time.process_time() - began
    remaining = Workload(watch.jobs)
    outcomes = recorder.outcomes(
        remaining.durations, single_gpu_seconds=remaining.single_gpu_seconds
    )
    return Simulation(outcomes, scheduler, None, cpu_seconds, world.events, world.moments)


Ending = TypeVar("Ending", Rejection, Conclusion)


class _Renumbered:
    """Tells ``recorder`` what happens, the jobs numbered from 0 and time counted from the snapshot."""

    def __init__(self, recorder: Recorder, scheduler: Scheduler) -> None:
        self._recorder = recorder
        self._start = scheduler.now
        self._before = set(scheduler.stopping)
        """Attempts that had ended before, though their checkpoints were still being written."""
        known = {event.number: event.spec for event in scheduler.at_the_door}
        known |= {number: job.spec for number, job in scheduler.known.items()}
        self._places = {number: place for place, number in enumerate(sorted(known))}
        self.jobs = [_remaining(scheduler, number, known[number]) for number in self._places]
        submitted = [JobSubmitted(0.0, place, job.spec) for place, job in enumerate(self.jobs)]
        recorder.record(0.0, submitted, self._decided(_holdings(scheduler)))

    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        """One moment of the world."""
        told = [self._told(event) for event in events if self._concerns(event)]
        self._recorder.record(time - self._start, told, self._decided(decision))

    def _concerns(self, event: Event) -> bool:
        return not (isinstance(event, JobStopped) and (event.number, event.attempt) in self._before)

    def _told(self, event: Event) -> Event:
        changed: dict[str, float] = {"time": event.time - self._start}
        if isinstance(event, JobStarted):
            changed["start"] = event.start - self._start
        if not isinstance(event, (NodeChanged, Recomposed, WakeUp)):
            changed["number"] = self._places[event.number]
        return msgspec.structs.replace(event, **changed)

    def _decided(self, decision: Decision) -> Decision:
        job = [self._places[number] for number in decision.job.tolist()]
        return msgspec.structs.replace(
            decision,
            job=np.array(job, dtype=np.int64),
            rejected=tuple(self._anew(one) for one in decision.rejected),
            concluded=tuple(self._anew(one) for one in decision.concluded),
        )

    def _anew(self, one: Ending) -> Ending:
        return msgspec.structs.replace(one, number=self._places[one.number])


def _remaining(scheduler: Scheduler, number: int, spec: JobSpec) -> Job:
    """What is left of a job, as if it were submitted only now."""
    spec = msgspec.structs.replace(spec, submit_time=0.0)
    if number not in scheduler.known:
        (event,) = (event for event in scheduler.at_the_door if event.number == number)
        belief = scheduler.composition.estimator.believe(event, scheduler.seed)
        return Job(
            spec, msgspec.structs.replace(belief.truth, work=belief.truth.work * belief.scale)
        )
    view, row = scheduler.view().jobs, scheduler.jobs.row_of[number]
    left = max(float(view.remaining_work[row]), 0.0)
    return Job(spec, msgspec.structs.replace(scheduler.known[number].believed, work=left))


def _holdings(scheduler: Scheduler) -> Decision:
    """Who holds what, as if it were decided only now."""
    matrix = scheduler.jobs.matrix[:, : scheduler.jobs.count]
    rows = np.flatnonzero(matrix[Column.HELD] > 0)
    numbers = matrix[Column.NUMBER, rows].astype(np.int64)
    slots = [scheduler.slots.get(number, NO_INTS) for number in numbers.tolist()]
    return Decision(
        numbers,
        matrix[Column.HELD, rows],
        matrix[Column.TYPE, rows].astype(np.int64),
        matrix[Column.ATTEMPT, rows].astype(np.int64),
        np.cumsum([0, *map(len, slots)]),
        np.concatenate([NO_INTS, *slots]),
    )
