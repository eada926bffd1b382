"""How jobs come into the system and leave it: the admission queue, admission, entering, being turned away.

In a world that knows what comes, submissions are places in the table of arrivals; elsewhere they stand in
`Scheduler.queue`. Either way QUEUED to COME counts those that wait, in order of submission; arrivals
that were blocked on other jobs come back to their place among them (RETURNED).
"""

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

from volvelle.core.beliefs import newcomer
from volvelle.core.dependents import note_end
from volvelle.core.events import JobSubmitted
from volvelle.core.forward.jobs import enter as enter_arrival
from volvelle.core.forward.jobs import join, leave, note_through, part, take_row
from volvelle.core.forward.log import log_event
from volvelle.core.mistakes import mistake_in
from volvelle.core.parts import Fate, KnownJob, Verdict
from volvelle.core.promises import promise
from volvelle.core.state import (
    COME,
    DEMAND,
    ENTERS,
    GONE,
    KERNEL,
    LIMIT,
    NO_PROGRESS,
    QUEUED,
    REJECTED,
    RETURNED,
    TRUTH,
    Jobs,
    Reason,
    State,
)
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem
from volvelle.model.tolerances import SAME_AMOUNT

if TYPE_CHECKING:
    from volvelle.core.scheduler import Scheduler

_SUBMIT, _NUMBER = (Jobs.float_columns.index(name) for name in ("submit", "number"))
_QUEUED = (ENTERS, NO_PROGRESS)
"""Verdicts on arrivals that join the queue as they come; others do not, or have left it."""


class HeldJob(NamedTuple):
    """A job that its user holds, out of the system: its columns, and what is known of it."""

    values: tuple[float, ...]
    known: KnownJob

    def value(self, name: str) -> float:
        """One of its columns."""
        return self.values[Jobs.float_columns.index(name)]

    @property
    def attempt(self) -> int:
        """Its last run."""
        return int(self.value("attempt"))

    def having(self, columns: Mapping[str, float]) -> "HeldJob":
        """The same with these values in these columns."""
        named = zip(Jobs.float_columns, self.values, strict=False)
        return self._replace(values=tuple(columns.get(name, value) for name, value in named))


# ---------------------------------------------------------------------- the admission queue


def queue_submission(scheduler: "Scheduler", event: JobSubmitted) -> None:
    """Let a job wait to be admitted."""
    scheduler.queue.append(event)
    scheduler.state.count[COME] += 1


def queue_dependent(scheduler: "Scheduler", event: JobSubmitted) -> None:
    """Let a job that stood aside for others wait to be admitted, where it was submitted."""
    later = (place for place, one in enumerate(scheduler.queue) if one.number > event.number)
    scheduler.queue.insert(next(later, len(scheduler.queue)), event)
    scheduler.state.count[COME] += 1


def waiting_for_admission(scheduler: "Scheduler") -> list[JobSubmitted]:
    """The submissions in the admission queue, in order."""
    if scheduler.coming is None:
        return list(scheduler.queue)
    return [scheduler.coming(place) for place in _places(scheduler)]


def _places(scheduler: "Scheduler") -> Iterator[int]:
    """The places in the table of arrivals of those in the admission queue, in order."""
    s = scheduler.state
    first_come = (i for i in range(s.count[QUEUED], s.count[COME]) if s.verdict[i] in _QUEUED)
    return merge(scheduler.dependents.returned[:], first_come)


def submissions(scheduler: "Scheduler") -> list[JobSubmitted]:
    """Those of jobs that are not in the system: in the admission queue, in order, or aside for other jobs."""
    return [*waiting_for_admission(scheduler), *scheduler.dependents.submissions()]


def come_back(scheduler: "Scheduler", place: int) -> None:
    """Let an arrival that stood aside for other jobs be in the admission queue, where it was submitted."""
    s = scheduler.state
    s.arrivals[_SUBMIT][place] = scheduler.now
    insort(scheduler.dependents.returned, place)
    s.count[RETURNED] += 1


def withdraw(scheduler: "Scheduler", number: int) -> JobSubmitted | None:
    """Take a submission out of the admission queue; None where it is not there."""
    for place, event in _in_queue(scheduler):
        if event.number == number:
            _leave_queue(scheduler, event, place)
            return event
    return None


def _in_queue(scheduler: "Scheduler") -> Iterator[tuple[int | None, JobSubmitted]]:
    """The admission queue with places in the table of arrivals; what was yielded last may leave it."""
    queue, at = scheduler.queue, 0
    while at < len(queue):
        event = queue[at]
        yield None, event
        at += at < len(queue) and queue[at] is event
    if scheduler.coming is not None:
        for place in _places(scheduler):
            yield place, scheduler.coming(place)


def _leave_queue(scheduler: "Scheduler", event: JobSubmitted, place: int | None) -> None:
    """Take a submission, an arrival at this place in their table, out of the admission queue."""
    s, returned = scheduler.state, scheduler.dependents.returned
    if place is None:
        scheduler.queue.remove(event)
        s.count[COME] -= 1
        return
    at = bisect_left(returned, place)
    if returned[at : at + 1] == [place]:
        del returned[at]
        s.count[RETURNED] -= 1
    elif place == s.count[QUEUED]:
        s.count[QUEUED] += 1
        _pass_over(s)
    else:
        s.verdict = s.verdict[:] if isinstance(s.verdict, list) else s.verdict.copy()
        s.verdict[place] = GONE
        scheduler.renew()


