"""Records: facts that the controller learns in a cycle and that are no input of the scheduler.

They are stored beside the events and the decision of the cycle. All three together say which attempt
occupies which GPU.
"""

import msgspec

from volvelle.live.messages import AttemptEnded, AttemptStarted, JournalPosition, OfAttempt


class NodeDrained(msgspec.Struct, frozen=True, tag="node-drained"):
    """An operator has drained a node, or (``drained`` False) resumed it."""

    name: str
    drained: bool


class AskedBy(msgspec.Struct, frozen=True, tag="asked-by"):
    """The user who cancelled, held, released, changed or requeued a job, drained or resumed a node, or
    changed the policy.

    what: as in ``cancel``. subject: the job's number, the node, or the parts as they are written.
    """

    user: str
    what: str
    subject: str

    @property
    def of_job(self) -> bool:
        """Whether ``subject`` is a job."""
        return self.what not in ("drain", "resume", "recompose")


class RateMeasured(msgspec.Struct, frozen=True, tag="rate-measured", kw_only=True):
    """Progress reports of a job of ``user`` showed how fast jobs of its ``name`` are in a place.

    rate: epochs per second, or iterations where ``epochs`` is False, on ``gpus`` GPUs of ``gpu_type`` over
    ``nodes`` nodes. total: how many of these the job has; 0 if it does not know. nodes_apart: nodes more as
    which the domains count over which they lie.
    """

    user: str
    name: str
    gpu_type: str
    gpus: int
    nodes: int
    rate: float
    epochs: bool
    total: float = 0.0
    nodes_apart: float = 0.0

    @property
    def place(self) -> tuple[str, int, float, bool]:
        """Where it was measured, and in which unit."""
        return self.gpu_type, self.gpus, self.spread, self.epochs

    @property
    def spread(self) -> float:
        """The nodes over which it ran, with those as which domains count."""
        return self.nodes + self.nodes_apart


class SolverEnded(msgspec.Struct, frozen=True, tag="solver-ended"):
    """The clock ended so many programs of this decision: another machine may decide otherwise."""

    programs: int


class ClockSet(msgspec.Struct, frozen=True, tag="clock-set"):
    """The machine's clock was set: dates of moments later than ``since`` go by ``epoch``, that of time 0."""

    since: float
    epoch: float


class AttemptLostNode(OfAttempt, frozen=True, tag="attempt-lost-node", kw_only=True):
    """An attempt has lost one of its nodes; on its other nodes it may still run for a while."""

    node: str


class ProfileQueued(msgspec.Struct, frozen=True, tag="profile-queued"):
    """A job was accepted and is to be profiled first; the scheduler gets it after that."""

    number: int
    time: float
    user: str
    gpus: float


class ProfileStarted(msgspec.Struct, frozen=True, tag="profile-started"):
    """A job has GPUs on the profiling partition: ``slots`` of the GPU ledger."""

    number: int
    time: float
    gpus: float
    slots: tuple[int, ...]


class ProfileRunOver(msgspec.Struct, frozen=True, tag="profile-run-over"):
    """The time of a run on the profiling partition is over: the job stops at a checkpoint.

    iteration_seconds: that its script reported; None where it did none. total_iterations: 0 if not known.
    """

    number: int
    iteration_seconds: float | None
    total_iterations: int


class ProfileRunEnded(msgspec.Struct, frozen=True, tag="profile-run-ended"):
    """A run on the profiling partition ended, its job did not. again: it was cut short, and is repeated."""

    number: int
    again: bool


class ProfileConcluded(msgspec.Struct, frozen=True, tag="profile-concluded"):
    """A job is over, in this final state, and never came to the scheduler."""

    number: int
    time: float
    state: str
    reason: str = ""


class ServerBegan(msgspec.Struct, frozen=True, tag="server-began"):
    """A server takes charge of the journal. ``identity``: random, of all attempts that it orders."""

    identity: str


class StoreBehind(msgspec.Struct, frozen=True, tag="store-behind"):
    """A node knows more than the journal: the store was set back.

    position: the last position of a journal that the node has received; None: an operator restored a backup.
    first: numbers of jobs from here to below ``position.next_number`` were given, and are not in the store.
    node: the one that knows more.
    """

    position: JournalPosition | None
    first: int
    node: str = ""


class StoreSettled(msgspec.Struct, frozen=True, tag="store-settled"):
    """After the store was set back, every node has reported its attempts, or is lost."""


ProfileRecord = ProfileQueued | ProfileStarted | ProfileRunOver | ProfileRunEnded | ProfileConcluded

ServerRecord = ServerBegan | StoreBehind | StoreSettled

ControlRecord = (
    AttemptStarted
    | AttemptEnded
    | AttemptLostNode
    | NodeDrained
    | RateMeasured
    | AskedBy
    | SolverEnded
    | ClockSet
    | ProfileRecord
    | ServerRecord
)
