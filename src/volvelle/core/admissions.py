"""Jobs that were submitted and are not in the system: in the admission queue, held, or after other jobs.

In a world that knows what comes, submissions are places in the table of arrivals; elsewhere they stand in
`Admissions.queue`. Either way QUEUED to COME counts those in the admission queue, in order of submission;
arrivals that were blocked on other jobs come back to their place among them (RETURNED).
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.dependents import Dependents, End
from volvelle.core.events import JobSubmitted
from volvelle.core.parts import KnownJob
from volvelle.core.state import *

_QUEUED = (ENTERS, NO_PROGRESS)
"""Verdicts on arrivals that join the queue as they come; others do not, or have left it."""


class HeldJob(NamedTuple):
    """A job that is out of the system for a while: its columns, and what is known of it."""

    values: tuple[float, ...]
    known: KnownJob

    def value(self, name: str) -> float:
        """One of its columns."""
        return self.values[PLACE[name]]

    @property
    def attempt(self) -> int:
        """Its last run."""
        return int(self.value("attempt"))

    def having(self, columns: Mapping[str, float]) -> "HeldJob":
        """The same with these values in these columns."""
        named = zip(Jobs.float_columns, self.values, strict=False)
        return self._replace(values=tuple(columns.get(name, value) for name, value in named))

    @property
    def as_believed(self) -> "HeldJob":
        """The same in a world in which what is believed of it is true (`volvelle.core.forward.believe`)."""
        done, unit, table = map(self.value, ("done", "unit_rate", "table"))
        work = done + self.value("scale") * max(self.value("total") - done, 0.0)
        asked = float(math.isnan(unit) and table < 0.0)
        values = self.values[:KNOWN_COLUMNS] + (0.0,) * (PLACE["token"] - KNOWN_COLUMNS)
        truth = {"true_work": work, "true_unit_rate": unit, "true_table": table, "true_done": done}
        believed = {"total": work, "scale": 1.0, "saved": done, "truly_asked": asked}
        return self._replace(values=values).having(truth | believed)


class Admissions:
    """The jobs outside of the system, by what keeps them there.

    queue: submissions in the admission queue, but for those of the table of arrivals. held: jobs that their
    users hold, from the system or from the queue, by number, and those `recalled`, which were stopped for
    the sake of guarantees and wait to be admitted again. arrival: the submissions in the table of
    arrivals, by place, in a world that knows what comes. prepared: whether that table says what is believed
    of them. refused: why some of them will be turned away, by number.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.queue: deque[JobSubmitted] = deque()
        self.held: dict[int, HeldJob | JobSubmitted] = {}
        self.recalled: set[int] = set()
        self.dependents = Dependents()
        self.arrival: Callable[[int], JobSubmitted] | None = None
        self.prepared = False
        self.refused: dict[int, str] = {}

    def of(self, state: State) -> "Admissions":
        """The same for a copy of the state."""
        copy = object.__new__(Admissions)
        copy.__dict__.update(self.__dict__)
        copy._state = state
        copy.queue, copy.held = self.queue.copy(), self.held.copy()
        copy.recalled = self.recalled.copy()
        copy.dependents = self.dependents.copy()
        return copy

    # ------------------------------------------------------------------ the table of arrivals

    def foresee(
        self,
        arrival: Callable[[int], JobSubmitted],
        columns: NDArray[np.float64],
        verdict: NDArray[np.int64],
        *,
        prepared: bool,
        refused: dict[int, str],
    ) -> None:
        """Let jobs come as a table says; how jobs end is kept where one comes that is after others."""
        self.arrival, self.prepared, self.refused = arrival, prepared, refused
        self.expect(columns, verdict)
        dependents = self.dependents
        dependents.watched = bool((verdict == DEPENDS).any())
        if dependents.watched:
            for place in np.flatnonzero(verdict == OBSTACLE).tolist():
                spec = arrival(place).spec
                dependents.ended[spec.id] = End(spec.submit_time, ok=False)

    def expect(self, columns: NDArray[np.float64], verdict: NDArray[np.int64]) -> None:
        """Let this be the table of arrivals: a column of floats for each job, and what becomes of it."""
        s = self._state
        s.arrivals, s.verdict = columns, verdict
        if not s.compiled:
            s.arrivals, s.verdict = columns.tolist(), verdict.tolist()
        s.machine = None

    # ------------------------------------------------------------------ the admission queue

    def submit(self, event: JobSubmitted) -> None:
        """Let a job wait to be admitted."""
        self.queue.append(event)
        self._state.count[COME] += 1

    def submit_again(self, event: JobSubmitted) -> None:
        """Let a job that was after others wait to be admitted, where it was submitted."""
        later = (place for place, one in enumerate(self.queue) if one.number > event.number)
        self.queue.insert(next(later, len(self.queue)), event)
        self._state.count[COME] += 1

    def come_back(self, place: int) -> None:
        """Let an arrival that was after other jobs be in the admission queue, where it was submitted."""
        s = self._state
        s.arrivals[PLACE["submit"]][place] = float(s.clock[NOW])
        insort(self.dependents.returned, place)
        s.count[RETURNED] += 1

    @property
    def waiting(self) -> list[JobSubmitted]:
        """The submissions in the admission queue, in order; those that were admitted before come first."""
        again = [self.submission(number) for number in sorted(self.recalled)]
        if self.arrival is None:
            return [*again, *self.queue]
        return again + [self.arrival(place) for place in self._places()]

    @property
    def submissions(self) -> list[JobSubmitted]:
        """Submissions in the admission queue, in order, and of jobs that are blocked on dependencies."""
        return [*self.waiting, *self.dependents.submissions()]

    def in_queue(self) -> Iterator[tuple[int | None, JobSubmitted]]:
        """The admission queue with places in the table of arrivals; what was yielded last may leave it."""
        for number in sorted(self.recalled):
            yield None, self.submission(number)
        queue, at = self.queue, 0
        while at < len(queue):
            event = queue[at]
            yield None, event
            at += at < len(queue) and queue[at] is event
        if self.arrival is not None:
            for place in self._places():
                yield place, self.arrival(place)

    def _places(self) -> Iterator[int]:
        """The places in the table of arrivals of those in the admission queue, in order."""
        s = self._state
        first_come = (i for i in range(s.count[QUEUED], s.count[COME]) if s.verdict[i] in _QUEUED)
        return merge(self.dependents.returned[:], first_come)

    def withdraw(self, number: int) -> JobSubmitted | None:
        """Take a submission out of the admission queue; None where it is not there."""
        for place, event in self.in_queue():
            if event.number == number:
                self.leave(event, place)
                return event
        return None

    def leave(self, event: JobSubmitted, place: int | None) -> None:
        """Take a submission, an arrival at this place in their table, out of the admission queue."""
        s, returned = self._state, self.dependents.returned
        if event.number in self.recalled:
            self.forget(event.number)
            return
        if place is None:
            self.queue.remove(event)
            s.count[COME] -= 1
            return
        at = bisect_left(returned, place)
        if returned[at : at + 1] == [place]:
            del returned[at]
            s.count[RETURNED] -= 1
        elif place == s.count[QUEUED]:
            s.count[QUEUED] += 1
            self.pass_over()
        else:
            s.verdict = s.verdict[:] if isinstance(s.verdict, list) else s.verdict.copy()
            s.verdict[place] = GONE
            s.machine = None

    def pass_over(self) -> None:
        """Let the admission queue begin behind arrivals that are not in it."""
        s = self._state
        while s.count[QUEUED] < s.count[COME] and s.verdict[s.count[QUEUED]] not in _QUEUED:
            s.count[QUEUED] += 1

    # ------------------------------------------------------------------ jobs that were admitted before

    def recall(self, number: int, job: HeldJob) -> None:
        """Let a job that was admitted wait to be admitted again, as it is."""
        self.held[number] = job
        self.recalled.add(number)
        self._state.count[RETURNED] += 1

    def submission(self, number: int) -> JobSubmitted:
        """The submission of a recalled job."""
        job = self.held[number]
        assert isinstance(job, HeldJob)
        return JobSubmitted(job.known.spec.submit_time, number, job.known.spec)

    def stopped_now(self, number: int) -> bool:
        """Whether a recalled job was stopped at this moment, so that it cannot be given GPUs in it."""
        job = self.held[number]
        return isinstance(job, HeldJob) and job.value("started") == self._state.clock[NOW]

    def take(self, number: int) -> HeldJob | JobSubmitted | None:
        """A job that is held or was recalled, which is neither from now on; None where it was not."""
        self.forget(number)
        return self.held.pop(number, None)

    def forget(self, number: int) -> None:
        """Let a job not wait to be admitted again; its user may hold it."""
        if number in self.recalled:
            self.recalled.remove(number)
            self._state.count[RETURNED] -= 1

    # ------------------------------------------------------------------ jobs that end

    def note_end(self, name: str, *, ok: bool) -> None:
        """The job with the id ``name`` is through; ``ok``: it did all that it was to do."""
        dependents, clock = self.dependents, self._state.clock
        if dependents.watched or self.arrival is None:
            dependents.ended[name] = End(float(clock[NOW]), ok)
        if name in dependents.followers:
            dependents.news.append(name)
            clock[ELIGIBLE] = clock[NOW]