def _pass_over(s: State) -> None:
    """Let the admission queue begin behind arrivals that are not in it."""
    while s.count[QUEUED] < s.count[COME] and s.verdict[s.count[QUEUED]] not in _QUEUED:
        s.count[QUEUED] += 1


def admit_all(scheduler: "Scheduler") -> None:
    """Let the admission judge those that wait, in order, as far as it looks past jobs that wait on."""
    looks_past, waits = scheduler.composition.admission.looks_past, 0
    if scheduler.coming is not None:
        _pass_over(scheduler.state)
    for place, event in _in_queue(scheduler):
        if waits > looks_past and event.time < scheduler.now:
            continue
        verdict = _judge(scheduler, event)
        if verdict.fate is not Fate.WAIT:
            _leave_queue(scheduler, event, place)
            _let_in(scheduler, event, place, verdict)
            continue
        if verdict.promise is not None:
            promise(scheduler, verdict.promise)
        if not looks_past:
            return
        waits += 1


def _let_in(
    scheduler: "Scheduler", event: JobSubmitted, place: int | None, verdict: Verdict
) -> None:
    """Let a job enter or turn it away for good; ``place``: in the table of arrivals."""
    s, admission = scheduler.state, scheduler.composition.admission
    if verdict.fate is Fate.REJECT:
        reason = verdict.reason or f"turned away by admission {admission.name}"
        reject(scheduler, event, reason)
    elif not scheduler.prepared or place is None:
        admit(scheduler, event, place)
    elif event.number in scheduler.foretold:
        reject(scheduler, event, scheduler.foretold[event.number])
    else:
        enter_arrival(s, scheduler.rules, place, scheduler.now)
    if verdict.promise is not None and event.number in scheduler.known:
        promise(scheduler, verdict.promise)


def _judge(scheduler: "Scheduler", event: JobSubmitted) -> Verdict:
    """What the admission says of a job in the queue."""
    s, admission = scheduler.state, scheduler.composition.admission
    if admission.limit(sum(s.types.capacity)) is None:
        try:
            return admission.judge(event, scheduler.view(), scheduler.ahead)
        except Problem:
            raise
        except Exception as error:
            asked = f"it was asked at {scheduler.now:g} s about job {event.spec.id!r}"
            if mistake := mistake_in(f"admission {admission.name!r}", error, asked):
                raise mistake from error
            raise
    demand = float(s.clock[DEMAND])
    fits = demand + event.spec.gpus <= s.clock[LIMIT] or demand <= SAME_AMOUNT
    return Verdict(Fate.ADMIT if fits else Fate.WAIT)


def admit(scheduler: "Scheduler", event: JobSubmitted, place: int | None = None) -> None:
    """Let a job enter, or turn it away where it makes no progress here.

    place: in the table of arrivals, in a world that knows what comes.
    """
    belief = scheduler.composition.estimator.believe(event, scheduler.seed)
    values = newcomer(scheduler, event.number, event.spec, belief)
    if isinstance(values, str):
        reject(scheduler, event, values)
    else:
        if event.profile is not None:
            values[_SUBMIT] = event.profile.ended
        if event.spec.after:
            values[_SUBMIT] = event.time if place is None else _submitted(scheduler, place)
        if place is not None:
            for column in TRUTH:
                values[column] = float(scheduler.state.arrivals[column][place])
        enter(scheduler, values, KnownJob(event.spec, belief.truth))


def _submitted(scheduler: "Scheduler", place: int) -> float:
    return float(scheduler.state.arrivals[_SUBMIT][place])


# ---------------------------------------------------------------------- coming and going


def reject(scheduler: "Scheduler", event: JobSubmitted, reason: str) -> None:
    """Turn away for good a job that was submitted."""
    give_up_on(scheduler, event.number, event.spec, reason)
    note_through(scheduler.state, event.number)


def give_up_on(scheduler: "Scheduler", number: int, spec: JobSpec, reason: str) -> None:
    """Say that a job will not be served any more."""
    scheduler.notes.reasons[number] = reason
    log_event(scheduler.state, scheduler.rules, REJECTED, number, 0.0, 0.0)
    note_end(scheduler, spec.id, ok=False)


def enter(scheduler: "Scheduler", values: list[float], known: KnownJob) -> None:
    """Let a job be in the system; ``values`` are the first columns of `volvelle.core.state.Jobs`."""
    s = scheduler.state
    row = take_row(s)
    jobs = s.jobs
    jobs.type[row] = jobs.partner[row] = -1.0
    jobs.first_start[row] = jobs.cpus[row] = jobs.memory[row] = math.nan
    jobs.started[row] = scheduler.now
    jobs.reason[row] = float(Reason.ROUND)
    for place, value in enumerate(values):
        jobs.floats[place][row] = value
    join(s, scheduler.rules, row, scheduler.now)
    scheduler.known.entered(int(values[0]), row, known)
    rules = scheduler.rules
    if rules.decides == KERNEL and not rules.yields and jobs.table[row] < 0.0:
        scheduler.apply_rules()  # machine code may not know how fast it is


def drop(scheduler: "Scheduler", row: int, *, through: bool = True) -> None:
    """Take the job in ``row`` out of the system; ``through``: it does not come back."""
    s, number = scheduler.state, int(scheduler.state.jobs.number[row])
    pinned = s.jobs.pinned[row] == 1.0
    (leave if through else part)(s, scheduler.rules, row)
    scheduler.known.left(number)
    if pinned:
        scheduler.count_capacity()
