"""What the controller orders of an executor, and what an executor reports.

Every order and report names the attempt it is about. Orders may be sent twice and reports may come twice or
late: both sides take a repeat for a no-op and news of another attempt for nothing. A `Start` is repeated
where it is not known whether it arrived: an executor starts an attempt only if its number is above those of
all orders it had about the same job, also after it was told to forget them. A repeat is answered again.
"""

from enum import StrEnum

import msgspec

from volvelle.model.node import Node


class Grant(msgspec.Struct, frozen=True):
    """GPUs of one node, by their numbers on that node."""

    node: str
    gpus: tuple[int, ...]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is run, whatever the attempt: as its user asked, nothing interpreted by a shell.

    environment: added to the agent's own clean one. directory: where it starts. stop_signal: by what a script
    without the client library is told to write its checkpoint; None: by nothing but its page.
    grace_seconds: from the order to stop to the end by force.
    """

    command: tuple[str, ...]
    environment: dict[str, str] = {}
    directory: str = ""
    checkpoint: str = ""
    stop_signal: str | None = "SIGTERM"
    grace_seconds: float = 30.0


class Start(msgspec.Struct, frozen=True, tag="start", kw_only=True):
    """Run attempt ``attempt`` of job ``number`` on these GPUs; the first grant has the leading rank.

    saved_iterations: what the job had safe before, so that iterations are counted on from there.
    """

    number: int
    attempt: int
    user: str
    grants: tuple[Grant, ...]
    launch: Launch
    saved_iterations: int = 0


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Revoke the lease: the job is to checkpoint and end within its grace. ``kill``: end it at once.

    Its answer is `AttemptEnded`, also of an attempt that nobody knows (as lost): so no one waits for ever.
    """

    number: int
    attempt: int
    kill: bool = False


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """The end of this attempt is in the journal; the executor need not report it again."""

    number: int
    attempt: int


Order = Start | Stop | Forget


class Outcome(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"  # the job is done
    STOPPED = "stopped"  # by order
    FAILED = "failed"  # it exited with an error or was killed by somebody else
    LOST = "lost"  # with its node


class AttemptStarted(msgspec.Struct, frozen=True, tag="attempt-started"):
    """All processes of the attempt run."""

    number: int
    attempt: int


class AttemptProgress(msgspec.Struct, frozen=True, tag="attempt-progress", kw_only=True):
    """How far the attempt is, as its page says, and what its script reported since last time.

    iterations: of the whole job, not of the attempt. total_iterations: 0 where the script does not say.
    iteration_seconds: of late; 0 before there are any.
    """

    number: int
    attempt: int
    iterations: int
    saved_iterations: int
    total_iterations: int = 0
    iteration_seconds: float = 0.0
    metrics: dict[str, float] = {}


class AttemptEnded(msgspec.Struct, frozen=True, tag="attempt-ended", kw_only=True):
    """No process of the attempt is left on any node. Reported again and again until it is forgotten.

    ``reason`` is for people, and says what happened where it was no plain end.
    """

    number: int
    attempt: int
    outcome: Outcome
    exit_code: int | None = None
    reason: str = ""
    iterations: int = 0
    saved_iterations: int = 0


class NodeJoined(msgspec.Struct, frozen=True, tag="node-joined", kw_only=True):
    """A node can be used (again).

    leaving: what runs there may go on, and nothing new is to start.
    attempts: (number, attempt) of all that is alive on it or ended and is not forgotten yet. What was ordered
    and is missing here has not begun there; it does no harm to order it again.
    """

    node: Node
    leaving: bool = False
    attempts: tuple[tuple[int, int], ...] = ()


class NodeLost(msgspec.Struct, frozen=True, tag="node-lost"):
    """A node is gone, and every process on it.

    An executor reports it only when it is certain that nothing started there still runs: it saw the end, or
    every lease there has run out.
    """

    name: str
    reason: str


Report = AttemptStarted | AttemptProgress | AttemptEnded | NodeJoined | NodeLost
