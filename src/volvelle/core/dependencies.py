"""Jobs that are blocked on dependencies, until the jobs that they depend on have ended.

A job comes to the admission queue when the last of them has ended, and its think time has passed; one whose
dependency cannot be met any more is turned away. Policies do not see blocked jobs. In a world that
knows what comes, these are places in the table of arrivals (DEPENDS).
"""

from heapq import heappop, heappush

import msgspec

from volvelle.core.dependents import Dependent
from volvelle.core.entry import reject
from volvelle.core.events import JobSubmitted
from volvelle.core.scheduler_state import SchedulerState
from volvelle.core.state import COME, DEPENDS, ELIGIBLE, INFINITY, NEWCOMERS


def block(scheduler: SchedulerState, event: JobSubmitted, place: int | None = None) -> None:
    """A job is submitted that is after others, some of which may be through; `take_in_dependents` follows.

    place: in the table of arrivals, in a world that knows what comes.
    """
    dependents, number = scheduler.admissions.dependents, event.number
    dependents.blocked[number] = Dependent(event, event.spec.after, event.time, place)
    for name in {one.job for one in event.spec.after}:
        dependents.followers.setdefault(name, []).append(number)
    through = dict.fromkeys(one.job for one in event.spec.after if one.job in dependents.ended)
    for name in through:
        if number in dependents.blocked:
            _hear(scheduler, number, name)


def take_in_dependents(scheduler: SchedulerState) -> None:
    """Take in jobs just submitted that are after others; let those come whose time it is."""
    s, dependents = scheduler.state, scheduler.admissions.dependents
    if scheduler.admissions.arrival is not None:
        for place in range(s.count[COME] - s.count[NEWCOMERS], s.count[COME]):
            if s.verdict[place] == DEPENDS:
                block(scheduler, scheduler.admissions.arrival(place), place)
    while dependents.news:
        name = dependents.news.pop(0)
        for number in dependents.followers.pop(name, ()):
            if number in dependents.blocked:
                _hear(scheduler, number, name)
    while dependents.due and dependents.due[0][0] <= scheduler.now:
        _, number = heappop(dependents.due)
        if number in dependents.blocked:
            _come(scheduler, number)
    s.clock[ELIGIBLE] = dependents.due[0][0] if dependents.due else INFINITY
    scheduler.make_room()


def _hear(scheduler: SchedulerState, number: int, name: str) -> None:
    """The job called ``name``, which job ``number`` is after, is through."""
    dependents = scheduler.admissions.dependents
    dependent, end = dependents.blocked[number], dependents.ended[name]
    if any(one.job == name and not (end.ok or one.any_end) for one in dependent.left):
        del dependents.blocked[number]
        reject(scheduler, dependent.event, f"dependency failed: job {name} did not succeed")
        return
    thinks = [one.think_seconds for one in dependent.left if one.job == name]
    left = tuple(one for one in dependent.left if one.job != name)
    since = max([dependent.since, *(end.time + think for think in thinks)])
    dependents.blocked[number] = dependent._replace(left=left, since=since)
    if not left:
        _expect(scheduler, number, since)


def _expect(scheduler: SchedulerState, number: int, time: float) -> None:
    """Job ``number`` has no unmet dependency any more, and comes at ``time``."""
    clock = scheduler.state.clock
    heappush(scheduler.admissions.dependents.due, (time, number))
    clock[ELIGIBLE] = min(float(clock[ELIGIBLE]), time)


def _come(scheduler: SchedulerState, number: int) -> None:
    """Job ``number`` is blocked no longer."""
    dependent = scheduler.admissions.dependents.blocked.pop(number)
    event = msgspec.structs.replace(dependent.event, time=scheduler.now)
    if dependent.held:
        scheduler.admissions.held[number] = event
    elif dependent.place is None:
        scheduler.admissions.submit_again(event)
    else:
        scheduler.admissions.come_back(dependent.place)
