"""Policies: who gets how many GPUs now.

A policy is written at one of two levels. An **order** is a key per job, smallest first; a shared fill
turns it into allocations. An **allocation** says the GPUs of every job itself. Both are asked on events
or, with ``round``, only at multiples of a period; a policy whose mind changes as time passes says so
(`Policy.time_varying`, `Policy.next_wake`).
"""

import types
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from volvelle.core.columns import Column
from volvelle.core.events import TrainingReported
from volvelle.core.kernels import (
    TARGET,
    TARGET_REASON,
    TARGET_TYPE,
    fill,
    serve_all,
    settle_ties,
    sort_again,
)
from volvelle.core.keys import Key
from volvelle.core.parts import KnownJob
from volvelle.core.registry import Part, Registry
from volvelle.core.space import Space
from volvelle.core.state import FloatColumn, IntColumn, JobView, Resources
from volvelle.core.stock import Standing, Stock
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.validation import Seconds

Period = Annotated[Seconds, Field(gt=0)]


class View(NamedTuple):
    """What a policy sees: the jobs in the system and what there is to give, at ``now``.

    ``capacity`` is GPUs by type (free or held), ``quota`` GPUs by pool. ``rates()`` is the table of
    believed rates by (curve, GPU type, GPUs), for whole GPUs on one node with CPUs and memory enough;
    ``jobs.curve`` says which curve is whose. ``beside(number, other)`` is the believed rate, by GPU type,
    of a job that shares the GPUs it requests with another (0 where that is not known).
    ``spec(number)`` is what a job's user declared, ``resources`` the nodes (to be read, not changed).
    """

    now: float
    jobs: JobView
    gpu_types: tuple[str, ...]
    capacity: FloatColumn
    quota: FloatColumn
    rates: Callable[[], NDArray[np.float64]]
    spec: Callable[[int], JobSpec]
    resources: Resources
    beside: Callable[[int, int], list[float]]

    @property
    def gpus(self) -> float:
        """GPUs of all types, free or held."""
        return float(sum(self.capacity.tolist()))


class Allocation(NamedTuple):
    """GPUs for every job of a view, in the view's order of jobs.

    ``gpu_type`` (None: the scheduler chooses types), ``reason`` for those without GPUs, and ``order``,
    the rows in the order in which starts are to be placed (None: by submission). ``partner``, where jobs
    share GPUs: the number of the job with which each does, both holding one half; -1 for none.
    ``nodes``, (jobs, nodes): GPUs on each node, from a policy that chooses these itself (None: the
    placement does); a placement that names GPUs then only picks them on their nodes.
    """

    gpus: FloatColumn
    gpu_type: FloatColumn | None = None
    reason: FloatColumn | None = None
    order: IntColumn | None = None
    partner: FloatColumn | None = None
    nodes: NDArray[np.int64] | None = None


class QueuedShares(NamedTuple):
    """Shares of queues by size, as compiled loops divide them (`volvelle.policies.pcs.shares.divide`).

    ``thresholds``: the largest sizes of all queues but the last, GPU-seconds. ``floor`` and ``delta``: the
    efficiency up to which a job gets GPUs first, and the step by which that is lowered, 0 for to the end.
    """

    thresholds: FloatColumn
    weights: FloatColumn
    floor: float
    delta: float


class ContestedShares(NamedTuple):
    """Shares by the time left and by contest (`volvelle.policies.afs.share_by_length`).

    ``later``: of jobs with equally much left the later submission goes first.
    """

    later: bool


Shares = QueuedShares | ContestedShares
"""Whole decisions, as compiled loops know them."""


