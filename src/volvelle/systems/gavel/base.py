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

from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from volvelle.core.compiled import compiled
from volvelle.core.fill import TARGET, TARGET_REASON, TARGET_TYPE
from volvelle.core.policy import Allocation, Kernel, Period, Policy, SolverGaps
from volvelle.core.state import INFINITY
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, Floats, IntColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import AnyThroughput, PerBatchSize, PerType
from volvelle.model.validation import Seconds
from volvelle.policies import claims, rounds
from volvelle.systems.gavel.demand import Demand, demand_of

SOURCE = "Gavel (OSDI'20)"


class Gavel(Policy):
    """Base of Gavel's policies: subclasses give `fractions`, or a `decision` that works them out."""

    source: ClassVar[str] = SOURCE
    work_conserving: ClassVar[bool] = False  # an elastic job is not given less than it requests
    gangs: ClassVar[bool] = True
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

    _memory: Floats = PrivateAttr(default_factory=lambda: np.zeros(0))
    """See `volvelle.policies.claims`."""

    @model_validator(mode="after")
    def _begin(self) -> Self:
        if self.space_sharing and not self.aware:
            raise ValueError("space_sharing needs aware: who may share depends on the GPU type")
        last = claims.BY_TYPE if self.by_type else claims.LAST
        leftovers = claims.NEVER if self.exact else last
        self._memory = claims.begin(self.round or 0.0, self.reallocate, leftovers, aware=self.aware)
        return self

    @property
    def shares_gpus(self) -> bool:
        """As the parameter ``space_sharing`` says."""
        return self.space_sharing

    def fractions(self, view: View, demand: Demand) -> Floats:
        """The share of its time that each job is to spend on each GPU type."""
        raise NotImplementedError

    @property
    def decision(self) -> Callable[..., float]:
        """A round as a function of arrays, which yields where Python works out `fractions`."""
        return rounds.decide

    def kernel(self, *, named: bool) -> Kernel | None:
        """The `decision`; none where jobs share GPUs, which only `allocate` can say."""
        return None if self.shares_gpus else Kernel(self.decision, self._memory, yields=True)

    def allocate(self, view: View) -> Allocation:
        """The same about jobs that may share GPUs."""
        cluster, many = view.cluster(view.rates()), len(view.jobs)
        out, ask_at, matrix = np.zeros((rounds.PARTNER + 1, many)), -INFINITY, view.jobs.matrix
        while ask_at == -INFINITY:
            ask_at = _loop(self.decision)(matrix, cluster, self._memory, out)
            if ask_at == -INFINITY:
                self.refresh(view)
        with_ = out[rounds.PARTNER].astype(np.int64)
        partner = np.where(with_ >= 0, view.jobs.number[with_], -1.0) if many else None
        return Allocation(
            out[TARGET],
            out[TARGET_TYPE],
            out[TARGET_REASON],
            out[3].astype(np.int64),
            partner if (with_ >= 0).any() else None,
            ask_at=ask_at,
        )

    def refresh(self, view: View) -> tuple[str, ...]:
        """Work fractions out, draw the order of GPU types, or make room: what the decision needs."""
        memory, types = self._memory, len(view.capacity)
        needs = memory[claims.NEEDS]
        if needs == claims.MORE_ROOM:
            self._make_room(types, len(view.jobs))
        elif needs == claims.TYPE_ORDER:
            number = int(view.now // self.round) if self.round else int(view.now)
            drawn = np.random.default_rng((self.seed, number)).permutation(range(types))
            claims.tables(memory).order[:types] = drawn
            memory[claims.DRAWN] = view.now
        elif needs == claims.FRACTIONS:
            rates = claims.tables(memory).rates[:types, : len(view.jobs)].T
            demand = demand_of(view, rates, aware=self.aware, sharing=self.shares_gpus)
            target = np.zeros(demand.rates.shape)
            if demand.able.any():
                target = self.fractions(view, demand)
            rows, beside, target = _claimed(demand, target)
            self._make_room(types, len(rows))
            by_type = np.ascontiguousarray(target.T)
            claims.set_targets(view.jobs.matrix, view.now, self._memory, rows, beside, by_type)
        return ()

    def _make_room(self, types: int, needed: int) -> None:
        fits, room = self._memory[[claims.TYPES_THAT_FIT, claims.ROOM]].astype(np.int64).tolist()
        if types > fits or needed > room:
            room = room if needed <= room else 2 * needed
            self._memory = claims.with_room(self._memory, max(types, fits), room)

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


def _claimed(demand: Demand, target: Floats) -> tuple[IntColumn, IntColumn, Floats]:
    """All jobs alone, and those pairs that have a target: rows, rows beside them (-1: alone), targets."""
    jobs, pairs = len(demand.gpus), demand.pairs
    kept = np.flatnonzero(target[jobs:].any(axis=1))
    rows = np.concatenate([np.arange(jobs), pairs.first[kept]])
    beside = np.concatenate([np.full(jobs, -1), pairs.second[kept]])
    return rows, beside, np.concatenate([target[:jobs], target[jobs + kept]])


@cache
def _loop(decision: Callable[..., float]) -> Callable[..., Any]:
    """A decision as a loop that Python calls."""
    return compiled(decision)


def steps_per_unit(view: View) -> FloatColumn:
    """Steps in a unit of each job's work, at the batch size that it has now."""
    per_unit = np.ones(len(view.jobs))
    done = view.jobs.work_done.tolist()
    for row, number in enumerate(view.jobs.number.astype(np.int64).tolist()):
        regime = view.believed(number).regime_at(done[row])
        if regime is not None and regime.speed > 0.0:
            per_unit[row] = 1.0 / regime.speed
    return per_unit


def knows_types(throughput: AnyThroughput) -> bool:
    """Whether a throughput model says what a job does on each GPU type."""
    if isinstance(throughput, PerBatchSize):
        return all(knows_types(model) for model in throughput.batch_sizes.values())
    return isinstance(throughput, PerType)
