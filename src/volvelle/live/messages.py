"""Orders of the controller to an executor, and reports of an executor to the controller.

Every order and report names its attempt. Orders may be sent twice; reports may come twice or late. Both sides
treat a repeat as a no-op, and ignore messages about other attempts. A `Start` is repeated if it is not
known whether it arrived. An executor starts an attempt only if its number is higher than those of all earlier
orders about the job from the same start of the server, also after an order to forget them. It answers a
repeat again.

An attempt is named by its numbers and by its identity. Numbers are for people, and are given again by a store
that was set back; identities never are. So no attempt is taken for another one.
"""

import os
import re
import secrets
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from volvelle.model.node import Node

_IDENTITY_BYTES = 6
_WRITTEN = re.compile("[0-9]{1,18}-[0-9]{1,18}(-[0-9a-f]*-[0-9a-f]+)?")

Counted = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A number of a job, an attempt or an entry of a journal, as far as it is believed."""

Field = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A number of a control block, in which jobs write what they want."""

_MAX_METRICS, _MAX_METRIC_NAME = 100, 200
_HEEDS_SECONDS = 2.0
"""A script that is stopped sooner may not have begun to heed signals."""
"""Metrics of a job that are kept, and characters of the name of one."""


NOT_DONE = os.EX_TEMPFAIL
"""Exit code of a script that has saved its state and wants to be run again: 75."""


def new_identity() -> str:
    """A random identity, of a job or of a start of the server: hexadecimal digits."""
    return secrets.token_hex(_IDENTITY_BYTES)


class AttemptKey(NamedTuple):
    """The name of an attempt. ``identity``: of the job, and of the start of the server that ordered it.

    Both are empty in messages of versions without identities.
    """

    number: int
    attempt: int
    identity: str = ""

    @property
    def job(self) -> str:
        """The identity of the job."""
        return self.identity.partition("-")[0]

    @property
    def server(self) -> str:
        """The identity of the server's start."""
        return self.identity.partition("-")[2]

    def __str__(self) -> str:
        return f"{self.number}-{self.attempt}" + (f"-{self.identity}" if self.identity else "")

    @classmethod
    def parse(cls, text: str) -> "AttemptKey":
        """The key that is written so. Raises ValueError if none is."""
        if not is_attempt(text):
            raise ValueError(f"{text!r} is no attempt")
        number, attempt, *identity = text.split("-", 2)
        return cls(int(number), int(attempt), *identity)


def is_attempt(text: str) -> bool:
    """Whether an `AttemptKey` is written so."""
    return _WRITTEN.fullmatch(text) is not None


def attempt_identity(job: str, server: str) -> str:
    """The identity of an attempt of the job with identity ``job``, ordered under that of ``server``."""
    return f"{job}-{server}" if server else ""


class OfAttempt(msgspec.Struct, frozen=True):
    """A message about one attempt."""

    number: Counted
    attempt: Counted
    identity: str = ""

    @property
    def key(self) -> AttemptKey:
        """The attempt."""
        return AttemptKey(self.number, self.attempt, self.identity)


MAX_JOURNALS = 20
"""Starts of servers of which a node remembers how far they had written their journals."""


class JournalPosition(msgspec.Struct, frozen=True):
    """A position in a server's journal: written to entry ``seq``; its jobs are below ``next_number``.

    Nodes remember the latest, and so notice a store that was set back.
    """

    server: str
    seq: Counted
    next_number: Counted

    def added_to(self, known: tuple["JournalPosition", ...]) -> tuple["JournalPosition", ...]:
        """Memory of positions where ``known`` was: one position of each server, the latest last."""
        others = [each for each in known if each.server != self.server]
        return (*others[1 - MAX_JOURNALS :], self)


