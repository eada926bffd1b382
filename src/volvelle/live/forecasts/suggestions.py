"""What would let a waiting job start sooner: changes its user, or an operator, can make.

Each is tried on a fork of the scheduler, so what is told here is what the scheduler would do. Most are
tried by one decision: does the job start now? A play-out, which tells when else, and when it would finish,
takes longer, and is made where there is time.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from volvelle.core.columns import Column
from volvelle.core.events import Event, JobReleased, JobSubmitted, NodeChanged, WakeUp
from volvelle.core.scheduler import Scheduler
from volvelle.live.forecasts.forecaster import Outlook
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import JobStatusView
from volvelle.model.cluster import NodeState
from volvelle.model.units import format_duration
from volvelle.simulate.forecast import forecast, withdrawn

MOST = 2
"""Changes told of: the best."""
BUDGET_SECONDS = 0.15
"""After so long no more is tried."""

_WORTH_SECONDS = 1.0
"""A start that comes sooner by less than this is no help."""
_SHORTER = (2.0, 10.0)
_GUESS_SECONDS = 600.0
"""An estimate to try for a job without one."""
_MOST_NODES = 3


@dataclass(frozen=True)
class Change:
    """Something that would help. ``start`` and ``p50``: seconds since the epoch.

    what: in words, after "with". request: keys of the job's request and what they would have to be; empty
    where it is not the request that changes.
    """

    what: str
    request: dict[str, Any]
    start: float
    p50: float | None


@dataclass(frozen=True)
class Remedies:
    """What would help a job. after: the job whose end it waits for, where that is foreseen.

    complete: whether there was time to try everything.
    """

    changes: tuple[Change, ...]
    after: int | None
    complete: bool


@dataclass(frozen=True)
class _Candidate:
    what: str
    request: dict[str, Any]
    events: tuple[Event, ...]
    number: int


@dataclass(frozen=True)
class _Tried:
    candidate: _Candidate
    start: float
    finish: float | None


def remedies(
    scheduler: Scheduler,
    outlook: Outlook,
    job: JobStatusView,
    now: float,
    epoch: float,
) -> Remedies:
    """What would help ``job``, which waits or is held in ``scheduler``.

    The scheduler is nobody else's. ``epoch``: its time 0. A job that is submitted otherwise queues anew.
    """
    number = job.number
    end = time.perf_counter() + BUDGET_SECONDS
    plays_out = 2.0 * outlook.took < BUDGET_SECONDS
    scheduler.now = max(scheduler.now, now)
    now = scheduler.now
    start, after = float("inf"), None
    if plays_out:
        seen = forecast(scheduler, until_finish_of=number)
        start = seen.upcoming.get(number, start)
        ends = (other for other, finish in seen.finish.items() if finish == start)
        after = next((other for other in ends if other != number), None)
    found: list[_Tried] = []
    complete = True
    for base, candidate in _candidates(scheduler, job, now):
        if time.perf_counter() > end:
            complete = False
            break
        tried = _try(base, candidate, now, plays_out=plays_out)
        if tried is not None and tried.start < start - _WORTH_SECONDS:
            found.append(tried)
    best = sorted(found, key=lambda tried: tried.start)  # of those alike, the one tried first
    changes = tuple(_told(tried, outlook, now, epoch) for tried in islice(_unlike(best), MOST))
    return Remedies(changes, after, complete)


def _told(tried: _Tried, outlook: Outlook, now: float, epoch: float) -> Change:
    p50, _ = outlook.stated(tried.finish, now)
    candidate = tried.candidate
    return Change(
        candidate.what,
        candidate.request,
        epoch + tried.start,
        None if p50 is None else epoch + p50,
    )


def _unlike(tried: Sequence[_Tried]) -> Iterator[_Tried]:
    """One of each kind: who is told of 2 GPUs need not be told of 1."""
    kinds: set[tuple[str, ...]] = set()
    for one in tried:
        kind = tuple(one.candidate.request) or (one.candidate.what,)
        if kind not in kinds:
            kinds.add(kind)
            yield one


def _try(base: Scheduler, candidate: _Candidate, now: float, *, plays_out: bool) -> _Tried | None:
    """When the job would start; None where it would not, or that is not known."""
    ahead = base.fork()
    for event in candidate.events:
        if isinstance(event, JobSubmitted) and ahead.obstacle(event.spec):
            return None
    ahead.handle(now, candidate.events)
    runs = _runs(ahead, candidate.number)
    if plays_out:
        seen = forecast(ahead, until_finish_of=candidate.number)
        start = now if runs else seen.upcoming.get(candidate.number)
        return (
            None if start is None else _Tried(candidate, start, seen.finish.get(candidate.number))
        )
    at, wake = now, ahead.wake_at()
    if not runs and wake is not None and ahead.composition.policy.round is not None:
        at = max(wake, now)
        ahead.handle(at, [WakeUp(at)])
    return _Tried(candidate, at, None) if _runs(ahead, candidate.number) else None


def _runs(scheduler: Scheduler, number: int) -> bool:
    row = scheduler.jobs.row_of.get(number)
    return row is not None and scheduler.jobs.matrix[Column.HELD, row] > 0.0


# ---------------------------------------------------------------------- what can be tried


def _candidates(
    scheduler: Scheduler, job: JobStatusView, now: float
) -> Iterator[tuple[Scheduler, _Candidate]]:
    """Each with the scheduler on which to try it; the least that a user would mind first."""
    number = job.number
    if number in scheduler.aside:
        yield scheduler, _Candidate("its release", {}, (JobReleased(now, number),), number)
        return
    base = withdrawn(scheduler, [number])
    present = [*base.known, *base.aside, *(event.number for event in base.at_the_door)]
    new = max([number, *present]) + 1
    request = JobRequest.model_validate(job.request | {"array": 1})  # this one of its array
    for what, changed in _requests(scheduler, request):
        spec = request.model_copy(update=changed).spec(new, job.user, now)
        yield base, _Candidate(what, changed, (JobSubmitted(now, new, spec),), new)
    for name in _drained(scheduler):
        resumed = (NodeChanged(now, name, NodeState.UP),)
        yield scheduler, _Candidate(f"node {name} resumed", {}, resumed, number)


def _requests(scheduler: Scheduler, request: JobRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from _types(scheduler, request)
    yield from _pools(scheduler, request)
    yield from _fewer(request)
    yield from _estimates(request)


def _types(scheduler: Scheduler, request: JobRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    if request.gpu_types:
        asked = " or ".join(request.gpu_types)
        for kind in scheduler.resources.types:
            if kind and kind not in request.gpu_types:
                yield f"GPU type {kind} instead of {asked}", {"gpu_types": (kind,)}


def _pools(scheduler: Scheduler, request: JobRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    if request.pool:
        for pool in scheduler.cluster.pools:
            if pool.name != request.pool:
                yield f"pool {pool.name} instead of {request.pool}", {"pool": pool.name}


def _estimates(request: JobRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    if request.estimate is None:
        yield f"an estimate of {format_duration(_GUESS_SECONDS)}", {"estimate": _GUESS_SECONDS}
        return
    for times in _SHORTER:
        shorter = request.estimate / times
        was = format_duration(request.estimate)
        yield f"an estimate of {format_duration(shorter)} instead of {was}", {"estimate": shorter}


def _fewer(request: JobRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    """Half of the GPUs, half of these ...: the run time grows as they shrink."""
    gpus = request.gpus // 2
    while gpus >= 1:
        changed: dict[str, Any] = {"gpus": gpus}
        if request.min_gpus is not None:
            changed["min_gpus"] = min(request.min_gpus, gpus)
        if request.max_gpus is not None:
            changed["max_gpus"] = gpus
        if request.estimate is not None:
            changed["estimate"] = request.estimate * request.gpus / gpus
        yield f"{gpus} GPU{'' if gpus == 1 else 's'} instead of {request.gpus}", changed
        gpus //= 2


def _drained(scheduler: Scheduler) -> list[str]:
    """Draining nodes, those with the most free GPUs first."""
    resources = scheduler.resources
    drained = [at for at, state in enumerate(resources.state) if state is NodeState.DRAINING]
    drained.sort(key=lambda at: -int(resources.free[at]))
    return [resources.names[at] for at in drained[:_MOST_NODES] if resources.free[at] > 0]
