"""An attached cluster behind the HTTP API: what a poll saw and what was told of it, as status views.

::

    Session.step ─▶ AttachedCluster.take ─▶ StatusPublisher ─▶ /v1/queue, /v1/jobs, the dashboard

A scheduler tells the nodes of a job and how many GPUs it holds there, not which: GPUs are numbered as they
fit, and a job keeps its numbers as long as it runs.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from time import time as wall_clock

import msgspec

from volvelle.incumbents.attach.accuracy import Accuracy, Told
from volvelle.incumbents.attach.follow import Attached
from volvelle.incumbents.attach.incumbent import Job, Node
from volvelle.live.forecasts.suggestions import Suggestions
from volvelle.live.records import RateMeasured
from volvelle.live.status.metrics import ControllerMetrics
from volvelle.live.status.publisher import StatusPublisher, StatusUpdate
from volvelle.live.status.view import (
    AttachedView,
    ChangeEvent,
    ForecastPoint,
    Health,
    HoldingView,
    JobState,
    JobStatusView,
    LoadPoint,
    NodeStatusView,
    StatusView,
)
from volvelle.live.store.jobs import JobTable
from volvelle.live.store.rows import JobRecord
from volvelle.model.cluster import NodeState
from volvelle.model.pool import Pool

_KEPT = 20_000
"""Jobs that are over, and past holdings, that are kept: the latest."""
_GUESSED = 20
"""The number of told starts until which times are marked as guessed."""
_STATES = {
    "PENDING": JobState.WAITING,
    "CONFIGURING": JobState.STARTING,
    "COMPLETING": JobState.STOPPING,
    "COMPLETED": JobState.FINISHED,
    "CANCELLED": JobState.CANCELLED,
    "PREEMPTED": JobState.CANCELLED,
    "REVOKED": JobState.CANCELLED,
}
"""By the word of Slurm; jobs in other states hold nodes, or have failed."""

Grants = tuple[tuple[str, tuple[int, ...]], ...]


class EndedJobs(JobTable):
    """The jobs of an attached cluster that are over, in memory: the recording is what is kept."""

    def __init__(self) -> None:
        self._ended: dict[int, JobRecord] = {}

    def add(self, job: JobStatusView) -> None:
        """Keep a job that is over."""
        self._ended.pop(job.number, None)
        self._ended[job.number] = JobRecord(
            number=job.number,
            user=job.user,
            name=job.name,
            position=0,
            request={},
            submitted=job.submitted,
            state=job.state.value,
            reason=job.reason,
            ended=job.ended,
            status=msgspec.to_builtins(job),
        )
        if len(self._ended) > _KEPT:
            del self._ended[next(iter(self._ended))]

    def find(self, number: int) -> JobRecord | None:
        """One job that is over."""
        return self._ended.get(number)

    def list_latest(
        self,
        *,
        user: str | None = None,
        states: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[JobRecord]:
        """Jobs, the latest end first: of ``user``, ended in one of ``states``, that ended before another."""
        latest = list(reversed(self._ended.values()))
        if before is not None:
            at = next((at for at, one in enumerate(latest) if one.number == before), len(latest))
            latest = latest[at + 1 :]
        wanted = (
            one
            for one in latest
            if user in (None, one.user) and (states is None or one.state in states)
        )
        return [one for one, _ in zip(wanted, range(limit), strict=False)]

    def find_names(self, numbers: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Names and users of these jobs, by number."""
        known = ((number, self._ended.get(number)) for number in numbers)
        return {number: (one.name, one.user) for number, one in known if one is not None}