class Grant(msgspec.Struct, frozen=True):
    """GPUs of one node, by their numbers on that node."""

    node: str
    gpus: tuple[int, ...]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is run in every attempt, as its user requested. No shell interprets any of it.

    setup: commands that are run before it, on each of its nodes; if one fails, the job has. environment:
    added to the agent's clean environment. upload: digest of a tar, in whose files it starts. container: the
    image in which all of it runs. directory: where it starts. stop_signal: asks a script without the client
    library to write its checkpoint; None: only the control block is used. grace_seconds: from the order to
    stop to the kill.
    """

    command: tuple[str, ...]
    setup: tuple[tuple[str, ...], ...] = ()
    environment: dict[str, str] = {}
    upload: str = ""
    container: str = ""
    directory: str = ""
    checkpoint: str = ""
    stop_signal: str | None = "SIGTERM"
    grace_seconds: float = 30.0


class Start(OfAttempt, frozen=True, tag="start", kw_only=True):
    """Run attempt ``attempt`` of job ``number`` on these GPUs. The first grant has the leading rank.

    saved_iterations: of earlier attempts; iterations are counted on from there. batch_size: that the
    scheduler chose; 0: the script's own.
    """

    user: str
    grants: tuple[Grant, ...]
    launch: Launch
    saved_iterations: int = 0
    batch_size: int = 0


class Stop(OfAttempt, frozen=True, tag="stop"):
    """Revoke the lease: the job must checkpoint and exit within its grace period. ``kill``: kill it at once.

    The answer is `AttemptEnded`, also for an attempt that no node knows (as lost).
    """

    kill: bool = False


class Forget(OfAttempt, frozen=True, tag="forget"):
    """The end of this attempt is journalled; the executor need not report it again."""


class SetBatchSize(OfAttempt, frozen=True, tag="set-batch-size", kw_only=True):
    """Let the script of an attempt on one node go on at this size from its next epoch on. Not answered."""

    batch_size: int


class TellEnds(msgspec.Struct, frozen=True, tag="tell-ends"):
    """Report again how attempts of these jobs ended on ``node``, then `EndsTold`: they may be forgotten."""

    node: str
    numbers: tuple[Counted, ...]


Order = Start | Stop | Forget | SetBatchSize | TellEnds


class Outcome(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"  # the job is done
    STOPPED = "stopped"  # by order
    FAILED = "failed"  # it exited with an error or was killed from outside
    LOST = "lost"  # with its node


class AttemptStarted(OfAttempt, frozen=True, tag="attempt-started"):
    """All processes of the attempt run."""


MAX_BATCH_SIZE = 10**9
Samples = Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH_SIZE)]
Squared = Annotated[float, msgspec.Meta(ge=1e-30, le=1e30)]


class TrainingMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements in an epoch of a job that lets its batch size be tuned (`volvelle.client.pollux`).

    step_seconds: of an iteration. grad_sqr, grad_var: squared norm and variance of the gradient at batch size
    ``first``. limit: the largest. A GPU takes ``least_local`` to ``most_local`` samples at once.
    """

    batch_size: Samples
    step_seconds: Annotated[float, msgspec.Meta(ge=1e-9, le=1e6)]
    grad_sqr: Squared
    grad_var: Squared
    first: Samples
    limit: Samples
    least_local: Samples
    most_local: Samples


class AttemptProgress(OfAttempt, frozen=True, tag="attempt-progress", kw_only=True):
    """Progress of an attempt from its control block, and the metrics its script has reported since.

    iterations: of the job over all attempts. total_iterations: 0 if the script does not set it.
    iteration_seconds: a moving mean; 0 before the first iteration. epochs: done of total_epochs, which is 0
    if the script does not set it. batch_size: by the script's own rule; 0 if it has none. training: since the
    last report.
    """

    iterations: Field
    saved_iterations: Field
    total_iterations: Field = 0
    iteration_seconds: Annotated[float, msgspec.Meta(ge=-1e10, le=1e10)] = 0.0
    epochs: Annotated[float, msgspec.Meta(ge=-1e13, le=1e13)] = 0.0
    total_epochs: Field = 0
    batch_size: Field = 0
    metrics: dict[str, float] = {}
    training: TrainingMeasure | None = None


