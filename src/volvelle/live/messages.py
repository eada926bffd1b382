"""Orders of the controller to an executor, and reports of an executor to the controller.

Every order and report names its attempt. Orders may be sent twice; reports may come twice or late. Both sides
treat a repeat as a no-op, and ignore messages about other attempts. A `Start` is repeated if it is not known
whether it arrived. An executor starts an attempt only if its number is higher than those of all earlier
orders about the job, also after it was told to forget them. It answers a repeat again.
"""

from enum import StrEnum

import msgspec

from volvelle.model.node import Node


class Grant(msgspec.Struct, frozen=True):
    """GPUs of one node, by their numbers on that node."""

    node: str
    gpus: tuple[int, ...]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is run in every attempt, as its user requested. No shell interprets any of it.

    environment: added to the agent's clean environment. directory: where it starts. stop_signal: asks a
    script without the client library to write its checkpoint; None: only the control block is used.
    grace_seconds: from the order to stop to the kill.
    """

    command: tuple[str, ...]
    environment: dict[str, str] = {}
    directory: str = ""
    checkpoint: str = ""
    stop_signal: str | None = "SIGTERM"
    grace_seconds: float = 30.0


class Start(msgspec.Struct, frozen=True, tag="start", kw_only=True):
    """Run attempt ``attempt`` of job ``number`` on these GPUs. The first grant has the leading rank.

    saved_iterations: of earlier attempts; iterations are counted on from there.
    """

    number: int
    attempt: int
    user: str
    grants: tuple[Grant, ...]
    launch: Launch
    saved_iterations: int = 0


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Revoke the lease: the job must checkpoint and exit within its grace period. ``kill``: kill it at once.

    The answer is `AttemptEnded`, also for an attempt that no node knows (as lost).
    """

    number: int
    attempt: int
    kill: bool = False


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """The end of this attempt is journalled; the executor need not report it again."""

    number: int
    attempt: int


Order = Start | Stop | Forget


class Outcome(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"  # the job is done
    STOPPED = "stopped"  # by order
    FAILED = "failed"  # it exited with an error or was killed from outside
    LOST = "lost"  # with its node


class AttemptStarted(msgspec.Struct, frozen=True, tag="attempt-started"):
    """All processes of the attempt run."""

    number: int
    attempt: int


class AttemptProgress(msgspec.Struct, frozen=True, tag="attempt-progress", kw_only=True):
    """Progress of an attempt from its control block, and the metrics its script has reported since.

    iterations: of the job over all attempts. total_iterations: 0 if the script does not set it.
    iteration_seconds: a moving mean; 0 before the first iteration. epochs: done of total_epochs, which is 0
    if the script does not set it. batch_size: by the script's own rule; 0 if it has none.
    """

    number: int
    attempt: int
    iterations: int
    saved_iterations: int
    total_iterations: int = 0
    iteration_seconds: float = 0.0
    epochs: float = 0.0
    total_epochs: int = 0
    batch_size: int = 0
    metrics: dict[str, float] = {}


class AttemptEnded(msgspec.Struct, frozen=True, tag="attempt-ended", kw_only=True):
    """No process of the attempt is left on any node. Repeated until it is forgotten.

    ``reason`` is for people; empty for a normal end.
    """

    number: int
    attempt: int
    outcome: Outcome
    exit_code: int | None = None
    reason: str = ""
    iterations: int = 0
    saved_iterations: int = 0


class NodeJoined(msgspec.Struct, frozen=True, tag="node-joined", kw_only=True):
    """A node has connected.

    leaving: its attempts may run on, nothing new may start. attempts: (number, attempt) of all that run on
    it, or ended and are not forgotten. An ordered attempt that is missing here has not started; ordering it
    again is safe.
    """

    node: Node
    leaving: bool = False
    attempts: tuple[tuple[int, int], ...] = ()


class NodeLost(msgspec.Struct, frozen=True, tag="node-lost"):
    """A node is lost, and every process on it has ended.

    An executor reports it only when that is certain: it saw the end, or every lease on the node has expired.
    """

    name: str
    reason: str


Report = AttemptStarted | AttemptProgress | AttemptEnded | NodeJoined | NodeLost
