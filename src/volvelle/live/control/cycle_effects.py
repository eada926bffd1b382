"""Effects of one cycle's decision and events: what is to be ordered, published and told."""

from dataclasses import dataclass, field

from volvelle.live.control.gpu_ledger import Attempt
from volvelle.live.control.live_jobs import LiveJob
from volvelle.live.messages import Stop
from volvelle.live.status.view import JobState


@dataclass(frozen=True)
class EndedJob:
    """A job that is over."""

    job: LiveJob
    state: JobState
    reason: str
    ended: float
    """When, on the journal's clock."""


@dataclass
class CycleEffects:
    """The effects of one cycle. ``touched``: numbers of the jobs that changed.

    preempted: how many of the stops the decision orders, and no user.
    """

    starts: list[Attempt] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    preempted: int = 0
    ended: list[EndedJob] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
