"""How jobs come into the system and leave it: the admission queue, admission, entering, being turned away.

In a world that knows what comes, submissions are places in the table of arrivals; elsewhere they stand in
`Scheduler.queue`. Either way QUEUED to COME counts those that wait, in order of submission.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

from volvelle.core.beliefs import newcomer
from volvelle.core.events import JobSubmitted
from volvelle.core.forward.jobs import enter as enter_arrival
from volvelle.core.forward.jobs import join, leave, note_through, part, take_row
from volvelle.core.forward.log import log_event
from volvelle.core.forward.waiting import ROUNDING
from volvelle.core.parts import Fate, KnownJob, Verdict
from volvelle.core.promises import promise
from volvelle.core.state import (
    COME,
    DEMAND,
    ENTERS,
    KERNEL,
    LIMIT,
    NO_PROGRESS,
    OBSTACLE,
    QUEUED,
    REJECTED,
    TRUTH,
    WITHDRAWN,
    Jobs,
    Reason,
)

if TYPE_CHECKING:
    from volvelle.core.scheduler import Scheduler

_DONE = Jobs.float_columns.index("done")


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

    def having_done(self, work: float) -> "HeldJob":
        """The same with ``work`` units done."""
        return self._replace(values=(*self.values[:_DONE], work, *self.values[_DONE + 1 :]))


# ---------------------------------------------------------------------- the admission queue


def queue_submission(scheduler: "Scheduler", event: JobSubmitted) -> None:
    """Let a job wait to be admitted."""
    scheduler.queue.append(event)
    scheduler.state.count[COME] += 1


def waiting_for_admission(scheduler: "Scheduler") -> list[JobSubmitted]:
    """The submissions in the admission queue, in order."""
    s = scheduler.state
    if scheduler.coming is None:
        return list(scheduler.queue)
    places = range(s.count[QUEUED], s.count[COME])
    return [scheduler.coming(i) for i in places if s.verdict[i] in (ENTERS, NO_PROGRESS)]


def withdraw(scheduler: "Scheduler", number: int) -> JobSubmitted | None:
    """Take a submission out of the admission queue; None where it is not there."""
    s, queue = scheduler.state, waiting_for_admission(scheduler)
    event = next((event for event in queue if event.number == number), None)
    if event is None:
        return None
    if scheduler.coming is None:
        scheduler.queue.remove(event)
        s.count[COME] -= 1
    else:
        s.verdict = s.verdict[:] if isinstance(s.verdict, list) else s.verdict.copy()
        places = range(s.count[QUEUED], s.count[COME])
        s.verdict[next(i for i in places if scheduler.coming(i).number == number)] = WITHDRAWN
        scheduler.renew()
    return event


def admit_all(scheduler: "Scheduler") -> None:
    """Let the admission judge those that wait, in order, up to the first that is to wait on."""
    s, admission = scheduler.state, scheduler.composition.admission
    while s.count[QUEUED] < s.count[COME]:
        place = s.count[QUEUED]
        if scheduler.coming is None:
            event = scheduler.queue[0]
        elif s.verdict[place] in (OBSTACLE, WITHDRAWN):
            s.count[QUEUED] += 1
            continue
        else:
            event = scheduler.coming(place)
        verdict = _judge(scheduler, event)
        if verdict.fate is Fate.WAIT:
            if verdict.promise is not None:
                promise(scheduler, verdict.promise)
            return
        if scheduler.coming is None:
            scheduler.queue.popleft()
            s.count[COME] -= 1
        else:
            s.count[QUEUED] += 1
        if verdict.fate is Fate.REJECT:
            reason = verdict.reason or f"turned away by admission {admission.name}"
            reject(scheduler, event.number, reason)
            continue
        if scheduler.prepared and s.verdict[place] == ENTERS:
            enter_arrival(s, scheduler.rules, place, scheduler.now)
        elif scheduler.prepared:
            reject(scheduler, event.number, scheduler.foretold[event.number])
        else:
            admit(scheduler, event, place if scheduler.coming is not None else None)
        if verdict.promise is not None and event.number in scheduler.known:
            promise(scheduler, verdict.promise)


def _judge(scheduler: "Scheduler", event: JobSubmitted) -> Verdict:
    """What the admission says of the first job in the queue."""
    s, admission = scheduler.state, scheduler.composition.admission
    if admission.limit(sum(s.types.capacity)) is None:
        return admission.judge(event, scheduler.view(), scheduler.ahead)
    demand = float(s.clock[DEMAND])
    fits = demand + event.spec.gpus <= s.clock[LIMIT] or demand <= ROUNDING
    return Verdict(Fate.ADMIT if fits else Fate.WAIT)


def admit(scheduler: "Scheduler", event: JobSubmitted, place: int | None = None) -> None:
    """Let a job enter, or turn it away where it makes no progress here.

    place: in the table of arrivals, in a world that knows what comes.
    """
    belief = scheduler.composition.estimator.believe(event, scheduler.seed)
    values = newcomer(scheduler, event.number, event.spec, belief)
    if isinstance(values, str):
        reject(scheduler, event.number, values)
    else:
        if place is not None:
            for column in TRUTH:
                values[column] = float(scheduler.state.arrivals[column][place])
        enter(scheduler, values, KnownJob(event.spec, belief.truth))


# ---------------------------------------------------------------------- coming and going


def reject(scheduler: "Scheduler", number: int, reason: str) -> None:
    """Turn a job away for good."""
    scheduler.notes.reasons[number] = reason
    log_event(scheduler.state, scheduler.rules, REJECTED, number, 0.0, 0.0)
    note_through(scheduler.state, number)


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
    if scheduler.rules.decides == KERNEL and jobs.table[row] < 0.0:
        scheduler.apply_rules()  # machine code may not know how fast it is


def drop(scheduler: "Scheduler", row: int, *, through: bool = True) -> None:
    """Take the job in ``row`` out of the system; ``through``: it does not come back."""
    s, number = scheduler.state, int(scheduler.state.jobs.number[row])
    pinned = s.jobs.pinned[row] == 1.0
    (leave if through else part)(s, scheduler.rules, row)
    scheduler.known.left(number)
    if pinned:
        scheduler.count_capacity()
