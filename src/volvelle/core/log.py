"""The log, taken out of the state: as arrays to be counted, as events and decisions to be read.

A `Batch` is a stretch of moments. The forward loop logs numbers; Python's own events, reasons and divisions
of CPUs and memory stand beside them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.decision import (
    NO_INTS,
    Conclusion,
    Decision,
    FloatArray,
    IntArray,
    Promise,
    Rejection,
    Sharing,
)
from volvelle.core.events import (
    Event,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    WakeUp,
)
from volvelle.core.state import *

Submission = Callable[[float, int], JobSubmitted]
"""The event of a job's submission, by its time and the job's number."""


@dataclass
class Notes:
    """Additions of Python to the log: events, why jobs were turned away or ended; divisions, guarantees,
    notices by moment.

    refused: reasons of rejections that are known before the jobs come. happened: when events were, by
    their rows, which were before the moment that heard of them.
    """

    refused: Mapping[int, str] = field(default_factory=dict)
    objects: list[Event] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    divisions: dict[int, Sharing] = field(default_factory=dict)
    promises: dict[int, tuple[Promise, ...]] = field(default_factory=dict)
    notices: dict[int, tuple[str, ...]] = field(default_factory=dict)
    happened: dict[int, float] = field(default_factory=dict)

    def reason(self, number: int) -> str:
        """Why job ``number`` was turned away or ended."""
        return self.reasons.get(number) or self.refused[number]


class Moment(NamedTuple):
    """Events at ``time``, and the decision."""

    time: float
    events: tuple[Event, ...]
    decision: Decision


@dataclass(frozen=True)
class Batch:
    """A stretch of moments. Events of moment i are those up to ``events_end[i]``, decisions likewise.

    kind, number, attempt, value: of events. job, gpus, gpu_type, starts, partner: of decisions, what a job
    holds from then on; slots up to ``slots_end``. first: number of the first moment.
    """

    time: FloatArray
    events_end: IntArray
    decisions_end: IntArray
    wake: FloatArray
    kind: IntArray
    number: IntArray
    attempt: IntArray
    value: FloatArray
    job: IntArray
    gpus: FloatArray
    gpu_type: IntArray
    starts: IntArray
    partner: IntArray
    slots_end: IntArray
    slots: IntArray
    notes: Notes
    first: int

    @property
    def event_time(self) -> FloatArray:
        """When each event happened."""
        times = np.repeat(self.time, np.diff(self.events_end, prepend=0))
        for row, time in self.notes.happened.items():
            times[row] = time
        return times

    @property
    def decision_time(self) -> FloatArray:
        """When each row of a decision was decided."""
        return np.repeat(self.time, np.diff(self.decisions_end, prepend=0))

    def moments(self, submission: Submission) -> Iterator[Moment]:
        """The moments as values."""
        events = self._events(submission)
        kinds = self.kind.tolist()
        first_event = first_row = 0
        ends = zip(
            self.time.tolist(),
            self.events_end.tolist(),
            self.decisions_end.tolist(),
            self.wake.tolist(),
            strict=True,
        )
        plain = not np.isin(self.kind, (REJECTED, CONCLUDED, TIMED_OUT)).any()
        for place, (time, last_event, last_row, wake) in enumerate(ends):
            here = range(first_event, last_event)
            rejected: tuple[Rejection, ...] = ()
            concluded: tuple[Conclusion, ...] = ()
            if not plain:
                turned_away = [self._rejected(i) for i in here if kinds[i] == REJECTED]
                rejected = tuple(sorted(turned_away, key=lambda one: one.number))
                concluded = tuple(
                    self._concluded(i, timed_out=kinds[i] == TIMED_OUT)
                    for i in here
                    if kinds[i] in (CONCLUDED, TIMED_OUT)
                )
            yield Moment(
                time,
                tuple(event for event in events[first_event:last_event] if event is not None),
                self._decision(
                    first_row,
                    last_row,
                    rejected,
                    concluded,
                    wake,
                    self.notes.divisions.get(self.first + place),
                    self.notes.promises.get(self.first + place, ()),
                    self.notes.notices.get(self.first + place, ()),
                ),
            )
            first_event, first_row = last_event, last_row

    def _rejected(self, i: int) -> Rejection:
        number = int(self.number[i])
        return Rejection(number, self.notes.reason(number))

    def _concluded(self, i: int, *, timed_out: bool) -> Conclusion:
        number = int(self.number[i])
        return Conclusion(number, self.notes.reason(number), timed_out)

    def _events(self, submission: Submission) -> list[Event | None]:
        """The events, None where a row of the log belongs to a decision."""
        made: list[Event | None] = []
        objects = self.notes.objects
        rows = zip(
            self.kind.tolist(),
            self.event_time.tolist(),
            self.number.tolist(),
            self.attempt.tolist(),
            self.value.tolist(),
            strict=True,
        )
        for kind, time, number, attempt, value in rows:
            if kind == FINISHED:
                made.append(JobFinished(time, number, attempt))
            elif kind == SUBMITTED:
                made.append(submission(time, number))
            elif kind == CHECKPOINTED:
                made.append(JobStopped(time, number, attempt, value))
            elif kind == BEGAN:
                made.append(JobStarted(time, number, attempt, value))
            elif kind == OBJECT:
                made.append(objects[number])
            elif kind in (REJECTED, CONCLUDED, TIMED_OUT):
                made.append(None)
            else:
                made.append(WakeUp(time))
        return made

    def _decision(
        self,
        first: int,
        last: int,
        rejected: tuple[Rejection, ...],
        concluded: tuple[Conclusion, ...],
        wake: float,
        division: Sharing | None,
        promises: tuple[Promise, ...],
        notices: tuple[str, ...],
    ) -> Decision:
        wake_at = None if wake == INFINITY else wake
        if first == last:
            return Decision(
                rejected=rejected,
                concluded=concluded,
                wake_at=wake_at,
                sharing=division,
                promises=promises,
                notices=notices,
            )
        rows = slice(first, last)
        begin = int(self.slots_end[first - 1]) if first else 0
        ends = self.slots_end[rows]
        offsets = slots = NO_INTS
        if int(ends[-1]) > begin:
            offsets = np.concatenate([[0], ends - begin])
            slots = self.slots[begin : int(ends[-1])]
        partner = self.partner[rows]
        return Decision(
            self.job[rows],
            self.gpus[rows],
            self.gpu_type[rows],
            self.starts[rows],
            offsets,
            slots,
            rejected,
            concluded,
            wake_at,
            partner if (partner >= 0).any() else NO_INTS,
            division,
            promises,
            notices,
        )


class EachMoment(ABC):
    """A watcher that takes moments one by one."""

    def take(self, batch: Batch, submission: Submission) -> None:
        """A stretch of moments."""
        for moment in batch.moments(submission):
            self.record(*moment)

    @abstractmethod
    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        """One moment: what happened and what was decided."""


def batch_of(moments: Iterable[Moment]) -> tuple[Batch, Submission]:
    """Moments as a batch, and the submissions in it."""
    kinds: list[tuple[int, int, int, float]] = []
    notes, submitted = Notes({}), dict[int, JobSubmitted]()
    times: list[float] = []
    event_ends, row_ends, wakes = [], [], []
    decisions: list[Decision] = []
    rows = 0
    for time, events, decision in moments:
        for event in events:
            if isinstance(event, JobFinished | JobStopped | JobFailed) and event.time < time:
                notes.happened[len(kinds)] = event.time
            if isinstance(event, JobFinished):
                kinds.append((FINISHED, event.number, event.attempt, 0.0))
            elif isinstance(event, JobSubmitted):
                kinds.append((SUBMITTED, event.number, 0, 0.0))
                submitted[event.number] = event
            elif isinstance(event, JobStarted):
                kinds.append((BEGAN, event.number, event.attempt, event.start))
            elif isinstance(event, JobStopped):
                kinds.append((CHECKPOINTED, event.number, event.attempt, event.work_done))
            else:
                kinds.append((OBJECT, len(notes.objects), 0, 0.0))
                notes.objects.append(event)
        for one in decision.rejected:
            kinds.append((REJECTED, one.number, 0, 0.0))
            notes.reasons[one.number] = one.reason
        for conclusion in decision.concluded:
            kind = TIMED_OUT if conclusion.timed_out else CONCLUDED
            kinds.append((kind, conclusion.number, 0, 0.0))
            notes.reasons[conclusion.number] = conclusion.reason
        if decision.promises:
            notes.promises[len(times)] = decision.promises
        if decision.notices:
            notes.notices[len(times)] = decision.notices
        if len(decision.job):
            decisions.append(decision)
            rows += len(decision.job)
        times.append(time)
        event_ends.append(len(kinds))
        row_ends.append(rows)
        wakes.append(INFINITY if decision.wake_at is None else decision.wake_at)
    columns = np.array(kinds, dtype=np.float64).reshape(len(kinds), 4).T
    slots = [
        np.diff(each.slot_offsets) if len(each.slot_offsets) else np.zeros(len(each.job), np.int64)
        for each in decisions
    ]
    batch = Batch(
        np.array(times, dtype=np.float64),
        np.array(event_ends, dtype=np.int64),
        np.array(row_ends, dtype=np.int64),
        np.array(wakes, dtype=np.float64),
        columns[0].astype(np.int64),
        columns[1].astype(np.int64),
        columns[2].astype(np.int64),
        columns[3],
        _joined([each.job for each in decisions], np.int64),
        _joined([each.gpus for each in decisions], np.float64),
        _joined([each.gpu_type for each in decisions], np.int64),
        _joined([each.attempt for each in decisions], np.int64),
        np.full(rows, -1, dtype=np.int64),
        np.cumsum(_joined(slots, np.int64)).astype(np.int64),
        _joined([each.slots for each in decisions], np.int64),
        notes,
        0,
    )
    return batch, lambda time, number: submitted[number]


def _joined(parts: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=kind), *parts])


def drained(s: State, notes: Notes) -> Batch:
    """All whole moments in the log of ``s``, which is empty afterwards; ``notes`` are handed over.

    A moment that was broken off, because a part raised an error, is left out.
    """
    count = s.count
    moments, slots = count[LOGGED_MOMENTS], count[LOGGED_SLOTS]
    events = int(s.moments.events_end[moments - 1]) if moments else 0
    decisions = int(s.moments.decisions_end[moments - 1]) if moments else 0
    batch = Batch(
        _floats(s.moments.time, moments),
        _ints(s.moments.events_end, moments),
        _ints(s.moments.decisions_end, moments),
        _floats(s.moments.wake, moments),
        _ints(s.events.kind, events),
        _ints(s.events.number, events),
        _ints(s.events.attempt, events),
        _floats(s.events.value, events),
        _ints(s.decisions.job, decisions),
        _floats(s.decisions.gpus, decisions),
        _ints(s.decisions.type, decisions),
        _ints(s.decisions.starts, decisions),
        _ints(s.decisions.partner, decisions),
        _ints(s.decisions.slots_end, decisions),
        _ints(s.slots_log, slots),
        notes,
        count[MOMENTS] - moments,
    )
    for counter in (LOGGED_EVENTS, LOGGED_DECISIONS, LOGGED_SLOTS, LOGGED_MOMENTS):
        count[counter] = 0
    return batch


def _floats(column: list[float] | NDArray[np.float64], size: int) -> FloatArray:
    return np.array(column[:size], dtype=np.float64)


def _ints(column: list[float] | NDArray[np.float64], size: int) -> IntArray:
    return np.array(column[:size], dtype=np.int64)
