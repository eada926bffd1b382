"""Policies: how many GPUs each job gets now.

A policy is written at one of three levels. An **order** is a key per job, smallest first; a shared fill
turns it into allocations. An **allocation** says the GPUs of every job itself. A **plan** says them for
each of the next rounds (`volvelle.plan.policy`). All are asked on events
or, with ``round``, only at multiples of a period; a policy whose mind changes as time passes says so
(`Policy.time_varying`, `Policy.next_wake`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from volvelle.core import columns
from volvelle.core.columns import COUNT, CURVE, HELD, TYPE
from volvelle.core.compiled import kernel
from volvelle.core.decision import Promise
from volvelle.core.demand import Declared
from volvelle.core.events import TrainingReported
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE, ClusterNow
from volvelle.core.groups import over_all
from volvelle.core.machine_code.kernels import names_in
from volvelle.core.mistakes import answered, is_own
from volvelle.core.parts import JobPart
from volvelle.core.registry import Registry
from volvelle.core.space import Space
from volvelle.core.state import CHANGED, INFINITY, Reason
from volvelle.core.stock import Standing, Stock
from volvelle.core.view import View
from volvelle.core.wrong_answers import AMOUNTS, of_division
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.model.validation import Seconds

_POLICY = float(Reason.POLICY)
Period = Annotated[Seconds, Field(ge=1e-3, le=1e9)]


class Allocation(NamedTuple):
    """GPUs for every job of a view, in the view's order of jobs.

    ``gpu_type`` (None: the scheduler chooses types), ``reason`` for those without GPUs, and ``order``,
    the rows in the order in which starts are to be placed (None: by submission). ``partner``, where jobs
    share GPUs: the number of the job with which each does, both holding one half; -1 for none.
    ``nodes``, (3, places): job of the view, node and GPUs there, by job and node, from a policy that chooses
    nodes itself (None: the placement does); a placement that names GPUs then only picks them there. Jobs with
    GPUs that it leaves out stay where they are.
    ``promises`` are those that it makes or changes, ``notices`` what it says of itself, for the journal.
    ``ask_at``: a time at which it is to be asked again though nothing happens, seconds (infinite: as
    `Policy.next_wake` says).
    """

    gpus: FloatColumn
    gpu_type: FloatColumn | None = None
    reason: FloatColumn | None = None
    order: IntColumn | None = None
    partner: FloatColumn | None = None
    nodes: NDArray[np.int64] | None = None
    promises: tuple[Promise, ...] = ()
    notices: tuple[str, ...] = ()
    ask_at: float = INFINITY


class Kernel(NamedTuple):
    """A policy's whole decision as one function of arrays, which runs interpreted and as machine code.

    decide: called with the jobs, (columns, jobs) by submission (`volvelle.core.columns`, then the policy's
    own columns, which are kept as it leaves them), the `ClusterNow`, ``memory`` and an array (4, jobs) of
    zeros. To that it writes the GPUs of each job, their type, the `Reason` of those without GPUs (POLICY
    unless it writes another), and in which order jobs are placed (by submission unless it writes another).
    Returns a time at which to be asked again though nothing happens, seconds; infinite for none.
    memory: numbers, its parameters first. What ``decide`` writes to it is remembered where the array is the
    policy's own, in a private attribute.
    rates: whether it looks at rates, which then have to be in the table for every job.
    group, groups: of a decision by groups (`volvelle.core.groups`), and how many there are. ``decide`` is
    then called with `Grouped` jobs in place of their columns, and with `Changes` in place of the array.
    ``group`` is called with the columns, the first own one, the row of a job that enters, where its rates are
    in the table (-1: not there yet), the table and ``memory``. It returns the job's group, and may write own
    columns.
    yields: whether Python refreshes now and then what the kernels remember. Where ``decide`` returns -inf,
    and changes nothing, it is called again after `Policy.refresh`, or `Policy.allocate` decides in its place,
    as that says. Such kernels are used in simulations; else `Policy.allocate` decides. All jobs are grouped
    anew when the policy has replaced ``memory``.
    names_nodes: whether it writes to ``cluster.places`` on which nodes jobs run, where GPUs have names. It is
    then called also where there are no jobs.
    learn: called with ``memory`` when a job has ended, its GPU-seconds of service, the GPUs that it requested
    and its own columns, in place of `Policy.learn`, which does it where this returns False.
    serves_all: whether it gives all gangs what they request where that is there, of one GPU type and without
    pools, and neither remembers anything nor names a time then. It is not called there, unless several wait.
    tells: where in ``memory`` it counts the jobs to which this decision guarantees something, or nothing any
    more; `Policy.told` says what. -1: it never does.
    compiled_from: jobs from which on a first run is no longer with it compiled than without, where these are
    more than for most (`volvelle.core.paying`).
    """

    decide: Callable[[Any, ClusterNow, Any, Any], float]
    memory: FloatColumn
    rates: bool = True
    group: Callable[[Any, int, int, int, Any, Any], int] | None = None
    groups: int = 0
    yields: bool = False
    learn: Callable[[Any, float, float, Any], bool] | None = None
    names_nodes: bool = False
    serves_all: bool = False
    tells: int = -1
    compiled_from: int = 0


@kernel
def beyond_gang(gpus: Any, least: Any, most: Any, held: Any) -> Any:
    """Which jobs cannot hold these ``gpus``: none, all of ``most``, and whole steps from ``least`` on fit.

    What a job has ``held`` so far it may keep.
    """
    steps = gpus - least
    whole = (np.abs(steps - np.rint(steps)) <= SAME_AMOUNT) | (gpus == most)
    fits = whole & (steps >= -SAME_AMOUNT) & (gpus <= most + SAME_AMOUNT)
    return (gpus != 0.0) & (gpus != held) & ~fits


def by_kernel(policy: "Policy", view: View) -> Allocation:
    """GPUs for every job in ``view`` as the kernel of ``policy`` decides, refreshed as often as it yields."""
    while True:
        kernel = policy.kernel(named=view.resources.named)
        assert kernel is not None
        allocation = interpreted(kernel, view)
        if allocation.ask_at > -INFINITY:
            return allocation
        policy.refresh(view)


@cache
def columns_read(decide: Callable[..., Any]) -> tuple[int, ...]:
    """The columns that a policy's kernel names; all, where it is a user's own."""
    read, ours = names_in(decide), not is_own(decide)
    named = {name: place for name, place in vars(columns).items() if name.isupper()}
    del named["COUNT"]
    return tuple(place for name, place in named.items() if name in read or not ours)


def interpreted(kernel: Kernel, view: View) -> Allocation:
    """GPUs for every job in ``view`` as ``kernel`` decides, interpreted."""
    if kernel.group is not None:
        return _by_groups(kernel, kernel.group, view)
    jobs, ask_at, nodes = view.jobs, INFINITY, None
    out = np.zeros((4, len(jobs)))
    out[3] = np.arange(len(jobs))
    if len(jobs) or kernel.names_nodes:
        rates = view.rates() if kernel.rates else np.zeros((0, 0, 0))
        matrix = jobs.matrix_of(columns_read(kernel.decide))
        cluster, resources = view.cluster(rates), view.resources
        if kernel.names_nodes:
            up, places = resources.schedulable.astype(np.float64), np.empty((3, 1))
            if resources.named:
                places = np.empty((3, len(resources.owner) + 1))
            places[0, 0] = -1.0
            cluster = cluster._replace(up=up, places=places)
        ask_at = float(kernel.decide(matrix, cluster, kernel.memory, out))
        if kernel.names_nodes and resources.named:
            nodes = cluster.places[:, : int((cluster.places[0] < 0.0).argmax())].astype(np.int64)
    has = out[TARGET] > 0.0
    types = np.where(has, out[TARGET_TYPE], -1.0)
    reasons = np.where(has | (out[TARGET_REASON] > 0.0), out[TARGET_REASON], _POLICY)
    return Allocation(
        out[TARGET], types, reasons, out[3].astype(np.int64), nodes=nodes, ask_at=ask_at
    )


@dataclass
class SolverGaps:
    """How much better, relative to it, an answer could at most be: the worst so far, and the latest."""

    solved: int = 0
    worst: float = 0.0
    latest: float = 0.0

    def note(self, gap: float) -> None:
        """One more program was solved."""
        self.solved, self.worst, self.latest = self.solved + 1, max(self.worst, gap), gap


class Policy(JobPart):
    """Base of all policies. ``round``: decide only at multiples of this period."""

    kind: ClassVar[str] = "allocation"
    one_of: ClassVar[tuple[str, ...]] = ("allocate", "kernel")
    optimises: ClassVar[str] = ""
    divisible: ClassVar[bool] = False
    """Whether it gives fractions of GPUs."""
    whole_gpus: ClassVar[bool] = False
    """Whether it gives whole GPUs alone, so that jobs that ask for fractions are rejected."""
    time_varying: ClassVar[bool] = False
    """Whether its decision may change though nothing happened, because time passed."""
    needs_durations: ClassVar[bool] = True
    """Whether it decides by how long jobs are believed to take."""
    starvation_free: ClassVar[bool] = False
    """Whether every job that fits the cluster is guaranteed to finish while jobs keep arriving."""
    work_conserving: ClassVar[bool] = True
    """Whether no GPU stays idle at its decisions while a job that fits it waits."""
    guarantees: ClassVar[bool] = False
    """Whether it guarantees finishes to jobs with deadlines."""
    incumbent: ClassVar[bool] = False
    """Whether it is a scheduler that sites have: comparisons hold others against it."""
    keeps_running: ClassVar[bool] = False
    """Whether jobs that have GPUs keep their least to their ends."""
    gangs: ClassVar[bool] = False
    """Whether elastic jobs run on the GPUs that they request, as gangs."""
    heeds_priority: ClassVar[bool] = False
    """Whether jobs of a higher priority are served before others."""
    goes_by_rates: ClassVar[bool] = False
    """Whether it decides by how fast elastic jobs are on other numbers of GPUs."""
    tunes_batch_size: ClassVar[bool] = False
    """Whether jobs that can are to choose their own batch size and to tell their goodput."""
    divides: ClassVar[bool] = False
    """Whether it divides CPUs and memory otherwise than in proportion to GPUs (`divide`)."""
    shares_in_place: ClassVar[bool] = False
    """Whether jobs gain and lose partners where they run, at no cost; otherwise that is a move.

    All that it changes of running jobs is then their partners.
    """
    borrows: ClassVar[bool] = True
    """Whether jobs may run on GPUs that other pools lend; otherwise every pool keeps to what it owns."""
    columns: ClassVar[int] = 0
    """How many columns of its own it keeps of every job (`JobView.own`)."""

    round: Period | None = Field(None, description="decide only at multiples of this period")

    @property
    def decider(self) -> "Policy":
        """The policy that says who gets GPUs, when it is asked: itself, unless that is another's matter."""
        return self

    @property
    def shares_gpus(self) -> bool:
        """Whether two jobs may hold the same GPUs."""
        return False

    @property
    def stops_jobs(self) -> bool:
        """Whether it may take all GPUs of a running job for others, if that may be preempted."""
        return not self.keeps_running and bool(getattr(self, "preemptive", True))

    @property
    def chooses_nodes(self) -> bool:
        """Whether it says on which nodes jobs run (`Allocation.nodes`); a placement only picks GPUs there."""
        return False

    @property
    def resizes(self) -> bool:
        """Whether elastic jobs may get fewer or more GPUs than they request."""
        return not self.gangs

    def allocate(self, view: View) -> Allocation:
        """GPUs for every job in ``view``: as `kernel` decides, interpreted, where there is one."""
        kernel = self.kernel(named=view.resources.named)
        if kernel is None:
            raise NotImplementedError
        return interpreted(kernel, view)

    def kernel(self, *, named: bool) -> Kernel | None:
        """The decision as a function of arrays, by which compiled runs decide alone; None: by `allocate`.

        named: GPUs have names, so that only whole ones can be given.
        """
        return None

    def refresh(self, view: View) -> tuple[str, ...] | None:
        """Where its `kernel` yields: prepare what that decides by; what there is to say of it.

        None: this decision is that of `allocate`.

        ``view`` has the jobs that run, and all others where the decision is not by groups.
        """
        return ()

    def told(self, spec: Callable[[int], JobSpec]) -> Iterable[Promise]:
        """Where its `kernel` tells: the guarantees that the last decision made or changed, said once.

        spec: what the user of a job declared, by number.
        """
        return ()

    def next_wake(self, view: View) -> float | None:
        """A time at which to be asked again though nothing happens; None for none.

        With a `round`, at the first multiple of the period from then on.
        """
        return None

    @answered(of_division, AMOUNTS)
    def divide(self, declared: Declared, standing: Standing, stock: Stock) -> FloatColumn:
        """CPUs and memory per GPU, (2, jobs), of the jobs that have GPUs, where these stand.

        Asked at every decision, if it `divides` and there is something to divide. Finite.
        """
        raise NotImplementedError

    def lacks(self, spec: JobSpec) -> str:
        """The rates of an elastic job, if it `goes_by_rates`."""
        if not self.goes_by_rates or not spec.elastic or spec.throughput is not None:
            return ""
        return (
            f"policy {self.name!r} goes by its rates on other numbers of GPUs, and it declares none: "
            "they are taken to be in proportion"
        )

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` where these jobs, believed to be so, cannot be served on ``cluster``."""

    @classmethod
    def search_space(cls, jobs: Sequence[Job]) -> Space | None:
        """The parameters that a search may vary for jobs like these, at least one; None: nothing."""
        return None

    @property
    def solver_gaps(self) -> SolverGaps | None:
        """Of the programs solved so far (``_gaps``); None where it solves none."""
        gaps: SolverGaps | None = getattr(self, "_gaps", None)
        return gaps

    def learn(self, spec: JobSpec, gpu_seconds: float) -> None:
        """A job finished after ``gpu_seconds`` of service."""

    def hear(self, report: TrainingReported) -> None:
        """A job reported how its training goes."""

    def why(self, number: int) -> str:
        """Why job ``number`` waits since the last decision, in words; empty: as its `Reason` says."""
        return ""


def _by_groups(kernel: Kernel, of: Callable[..., int], view: View) -> Allocation:
    """As ``kernel`` decides, about jobs that are in no groups yet."""
    matrix, memory = view.jobs.matrix, kernel.memory
    rates = view.rates() if kernel.rates else np.zeros((0, 0, 0))
    curve = matrix[CURVE].astype(np.int64)
    group = [of(matrix, COUNT, row, curve[row], rates, memory) for row in range(len(curve))]
    return allocate_by_groups(view, kernel, np.array(group, dtype=np.int64), rates)


def allocate_by_groups(
    view: View, kernel: Kernel, group: IntColumn, rates: NDArray[np.float64]
) -> Allocation:
    """As ``kernel`` decides, about jobs of these groups. rates: as `View.rates` gives them."""
    matrix, cluster = view.jobs.matrix, view.cluster(rates)
    out, rows = np.zeros((3, len(group))), np.empty(len(group), dtype=np.int64)
    counters = np.zeros(CHANGED + 1, dtype=np.int64)
    ask_at = over_all(kernel.decide)(
        matrix, group, kernel.groups, cluster, kernel.memory, out, rows, counters
    )
    changed, same = rows[: counters[CHANGED]], np.ones(len(group), dtype=np.bool_)
    same[changed] = False
    out[TARGET, same], out[TARGET_TYPE, same] = matrix[HELD, same], matrix[TYPE, same]
    reasons = np.where(out[TARGET_REASON] > 0.0, out[TARGET_REASON], float(Reason.GPUS))
    order = np.concatenate([changed, np.flatnonzero(same)])
    return Allocation(out[TARGET], out[TARGET_TYPE], reasons, order, ask_at=ask_at)


policies: Registry[Policy] = Registry("policy", "policies", "volvelle.policies")
