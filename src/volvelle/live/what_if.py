"""What would become of a job, were it submitted now: asked of a scheduler that is nobody else's."""

from volvelle.core.columns import Column
from volvelle.core.events import JobSubmitted
from volvelle.core.scheduler import Scheduler
from volvelle.live.forecaster import Outlook
from volvelle.live.foresight import Forecast
from volvelle.live.reasons import reasons
from volvelle.live.request import JobRequest
from volvelle.model.problems import Problem
from volvelle.simulate.forecast import forecast


def what_if(
    ahead: Scheduler,
    outlook: Outlook,
    request: JobRequest,
    user: str,
    now: float,
    epoch: float,
) -> Forecast:
    """The forecast for ``request``, submitted ``now`` (``epoch``: time 0 of the scheduler).

    Of an array: from its first start to its last finish. Raises `Problem` where it could never run.
    """
    present = [*ahead.known, *ahead.aside, *(event.number for event in ahead.at_the_door)]
    first = max(present, default=-1) + 1
    numbers = range(first, first + request.array)
    spec = request.spec(first, user, now)
    if obstacle := ahead.obstacle(spec):
        raise Problem(f"the job {obstacle}", mend="ask for less, or for another kind")
    arrivals = [JobSubmitted(now, n, request.spec(n, user, now)) for n in numbers]
    decision = ahead.handle(now, arrivals)
    for rejection in decision.rejected:
        if rejection.number in numbers:
            return Forecast(reason=rejection.reason)
    seen = forecast(ahead, until_finish_of=None if request.array > 1 else first)
    starts = [seen.start[n] for n in numbers if n in seen.start]
    finishes = [seen.finish[n] for n in numbers if n in seen.finish]
    finish = max(finishes) if len(finishes) == len(numbers) else None
    p50, p90 = outlook.stated(finish, now)
    waits = _waits(ahead, first)
    return Forecast(
        start=epoch + min(starts) if starts else None,
        p50=None if p50 is None else epoch + p50,
        p90=None if p90 is None else epoch + p90,
        deadline_share=_share_in_time(outlook, request, finish, now),
        ahead=sum(
            _waits(ahead, n) and seen.upcoming.get(n, float("inf")) < min(starts, default=0.0)
            for n in ahead.known
            if n not in numbers
        ),
        reason=reasons(ahead, seen.upcoming).get(first, "") if waits else "",
    )


def _waits(scheduler: Scheduler, number: int) -> bool:
    row = scheduler.jobs.row_of.get(number)
    return row is None or not scheduler.jobs.matrix[Column.HELD, row]


def _share_in_time(
    outlook: Outlook, request: JobRequest, finish: float | None, now: float
) -> float | None:
    """How often it would be done by its (last) deadline."""
    if request.deadline is None or finish is None:
        return None
    within = request.deadline.rewards[-1].deadline_seconds
    known = outlook.share_within(finish - now, within)
    return float(finish - now <= within) if known is None else known
