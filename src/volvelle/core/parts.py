"""The other parts of a composition: admission, placement, estimator, termination."""

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.decision import Promise
from volvelle.core.events import JobSubmitted, ProgressReported
from volvelle.core.forecast import LookAhead
from volvelle.core.mistakes import answered
from volvelle.core.registry import Part, Registry
from volvelle.core.resources import Resources
from volvelle.core.view import View
from volvelle.core.wrong_answers import BY_NODE, BY_SLOT, of_nodes, of_nodes_for, of_picked
from volvelle.model.arrays import IntColumn
from volvelle.model.job import JobSpec, Truth


class Fate(StrEnum):
    """The fate of a job in the admission queue."""

    ADMIT = "admit"
    WAIT = "wait"
    REJECT = "reject"


class Verdict(NamedTuple):
    """The judgement of an admission, its guarantee to a job that it admits, and why it admits none.

    One that it admits without a guarantee, or with one of no finish, runs as best effort.
    """

    fate: Fate
    promise: Promise | None = None
    reason: str = ""


class JobPart(Part):
    """A part that decides about jobs by what they declare."""

    checked: ClassVar[bool] = True

    def lacks(self, spec: JobSpec) -> str:
        """Name a needed attribute that the job does not declare and no default supplies, and the fallback.

        One clause for the user who submits the job; empty: nothing.
        """
        return ""


class Admission(JobPart):
    """The rule by which jobs enter: a `limit` on what they request together, or a verdict on each (`judge`).

    Jobs are judged in order of submission. The first that waits blocks the others, unless it `looks_past`.
    """

    one_of: ClassVar[tuple[str, ...]] = ("judge", "limit")
    looks_past: ClassVar[int] = 0
    """How many jobs that wait do not block those behind them; where any, new jobs are judged at once."""
    holds_back: ClassVar[str] = ""
    """Why a job is not admitted yet, as a clause for its user; empty: there is no one reason."""

    def limit(self, capacity: float) -> float | None:
        """The GPUs that admitted jobs may request together of ``capacity``, where that is all it goes by.

        A job that alone requests more is admitted where no other job is. None: `judge` is asked.
        """
        return None

    def judge(self, job: JobSubmitted, view: View, ahead: LookAhead) -> Verdict:
        """The verdict on a ``job`` in the queue, each time something happens until it is admitted.

        ``ahead`` is a look-ahead with jobs that are admitted only. The same
        state must give the same verdict: time that passes while it thinks does not count.
        """
        raise NotImplementedError

    def recall(self, view: View, ahead: LookAhead) -> Collection[int]:
        """Numbers of jobs in the system that are to be stopped, and to be judged again.

        Asked of an admission that learns of guarantees, while there are any: each time something happens but
        that jobs come, and in time before a job that waits would start too late.
        ``ahead``: as for `judge`. What a recalled job is guaranteed still holds, unless it took
        longer than was believed.
        """
        return ()

    def learn(self, promise: Promise, *, kept: bool) -> None:
        """Adapt to a guarantee that was kept or broken: once for each, when it or a later one is due."""

    def learn_pace(self, pace: float) -> None:
        """Adapt to a job that is done: how long its last stretch took, as a multiple of what was believed."""


class KnownJob(NamedTuple):
    """The scheduler's record of a job beside its columns."""

    spec: JobSpec
    believed: Truth


class Gang(NamedTuple):
    """A job that is to stand on ``gpus`` GPUs.

    nodes: GPUs it holds on each node now, where it runs and may be moved; None where it holds none.
    """

    job: KnownJob
    gpus: int
    nodes: IntColumn | None = None


