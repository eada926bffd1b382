"""Requests of users and operators to the controller. Authorisation is the HTTP API's task.

`Controller.request` returns a future. It is done only once the effect of the request is stored, and fails
with a `Problem` if the request cannot be fulfilled. ``by``: the user who asks, for the record;
empty: the server itself.
"""

from dataclasses import dataclass

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import Recomposed
from volvelle.live.job_change import JobChange
from volvelle.live.job_request import JobRequest
from volvelle.model.cluster import NodeState
from volvelle.model.problems import Problem


class KeyUsedBefore(Problem):
    """An idempotency key came with another request than before."""


@dataclass(frozen=True)
class Submit:
    """Submit a job or an array. Answer: the numbers of the jobs.

    A repeated idempotency ``key`` of the same user answers with the numbers of the first submission, and
    fails with `KeyUsedBefore` if that was another request.
    """

    user: str
    request: JobRequest
    key: str | None = None


@dataclass(frozen=True)
class _OfJob:
    """A request about a job."""

    number: int
    by: str = ""


class Cancel(_OfJob):
    """End a job for good."""


class Hold(_OfJob):
    """Keep a job from running until it is released; a running one stops at a checkpoint."""


class Release(_OfJob):
    """Let a held job run again."""


@dataclass(frozen=True)
class Change:
    """Declare some attributes of a job anew, while it holds no GPUs. A repeated one changes nothing."""

    number: int
    change: JobChange
    by: str = ""


@dataclass(frozen=True)
class Requeue:
    """Stop a running job at a checkpoint, and let it wait again, which costs it no retry.

    attempt: the only one that is to be stopped, so that the request may be repeated; None: the present one.
    """

    number: int
    attempt: int | None = None
    by: str = ""


@dataclass(frozen=True)
class SetNodeState:
    """Drain a node (its jobs run to their ends, nothing new starts), or resume it."""

    name: str
    state: NodeState
    by: str = ""


@dataclass(frozen=True)
class Recompose:
    """Change policy and admission, or at a start any part; running jobs are touched only as these demand."""

    policy: str
    admission: str
    by: str = ""
    placement: str = ""
    estimator: str = ""
    termination: str = ""

    def event(self, now: float) -> Recomposed:
        """The change as the scheduler is told of it."""
        parts = {part: getattr(self, part) for part in WrittenComposition.__struct_fields__}
        return Recomposed(now, **parts)


ControlRequest = Submit | Cancel | Hold | Release | Change | Requeue | SetNodeState | Recompose
