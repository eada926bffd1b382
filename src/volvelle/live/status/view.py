"""What the controller shows after each cycle: frozen, made anew where something changed.

The API, the command line and the metrics read pictures only; they never touch the scheduler. Times are
seconds since the Unix epoch.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class JobState(StrEnum):
    """Where a job is in its life."""

    WAITING = "waiting"  # admitted, or at the door
    HELD = "held"  # by its user
    STARTING = "starting"  # GPUs given, processes not seen yet
    RUNNING = "running"
    STOPPING = "stopping"  # writing its checkpoint
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"

    @property
    def over(self) -> bool:
        """Whether nothing more becomes of the job."""
        return self in (self.FINISHED, self.FAILED, self.CANCELLED, self.REJECTED)


@dataclass(frozen=True, kw_only=True)
class JobStatusView:
    """One job. ``reason``: why it waits, or how it ended. ``grants``: node names and GPU numbers.

    ``ran_on``: the nodes on which it was ever started, and its latest attempt on each.
    """

    number: int
    name: str
    user: str
    state: JobState
    gpus: float
    submitted: float
    request: dict[str, Any]
    started: float | None = None
    first_started: float | None = None
    ended: float | None = None
    grants: tuple[tuple[str, tuple[int, ...]], ...] = ()
    attempt: int = 0
    ran_on: dict[str, int] = field(default_factory=dict)
    preemptions: int = 0
    failures: int = 0
    reason: str = ""
    iterations: int = 0
    saved_iterations: int = 0
    total_iterations: int = 0
    iteration_seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    predicted_start: float | None = None
    predicted_p50: float | None = None
    predicted_p90: float | None = None
    promised: float | None = None
    """The P50 finish told at submission."""

    def public(self) -> "JobStatusView":
        """What others see: not command, environment and metrics, nor how it ended.

        Made without `dataclasses.replace`, which takes ten times as long, and a queue is thousands of jobs.
        """
        shown = object.__new__(JobStatusView)
        shown.__dict__.update(self.__dict__, request={}, metrics={})
        if self.state.over:
            shown.__dict__["reason"] = ""
        return shown


@dataclass(frozen=True, kw_only=True)
class NodeStatusView:
    """One node. ``free``: GPUs nobody holds."""

    name: str
    gpus: int
    gpu_type: str
    state: str
    free: int
    jobs: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class StatusView:
    """Everything at one moment. ``version`` grows with each cycle; jobs that are over stay in the store."""

    version: int
    time: float
    policy: str
    admission: str
    jobs: dict[int, JobStatusView]
    jobs_of: dict[str, int]
    """How many of them each user has."""
    nodes: tuple[NodeStatusView, ...]


@dataclass(frozen=True, kw_only=True)
class StateChange:
    """A job came into another state. ``reason``: why it failed, or waits, or how it ended."""

    number: int
    user: str
    state: JobState
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ChangeEvent:
    """What one cycle changed. ``seq``: its place in the journal, by which to ask for what came after."""

    seq: int
    time: float
    changes: tuple[StateChange, ...]