class AttachedCluster:
    """The views of a follower's cluster (`volvelle.live.http.shown_cluster.ShownCluster`)."""

    def __init__(self, policy: str = "slurm") -> None:
        """``policy``: the name of the scheduler that decides."""
        self.ended = EndedJobs()
        self._policy = policy
        self._accuracy = Accuracy()
        self._over = Counter[str]()
        self.problem = ""
        """Why the last poll had no answer."""
        self.failure = ""
        """Why there will be no other poll."""
        self._holdings: deque[HoldingView] = deque(maxlen=_KEPT)
        self._first_seq = self._seq = int(wall_clock())
        self._remarks: tuple[str, ...] = ()
        self.pools: tuple[Pool, ...] = ()
        """Accounts or queues with an amount of GPUs of their own."""
        self._publisher = StatusPublisher(self._update(0.0, (), (), ()))

    def take(self, follower: Attached, told: Sequence[Told]) -> None:
        """Publish what a poll saw and what was told after it."""
        snapshot, site = follower.snapshot, follower.site
        before, times = self.status.jobs, {one.key: one for one in told}
        jobs = {job.number: job for job in snapshot.jobs if job.pending or job.running}
        grants = _grants(jobs, before)
        views = {
            number: self._view(number, job, follower, times.get(job.key), grants.get(number, ()))
            for number, job in jobs.items()
        }
        over = {job.number: job for job in follower.seen.values()}
        last = []
        for number, view in before.items():
            job = over.get(number)
            if view.grants and (number not in views or views[number].started != view.started):
                end = (job.end if job is not None and not job.pending else None) or snapshot.time
                self._hold(view, end)
            if number not in views:
                last.append(_ended(view, job, snapshot.time))
        for view in last:
            self.ended.add(view)
            self._over[view.state.value] += 1
        self._accuracy = follower.accuracy
        self.pools = tuple(site.pools)
        self._remarks = (*site.remarks, *follower.remarks)
        changed = tuple(view for number, view in views.items() if before.get(number) != view)
        nodes = tuple(_nodes(site.shown, views.values()))
        self._seq += 1
        self._publisher.publish(self._update(snapshot.time, changed, tuple(last), nodes))

    def _update(
        self,
        time: float,
        jobs: tuple[JobStatusView, ...],
        ended: tuple[JobStatusView, ...],
        nodes: tuple[NodeStatusView, ...],
    ) -> StatusUpdate:
        return StatusUpdate(
            seq=self._seq,
            time=time,
            policy=self._policy,
            admission="accept-all",
            jobs=jobs,
            ended=ended,
            nodes=nodes,
        )

    def _view(
        self, number: int, job: Job, follower: Attached, told: Told | None, grants: Grants
    ) -> JobStatusView:
        before = self.status.jobs.get(number)
        waits = job.pending
        state = _STATES.get(job.state, JobState.RUNNING)
        if waits and job.held_back:
            state = JobState.HELD
        started = None if waits else job.start
        finish, naive = None if told is None else told.end, follower.incumbent.naive
        return JobStatusView(
            number=number,
            name=job.name,
            user=job.user,
            state=state,
            gpus=job.gpus,
            submitted=job.submit if before is None else before.submitted,
            request=job.request,
            started=started,
            first_started=started if before is None else before.first_started or started,
            grants=grants,
            attempt=job.restarts + (not waits),
            preemptions=job.restarts,
            reason=follower.why.get(job.key) or job.reason,
            predicted_start=told.start if told is not None and waits else None,
            predicted_p50=finish,
            predicted_p90=None if told is None else told.end_p90,
            guessed=len(follower.accuracy.starts) < _GUESSED,
            array_index=job.task,
            first_p50=finish if before is None else before.first_p50,
            attached=AttachedView(
                account=job.account,
                partition=job.queue,
                qos=job.qos,
                reason=job.reason,
                start=None if told is None or not naive.told else told.naive_start,
                start_p90=told.start_p90 if told is not None and waits else None,
            ),
        )

    def _hold(self, view: JobStatusView, end: float) -> None:
        assert view.started is not None
        end = max(end, view.started)
        self._holdings.append(HoldingView(view.number, view.grants, view.started, end))

    # ------------------------------------------------------------------ what is read, from any thread

    @property
    def status(self) -> StatusView:
        """The latest status view."""
        return self._publisher.view

    @property
    def health(self) -> Health:
        """Whether the last poll had an answer, and what could not be read."""
        problems = tuple(filter(None, (self.failure, self.problem)))
        return Health(not problems, (*problems, *self._remarks), self.failure)

    @property
    def holdings(self) -> list[HoldingView]:
        """The latest holdings of GPUs that are over."""
        return list(self._holdings)

    @property
    def load(self) -> tuple[LoadPoint, ...]:
        """GPUs held and jobs waiting over time."""
        return self._publisher.load.points()

    @property
    def metrics(self) -> ControllerMetrics:
        """Ended jobs by state, and told starts by whether they came by their P90."""
        held = Counter[bool]()
        for judged in self._accuracy.judged_starts():
            held[judged.held] += judged.polls
        return ControllerMetrics(ended_jobs=self._over.copy(), p90_held=held)

    @property
    def forks(self) -> "AttachedCluster":
        """The worker that makes suggestions."""
        return self

    def suggest(self, job: JobStatusView) -> Suggestions:
        """None: what would help is for the site's operators to change (``volvelle attach what-if``)."""
        return Suggestions((), (), True)

    def absence(self, node: str) -> str:
        """Empty: its nodes have no agents."""
        return ""

    def events(self, after: int, timeout: float | None = None) -> list[ChangeEvent] | None:
        """Change events after one; None if they are not kept any more. Nothing is waited for."""
        events = self._publisher.events
        first = events[0].seq if self._publisher.is_full else self._first_seq
        return None if 0 <= after < first - 1 else self._publisher.events_after(after)

    def measured_rates(self, user: str, name: str) -> tuple[RateMeasured, ...]:
        """None: no scheduler of a site sees iterations."""
        return ()

    def forecast_history(self, number: int) -> tuple[ForecastPoint, ...]:
        """Forecasts of a job since the server started."""
        return self._publisher.forecasts.of(number)


