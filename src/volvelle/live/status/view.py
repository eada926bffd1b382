"""The status view: what the controller publishes after each cycle, immutable.

The HTTP API, the commands and the metrics read views only; they never touch the scheduler. Times are seconds
since the Unix epoch.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from volvelle.core.decision import Promise
from volvelle.core.events import JobProfile

SINCE_EPOCH = "seconds since the Unix epoch"
Moment = Annotated[float, SINCE_EPOCH]
"""A point in time; in Python it is shown as a datetime (`volvelle.notebook.records`)."""


class JobState(StrEnum):
    """State of a job."""

    WAITING = "waiting"  # admitted, or in the admission queue
    HELD = "held"  # by its user
    STARTING = "starting"  # GPUs assigned, processes not seen yet
    RUNNING = "running"
    STOPPING = "stopping"  # writing its checkpoint
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"

    @property
    def over(self) -> bool:
        """Whether the state is final."""
        return self in (self.FINISHED, self.FAILED, self.CANCELLED, self.REJECTED)

    @property
    def predicate(self) -> str:
        """The state behind a job's number, as in ``job 3 has failed``."""
        return f"{'has' if self in (self.FINISHED, self.FAILED) else 'is'} {self}"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The guarantee of a job: a finish by ``finish_by``, or, where that is None, none.

    step: the first of its deadlines that this keeps, -1 for none. earliest: where nothing is guaranteed,
    the earliest finish that could have been. reason: why no more is. revoked: the finish that was guaranteed
    until it was not.
    """

    finish_by: Moment | None
    step: int = -1
    earliest: Moment | None = None
    reason: str = ""
    revoked: Moment | None = None

    @classmethod
    def of(cls, promise: Promise, epoch: float, before: "Guarantee | None" = None) -> "Guarantee":
        """The guarantee of the scheduler in place of ``before``; ``epoch``: time 0 of the scheduler."""
        was = None if before is None else before.finish_by or before.revoked
        return cls(
            finish_by=None if promise.finish_by is None else epoch + promise.finish_by,
            step=promise.step,
            earliest=None if promise.earliest is None else epoch + promise.earliest,
            reason=promise.reason,
            revoked=was if promise.finish_by is None else None,
        )


NO_GUARANTEES = Guarantee(
    finish_by=None, reason="this server's policy and admission guarantee none"
)
"""Of a job with a deadline, where no part guarantees anything."""


@dataclass(frozen=True, kw_only=True)
class ProfileView:
    """A job's profile, on nodes on which jobs run first. Times are seconds since the Unix epoch.

    seconds: that its iterations are believed to take from then on; None where there were none, or their
    number is not known.
    """

    started: Moment
    ended: Moment
    seconds: float | None = None

    @classmethod
    def of(cls, profile: JobProfile, epoch: float) -> "ProfileView":
        """The scheduler's event; ``epoch``: its time 0."""
        return cls(
            started=epoch + profile.started, ended=epoch + profile.ended, seconds=profile.seconds
        )


@dataclass(frozen=True, kw_only=True)
class AttachedView:
    """The facts about a job that only the scheduler of an attached cluster has.

    partition: names, with commas. reason: why it waits, in that scheduler's word. start: the start that it
    tells. start_p90: the moment by which the job starts in nine of ten cases, by our forecast.
    """

    account: str
    partition: str
    qos: str
    reason: str
    start: float | None
    start_p90: float | None