def merge_metrics(before: dict[str, float], new: dict[str, float]) -> dict[str, float]:
    """The latest of every metric; of more than are kept, those that were there first."""
    fit = [one for one in (before | new).items() if len(one[0]) <= _MAX_METRIC_NAME]
    return dict(fit[:_MAX_METRICS])


class AttemptEnded(OfAttempt, frozen=True, tag="attempt-ended", kw_only=True):
    """No process of the attempt is left on any node. Repeated until it is forgotten.

    ``reason`` is for people; empty for a normal end. permanent: the next attempt would fail like this one.
    node_failed: its node could not start it, for a reason of the node's own. ago: seconds since the end, as
    the node measured them when it reported; None: it does not know. Clocks of two machines are not compared.
    """

    outcome: Outcome
    exit_code: Field | None = None
    reason: str = ""
    permanent: bool = False
    iterations: Field = 0
    saved_iterations: Field = 0
    ago: float | None = None
    node_failed: bool = False

    @property
    def in_order(self) -> bool:
        """Whether it was stopped, and its exit code says that it could save: 0, or `NOT_DONE`.

        A signal, a script's exception and a launcher that was interrupted (torchrun) give other codes.
        """
        return self.outcome is Outcome.STOPPED and self.exit_code in (None, 0, NOT_DONE)

    def saved_nothing(self, seconds: float) -> bool | None:
        """Whether it was stopped, and its job, which counts no iterations, begins again from its start.

        None: a run of so few ``seconds`` has not shown it.
        """
        if self.outcome is not Outcome.STOPPED or self.in_order or self.iterations > 0:
            return False
        return True if seconds >= _HEEDS_SECONDS else None


class UnknownEnded(OfAttempt, frozen=True, tag="unknown-ended", kw_only=True):
    """The part on ``node`` of an attempt that this server has not ordered. Repeated until it is forgotten.

    outcome: of this part. nodes: of the whole attempt, as ``node`` says. ago: see `AttemptEnded`.
    """

    node: str
    outcome: Outcome = Outcome.LOST
    nodes: tuple[str, ...] = ()
    ago: float | None = None


class EndsTold(msgspec.Struct, frozen=True, tag="ends-told"):
    """All that a node knows for a `TellEnds` has been reported."""

    node: str


class NodeJoined(msgspec.Struct, frozen=True, tag="node-joined", kw_only=True):
    """A node has connected.

    leaving: its attempts may run on, nothing new may start. attempts: all that run on it, or ended and are
    not forgotten. An ordered attempt that is missing here has not started; ordering it again is safe. known:
    the latest positions of journals that the node has received. problem: see `NodeCondition`. keeps_ends:
    whether the node answers `TellEnds`.
    """

    node: Node
    leaving: bool = False
    attempts: tuple[AttemptKey, ...] = ()
    known: tuple[JournalPosition, ...] = ()
    problem: str = ""
    keeps_ends: bool = False


class NodeCondition(msgspec.Struct, frozen=True, tag="node-condition"):
    """Why a connected node can start nothing, such as a full disk; an empty ``problem``: it can again."""

    name: str
    problem: str


class NodeLost(msgspec.Struct, frozen=True, tag="node-lost"):
    """A node is lost, and every process on it has ended.

    An executor reports it only when that is certain: it saw the end, or every lease on the node has expired.
    ago: seconds since the last moment at which a process can have run; None: it is not known.
    """

    name: str
    reason: str
    ago: float | None = None


Report = (
    AttemptStarted
    | AttemptProgress
    | AttemptEnded
    | UnknownEnded
    | EndsTold
    | NodeJoined
    | NodeCondition
    | NodeLost
)
