"""Suggestions: changes by a user or an operator that would let a waiting job finish sooner.

Each candidate is tried on a fork of the scheduler, so a suggestion is what the scheduler would do. A full
forecast gives its start and finish. It takes long where many jobs are in the system, or a policy decides
slowly: there a candidate is tried with one decision (does the job start now?). How many are tried goes by the
number of jobs, and not by the clock: a question has one answer, however busy the machine is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from volvelle.core.events import Event, JobCancelled, JobReleased, JobSubmitted, NodeChanged, WakeUp
from volvelle.core.fork import Fork
from volvelle.core.scheduler_state import SchedulerState
from volvelle.live.forecasts.calibration import UNKNOWN, ForecastCalibration
from volvelle.live.forecasts.overruns import foresee
from volvelle.live.job_request import JobRequest
from volvelle.live.scheduler_queries import (
    holds_gpus,
    is_held,
    job_numbers,
    starts_over,
    waits_for_jobs,
)
from volvelle.live.status.view import JobStatusView, Moment
from volvelle.model.cluster import NodeState
from volvelle.model.units import format_duration

MAX_SUGGESTIONS = 2
_MANY_JOBS = 1000
"""From so many jobs in the system on no forecast is made for an answer."""
_TRIED_JOBS = 12_000
"""So many jobs are forecast, or decided on, for an answer: those in the system once for each candidate."""
_LEAST_TRIED = 4
"""So many candidates are tried in any system."""
_SLOW_SECONDS = 0.1
"""Where a forecast takes longer, as under policies with solvers, none is made and the fewest are tried."""

_MIN_GAIN_SECONDS, _MIN_GAIN = 1.0, 0.05
"""The smallest gain of a suggestion: in seconds, and as a share of the time until then."""
_SHORT_SECONDS = 600.0
"""Estimate to try for a job without one. One that declares an estimate is not advised to declare less."""
_MAX_NODES = 3


@dataclass(frozen=True)
class Suggestion:
    """A change that would help. ``start`` and ``p50``: seconds since the Unix epoch.

    what: as text, after "with". request: keys of the job's request and their new values; empty if the request
    does not change. sooner: by how many seconds it would finish earlier (P50); None where one of the two
    finishes is not known, and the start is earlier.
    """

    what: str
    request: dict[str, Any]
    start: Moment
    p50: Moment | None
    sooner: float | None


@dataclass(frozen=True)
class Suggestions:
    """The best suggestions for a job. after: the jobs at whose ends it starts, as far as that is known.

    complete: whether all candidates were tried. start, p50: when it starts and finishes, by a forecast made
    just now, and the jobs that start ``ahead`` of it; None if none was made.
    """

    changes: tuple[Suggestion, ...]
    after: tuple[int, ...]
    complete: bool
    start: float | None = None
    p50: float | None = None
    ahead: tuple[int, ...] | None = None


@dataclass(frozen=True)
class _Candidate:
    what: str
    request: dict[str, Any]
    events: tuple[Event, ...]
    number: int
    comparable: bool = True
    """Whether it is known how long the job takes with the change."""


@dataclass(frozen=True)
class _Result:
    candidate: _Candidate
    start: float
    p50: float | None

    def gain(self, start: float, p50: float | None, now: float) -> float:
        """How much sooner the job finishes than at ``p50``; if unknown, starts than at ``start``.

        0 where that is next to nothing.
        """
        if self.p50 is None or (p50 is None and start < float("inf")):
            before, after = start, self.start
        else:
            before, after = float("inf") if p50 is None else p50, self.p50
        least = max(_MIN_GAIN_SECONDS, _MIN_GAIN * (after - now))
        return before - after if before - after > least else 0.0


def suggest(
    fork: SchedulerState,
    calibration: ForecastCalibration,
    job: JobStatusView,
    now: float,
    epoch: float,
    forecast_seconds: float,
) -> Suggestions:
    """Suggestions for ``job``, which waits or is held in ``fork``, a scheduler used by nothing else.

    epoch: time 0 of the scheduler. forecast_seconds: how long a forecast takes. A changed request queues
    anew.
    """
    number = job.number
    slow = forecast_seconds > _SLOW_SECONDS
    with_forecasts = not slow and len(fork.known) <= _MANY_JOBS
    allowed = _LEAST_TRIED if slow else max(_LEAST_TRIED, _TRIED_JOBS // max(1, len(fork.known)))
    fork.now = now = max(fork.now, now)
    start, p50, ahead, told = float("inf"), None, None, UNKNOWN
    after: tuple[int, ...] = ()
    if with_forecasts:
        result = foresee(fork, number)
        start = result.upcoming.get(number, start)
        after = _awaited(fork, number, start, result.finish)
        before = sorted((at, other) for other, at in result.upcoming.items())
        ahead = tuple(other for at, other in before if (at, other) < (start, number))
        finish = result.finish.get(number)
        start, p50 = calibration.again(number, now, start, finish)
        told = UNKNOWN._replace(p50=p50, start=start if start < float("inf") else None)
        told = told.under(fork.promises.get(number), result.upcoming.get(number), finish)
    found: list[tuple[float, _Result]] = []
    candidates = _candidates(fork, job, now)
    for base, candidate in islice(candidates, allowed):
        tried = _try(base, candidate, number, now, calibration if with_forecasts else None)
        if tried is not None and (gain := tried.gain(start, p50, now)):
            found.append((gain, tried))
    found.sort(
        key=lambda each: (each[1].p50 is None, -each[0])
    )  # stable: the first tried of equals
    best = _one_of_each_kind([tried for _, tried in found])
    changes = tuple(_suggestion(tried, p50, epoch) for tried in islice(best, MAX_SUGGESTIONS))
    begins, ends = (None if time is None else epoch + time for time in (told.start, told.p50))
    return Suggestions(changes, after, next(candidates, None) is None, begins, ends, ahead)


def _awaited(
    fork: SchedulerState, number: int, start: float, finishes: Mapping[int, float]
) -> tuple[int, ...]:
    """The jobs at whose ends job ``number`` starts: one ends at its ``start``; of the GPUs of one type the
    latest before it, too, until theirs are as many as it lacks now.
    """
    until = sorted((-end, other) for other, end in finishes.items() if end <= start)
    ends = [other for _, other in until if other != number]
    if not ends or finishes[ends[0]] != start:
        return ()
    resources, known = fork.resources, fork.known
    if number not in known or len({*resources.types}) > 1:
        return (ends[0],)
    lacking = known[number].spec.least_gpus - float(resources.free[resources.schedulable].sum())
    found = []
    for other in ends:
        found.append(other)
        lacking -= known[other].spec.gpus if other in known else 0.0
        if lacking <= 0.0:
            break
    return tuple(sorted(found))


def _suggestion(tried: _Result, p50: float | None, epoch: float) -> Suggestion:
    return Suggestion(
        tried.candidate.what,
        tried.candidate.request,
        epoch + tried.start,
        None if tried.p50 is None else epoch + tried.p50,
        None if tried.p50 is None or p50 is None else p50 - tried.p50,
    )


def _one_of_each_kind(results: Sequence[_Result]) -> Iterator[_Result]:
    """The best result of each kind: a suggestion of 2 GPUs makes one of 1 GPU redundant."""
    kinds: set[tuple[str, ...]] = set()
    for result in results:
        kind = tuple(result.candidate.request) or (result.candidate.what,)
        if kind not in kinds:
            kinds.add(kind)
            yield result


def _try(
    base: SchedulerState,
    candidate: _Candidate,
    number: int,
    now: float,
    calibration: ForecastCalibration | None,
) -> _Result | None:
    """When job ``number`` would start; None if it would not, or that is not known.

    calibration: of its forecast, as it stands; None: it is not forecast.
    """
    fork = base.fork()
    for event in candidate.events:
        if isinstance(event, JobSubmitted) and fork.obstacle(event.spec):
            return None
    fork.handle(now, candidate.events)
    runs = holds_gpus(fork, candidate.number)
    if calibration is not None:
        result = foresee(fork, candidate.number)
        start = now if runs else result.upcoming.get(candidate.number)
        if start is None:
            return None
        finish = result.finish.get(candidate.number)
        start, p50 = calibration.again(number, now, start, finish)
        return _Result(candidate, start, p50 if candidate.comparable else None)
    at, wake = now, fork.wake_at()
    if not runs and wake is not None and fork.composition.policy.round is not None:
        at = max(wake, now)
        fork.handle(at, [WakeUp(at)])
    return _Result(candidate, at, None) if holds_gpus(fork, candidate.number) else None


# ---------------------------------------------------------------------- candidates


def _candidates(
    fork: SchedulerState, job: JobStatusView, now: float
) -> Iterator[tuple[SchedulerState, _Candidate]]:
    """Candidates, each with the scheduler to try it on; the least disruptive for the user first."""
    number = job.number
    if is_held(fork, number):
        yield fork, _Candidate("its release", {}, (JobReleased(now, number),), number)
        return
    if waits_for_jobs(fork, number):
        return  # nothing about it would let it start
    base = Fork(fork).under(JobCancelled(fork.now, number)).scheduler
    new = max([number, *job_numbers(base)]) + 1
    request = JobRequest.model_validate(job.request | {"array": 1})  # only this job of its array
    over = starts_over(fork, number)
    for what, changed in _changed_requests(fork, request):
        spec = request.model_copy(update=changed).spec(new, job.user, now)
        spec = msgspec.structs.replace(spec, starts_over=over)
        known = request.estimate is not None or not {"gpus", "estimate"} & changed.keys()
        yield base, _Candidate(what, changed, (JobSubmitted(now, new, spec),), new, known)
    for name in _draining_nodes(fork):
        resumed = (NodeChanged(now, name, NodeState.UP),)
        yield fork, _Candidate(f"node {name} resumed", {}, resumed, number)


def _changed_requests(
    scheduler: SchedulerState, request: JobRequest
) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from _other_types(scheduler, request)
    yield from _fewer_constraints(request)
    yield from _other_pools(scheduler, request)
    yield from _fewer_gpus(request)
    if request.estimate is None:
        short = f"an estimate of {format_duration(_SHORT_SECONDS)}, if it is as short as that"
        yield short, {"estimate": _SHORT_SECONDS}


def _other_types(
    scheduler: SchedulerState, request: JobRequest
) -> Iterator[tuple[str, dict[str, Any]]]:
    if request.gpu_types:
        requested = " or ".join(request.gpu_types)
        for kind in dict.fromkeys(scheduler.resources.types):
            if kind and kind not in request.gpu_types:
                yield f"GPU type {kind} instead of {requested}", {"gpu_types": (kind,)}


def _fewer_constraints(request: JobRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    for label in request.constraints:
        left = tuple(one for one in request.constraints if one != label)
        yield f"nodes without {label}, too", {"constraints": left}


def _other_pools(
    scheduler: SchedulerState, request: JobRequest
) -> Iterator[tuple[str, dict[str, Any]]]:
    if request.pool:
        for pool in scheduler.cluster.pools:
            if pool.name != request.pool:
                yield f"pool {pool.name} instead of {request.pool}", {"pool": pool.name}


def _fewer_gpus(request: JobRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    """Half of the GPUs, a quarter ...; the estimate grows as they shrink."""
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


def _draining_nodes(scheduler: SchedulerState) -> list[str]:
    """Draining nodes, those with the most free GPUs first."""
    resources = scheduler.resources
    draining = [at for at, state in enumerate(resources.node_states) if state is NodeState.DRAINING]
    draining.sort(key=lambda at: -int(resources.free[at]))
    return [resources.nodes[at].name for at in draining[:_MAX_NODES] if resources.free[at] > 0]
