"""The policy: which job is in which queue, and the GPUs of all of them."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from volvelle.core.columns import COUNT
from volvelle.core.policy import (
    Allocation,
    Kernel,
    Policy,
    allocate_by_groups,
    interpreted,
    policies,
)
from volvelle.core.space import Space
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.model.validation import Seconds
from volvelle.systems.pcs.queues import decaying, read_sizes, read_weights
from volvelle.systems.pcs.shares import decide, join, memory_of, queue_of
from volvelle.systems.pcs.space import wfq_space
from volvelle.systems.pcs.whole import OWN_COLUMNS, QUEUE, SIZE, decide_whole, memory_of_whole


def _as_text(written: object) -> object:
    return f"{written:.12g}" if isinstance(written, (int, float)) else written


def _sizes(written: str) -> str:
    read_sizes(written)
    return written


def _weights(written: str) -> str:
    read_weights(written)
    return written


Sizes = Annotated[str, BeforeValidator(_as_text), AfterValidator(_sizes)]
Weights = Annotated[str, BeforeValidator(_as_text), AfterValidator(_weights)]


@policies.register
class Pcs(Policy):
    """Predictability-centric scheduling: weighted fair queueing over classes of job size."""

    name: ClassVar[str] = "pcs"
    source: ClassVar[str] = "PCS (OSDI'24) section 3"
    optimises: ClassVar[str] = "predictability, against mean JCT and fairness as parameters say"
    divisible: ClassVar[bool] = True
    time_varying: ClassVar[bool] = True
    starvation_free: ClassVar[bool] = True
    work_conserving: ClassVar[bool] = False
    columns: ClassVar[int] = OWN_COLUMNS

    thresholds: Sizes = Field(
        "", description="largest sizes of all queues but the last, GPU-seconds: 1627/969473"
    )
    weights: Weights = Field(
        "", description="of the queues, in any unit: 950/48/2 (default: by disparity)"
    )
    disparity: float = Field(0.0, description="W: queue i weighs exp(-i W)")
    efficiency: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="zeta_min: jobs are capped where they use their GPUs less well"
    )
    own_queues: bool = Field(False, description="every job in a queue of its own, i-th by size")
    whole: bool | None = Field(
        None, description="whole GPUs (default: where the placement names them)"
    )
    turn: Annotated[Seconds, Field(gt=0)] = Field(
        300.0, description="whole GPUs: how often queues are made even"
    )
    delta: Annotated[float, Field(ge=0)] = Field(
        0.0, description="divided GPUs: step by which caps are lifted; 0: all at once"
    )

    _thresholds: FloatColumn = PrivateAttr(default_factory=lambda: np.zeros(0))
    _weights: FloatColumn = PrivateAttr(default_factory=lambda: np.zeros(0))
    _memory: FloatColumn = PrivateAttr(default_factory=lambda: np.zeros(0))
    _whole: FloatColumn = PrivateAttr(default_factory=lambda: np.zeros(0))
    """The memories where GPUs are divided, and where whole ones are given."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        thresholds, weights = read_sizes(self.thresholds), read_weights(self.weights)
        if weights and len(weights) != len(thresholds) + 1:
            raise ValueError(
                f"weights: {len(weights)} weights for {len(thresholds) + 1} queues, "
                "which have one threshold less"
            )
        if self.own_queues and (thresholds or weights):
            raise ValueError(
                "own_queues: a job of its own queue has no use for thresholds, weights"
            )
        self._thresholds = np.array(thresholds)
        self._weights = np.array(weights or decaying(len(thresholds) + 1, self.disparity))
        self._memory = memory_of(self.efficiency, self.delta, self._thresholds, self._weights)
        self._whole = memory_of_whole(
            self.efficiency,
            self.turn,
            self.disparity,
            self._thresholds,
            self._weights,
            own_queues=self.own_queues,
        )
        return self

    @property
    def queue_weights(self) -> FloatColumn:
        """The weights of the queues; they add up to 1."""
        return self._weights

    def queue_of(self, size: FloatColumn) -> IntColumn:
        """The queues for jobs of ``size``, GPU-seconds."""
        return np.searchsorted(self._thresholds, size, side="left")

    @classmethod
    def search_space(cls, jobs: Sequence[Job]) -> Space:
        """T, W and zeta_min."""
        return wfq_space(jobs)

    def allocate(self, view: View) -> Allocation:
        """Shares of the queues, and GPUs of the jobs in them."""
        if self._gives_whole(view):
            return interpreted(Kernel(decide_whole, self._whole), view)
        jobs, table = view.jobs, view.rates()
        join(jobs.matrix, len(jobs), COUNT, table, self._thresholds)
        queue, weights = self._queues(view)
        memory = self._memory
        if self.own_queues:
            memory = memory_of(self.efficiency, self.delta, self._thresholds, weights)
        return allocate_by_groups(view, _divided(memory, len(weights)), queue, table)

    def kernel(self, *, named: bool) -> Kernel | None:
        """The decision about queues of several jobs; where GPUs are divided among them, they are kept."""
        gives_whole = named if self.whole is None else self.whole
        if self.own_queues or type(self).allocate is not Pcs.allocate:
            return None
        if gives_whole:
            return Kernel(decide_whole, self._whole)
        return None if named else _divided(self._memory, len(self._weights))

    def _gives_whole(self, view: View) -> bool:
        if self.whole is None:
            return view.resources.named
        if view.resources.named and not self.whole:
            raise Problem(
                "pcs:whole=false gives fractions of GPUs, the placement gives whole ones",
                mend="leave whole out, or choose --placement none",
                usage=True,
            )
        return self.whole

    def _queues(self, view: View) -> tuple[IntColumn, FloatColumn]:
        """The queue of each job, and the weights of the queues."""
        jobs = view.jobs
        if not self.own_queues:
            return jobs.matrix[QUEUE].astype(np.int64) - 1, self._weights
        order = np.lexsort((jobs.number, jobs.matrix[SIZE]))
        queue = np.empty(len(jobs), dtype=np.int64)
        queue[order] = np.arange(len(jobs))
        weights = np.exp(-np.minimum(self.disparity * np.arange(len(jobs)), 600.0))
        return queue, weights


def _divided(memory: FloatColumn, queues: int) -> Kernel:
    """The decision where GPUs are divided."""
    return Kernel(decide, memory, group=queue_of, groups=queues)