@dataclass(frozen=True, kw_only=True)
class JobStatusView:
    """One job. ``reason``: why it waits, or how it ended. ``grants``: node names and GPU numbers.

    ``ran_on``: the nodes on which it was ever started, with its latest attempt on each.
    """

    number: int
    name: str
    user: str
    state: JobState
    gpus: float
    submitted: Moment
    request: dict[str, Any]
    identity: str = ""
    """Random; numbers are given again by a store that was set back, identities never are."""
    started: Moment | None = None
    first_started: Moment | None = None
    waited_for: str = ""
    """Why it waited, as last found before its first start."""
    ended: Moment | None = None
    grants: tuple[tuple[str, tuple[int, ...]], ...] = ()
    attempt: int = 0
    ran_on: dict[str, int] = field(default_factory=dict)
    preemptions: int = 0
    failures: int = 0
    reason: str = ""
    reason_free: int | None = None
    """GPUs that ``reason`` counts as free, when it was found; None: it counts none."""
    iterations: int = 0
    saved_iterations: int = 0
    total_iterations: int = 0
    iteration_seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    predicted_start: Moment | None = None
    predicted_p50: Moment | None = None
    predicted_p90: Moment | None = None
    guessed: bool = False
    """Whether these go by a guess: nothing is known of how long such a job takes."""
    believed_end: Moment | None = None
    """When it is through if what is believed of it is true, also if that has passed; None without GPUs."""
    array_index: int | None = None
    """Its place in its array, from 0 on; None where it is of none."""
    first_p50: Moment | None = None
    """The P50 finish shown to its user at submission."""
    due: Moment | None = None
    """The last moment at which its finish is worth anything to its user; None without a deadline."""
    guarantee: Guarantee | None = None
    """Its guaranteed finish; None if neither it nor its server's parts have asked for one."""
    profiling: bool = False
    """Whether it waits for a profile or is profiled, before it comes to the queue."""
    profile: ProfileView | None = None
    """The result of its profile; None where it has none, or none yet."""
    changed: dict[str, tuple[int | float | None, int | float | None]] = field(default_factory=dict)
    """Keys of the request that its user changed, with their values as submitted and now."""
    attached: AttachedView | None = None
    """None on a server's own cluster."""

    @property
    def guaranteed(self) -> Moment | None:
        """When it is guaranteed to finish, seconds since the Unix epoch."""
        return None if self.guarantee is None else self.guarantee.finish_by

    @property
    def revoked(self) -> Moment | None:
        """When it was guaranteed to finish, where that no longer holds."""
        return None if self.guarantee is None else self.guarantee.revoked

    @property
    def progress(self) -> float | None:
        """The share of its iterations that it has done, in hundredths."""
        if not self.total_iterations:
            return None
        return round(self.iterations / self.total_iterations, 2)

    def public(self) -> "JobStatusView":
        """The view for other users: without command, environment, metrics, and reason of its end.

        Copied without `dataclasses.replace`, which takes ten times as long: a queue has thousands of jobs.
        """
        shown = object.__new__(JobStatusView)
        shown.__dict__.update(self.__dict__, request={}, metrics={}, changed={})
        if self.state.over:
            shown.__dict__["reason"] = ""
        return shown


PROFILING = "profiling"
"""The state of a node that is up and on which jobs run first, to be measured."""


@dataclass(frozen=True, kw_only=True)
class NodeStatusView:
    """One node. ``state``: a `NodeState`, or `PROFILING`. ``free``: GPUs that no job holds or is given."""

    name: str
    gpus: int
    gpu_type: str
    labels: tuple[str, ...]
    state: str
    free: int
    jobs: tuple[int, ...]
    away: str = ""
    """Why the agent of a node that is not down is out of reach, as ``disconnected since ...``; or empty."""


@dataclass(frozen=True, kw_only=True)
class StatusView:
    """The cluster at one moment. ``version`` grows with each cycle. Jobs that are over are in the store."""

    version: int
    time: float
    policy: str
    admission: str
    jobs: dict[int, JobStatusView]
    job_counts: dict[str, int]
    """Number of jobs by user."""
    nodes: tuple[NodeStatusView, ...]


@dataclass(frozen=True)
class Health:
    """Whether requests are handled. ``problems``: for people; empty: none.

    ``failure``: why no request will ever be handled again by this process; empty while there is hope.
    ``warnings``: surprises of its start, for operators.
    """

    ready: bool
    problems: tuple[str, ...]
    failure: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HoldingView:
    """Job ``number`` held these GPUs from ``start`` to ``end``. ``grants``: node names and GPU numbers."""

    number: int
    grants: tuple[tuple[str, tuple[int, ...]], ...]
    start: float
    end: float


@dataclass(frozen=True)
class ForecastPoint:
    """The forecast of a job at ``time``."""

    time: float
    start: float | None
    p50: float | None
    p90: float | None


class LoadPoint(NamedTuple):
    """The load from ``time`` on: GPUs that jobs hold, and jobs that wait."""

    time: float
    held: int
    waiting: int


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """A job changed its state. ``reason``: why it failed, waits, or ended."""

    number: int
    user: str
    state: JobState
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ChangeEvent:
    """The state changes of one cycle. ``seq``: its journal entry, by which later events are asked for."""

    seq: int
    time: float
    changes: tuple[StateChange, ...]
