"""What users and operators may ask of the controller. Who may ask what is for the API to say.

`Controller.ask` answers with a future: it is done only when what was asked is in the store for good, and
fails with a `Problem` where it cannot be.
"""

from dataclasses import dataclass

from volvelle.live.job_request import JobRequest
from volvelle.model.cluster import NodeState


@dataclass(frozen=True)
class Submit:
    """Answer: the numbers of the jobs, one for each of the array.

    A repeated ``key`` of the same user answers with the numbers of the first time.
    """

    user: str
    request: JobRequest
    key: str | None = None


@dataclass(frozen=True)
class Cancel:
    """End a job and forget about its work."""

    number: int


@dataclass(frozen=True)
class Hold:
    """Keep a job from running, at a checkpoint if it does, until it is released."""

    number: int


@dataclass(frozen=True)
class Release:
    """Let a held job run again."""

    number: int


@dataclass(frozen=True)
class SetNode:
    """Drain a node (jobs on it run to their ends, nothing new starts) or let it take jobs again."""

    name: str
    state: NodeState


@dataclass(frozen=True)
class Recompose:
    """Go on with another policy or admission; what runs is touched only as these demand."""

    policy: str
    admission: str


Ask = Submit | Cancel | Hold | Release | SetNode | Recompose
