"""What Gavel's programs are about: jobs, their rates on the GPU types, and what there is to share."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from volvelle.core.columns import Column
from volvelle.core.policy import View
from volvelle.core.state import BoolColumn, FloatColumn, IntColumn
from volvelle.policies.programs import Answer, Program, Rows, maximise

Floats = NDArray[np.float64]


class Demand(NamedTuple):
    """Jobs that share ``capacity`` GPUs by type; ``pool`` (-1: none) indexes the ``quota`` they share.

    ``rates`` (jobs x types) is units per second on all the ``gpus`` a job requests, 0 where it cannot
    run now. ``alike`` is how many jobs alike an entry stands for; they share alike.
    """

    rates: Floats
    gpus: FloatColumn
    weight: FloatColumn
    pool: IntColumn
    capacity: FloatColumn
    quota: FloatColumn
    alike: FloatColumn

    @property
    def proportional(self) -> FloatColumn:
        """The rate of each job that spends its time on the types in proportion to their GPUs."""
        rate: FloatColumn = self.rates @ (self.capacity / max(self.capacity.sum(), 1.0))
        return rate

    @property
    def able(self) -> BoolColumn:
        """Jobs that can run now on some type."""
        return np.asarray(self.rates.any(axis=1))

    def equal_split(self) -> Floats:
        """Feasible fractions: every GPU an equal part of the cluster's mix, within the quotas."""
        wanted = float(self.alike @ self.gpus)
        split = np.where(self.rates > 0, self.capacity / max(wanted, self.capacity.sum(), 1.0), 0.0)
        for pool, quota in enumerate(self.quota.tolist()):
            mine = self.pool == pool
            used = float((self.alike * self.gpus * split.sum(axis=1))[mine].sum())
            split[mine] *= min(1.0, quota / used) if used > 0 else 1.0
        return split

    def grouped(self) -> tuple[Self, IntColumn]:
        """Entries that differ in nothing as one each, and the group of every entry.

        The programs that use it are convex and treat such jobs alike, so the mean of a solution over
        them is a solution.
        """
        key = np.column_stack([self.rates, self.gpus, self.weight, self.pool])
        _, first, group = np.unique(key, axis=0, return_index=True, return_inverse=True)
        group = group.reshape(-1)
        alike = np.bincount(group, weights=self.alike).astype(np.float64)
        return (
            self._replace(
                rates=self.rates[first],
                gpus=self.gpus[first],
                weight=self.weight[first],
                pool=self.pool[first],
                alike=alike,
            ),
            group,
        )


def demand_of(view: View, *, aware: bool) -> Demand:
    """The jobs of ``view``. Unless ``aware`` every type is taken to be as fast as the job's first one."""
    jobs = view.jobs
    gpus = jobs.gpus
    types = len(view.capacity)
    usable = (jobs.column(Column.TYPES).astype(np.int64)[:, None] >> np.arange(types)) & 1 == 1
    usable &= (gpus[:, None] <= view.capacity) & (view.capacity > 0)
    rates = np.where(usable, _rates_on(view, gpus), 0.0)
    if not aware:
        usable = rates > 0
        rates = usable * rates[np.arange(len(rates)), usable.argmax(axis=1)][:, None]
    return Demand(
        rates,
        gpus.copy(),
        jobs.weight.copy(),
        jobs.pool,
        view.capacity.copy(),
        view.quota.copy(),
        np.ones(len(gpus)),
    )


def _rates_on(view: View, gpus: FloatColumn) -> Floats:
    """Units per second on ``gpus`` GPUs of each type, linear between whole numbers of GPUs."""
    table, curve = view.rates(), view.jobs.curve
    last = table.shape[2] - 1
    below = np.minimum(gpus.astype(np.int64), last)
    above = np.minimum(below + 1, last)
    low, high = table[curve, :, below], table[curve, :, above]
    rates: Floats = low + (high - low) * (gpus - np.floor(gpus))[:, None]
    return rates


