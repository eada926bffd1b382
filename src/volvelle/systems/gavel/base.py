"""The base of Gavel's policies: when fractions are worked out anew, and rounds in between.

Fractions are worked out when the jobs, their rates or the GPUs have changed, and hold for the rounds
until then. GPUs that nobody's fractions ask for go to jobs that were not meant for their type, when all
others are served.

Gavel's simulator (its ``scheduler.py``) departs from that in two ways, of which the paper says nothing, and
each is a switch here:

- It works fractions out only when its parameter ``minimum_time_between_allocation_resets`` has passed since
  the last time, 1920 s unless told otherwise: ``reallocate=1920``. (Shockwave's copy has 1000 s.) Who comes
  in between has no fractions and waits, also when GPUs are idle. Its clock of the last time starts at
  0, which it reads as never, so that an allocation at time 0 does not count; so it is with the switch.
- It fills one GPU type after another, each also with jobs whose fractions there are 0, before it looks at the
  next: ``by_type=true``.

What they cost is told on the page "How it compares with the papers' simulators".

Without ``aware`` every GPU type is taken to be as fast as the first that will do for a job, and the types
are filled in an order drawn anew every round (with ``seed``): whoever does not know which type is the
fastest cannot give it away first.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from volvelle.core.policy import Allocation, Period, Policy, SolverGaps
from volvelle.core.view import View
from volvelle.model.arrays import Floats
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import AnyThroughput, PerBatchSize, PerType
from volvelle.model.validation import Seconds
from volvelle.policies.rounds import Claims, Leftovers, Shares
from volvelle.systems.gavel.demand import Demand, demand_of

SOURCE = "Gavel (OSDI'20)"


class Gavel(Policy):
    """Base of Gavel's policies: subclasses give `fractions`."""

    source: ClassVar[str] = SOURCE
    work_conserving: ClassVar[bool] = False  # an elastic job is not given less than it requests
    exact: ClassVar[bool] = False
    """Whether jobs get nothing on a GPU type that is not meant for them, even where GPUs are left."""

    round: Period | None = Field(360.0, description="length of a round")
    aware: bool = Field(True, description="know how fast each job is on each GPU type")
    reallocate: Annotated[Seconds, Field(ge=0)] = Field(
        0.0, description="least time between two allocations; who comes in between waits"
    )
    by_type: bool = Field(
        False, description="fill each GPU type with whoever wants it before the next type"
    )
    space_sharing: bool = Field(
        False, description="let two jobs run on the same GPUs where that does more"
    )
    seed: int = Field(0, description="of the order of GPU types, where not aware")

    _shares: Shares = PrivateAttr(default_factory=Shares)
    _solved: bytes = PrivateAttr(default=b"")
    _solved_at: float = PrivateAttr(default=-np.inf)
    _wake: float | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _know_what_is_shared(self) -> Self:
        if self.space_sharing and not self.aware:
            raise ValueError("space_sharing needs aware: who may share depends on the GPU type")
        return self

    @property
    def resizes(self) -> bool:
        """Jobs are gangs here."""
        return False

    @property
    def shares_gpus(self) -> bool:
        """As the parameter ``space_sharing`` says."""
        return self.space_sharing

    def fractions(self, view: View, demand: Demand) -> Floats:
        """The share of its time that each job is to spend on each GPU type."""
        raise NotImplementedError

    def allocate(self, view: View) -> Allocation:
        """One round: new fractions where something changed, then the jobs by priority."""
        claims = self._shares.credit(view.jobs)
        outdated = self._outdated(view)
        if outdated and (self._rested(view) or not len(claims.rows)):
            demand = demand_of(view, aware=self.aware, sharing=self.shares_gpus)
            target = np.zeros(demand.rates.shape)
            if demand.able.any():
                target = self.fractions(view, demand)
            half_round = (self.round or 0.0) / 2
            claims = self._shares.set(view, *_claimed(demand, target), half_round)
            self._solved = _signature(view)
            self._solved_at = view.now if view.now > 0 else -np.inf
            outdated = False
        leftovers: Leftovers = "never" if self.exact else "by type" if self.by_type else "last"
        allocation = self._shares.give(view, claims, self._order_of_types(view), leftovers)
        self._wake = self._next_change(view, allocation, outdated)
        return allocation

    def next_wake(self, view: View) -> float | None:
        """The next round, if it may differ from this one; the next allocation, if that must wait."""
        return self._wake

    def _outdated(self, view: View) -> bool:
        """Whether there are other jobs, rates or GPUs than at the last allocation."""
        return self._solved != _signature(view)

    def _rested(self, view: View) -> bool:
        return view.now - self._solved_at >= self.reallocate

    def _order_of_types(self, view: View) -> Sequence[int]:
        types = range(len(view.capacity))
        if self.aware or len(types) == 1:
            return types
        number = int(view.now // self.round) if self.round else int(view.now)
        shuffled: list[int] = np.random.default_rng((self.seed, number)).permutation(types).tolist()
        return shuffled

    def _next_change(self, view: View, allocation: Allocation, outdated: bool) -> float | None:
        served = allocation.gpus > 0
        moves = np.count_nonzero(view.capacity) > 1 or not served.all()
        if moves and served.any() and not self.exact:
            return float(np.nextafter(view.now, np.inf))
        return self._solved_at + self.reallocate if outdated else None

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` where it is not known how jobs fare on types that differ, or beside others."""
        known = list(jobs)
        if self.space_sharing and not any(believed.beside for _, believed in known):
            raise Problem(
                f"policy {self.name!r} is to let jobs share GPUs, and of no job is it known how fast it "
                "is beside others",
                mend="use a trace that says so, as with --format gavel:throughputs=FILE,sharing=true",
                usage=True,
            )
        if not self.aware or len(cluster.gpu_types) == 1:
            return
        blind = [
            spec.id
            for spec, believed in known
            if not knows_types(believed.throughput)
            and len(set(spec.gpu_types or cluster.gpu_types) & set(cluster.gpu_types)) > 1
        ]
        if blind:
            raise Problem(
                f"policy {self.name!r} goes by how fast each job is on each GPU type, and that is not "
                f"known of {len(blind):,} jobs (the first is {blind[0]!r}), which may run on several of "
                f"the types {', '.join(cluster.gpu_types)}",
                mend="use a trace with rates by GPU type and an estimator that knows them, "
                f"or take all types as alike with --policy {self.name}:aware=false",
                usage=True,
            )


class GavelProgram(Gavel):
    """Base of those that solve programs."""

    time_limit: Annotated[Seconds, Field(gt=0)] = Field(
        10.0, description="seconds of solver work for each program, by its steps"
    )

    _gaps: SolverGaps = PrivateAttr(default_factory=SolverGaps)

    @property
    def solver_gaps(self) -> SolverGaps | None:
        """The gap of each allocation that needed a solver."""
        return self._gaps


def _claimed(demand: Demand, target: Floats) -> tuple[Claims, Floats]:
    """Claims of all jobs alone, and of those pairs that have a target."""
    jobs, pairs = len(demand.gpus), demand.pairs
    alone = np.arange(jobs)
    kept = np.flatnonzero(target[jobs:].any(axis=1))
    rows = np.concatenate([alone, pairs.first[kept]])
    beside = np.concatenate([np.full(jobs, -1), pairs.second[kept]])
    return Claims(rows, beside), np.concatenate([target[:jobs], target[jobs + kept]])


def _signature(view: View) -> bytes:
    """The input of fractions, but for the work done: the jobs, their rates, the GPUs."""
    return view.jobs.number.tobytes() + view.rates_basis() + view.capacity.tobytes()


def knows_types(throughput: AnyThroughput) -> bool:
    """Whether a throughput model says what a job does on each GPU type."""
    if isinstance(throughput, PerBatchSize):
        return all(knows_types(model) for model in throughput.batch_sizes.values())
    return isinstance(throughput, PerType)