def _ended(view: JobStatusView, job: Job | None, now: float) -> JobStatusView:
    """The last view of a job that is over, or that its scheduler does not show any more."""
    if job is None or job.pending or job.running:
        state, reason, end = JobState.FINISHED, "it is shown no more: its end was not seen", now
    else:
        state = _STATES.get(job.state, JobState.FAILED)
        reason, end = job.state.lower().replace("_", " "), job.end or now
    started = view.first_started or (job.start if job is not None else None)
    return replace(
        view, state=state, reason=reason, ended=end, first_started=started, grants=(), guessed=False
    )


def _grants(jobs: dict[int, Job], before: dict[int, JobStatusView]) -> dict[int, Grants]:
    """The nodes of each job that holds some, with GPU numbers: those that it had, else the lowest free."""
    found: dict[int, Grants] = {}
    taken: dict[str, set[int]] = {}
    held = sorted(
        (number for number, job in jobs.items() if job.running and job.nodes),
        key=lambda number: (number not in before or not before[number].grants, number),
    )
    for number in held:
        job, old = jobs[number], before.get(number)
        if old is not None and old.grants and old.started == job.start:
            grants = old.grants
        else:
            grants = tuple(
                (node, _free(taken.setdefault(node, set()), count))
                for node, count in zip(job.nodes, _evenly(job), strict=True)
            )
        for node, gpus in grants:
            taken.setdefault(node, set()).update(gpus)
        found[number] = grants
    return found


def _evenly(job: Job) -> Iterator[int]:
    """The GPUs of a job on each of its nodes."""
    left = round(job.gpus)
    for at in range(len(job.nodes), 0, -1):
        here = -(-left // at)
        left -= here
        yield here


def _free(taken: set[int], count: int) -> tuple[int, ...]:
    free: list[int] = []
    number = 0
    while len(free) < count:
        if number not in taken:
            free.append(number)
        number += 1
    return tuple(free)


def _nodes(nodes: Iterable[Node], jobs: Iterable[JobStatusView]) -> Iterator[NodeStatusView]:
    holders: dict[str, list[int]] = {}
    used: Counter[str] = Counter()
    for job in jobs:
        for name, held in job.grants:
            holders.setdefault(name, []).append(job.number)
            used[name] += len(held)
    for node in nodes:
        gpus = sum(node.gpus.values())
        state = NodeState.UP if node.usable else NodeState.DOWN if node.down else NodeState.DRAINING
        yield NodeStatusView(
            name=node.name,
            gpus=gpus,
            gpu_type=",".join(filter(None, node.gpus)),
            labels=tuple(sorted(node.features)),
            state=state.value,
            free=max(gpus - used[node.name], 0),
            jobs=tuple(holders.get(node.name, ())),
        )