class Policy(Part):
    """Base of all policies. ``round``: decide only at multiples of this period."""

    kind: ClassVar[str] = "allocation"
    optimises: ClassVar[str] = ""
    divisible: ClassVar[bool] = False
    """Whether it gives fractions of GPUs."""
    time_varying: ClassVar[bool] = False
    """Whether its decision may change though nothing happened, because time passed."""
    starvation_free: ClassVar[bool] = False
    """Whether every job that fits the cluster is promised to finish while jobs keep arriving."""
    work_conserving: ClassVar[bool] = True
    """Whether no GPU stays idle at its decisions while a job that fits it waits."""
    tunes_batch_size: ClassVar[bool] = False
    """Whether jobs that can are to choose their own batch size and to tell their goodput."""
    divides: ClassVar[bool] = False
    """Whether it divides CPUs and memory otherwise than in proportion to GPUs (`divide`)."""
    columns: ClassVar[int] = 0
    """How many columns of its own it keeps of every job (`JobView.own`)."""

    round: Period | None = Field(None, description="decide only at multiples of this period")

    @property
    def shares_gpus(self) -> bool:
        """Whether two jobs may hold the same GPUs."""
        return False

    @property
    def resizes(self) -> bool:
        """Whether elastic jobs may get fewer or more GPUs than they request."""
        return True

    def allocate(self, view: View) -> Allocation:
        """GPUs for every job in ``view``."""
        raise NotImplementedError

    def compiled_shares(self) -> Shares | None:
        """Its whole decision as compiled loops know it; None where they do not."""
        return None

    def next_wake(self, view: View) -> float | None:
        """A time at which to be asked again though nothing happens; None for none.

        With a `round`, at the first multiple of the period from then on.
        """
        return None

    def divide(self, jobs: Sequence[KnownJob], standing: Standing, stock: Stock) -> FloatColumn:
        """CPUs and memory per GPU, (2, jobs), of the ``jobs`` that have GPUs, where these stand.

        Asked at every decision, if it `divides` and there is something to divide. Finite.
        """
        raise NotImplementedError

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` where these jobs, believed to be so, cannot be served on ``cluster``."""

    @classmethod
    def search_space(cls, jobs: Sequence[Job]) -> Space | None:
        """What a search may vary for jobs like these, at least one; None: nothing."""
        return None

    @property
    def solver_gaps(self) -> Sequence[float]:
        """For each program solved so far, how much better, relative to it, an answer could be."""
        return ()

    def learn(self, spec: JobSpec, gpu_seconds: float) -> None:
        """A job finished after ``gpu_seconds`` of service."""

    def hear(self, report: TrainingReported) -> None:
        """A job told how its training goes."""


class OrderPolicy(Policy):
    """A policy that is an order: subclasses give `key`, smallest first, ties by submission."""

    kind: ClassVar[str] = "order"

    preemptive: bool = Field(True, description="take GPUs from jobs later in the order")
    strict: bool = Field(False, description="stop at the first job that does not fit")
    elastic: bool = Field(True, description="let elastic jobs use more or fewer GPUs than they ask")

    @property
    def resizes(self) -> bool:
        """As the parameter ``elastic`` says."""
        return self.elastic

    def key(self, jobs: JobView, now: float) -> ArrayLike:
        """One number for each job; the smallest is served first."""
        raise NotImplementedError

    def compiled_key(self) -> Key | None:
        """The same key as compiled loops know it; None where they do not."""
        return None

    def allocate(self, view: View) -> Allocation:
        """Serve the jobs in order of `key`."""
        if enough := all_served(view, elastic=self.elastic):
            return enough
        order = rank(np.asarray(self.key(view.jobs, view.now), dtype=np.float64), view.jobs)
        return fill_in_order(
            view,
            order,
            preemptive=self.preemptive,
            strict=self.strict,
            elastic=self.elastic,
        )


def compiled_key(policy: Policy) -> Key | None:
    """The key of a policy that is nothing but an order by it; None for every other policy."""
    kind = type(policy)
    if not isinstance(policy, OrderPolicy) or kind.allocate is not OrderPolicy.allocate:
        return None
    if kind.learn is not Policy.learn or kind.next_wake is not Policy.next_wake or policy.columns:
        return None
    if _definer(kind, "key") is not _definer(kind, "compiled_key"):
        return None  # a subclass with a key of its own
    return policy.compiled_key()


def compiled_shares(policy: Policy) -> Shares | None:
    """The shares of a policy that is nothing but these; None for every other policy."""
    kind = type(policy)
    own = {_definer(kind, name) for name in ("allocate", "next_wake", "compiled_shares")}
    if len(own - {Policy}) > 1 or kind.learn is not Policy.learn:
        return None  # a subclass with a decision of its own
    return policy.compiled_shares()


def _definer(kind: type, name: str) -> type:
    """The class from which ``kind`` has a method."""
    return next(base for base in kind.__mro__ if name in base.__dict__)


def rank(keys: NDArray[np.float64], jobs: JobView) -> IntColumn:
    """Rows by ascending key, ties by submission."""
    order, sorted_ = sort_again(jobs.columns.order_hint, keys, jobs.matrix)
    if not sorted_:
        order = np.argsort(keys)
        settle_ties(order, keys, jobs.matrix)
    jobs.columns.order_hint = order
    return order


def all_served(view: View, *, elastic: bool) -> Allocation | None:
    """The allocation in which every job has all it can use, where there is enough for that.

    Then no order matters. None where there is not, or where types or pools need a closer look.
    """
    if len(view.capacity) > 1 or len(view.quota):
        return None
    matrix, jobs = view.jobs.matrix, len(view.jobs)
    most = matrix[Column.MOST if elastic else Column.GPUS]
    given = serve_all(matrix, jobs, most, view.capacity[0])
    if given.shape[1] < jobs:
        return None
    return Allocation(given[TARGET], given[TARGET_TYPE], given[TARGET_REASON])


def fill_in_order(
    view: View, order: IntColumn, *, preemptive: bool, strict: bool, elastic: bool
) -> Allocation:
    """The allocation of serving jobs in ``order``, each with all it can use or nothing."""
    matrix = view.jobs.matrix
    least, most = (Column.LEAST, Column.MOST) if elastic else (Column.GPUS, Column.GPUS)
    given = fill(
        matrix, order, matrix[least], matrix[most], view.capacity, view.quota, preemptive, strict
    )
    return Allocation(given[TARGET], given[TARGET_TYPE], given[TARGET_REASON], order)


policies: Registry[Policy] = Registry("policy", "policies", "volvelle.policies")


def order(
    name: str,
    *,
    source: str = "",
    optimises: str = "",
    time_varying: bool = False,
) -> Callable[[Callable[[JobView, float], ArrayLike]], type[OrderPolicy]]:
    """Register a function from (jobs, now) to a key per job as the policy called ``name``."""

    def decorate(key: Callable[[JobView, float], ArrayLike]) -> type[OrderPolicy]:
        def method(self: OrderPolicy, jobs: JobView, now: float) -> ArrayLike:
            return key(jobs, now)

        namespace: dict[str, Any] = {
            "__doc__": key.__doc__,
            "__module__": key.__module__,
            "__qualname__": key.__qualname__,
            "name": name,
            "source": source,
            "optimises": optimises,
            "time_varying": time_varying,
            "key": method,
            "__annotations__": {
                "name": ClassVar[str],
                "source": ClassVar[str],
                "optimises": ClassVar[str],
                "time_varying": ClassVar[bool],
            },
        }
        policy: type[OrderPolicy] = types.new_class(
            key.__name__, (OrderPolicy,), exec_body=lambda body: body.update(namespace)
        )
        policies.register(policy)
        return policy

    return decorate
