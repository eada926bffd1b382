"""Jobs that were submitted and are not in the system: in the admission queue, held, or after other jobs.

In a world that knows what comes, submissions are places in the table of arrivals; elsewhere they stand in
`Admissions.queue`. Either way QUEUED to COME counts those in the admission queue, in order of submission;
arrivals that were blocked on other jobs come back to their place among them (RETURNED).
"""

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
    """A job that its user holds, out of the system: its columns, and what is known of it."""

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


class Admissions:
    """The jobs outside of the system, by what keeps them there.

    queue: submissions in the admission queue, but for those of the table of arrivals. held: jobs that their
    users hold, from the system or from the queue, by number. arrival: the submissions in the table of
    arrivals, by place, in a world that knows what comes. prepared: whether that table says what is believed
    of them. refused: why some of them will be turned away, by number.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.queue: deque[JobSubmitted] = deque()
        self.held: dict[int, HeldJob | JobSubmitted] = {}
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
        """The submissions in the admission queue, in order."""
        if self.arrival is None:
            return list(self.queue)
        return [self.arrival(place) for place in self._places()]

    @property
    def submissions(self) -> list[JobSubmitted]:
        """Submissions in the admission queue, in order, and of jobs that are blocked on dependencies."""
        return [*self.waiting, *self.dependents.submissions()]

    def in_queue(self) -> Iterator[tuple[int | None, JobSubmitted]]:
        """The admission queue with places in the table of arrivals; what was yielded last may leave it."""
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

    # ------------------------------------------------------------------ jobs that end

    def note_end(self, name: str, *, ok: bool) -> None:
        """The job with the id ``name`` is through; ``ok``: it did all that it was to do."""
        dependents, clock = self.dependents, self._state.clock
        if dependents.watched or self.arrival is None:
            dependents.ended[name] = End(float(clock[NOW]), ok)
        if name in dependents.followers:
            dependents.news.append(name)
            clock[ELIGIBLE] = clock[NOW]
