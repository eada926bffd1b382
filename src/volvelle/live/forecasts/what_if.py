"""What would become of a job or of a policy put in place now: asked of a scheduler that is nobody else's."""

from dataclasses import dataclass

from volvelle.core.columns import Column
from volvelle.core.decision import Decision
from volvelle.core.events import JobSubmitted, Recomposed, WakeUp
from volvelle.core.scheduler import Scheduler
from volvelle.live.forecasts.forecaster import Outlook
from volvelle.live.forecasts.job_forecast import Forecast
from volvelle.live.job_request import JobRequest
from volvelle.live.status.reasons import reasons
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


@dataclass(frozen=True)
class Shift:
    """What another policy would do at once: numbers of the jobs that it stops, starts and resizes."""

    stops: tuple[int, ...]
    starts: tuple[int, ...]
    resizes: tuple[int, ...]


def what_if_recomposed(ahead: Scheduler, policy: str, admission: str, now: float) -> Shift:
    """What would happen under another policy ``now``, or at its first round where it decides in rounds.

    Raises `Problem` where there is no such policy.
    """
    jobs = ahead.jobs
    held = {
        number: float(jobs.matrix[Column.HELD, row])
        for number, row in jobs.row_of.items()
        if jobs.matrix[Column.HELD, row] > 0.0
    }
    given = _given(ahead.handle(now, [Recomposed(now, policy, admission)]))
    wake = ahead.wake_at()
    if ahead.composition.policy.round is not None and wake is not None:
        given |= _given(ahead.handle(max(wake, now), [WakeUp(max(wake, now))]))
    given = {number: gpus for number, gpus in given.items() if gpus != held.get(number, 0.0)}
    return Shift(
        stops=tuple(sorted(n for n, gpus in given.items() if n in held and not gpus)),
        starts=tuple(sorted(n for n, gpus in given.items() if n not in held)),
        resizes=tuple(sorted(n for n, gpus in given.items() if n in held and gpus)),
    )


def _given(decision: Decision) -> dict[int, float]:
    return dict(zip(decision.job.tolist(), decision.gpus.tolist(), strict=True))
