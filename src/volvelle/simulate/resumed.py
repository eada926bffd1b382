"""On from a snapshot: what becomes of the jobs of a system, under its own or another composition.

What is believed of the jobs is taken for true and no other job arrives, as in a forecast; but it is watched
like a run and measured by the same metrics, all times counted from the snapshot: what was waited before it
is over, and part of no figure.
"""

import time
from typing import TypeVar

import msgspec
import numpy as np

from volvelle.core.composition import WrittenComposition, mistakes_of_parts
from volvelle.core.decision import Conclusion, Decision, Rejection
from volvelle.core.events import (
    ArrivalsAnnounced,
    Event,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeChanged,
    Recomposed,
    WakeUp,
)
from volvelle.core.fork import Fork
from volvelle.core.log import Batch, Moment, batch_of
from volvelle.core.orders import remaining_work
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot
from volvelle.core.state import EVENTS, EXPECTED, MOMENTS, STOPPED
from volvelle.metrics.recorder import Recorder
from volvelle.model.job import Job, JobSpec
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, Simulation
from volvelle.workload.workload import Workload


def setting_of(snapshot: Snapshot, composition: WrittenComposition) -> Setting:
    """All that decides how it goes on."""
    header = snapshot.header
    return Setting(
        cluster=header.cluster,
        composition=composition,
        overheads=Overheads.model_validate(header.overheads),
        seed=header.seed,
    )


Ending = TypeVar("Ending", Rejection, Conclusion)


@mistakes_of_parts()
def resumed(snapshot: Snapshot, setting: Setting) -> Simulation:
    """Let the jobs of ``snapshot`` go on under ``setting`` to their believed ends.

    Raises `Problem` where the placement is not of the kind that gave them their GPUs.
    """
    scheduler, _ = snapshot.resume(setting.composition.build())
    recorder = Recorder(setting.cluster, setting.power)
    watch = _Renumbered(recorder, scheduler)
    began = time.process_time()
    ahead = Fork(scheduler).play(watch.take)
    cpu_seconds = time.process_time() - began
    remaining = Workload(watch.jobs)
    outcomes = recorder.outcomes(
        remaining.durations, single_gpu_seconds=remaining.single_gpu_seconds
    )
    events, moments = (int(ahead.state.count[counter]) for counter in (EVENTS, MOMENTS))
    return Simulation(outcomes, ahead, None, cpu_seconds, events, moments)


class _Renumbered:
    """Tells ``recorder`` what happens, the jobs numbered from 0 and time counted from the snapshot."""

    def __init__(self, recorder: Recorder, scheduler: Scheduler) -> None:
        self._recorder = recorder
        self._start = scheduler.now
        expected = scheduler.state.expected
        places = range(scheduler.state.count[EXPECTED])
        self._before = {
            (expected.of[i], expected.stamp[i]) for i in places if expected.kind[i] == STOPPED
        }
        """Attempts that had ended before, though their checkpoints were still being written."""
        self._submitted = {event.number: event for event in scheduler.admissions.submissions}
        known = {number: event.spec for number, event in self._submitted.items()}
        known |= {number: job.spec for number, job in scheduler.known.items()}
        self._numbers = np.array(sorted(known), dtype=np.int64)
        self.jobs = [_remaining(scheduler, n, known[n]) for n in self._numbers.tolist()]
        submitted = tuple(JobSubmitted(0.0, place, job.spec) for place, job in enumerate(self.jobs))
        held = self._numbered(_holdings(scheduler))
        recorder.take(*batch_of([Moment(0.0, submitted, held)]))

    def take(self, batch: Batch) -> None:
        """A stretch of moments."""
        moments = batch.moments(self._submission)
        told = (
            Moment(
                time - self._start,
                tuple(self._told(event) for event in events if self._concerns(event)),
                self._numbered(decision),
            )
            for time, events, decision in moments
        )
        self._recorder.take(*batch_of(told))

    def _submission(self, time: float, number: int) -> JobSubmitted:
        return msgspec.structs.replace(self._submitted[number], time=time)

    def _concerns(self, event: Event) -> bool:
        return not (isinstance(event, JobStopped) and (event.number, event.attempt) in self._before)

    def _told(self, event: Event) -> Event:
        changed: dict[str, float] = {"time": event.time - self._start}
        if isinstance(event, JobStarted):
            changed["start"] = event.start - self._start
        if not isinstance(event, (NodeChanged, Recomposed, ArrivalsAnnounced, WakeUp)):
            changed["number"] = self._place(event.number)
        return msgspec.structs.replace(event, **changed)

    def _place(self, number: int) -> int:
        return int(np.searchsorted(self._numbers, number))

    def _numbered(self, decision: Decision) -> Decision:
        return msgspec.structs.replace(
            decision,
            job=np.searchsorted(self._numbers, decision.job).astype(np.int64),
            rejected=tuple(self._anew(one) for one in decision.rejected),
            concluded=tuple(self._anew(one) for one in decision.concluded),
        )

    def _anew(self, one: Ending) -> Ending:
        return msgspec.structs.replace(one, number=self._place(one.number))


def _remaining(scheduler: Scheduler, number: int, spec: JobSpec) -> Job:
    """The rest of a job, as if it were submitted only now."""
    spec = msgspec.structs.replace(spec, submit_time=0.0)
    row = scheduler.row_of(number)
    if row is None:
        event = next(event for event in scheduler.admissions.submissions if event.number == number)
        belief = scheduler.composition.estimator.believe(event, scheduler.seed)
        return Job(
            spec, msgspec.structs.replace(belief.truth, work=belief.truth.work * belief.scale)
        )
    left = remaining_work(scheduler.state.jobs, row, scheduler.now)
    return Job(spec, msgspec.structs.replace(scheduler.known[number].believed, work=left))


def _holdings(scheduler: Scheduler) -> Decision:
    """The holdings of all jobs, as if they were decided only now."""
    jobs = scheduler.state.jobs
    rows = [row for _, row in sorted(scheduler.known.rows.items()) if jobs.held[row] > 0.0]
    slots = [scheduler.slots_of(row) for row in rows]
    return Decision(
        np.array([int(jobs.number[row]) for row in rows], dtype=np.int64),
        np.array([float(jobs.held[row]) for row in rows]),
        np.array([int(jobs.type[row]) for row in rows], dtype=np.int64),
        np.array([int(jobs.attempt[row]) for row in rows], dtype=np.int64),
        np.cumsum([0, *map(len, slots)]),
        np.array([slot for some in slots for slot in some], dtype=np.int64),
    )
