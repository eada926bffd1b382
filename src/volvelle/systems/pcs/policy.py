"""The policy: which job is in which queue, and the GPUs of all of them."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from volvelle.core.columns import COUNT
from volvelle.core.compiled import compiled
from volvelle.core.curves import RateTable
from volvelle.core.policy import Allocation, Kernel, Policy, allocate_by_groups, policies
from volvelle.core.space import Space
from volvelle.core.state import Reason
from volvelle.core.view import FloatColumn, IntColumn, View
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.model.tolerances import SAME_AMOUNT
from volvelle.model.validation import Seconds
from volvelle.systems.pcs.queues import decaying, read_sizes, read_weights
from volvelle.systems.pcs.shares import (
    choose_types,
    decide,
    join,
    memory_of,
    queue_of,
    quota_left,
)
from volvelle.systems.pcs.space import wfq_space
from volvelle.systems.pcs.whole import give_whole


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

_choose_types, _quota_left = compiled(choose_types), compiled(quota_left)

_QUEUE, _SIZE = 0, 1
"""Own columns: 1 + the queue of a job, 0 before it has one; its size, GPU-seconds."""


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
    columns: ClassVar[int] = 2

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
    _owed: dict[tuple[int, int], float] = PrivateAttr(default_factory=dict)
    """Whole GPUs: GPU-seconds owed by (GPU type, queue; or the job's number if it is its own)."""
    _growing: dict[tuple[int, int], float] = PrivateAttr(default_factory=dict)
    """How fast that grows since the last decision, GPUs."""
    _asked: float = PrivateAttr(0.0)

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
        jobs = view.jobs
        table = view.rates()
        join(jobs.matrix, len(jobs), COUNT, table, self._thresholds)
        if self._whole(view):
            return self._give_whole(view, table)
        queue, weights, _ = self._queues(view)
        memory = self._memory
        if self.own_queues:
            memory = memory_of(self.efficiency, self.delta, self._thresholds, weights)
        return allocate_by_groups(view, _divided(memory, len(weights)), queue, table)

    def _give_whole(self, view: View, table: RateTable) -> Allocation:
        jobs = view.jobs
        rows = np.arange(len(jobs))
        queue, weights, keys = self._queues(view)
        types = _choose_types(jobs.matrix, rows, view.capacity)
        gpus, quota = np.zeros(len(jobs)), _quota_left(jobs.matrix, rows, len(rows), view.quota)
        self._settle(view.now)
        for gpu_type, capacity in enumerate(view.capacity.tolist()):
            mine = rows[types[rows] == gpu_type]
            owed = np.array([self._owed.get((gpu_type, key), 0.0) for key in keys])
            shares = give_whole(
                jobs.matrix,
                table,
                mine,
                queue,
                weights,
                capacity,
                quota,
                gpu_type,
                self.efficiency,
                self.turn,
                owed,
                gpus,
            )
            held = np.bincount(queue[mine], gpus[mine], len(weights))
            for i in np.unique(queue[mine]).tolist():
                self._owed[gpu_type, keys[i]] = float(owed[i])
                self._growing[gpu_type, keys[i]] = float(shares[i] - held[i])
        given = gpus > 0
        return Allocation(
            gpus,
            np.where(given, types, -1).astype(np.float64),
            np.where(given, Reason.NONE, Reason.GPUS).astype(np.float64),
            rows,
        )

    def kernel(self, *, named: bool) -> Kernel | None:
        """The decision where GPUs are divided among queues of several jobs, which are kept."""
        divided = not (named if self.whole is None else self.whole)
        if not divided or named or self.own_queues or type(self).allocate is not Pcs.allocate:
            return None
        return _divided(self._memory, len(self._weights))

    def next_wake(self, view: View) -> float | None:
        """With whole GPUs: the end of a turn, where queues are to be made even."""
        if not self._whole(view):
            return None
        uneven = sum(abs(rate) > SAME_AMOUNT for rate in self._growing.values())
        return view.now + self.turn if uneven > 1 else None

    def _whole(self, view: View) -> bool:
        if self.whole is None:
            return view.resources.named
        if view.resources.named and not self.whole:
            raise Problem(
                "pcs:whole=false gives fractions of GPUs, the placement gives whole ones",
                mend="leave whole out, or choose --placement none",
                usage=True,
            )
        return self.whole

    def _queues(self, view: View) -> tuple[IntColumn, FloatColumn, Sequence[int]]:
        """The queue of each job, the weights of the queues, and what they are remembered by."""
        jobs = view.jobs
        if not self.own_queues:
            weights = self._weights
            return jobs.own[_QUEUE].astype(np.int64) - 1, weights, range(len(weights))
        order = np.lexsort((jobs.number, jobs.own[_SIZE]))
        queue = np.empty(len(jobs), dtype=np.int64)
        queue[order] = np.arange(len(jobs))
        weights = np.exp(-np.minimum(self.disparity * np.arange(len(jobs)), 600.0))
        return queue, weights, jobs.number[order].astype(np.int64).tolist()

    def _settle(self, now: float) -> None:
        """Reckon what queues are owed now; who has nothing to run is owed nothing."""
        for key, rate in self._growing.items():
            self._owed[key] += rate * (now - self._asked)
        self._owed = {key: self._owed[key] for key in self._growing}
        self._growing.clear()
        self._asked = now


def _divided(memory: FloatColumn, queues: int) -> Kernel:
    """The decision where GPUs are divided."""
    return Kernel(decide, memory, group=queue_of, groups=queues)
