"""Rates by number of GPUs: what a policy compares that decides how many GPUs an elastic job gets.

Jobs with the same throughput model share a **curve**: units of work per second on 0, 1, 2, ... GPUs of
each type, all on one node. Curves are worked out when a policy first asks for them, once for each
distinct model; other policies pay nothing. A job whose batch size changes moves to another curve.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import Column
from volvelle.core.compiled import compiled
from volvelle.core.state import FloatColumn, JobColumns
from volvelle.model.job import Truth

RateTable = NDArray[np.float64]
"""Units per second, indexed by (curve, GPU type, GPUs)."""

_NO_CURVE = -1.0
_CURVE = Column.CURVE


class RateCurves:
    """The curves of the jobs in the system. A job's curve is in its column `Column.CURVE`."""

    def __init__(self) -> None:
        self._table: RateTable = np.zeros((0, 0, 0))
        self._index: dict[bytes, int] = {}

    def fork(self) -> "RateCurves":
        """A copy that can go its own way; rows that are written are never changed."""
        copy = RateCurves()
        copy._table = self._table.copy()
        copy._index = self._index.copy()
        return copy

    def table(
        self,
        jobs: JobColumns,
        believed: Callable[[int], Truth],
        gpu_types: tuple[str, ...],
        capacity: FloatColumn,
    ) -> RateTable:
        """The rates on up to ``capacity`` GPUs; afterwards every job's curve is known."""
        curve = jobs.matrix[Column.CURVE, : jobs.count]
        most = int(max(capacity.tolist(), default=0.0))
        if self._outgrown(len(gpu_types), most, jobs.count):
            self._index.clear()
            self._table = np.zeros((0, len(gpu_types), most + 1))
            curve[:] = _NO_CURVE
        if any_without(jobs.matrix, jobs.count):
            for row in np.flatnonzero(curve < 0):
                truth = believed(int(jobs.matrix[Column.NUMBER, row]))
                curve[row] = self._curve_of(truth, jobs.matrix[Column.DONE, row], gpu_types)
        return self._table

    def _outgrown(self, gpu_types: int, most: int, jobs: int) -> bool:
        """Whether there are new types or GPUs, or mostly curves of jobs that have gone."""
        _, types, width = self._table.shape
        return types < gpu_types or width <= most or len(self._index) > 2 * jobs + 64

    def _curve_of(self, truth: Truth, done: float, gpu_types: tuple[str, ...]) -> int:
        regime = truth.regime_at(done)
        at: Any = None if regime is None else (regime.batch_size, regime.speed)
        key = msgspec.msgpack.encode((truth.throughput, at))
        curve = self._index.get(key)
        if curve is None:
            curve = self._index[key] = len(self._index)
            if curve == len(self._table):
                room = np.zeros((curve + 8, *self._table.shape[1:]))
                self._table = np.concatenate([self._table, room])
            for t, gpu_type in enumerate(gpu_types):
                for gpus in range(1, self._table.shape[2]):
                    self._table[curve, t, gpus] = truth.rate(gpus, gpu_type, 1, done)
        return curve


@compiled
def any_without(matrix: FloatColumn, jobs: int) -> bool:
    """Whether one of the first ``jobs`` jobs has no curve yet."""
    without = False
    for row in range(jobs):
        without = without or matrix[_CURVE, row] < 0.0
    return without
