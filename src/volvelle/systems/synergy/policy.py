"""Synergy: who runs is for another policy to say; how CPUs and memory are divided is Synergy's (OSDI'22)."""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Self

from pydantic import Field, PrivateAttr, model_validator

from volvelle.core.demand import Declared
from volvelle.core.events import TrainingReported
from volvelle.core.key_facts import stands_still
from volvelle.core.order_policy import kept_order
from volvelle.core.policy import Allocation, Kernel, Period, Policy, SolverGaps, policies
from volvelle.core.stock import Standing, Stock
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import Cluster
from volvelle.model.job import JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds
from volvelle.systems.synergy.opt import optimum
from volvelle.systems.synergy.tune import tuned


class Synergy(Policy):
    """Base: the GPUs are another policy's matter, subclasses `divide` CPUs and memory."""

    source: ClassVar[str] = "Synergy (OSDI'22)"
    optimises: ClassVar[str] = "what its order optimises, with CPUs and memory where they help"
    work_conserving: ClassVar[bool] = False

    round: Period | None = Field(300.0, description="decide only at multiples of this period")
    order: str = Field(
        "fifo", description="the policy that gives out the GPUs: srtf, or las:service=seconds"
    )
    _inner: Policy = PrivateAttr()
    _asked_for_order: bool = PrivateAttr()

    @model_validator(mode="after")
    def _orders(self) -> Self:
        inner = policies.make(self.order)
        if isinstance(inner, Synergy):
            raise Problem(
                f"policy {self.name!r}: its order is {inner.name!r}, which has an order of its own",
                mend=f"name that one: order={inner.order}",
                usage=True,
            )
        self._inner = inner
        key = kept_order(inner) if self.divides else None
        self._asked_for_order = self.divides and not (key and stands_still(key))
        return self

    @property
    def decider(self) -> Policy:
        """The inner policy; this one, where it divides in an order that is not known later."""
        return self if self._asked_for_order else self._inner

    @property
    def columns(self) -> int:  # type: ignore[override]
        """Columns of the inner policy."""
        return self._inner.columns

    @property
    def divisible(self) -> bool:  # type: ignore[override]
        """As the inner policy."""
        return self._inner.divisible

    @property
    def time_varying(self) -> bool:  # type: ignore[override]
        """As the inner policy."""
        return self._inner.time_varying

    @property
    def tunes_batch_size(self) -> bool:  # type: ignore[override]
        """As the inner policy."""
        return self._inner.tunes_batch_size

    @property
    def shares_gpus(self) -> bool:
        """As the inner policy."""
        return self._inner.shares_gpus

    @property
    def resizes(self) -> bool:
        """As the inner policy."""
        return self._inner.resizes

    def allocate(self, view: View) -> Allocation:
        """The inner policy's allocation."""
        return self._inner.allocate(view)

    def kernel(self, *, named: bool) -> Kernel | None:
        """That of the inner policy, likewise."""
        return None if self.divides else self._inner.kernel(named=named)

    def refresh(self, view: View) -> tuple[str, ...] | None:
        """The needs of the inner policy's kernel."""
        return self._inner.refresh(view)

    def next_wake(self, view: View) -> float | None:
        """When the inner policy wants to be asked."""
        return self._inner.next_wake(view)

    def lacks(self, spec: JobSpec) -> str:
        """The job's loss with fewer CPUs and less memory, if there are any to divide by that."""
        if not self.divides or spec.sensitivity is not None or spec.cpus or spec.memory_gb:
            return self._inner.lacks(spec)
        return (
            f"policy {self.name!r} goes by its sensitivity to CPUs and memory, and it declares none: "
            "it gets as many as come with its GPUs"
        )

    def refuse(self, cluster: Cluster, jobs: Iterable[tuple[JobSpec, Truth]]) -> None:
        """Raise `Problem` where there is nothing to divide, or the inner policy cannot serve the jobs."""
        self._inner.refuse(cluster, jobs)
        if self.divides and not any(node.cpus or node.memory_gb for node in cluster.nodes):
            raise Problem(
                f"policy {self.name!r} divides CPUs and memory, and no node of this cluster says what "
                "it has of them",
                mend="describe the nodes in a file with cpus and memory_gb, as in --cluster nodes.toml",
                usage=True,
            )

    @property
    def solver_gaps(self) -> SolverGaps | None:
        """Gaps of the inner policy."""
        return self._inner.solver_gaps

    def learn(self, spec: JobSpec, gpu_seconds: float) -> None:
        """For the inner policy."""
        self._inner.learn(spec, gpu_seconds)

    def hear(self, report: TrainingReported) -> None:
        """For the inner policy."""
        self._inner.hear(report)


@policies.register
class SynergyProportional(Synergy):
    """Any policy, in Synergy's rounds; CPUs and memory in proportion to GPUs."""

    name: ClassVar[str] = "synergy-proportional"


@policies.register
class SynergyTune(Synergy):
    """Any policy; CPUs and memory to those they make faster, nobody slower than in proportion to GPUs."""

    name: ClassVar[str] = "synergy-tune"
    divides: ClassVar[bool] = True

    leftovers: bool = Field(
        False, description="give what is left over to jobs below their demand, in part (ours)"
    )

    def divide(self, declared: Declared, standing: Standing, stock: Stock) -> FloatColumn:
        """Each its demand where it fits, in the order of the inner policy."""
        return tuned(declared, standing, stock, leftovers=self.leftovers)[0]


@policies.register
class SynergyOpt(Synergy):
    """As synergy-tune, with the greatest throughput that a linear program finds (extra `solvers`)."""

    name: ClassVar[str] = "synergy-opt"
    divides: ClassVar[bool] = True

    time_limit: Annotated[Seconds, Field(gt=0)] = Field(
        10.0, description="seconds of solver work for each program, by its steps"
    )
    _gaps: SolverGaps = PrivateAttr(default_factory=SolverGaps)

    def divide(self, declared: Declared, standing: Standing, stock: Stock) -> FloatColumn:
        """The solution, or what `tune` finds where that is better."""
        found = optimum(declared, standing, stock, self.time_limit)
        self._gaps.note(found.gap)
        return found.amounts

    @property
    def solver_gaps(self) -> SolverGaps | None:
        """Gaps of the inner policy and of divisions."""
        inner = self._inner.solver_gaps or SolverGaps()
        solved = inner.solved + self._gaps.solved
        return SolverGaps(solved, max(inner.worst, self._gaps.worst), self._gaps.latest)
