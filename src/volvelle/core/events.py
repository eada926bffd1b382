"""Reports of a world to the scheduler, one frozen value for each event.

Simultaneous events reach the scheduler together, ordered by kind (ends and other news of jobs, node
changes, submissions, wake-ups) and within a kind by job number. ``attempt`` counts a job's starts and
fences late news of an earlier one.
"""

from collections.abc import Mapping

import msgspec

from volvelle.model.cluster import Node, NodeState
from volvelle.model.goodput import Goodput
from volvelle.model.job import JobSpec, Truth

UNRECORDED = -1
"""The attempt of a `JobFinished` that is not in the journal."""


class JobProfile(msgspec.Struct, frozen=True, gc=False):
    """A job ran from ``started`` to ``ended`` to be measured: it takes ``seconds`` on the GPUs it requests.

    None where it did no iteration, or did not say how many it has.
    """

    started: float
    ended: float
    seconds: float | None = None


class JobSubmitted(msgspec.Struct, frozen=True, tag="submitted", gc=False, omit_defaults=True):
    """A user submitted job ``number``. ``truth`` is disclosed only to an estimator that asks for it.

    A job that was profiled first comes after that; its spec says when its user submitted it.
    """

    time: float
    number: int
    spec: JobSpec
    truth: Truth | None = None
    profile: JobProfile | None = None


class JobStarted(msgspec.Struct, frozen=True, tag="started", gc=False):
    """The job gets its GPUs only at ``start``; without this event it got them at the decision.

    A simulated world, which knows when a checkpoint will be over, says so at once.
    """

    time: float
    number: int
    attempt: int
    start: float


class JobFinished(msgspec.Struct, frozen=True, tag="finished", gc=False):
    """The job did all its work; its GPUs are free.

    attempt: `UNRECORDED` for one that the journal has lost: the job may be waiting by now, or run again.
    """

    time: float
    number: int
    attempt: int


class JobStopped(msgspec.Struct, frozen=True, tag="stopped", gc=False):
    """A stop that took time (a checkpoint) is over, ``work_done`` units are safe."""

    time: float
    number: int
    attempt: int
    work_done: float


class JobFailed(msgspec.Struct, frozen=True, tag="failed", gc=False):
    """The job crashed or lost a node; it would resume from ``work_done`` units. Its GPUs are free.

    ``lost_gpu_seconds`` is the GPU time since the checkpoint it goes back to. ``requeued``: it was stopped
    for no fault of its own, which does not count against its retries. ``permanent``: it would fail again.
    """

    time: float
    number: int
    attempt: int
    work_done: float
    lost_gpu_seconds: float
    reason: str
    requeued: bool = False
    permanent: bool = False


class JobCancelled(msgspec.Struct, frozen=True, tag="cancelled", gc=False):
    """The user withdrew the job."""

    time: float
    number: int


class JobHeld(msgspec.Struct, frozen=True, tag="held", gc=False):
    """The job is not to run until it is released; if it runs, it stops at a checkpoint."""

    time: float
    number: int


class JobReleased(msgspec.Struct, frozen=True, tag="released", gc=False):
    """A held job may run again; it has all that it had attained."""

    time: float
    number: int


class JobChanged(msgspec.Struct, frozen=True, tag="changed", gc=False):
    """The user of a job that holds no GPUs declares some of its attributes anew, or it has shown one.

    changes: new values by the names of `JobSpec`'s fields: of `volvelle.model.job_schema.changeable` ones, or
    ``starts_over``, by which a stop or a report of iterations shows, the latter while the job runs.
    """

    time: float
    number: int
    changes: Mapping[str, bool | int | float | None]


class JobRequeued(msgspec.Struct, frozen=True, tag="requeued", gc=False):
    """A running job gives its GPUs up at a checkpoint and waits again, which costs it no retry."""

    time: float
    number: int


class BatchSizeChanged(msgspec.Struct, frozen=True, tag="batch-size", gc=False):
    """The job went over to another batch size after ``work_done`` units of work."""

    time: float
    number: int
    batch_size: int
    work_done: float


class TrainingReported(msgspec.Struct, frozen=True, tag="training", gc=False):
    """The job tells how far it is: ``work_done`` units, as it does at the end of every epoch.

    One that tunes its batch size also tells its goodput function. One that changes it by a rule of its own
    tells how far it is where the estimator asks for that.
    """

    time: float
    number: int
    attempt: int
    work_done: float
    goodput: Goodput | None = None


class ProgressReported(msgspec.Struct, frozen=True, tag="progress", gc=False):
    """A live job counts its iterations: how many it did of how many, and how long one takes of late."""

    time: float
    number: int
    attempt: int
    iterations: int
    total_iterations: int
    iteration_seconds: float


class LossReported(msgspec.Struct, frozen=True, tag="loss", gc=False):
    """The job's training loss after ``work_done`` units of work, as its script reports it."""

    time: float
    number: int
    attempt: int
    work_done: float
    loss: float


class Recomposed(msgspec.Struct, frozen=True, tag="recomposed", gc=False, omit_defaults=True):
    """Parts, as they are written, from now on: an operator's choice, a synthesizer's, or for failed ones.

    placement, estimator, termination: empty for those that are there.
    """

    time: float
    policy: str
    admission: str
    placement: str = ""
    estimator: str = ""
    termination: str = ""


class ArrivalsAnnounced(msgspec.Struct, frozen=True, tag="arrivals-foretold", gc=False):
    """Announced arrivals: the jobs that will be submitted. An earlier announcement holds no longer.

    Columns in order of submission: their numbers, when they come, the GPUs they request, how long they take
    on these, their pools (index into the cluster's, -1 for none). Times and durations are seconds.
    """

    time: float
    numbers: tuple[int, ...]
    submit: tuple[float, ...]
    gpus: tuple[float, ...]
    seconds: tuple[float, ...]
    pools: tuple[int, ...]


class NodeChanged(msgspec.Struct, frozen=True, tag="node", gc=False):
    """A node came, went or is draining; ``node`` describes one that joins."""

    time: float
    name: str
    state: NodeState
    node: Node | None = None


class WakeUp(msgspec.Struct, frozen=True, tag="wake-up", gc=False):
    """The time has come that the scheduler asked to be woken at."""

    time: float


Event = (
    JobSubmitted
    | JobStarted
    | JobFinished
    | JobStopped
    | JobFailed
    | JobCancelled
    | JobHeld
    | JobReleased
    | JobChanged
    | JobRequeued
    | BatchSizeChanged
    | TrainingReported
    | ProgressReported
    | LossReported
    | NodeChanged
    | Recomposed
    | ArrivalsAnnounced
    | WakeUp
)
