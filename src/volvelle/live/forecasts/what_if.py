"""Hypothetical questions: the forecast of a job, or the effect of a policy, on a fork of the scheduler."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import msgspec

from volvelle.core.decision import Promise
from volvelle.core.events import Event, JobSubmitted, NodeChanged, Recomposed, WakeUp
from volvelle.core.paying import compile_where_it_pays
from volvelle.core.scheduler import Scheduler
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.forecasts.job_forecast import JobForecast
from volvelle.live.forecasts.overruns import foresee, late_finishes
from volvelle.live.job_request import JobRequest
from volvelle.live.measured_rates import MeasuredRates
from volvelle.live.scheduler_queries import (
    declarations,
    declared_spec,
    gpus_decided,
    gpus_held,
    holds_gpus,
    job_numbers,
)
from volvelle.live.status.reasons import NO_REASON, waiting_reasons
from volvelle.live.status.view import NO_GUARANTEES, Guarantee
from volvelle.model.cluster import NodeState
from volvelle.model.job import JobSpec
from volvelle.model.node import Node
from volvelle.model.problems import Problem, nearest


def forecast_request(
    fork: Scheduler,
    calibration: ForecastCalibration,
    measured: MeasuredRates,
    request: JobRequest,
    user: str,
    now: float,
    epoch: float,
) -> JobForecast:
    """The forecast for ``request`` if it were submitted ``now``; ``epoch``: time 0 of the scheduler.

    For an array: from its first start to its last finish. Raises `Problem` if it can never run.
    """
    compile_where_it_pays(fork)
    first = max((*job_numbers(fork), *fork.promises), default=-1) + 1
    numbers = range(first, first + request.array)
    spec = declared_spec(fork, measured, request, first, user, now)
    if obstacle := fork.obstacle(spec):
        raise Problem(f"the job {obstacle}", mend="ask for less, or for another kind")
    there = {str(number) for number in job_numbers(fork)}
    arrivals = [
        JobSubmitted(
            now,
            n,
            msgspec.structs.replace(
                spec,
                id=str(n),
                after=tuple(one for one in request.dependencies(n - first) if one.job in there)
                + request.row_before(n - first, n),
            ),
        )
        for n in numbers
    ]
    decision = fork.handle(now, arrivals)
    rejected = {each.number: each.reason for each in decision.rejected if each.number in numbers}
    accepted = [n for n in numbers if n not in rejected]
    if not accepted:
        return JobForecast(reason=rejected[first], rejected=len(rejected))
    promised = [one for n in accepted if (one := fork.promises.get(n)) is not None]
    guarantee = max(promised, key=_weakness, default=None)
    until = None if request.array > 1 else first
    result, late = foresee(fork, until), late_finishes(fork, until)
    starts = [result.start[n] for n in accepted if n in result.start]
    finishes = [result.finish[n] for n in accepted if n in result.finish]
    finish = max(finishes) if len(finishes) == len(accepted) else None
    begins = min(starts, default=None)
    first = accepted[0]
    latest = max((late[n] for n in accepted if n in late), default=None)
    asked = calibration.ask(fork, first, begins, finish, latest)
    p50, p90, prior, start = asked.under(guarantee, begins, finish)
    waits = not holds_gpus(fork, first)
    return JobForecast(
        start=None if start is None else epoch + start,
        p50=None if p50 is None else epoch + p50,
        p90=None if p90 is None else epoch + p90,
        guessed=prior or fork.composition.estimator.guesses(spec),
        deadline_share=_deadline_share(fork, calibration, request, first, finish, p50),
        ahead=_started_before(fork, result.upcoming, min(starts, default=0.0), numbers),
        reason=waiting_reasons(fork, first).get(first, NO_REASON).text if waits else "",
        guarantee=_guarantee(guarantee, spec, epoch),
        guaranteed=sum(each.finish_by is not None for each in promised),
        rejected=len(rejected),
    )


def _weakness(promised: Promise) -> float:
    """How late a finish is guaranteed; without end where none is."""
    return float("inf") if promised.finish_by is None else promised.finish_by


def _guarantee(promised: Promise | None, spec: JobSpec, epoch: float) -> Guarantee | None:
    if promised is not None:
        return Guarantee.of(promised, epoch)
    return NO_GUARANTEES if spec.rewards else None


def _started_before(
    fork: Scheduler, upcoming: Mapping[int, float], start: float, besides: Container[int]
) -> int:
    """How many jobs in the system that wait now start before ``start``, ``besides`` those."""
    jobs = fork.view().jobs
    waiting = jobs.number[~jobs.running].astype(int).tolist()
    return sum(upcoming.get(n, start) < start for n in waiting if n not in besides)


def _deadline_share(
    fork: Scheduler,
    calibration: ForecastCalibration,
    request: JobRequest,
    number: int,
    finish: float | None,
    p50: float | None,
) -> float | None:
    """Share of jobs like this one that finish by its last deadline: one half or more if P50 is by then."""
    if request.deadline is None or finish is None or p50 is None:
        return None
    within = request.deadline.rewards[-1].deadline_seconds
    share = calibration.share_within(fork, number, finish, within)
    return max(share, 0.5) if p50 - fork.now <= within else min(share, 0.5)  # P50 is of the queue


@dataclass(frozen=True)
class RecompositionEffect:
    """Numbers of the jobs that another policy would stop, start and resize at once."""

    stops: tuple[int, ...]
    starts: tuple[int, ...]
    resizes: tuple[int, ...]


def forecast_recomposition(fork: Scheduler, event: Recomposed) -> RecompositionEffect:
    """The effect of other parts now, or at the first round of a policy that decides in rounds.

    Raises `Problem` if there are no such parts.
    """
    held, now = gpus_held(fork), event.time
    decided = gpus_decided(fork.handle(now, [event]))
    wake = fork.wake_at()
    if fork.composition.policy.round is not None and wake is not None:
        decided |= gpus_decided(fork.handle(max(wake, now), [WakeUp(max(wake, now))]))
    changed = {n: gpus for n, gpus in decided.items() if gpus != held.get(n, 0.0)}
    return RecompositionEffect(
        stops=tuple(sorted(n for n, gpus in changed.items() if n in held and not gpus)),
        starts=tuple(sorted(n for n in changed if n not in held)),
        resizes=tuple(sorted(n for n, gpus in changed.items() if n in held and gpus)),
    )


@dataclass(frozen=True)
class QueueOutlook:
    """How the present jobs fare: the mean of what is left until they start (those that wait) and finish.

    Seconds from now. last: when the last of them finishes, since the Unix epoch; None where there are none.
    """

    start: float
    finish: float
    last: float | None


@dataclass(frozen=True)
class MovedJob:
    """When a job starts and finishes, in seconds since the Unix epoch; None if that is not known."""

    number: int
    name: str
    user: str
    start_before: float | None
    start: float | None
    finish_before: float | None
    finish: float | None


@dataclass(frozen=True)
class Moves:
    """How many jobs finish earlier, or later; seconds on average and at most, and the job of the most."""

    jobs: int
    mean: float
    most: float
    job: int | None

    @classmethod
    def of(cls, seconds: Mapping[int, float]) -> Self:
        """The jobs whose number of seconds is positive."""
        moved = {number: each for number, each in seconds.items() if each > _MIN_MOVE_SECONDS}
        if not moved:
            return cls(0, 0.0, 0.0, None)
        job = max(moved, key=moved.__getitem__)
        return cls(len(moved), sum(moved.values()) / len(moved), moved[job], job)


@dataclass(frozen=True)
class ClusterForecast:
    """The present jobs as things are (``before``) and as they would be. jobs: that moved most."""

    before: QueueOutlook
    after: QueueOutlook
    earlier: Moves
    later: Moves
    jobs: tuple[MovedJob, ...]


MAX_MOVED_JOBS = 200
_MIN_MOVE_SECONDS = 1.0


def new_nodes(count: int, gpus: int, gpu_type: str) -> tuple[Node, ...]:
    """Nodes that the cluster does not have."""
    return tuple(Node(f"what-if-{at}", gpus, gpu_type) for at in range(count))


def forecast_cluster(
    fork: Scheduler,
    calibration: ForecastCalibration,
    policy: str,
    admission: str,
    nodes: tuple[Node, ...],
    now: float,
    epoch: float,
) -> ClusterForecast:
    """When all jobs would start and finish with more ``nodes`` and another policy ``now``.

    fork: a scheduler used by nothing else; epoch: its time 0. Times are P50, as jobs are told. Raises
    `Problem` for a GPU type that the cluster does not have: nothing is known of how fast jobs are on it.
    """
    types = fork.resources.types
    for node in nodes[:1]:
        if node.gpu_type not in types:
            raise Problem(
                f"the cluster has no GPU type {node.gpu_type!r}{nearest(node.gpu_type, types)}",
                mend=f"name one of: {', '.join(each or 'none' for each in types)}",
            )
    compile_where_it_pays(fork)
    fork.now = max(fork.now, now)
    other = fork.fork()
    events: list[Event] = [NodeChanged(fork.now, node.name, NodeState.UP, node) for node in nodes]
    written = fork.composition.written
    if (policy, admission) != (written.policy, written.admission):
        events.append(Recomposed(fork.now, policy, admission))
    other.handle(fork.now, events)
    before, after = _Times.of(fork, calibration), _Times.of(other, calibration)
    moved = sorted(_moved_jobs(fork, before, after, epoch), key=_gain, reverse=True)
    late = {n: after.finish[n] - at for n, at in before.finish.items() if n in after.finish}
    return ClusterForecast(
        before.outlook(fork.now, epoch),
        after.outlook(fork.now, epoch),
        Moves.of({number: -seconds for number, seconds in late.items()}),
        Moves.of(late),
        tuple(moved[:MAX_MOVED_JOBS]),
    )


@dataclass(frozen=True)
class _Times:
    """Starts and finishes of jobs, by number: P50 where they were told times before, else as forecast."""

    start: Mapping[int, float]
    finish: Mapping[int, float]

    @classmethod
    def of(cls, scheduler: Scheduler, calibration: ForecastCalibration) -> Self:
        """The times of all jobs that are in ``scheduler``."""
        found = foresee(scheduler)
        told = calibration.told(scheduler, found)
        starts = {n: each.start for n, each in told.items() if each.start is not None}
        finishes = {n: each.p50 for n, each in told.items() if each.p50 is not None}
        return cls({**found.upcoming, **starts}, {**found.finish, **finishes})

    def outlook(self, now: float, epoch: float) -> QueueOutlook:
        """The means, from ``now`` on."""
        starts = [start - now for start in self.start.values() if start > now]
        finishes = [finish - now for finish in self.finish.values()]
        return QueueOutlook(
            sum(starts) / len(starts) if starts else 0.0,
            sum(finishes) / len(finishes) if finishes else 0.0,
            epoch + now + max(finishes) if finishes else None,
        )


def _moved_jobs(fork: Scheduler, before: _Times, after: _Times, epoch: float) -> Iterator[MovedJob]:
    declared = declarations(fork)
    for number, finish in before.finish.items():
        other = after.finish.get(number)
        if other is None or abs(other - finish) > _MIN_MOVE_SECONDS:
            start, then = before.start.get(number), after.start.get(number)
            if then is not None and (start is None or start > fork.now):
                then = max(then, fork.now)  # it ran before and goes on at once
            spec = declared.get(number) or fork.spec(number)
            found = (start, then, finish, other)
            times = (None if time is None else epoch + time for time in found)
            yield MovedJob(number, spec.name, spec.user, *times)


def _gain(job: MovedJob) -> float:
    if job.finish is None or job.finish_before is None:
        return float("inf")
    return abs(job.finish_before - job.finish)