class Placement(JobPart):
    """Which GPUs. ``names_gpus`` False means GPUs are only counted."""

    one_of: ClassVar[tuple[str, ...]] = ("choose", "choose_for")
    names_gpus: ClassVar[bool] = True
    goes_by_spread: ClassVar[bool] = False
    """Whether it decides by how much slower gangs are on more nodes."""

    def lacks(self, spec: JobSpec) -> str:
        """The slowdown of a gang on more nodes, if it `goes_by_spread`."""
        if not self.goes_by_spread or spec.most_gpus <= 1 or spec.spread_slowdown:
            return ""
        return (
            f"placement {self.name!r} goes by its spread_slowdown, and it declares none: "
            "it is taken to be as quick on several nodes"
        )

    def may_spread(self, gpus: int, largest: int) -> bool:
        """Whether a gang that a node of ``largest`` GPUs could hold may stand on several instead."""
        return self.names_gpus

    @property
    def kernel(self) -> Callable[..., int] | None:
        """`choose` as a kernel that decides by free GPUs alone; None where there is more to it.

        It is called with the state, a GPU type and how many GPUs are wanted still, and returns the node whose
        free GPUs are taken next, as many as are wanted; -1 where there is none
        (`volvelle.core.forward.free_nodes`).
        """
        return None

    @answered(of_nodes, BY_NODE)
    def choose(self, free: IntColumn, gpus: int, resources: Resources) -> IntColumn | None:
        """GPUs to take on each node for a gang of ``gpus``, or None to let it wait.

        ``free`` is what each node can give it (0 where it may not run); its sum is at least ``gpus``. It is
        asked for one GPU where a job wants a part that no shared GPU has room for.
        """
        raise NotImplementedError

    @answered(of_nodes_for, BY_NODE)
    def choose_for(
        self, job: KnownJob, free: IntColumn, gpus: int, resources: Resources
    ) -> IntColumn | None:
        """As `choose`, which it is unless overridden, where it matters which job it is."""
        return self.choose(free, gpus, resources)

    @answered(of_picked, BY_SLOT)
    def pick(self, slots: IntColumn, count: int, node: int, resources: Resources) -> IntColumn:
        """Which ``count`` of a node's free ``slots`` to take: the first, unless overridden."""
        return slots[:count]


class Belief(NamedTuple):
    """A job as it is believed to be. What remains of its work counts ``scale`` times."""

    truth: Truth
    scale: float = 1.0


class Estimator(JobPart):
    """The beliefs about jobs. ``needs_truth``: they follow from the truth (in simulated worlds only)."""

    one_of: ClassVar[tuple[str, ...]] = ("believe",)
    needs_truth: ClassVar[bool] = False

    def believe(self, job: JobSubmitted, seed: int) -> Belief:
        """The belief about ``job`` at its submission; ``seed`` is the run's."""
        raise NotImplementedError

    def guesses(self, spec: JobSpec) -> bool:
        """Whether it knows nothing of how long such a job takes, and believes a guess at its submission."""
        return False

    def measure(self, report: ProgressReported, seconds_left: float) -> float | None:
        """Seconds that a job has left on the GPUs it holds, by what it reports; None: as before.

        seconds_left: as believed so far. It remembers nothing of it: a live world asks whether a report is
        news, and passes only news to the scheduler.
        """
        return None

    def learn(self, spec: JobSpec, run_seconds: float) -> None:
        """A job finished after ``run_seconds`` with GPUs held."""


class Termination(JobPart):
    """When a job has what it came for, though not all its work is done."""

    @property
    def loss_every(self) -> float | None:
        """Seconds between the reports of a job's loss that it wants; None: it wants none."""
        return None

    def judge(self, spec: JobSpec, work_done: float, loss: float) -> str:
        """Why a job whose loss is ``loss`` after ``work_done`` is to end now; empty: it goes on."""
        return ""


admissions: Registry[Admission] = Registry("admission", "admissions", "volvelle.admission")
placements: Registry[Placement] = Registry("placement", "placements", "volvelle.placement")
estimators: Registry[Estimator] = Registry(
    "estimator", "estimators", "volvelle.estimate", "volvelle.estimators"
)
terminations: Registry[Termination] = Registry(
    "termination", "terminations", "volvelle.termination"
)


def take_in_turn(free: IntColumn, nodes: NDArray[np.int64], gpus: int) -> IntColumn:
    """Take all that is free on ``nodes`` one after another until ``gpus`` are taken."""
    taken = np.zeros(len(free), dtype=np.int64)
    before = np.cumsum(free[nodes]) - free[nodes]
    taken[nodes] = np.clip(gpus - before, 0, free[nodes])
    return taken