class Shared(NamedTuple):
    """Fractions by (job, type), what was maximised, its gap, and whose rows hold it down."""

    fractions: Floats
    level: float
    gap: float
    binding: BoolColumn | None


def raise_together(
    demand: Demand,
    worth: Floats,
    need: FloatColumn,
    base: FloatColumn,
    incumbent: Floats,
    seconds: float,
) -> Shared:
    """Maximise the level L where each job i has ``sum of worth(i, t) X(i, t) >= base(i) + L need(i)``.

    Jobs that need nothing only keep their base. ``incumbent``: fractions that give every job its base.
    ``binding`` of the answer are jobs that can have more in no answer as good; None without proof.
    """
    job, gpu_type = np.nonzero(demand.rates)
    level = len(job)
    rows = _common_rows(demand, job, gpu_type)
    first = len(rows)
    starts = np.searchsorted(job, np.arange(len(need) + 1))
    values = worth[job, gpu_type]
    asking = np.flatnonzero((need > 0) | (base > 0))
    for i in asking.tolist():
        mine = np.arange(starts[i], starts[i + 1])
        rows.add(np.append(mine, level), np.append(values[mine], -need[i]), lower=base[i])
    gain = np.zeros(level + 1)
    gain[level] = 1.0
    upper = np.ones(level + 1)
    most = np.where(need > 0, (worth.max(axis=1) - base) / np.where(need > 0, need, 1.0), np.inf)
    bound = float(most.min(initial=np.inf))
    upper[level] = np.inf
    has = (worth * incumbent).sum(axis=1) - base
    reached = np.where(need > 0, has / np.where(need > 0, need, 1.0), np.inf).min(initial=np.inf)
    start = np.append(incumbent[job, gpu_type], max(float(reached), 0.0))
    answer = maximise(Program(gain, upper, rows), start, bound, seconds)
    binding = None
    if answer.duals is not None:
        binding = np.zeros(len(need), dtype=np.bool_)
        binding[asking] = np.abs(answer.duals[first:]) > _DUST
        binding &= need > 0
    return Shared(
        _as_matrix(demand, job, gpu_type, answer), float(answer.x[level]), answer.gap, binding
    )


_DUST = 1e-9
"""Duals below this are rounding."""


def maximise_sum(demand: Demand, worth: Floats, incumbent: Floats, seconds: float) -> Shared:
    """Maximise the sum of ``worth(i, t) X(i, t)`` over all jobs and types."""
    job, gpu_type = np.nonzero(demand.rates)
    rows = _common_rows(demand, job, gpu_type)
    gain = (demand.alike[:, None] * worth)[job, gpu_type]
    bound = float(demand.alike @ worth.max(axis=1, initial=0.0))
    start = incumbent[job, gpu_type]
    answer = maximise(Program(gain, np.ones(len(job)), rows), start, bound, seconds)
    matrix = _as_matrix(demand, job, gpu_type, answer)
    return Shared(matrix, float(gain @ answer.x), answer.gap, None)


def _as_matrix(demand: Demand, job: IntColumn, gpu_type: IntColumn, answer: Answer) -> Floats:
    matrix = np.zeros(demand.rates.shape)
    matrix[job, gpu_type] = answer.x[: len(job)]
    return matrix


def _common_rows(demand: Demand, job: IntColumn, gpu_type: IntColumn) -> Rows:
    """What all programs share: GPUs of each type, time of each job, quotas of pools."""
    rows = Rows()
    gpus = (demand.alike * demand.gpus)[job]
    for each, capacity in enumerate(demand.capacity.tolist()):
        mine = np.flatnonzero(gpu_type == each)
        rows.add(mine, gpus[mine], upper=capacity)
    starts = np.searchsorted(job, np.arange(len(demand.gpus) + 1))
    for i in range(len(demand.gpus)):
        mine = np.arange(starts[i], starts[i + 1])
        rows.add(mine, np.ones(len(mine)), upper=1.0)
    for pool, quota in enumerate(demand.quota.tolist()):
        mine = np.flatnonzero(demand.pool[job] == pool)
        rows.add(mine, gpus[mine], upper=quota)
    return rows
