"""Rates by number of GPUs: what a policy compares that decides how many GPUs an elastic job gets.

Jobs with the same throughput model share a **curve**: units of work per second on 0, 1, 2, ... GPUs of
each type, all on one node. Curves are worked out when a policy first asks for them, once for each
distinct model; other policies pay nothing. A job whose batch size changes moves to another curve.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volvelle.core.state import Jobs
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.model.job import Truth
from volvelle.model.throughput import Linear, PerType, Table

RateTable = NDArray[np.float64]
"""Units per second, indexed by (curve, GPU type, GPUs)."""


class RateCurves:
    """The curves of the jobs in the system. A job's curve is in its column ``curve``."""

    def __init__(self) -> None:
        self._table: RateTable = np.zeros((0, 0, 0))
        self._index: dict[bytes, int] = {}
        self._digests: list[bytes] = []

    def fork(self) -> "RateCurves":
        """A copy that can go its own way; rows that are written are never changed."""
        copy = RateCurves()
        copy._table = self._table.copy()
        copy._index, copy._digests = self._index.copy(), self._digests[:]
        return copy

    def table(
        self,
        jobs: Jobs,
        rows: Sequence[int],
        believed: Callable[[int], Truth],
        gpu_types: tuple[str, ...],
        capacity: FloatColumn,
    ) -> RateTable:
        """The rates on up to ``capacity`` GPUs; afterwards the curves of the jobs in ``rows`` are known."""
        most = int(max(capacity.tolist(), default=0.0))
        if self._outgrown(len(gpu_types), most, len(rows)):
            self._index.clear()
            self._digests.clear()
            self._table = np.zeros((0, len(gpu_types), most + 1))
            for row in rows:
                jobs.curve[row] = -1.0
        for row in _unknown(jobs, rows):
            truth = believed(int(jobs.number[row]))
            jobs.curve[row] = float(self._curve_of(truth, float(jobs.done[row]), gpu_types))
        return self._table

    def digests(self, curves: IntColumn) -> bytes:
        """Of what these curves are of, wherever they are in the table."""
        return b"".join(self._digests[curve] for curve in curves.tolist())

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
            self._digests.append(hashlib.blake2b(key, digest_size=8).digest())
            if curve == len(self._table):
                room = np.zeros((curve + 8, *self._table.shape[1:]))
                self._table = np.concatenate([self._table, room])
            for t, gpu_type in enumerate(gpu_types):
                for gpus in range(1, self._table.shape[2]):
                    self._table[curve, t, gpus] = truth.rate(gpus, gpu_type, 1, done)
        return curve


class ThroughputTables:
    """The rates that kernels work with (`volvelle.core.state.State.rates`), a table for each model.

    linear: of models that are linear too.
    """

    def __init__(self, *, linear: bool) -> None:
        self._linear = linear
        self._models: list[Linear | Table | PerType] = []
        self._place: dict[bytes, int] = {}

    def of(self, truth: Truth) -> int:
        """Where the table of a job is; -1 where only Python knows how fast it is.

        Only GPUs and their type count in a table: it is of a job with one batch size that is as fast on
        several nodes as on one, wherever its neighbours are.
        """
        throughput = truth.throughput
        if not _alike_everywhere(truth) or not self._tabular(throughput):
            return -1
        assert isinstance(throughput, (Linear, Table, PerType))
        key = msgspec.msgpack.encode(throughput)
        if key not in self._place:
            self._place[key] = len(self._models)
            self._models.append(throughput)
        return self._place[key]

    @property
    def models(self) -> tuple[Linear | Table | PerType, ...]:
        """The models by the place of their tables."""
        return tuple(self._models)

    def restore(self, models: Sequence[Linear | Table | PerType]) -> None:
        """Let ``models`` have the first tables."""
        self._models = list(models)
        self._place = {msgspec.msgpack.encode(model): at for at, model in enumerate(models)}

    def _tabular(self, throughput: Any) -> bool:
        """Whether rates are linear between whole numbers of GPUs, which count alone with their type."""
        if isinstance(throughput, PerType):
            return all(isinstance(model, (Linear, Table)) for model in throughput.types.values())
        return isinstance(throughput, Table) or (self._linear and type(throughput) is Linear)

    def __len__(self) -> int:
        return len(self._models)

    def rates(self, gpu_types: tuple[str, ...], most: int) -> RateTable:
        """Units per second, (tables, GPU types, up to ``most`` GPUs)."""
        rates = np.zeros((len(self._models), len(gpu_types), most + 1))
        for table, model in enumerate(self._models):
            for t, gpu_type in enumerate(gpu_types):
                rates[table, t, 1:] = [model.rate(n, gpu_type) for n in range(1, most + 1)]
        return rates


def _unknown(jobs: Jobs, rows: Sequence[int]) -> list[int]:
    """The ``rows`` of jobs without a curve."""
    if isinstance(jobs.curve, np.ndarray):
        unknown: list[int] = np.asarray(rows)[jobs.curve[rows] < 0.0].tolist()
        return unknown
    return [row for row in rows if jobs.curve[row] < 0.0]


def unit_rate(truth: Truth) -> float:
    """The rate per GPU of a job that scales linearly wherever it runs; NaN for others."""
    throughput = truth.throughput
    return (
        throughput.per_gpu if type(throughput) is Linear and _alike_everywhere(truth) else math.nan
    )


def _alike_everywhere(truth: Truth) -> bool:
    return not (truth.regimes or truth.spread_slowdown or truth.beside or truth.sensitivity)
