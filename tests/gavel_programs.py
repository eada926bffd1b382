"""Gavel's programs a second time: dense, straight from the paper's formulas, solved by SciPy.

Nothing here is taken from `volvelle.policies`. A situation is built from the jobs themselves; with sharing
it has a row for every two jobs that ask for as many GPUs, as in Gavel (OSDI'20, section 3.1), useful or not.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.model.cluster import Cluster
from volvelle.model.job import Job

Floats = NDArray[np.float64]


class Situation(NamedTuple):
    """Who may run where, and how fast. A row is a job alone, or two that share their GPUs.

    ``does[row, t, job]`` is what a job of the row does in a second there; zero for all others.
    """

    types: tuple[str, ...]
    rows: list[tuple[int, ...]]
    does: Floats
    gpus: Floats
    weight: Floats
    pool: list[int]
    capacity: Floats
    quota: Floats

    @classmethod
    def of(cls, jobs: Sequence[Job], cluster: Cluster, *, sharing: bool) -> "Situation":
        """The situation of ``jobs`` on all GPUs of ``cluster``."""
        types = cluster.gpu_types
        alone = list(range(len(jobs)))
        pairs = [
            (i, j)
            for i, j in itertools.combinations(alone, 2)
            if sharing and jobs[i].spec.gpus == jobs[j].spec.gpus
        ]
        rows: list[tuple[int, ...]] = [*((i,) for i in alone), *pairs]
        capacity = np.array(
            [sum(n.gpus for n in cluster.nodes if n.gpu_type == kind) for kind in types], float
        )
        names = [pool.name for pool in cluster.pools]
        return cls(
            types=types,
            rows=rows,
            does=_does(jobs, rows, types, capacity),
            gpus=np.array([job.spec.gpus for job in jobs]),
            weight=np.array([job.spec.weight for job in jobs]),
            pool=[names.index(job.spec.pool) if job.spec.pool in names else -1 for job in jobs],
            capacity=capacity,
            quota=np.array([pool.quota for pool in cluster.pools]),
        )

    @property
    def able(self) -> NDArray[np.bool_]:
        """Jobs that can run on some type."""
        return np.asarray(self.does.any(axis=(0, 1)))

    @property
    def proportional(self) -> Floats:
        """What each job does that spends its time on the types in proportion to their GPUs."""
        alone = self.does[: len(self.gpus)].sum(axis=0)  # types x jobs
        return np.asarray(self.capacity @ alone / self.capacity.sum())

    def throughput(self, fractions: Floats) -> Floats:
        """What each job does in a second under ``fractions`` (rows x types)."""
        return np.asarray(np.einsum("rt,rtj->j", fractions, self.does))

    def limits(self) -> tuple[Floats, Floats]:
        """A and b of A x <= b: GPUs of each type, time of each job, quotas; x is flat."""
        count, types, _ = self.does.shape
        lines, bounds = [], []
        wide = np.array([self.gpus[row[0]] for row in self.rows])
        for kind in range(types):
            line = np.zeros((count, types))
            line[:, kind] = wide
            lines.append(line)
            bounds.append(self.capacity[kind])
        for job in range(len(self.gpus)):
            line = np.zeros((count, types))
            line[[n for n, row in enumerate(self.rows) if job in row]] = 1.0
            lines.append(line)
            bounds.append(1.0)
        for pool, quota in enumerate(self.quota):
            line = np.zeros((count, types))
            for n, row in enumerate(self.rows):
                line[n] = sum(self.gpus[job] / len(row) for job in row if self.pool[job] == pool)
            lines.append(line)
            bounds.append(quota)
        return np.array([line.ravel() for line in lines]), np.array(bounds)

    def check(self, fractions: Floats, dust: float = 1e-6) -> None:
        """Fail unless ``fractions`` are feasible."""
        lines, bounds = self.limits()
        assert np.all(fractions >= 0)
        assert np.all(fractions[~self.does.any(axis=2)] == 0)
        assert np.all(lines @ fractions.ravel() <= bounds + dust)

    def raised(self, scale: Floats, need: Floats, base: Floats) -> float:
        """The largest L for which ``scale x throughput >= base + L need`` can hold for all jobs."""
        rates = self._by_variable()
        asking = np.flatnonzero((need > 0) | (base > 0))
        lines, bounds = self.limits()
        ask = np.column_stack([-(scale[:, None] * rates)[asking], need[asking]])
        a = np.vstack([np.column_stack([lines, np.zeros(len(lines))]), ask])
        gain = np.zeros(a.shape[1])
        gain[-1] = 1.0
        return _largest(gain, a, np.concatenate([bounds, -base[asking]]), self._most(extra=True))

    def most(self, scale: Floats, by_type: Floats, floor: Floats) -> float:
        """The largest sum of ``scale x`` what jobs do, on type t counted ``by_type(t)`` times.

        For no job is ``scale x throughput`` less than its ``floor``.
        """
        gain = ((self.does @ scale) * by_type).ravel()
        lines, bounds = self.limits()
        held = -(scale[:, None] * self._by_variable())[floor > 0]
        a, b = np.vstack([lines, held]), np.concatenate([bounds, -floor[floor > 0]])
        return _largest(gain, a, b, self._most())

    def _by_variable(self) -> Floats:
        """What each flat variable does for each job: jobs x variables."""
        count, types, jobs = self.does.shape
        return self.does.reshape(count * types, jobs).T

    def _most(self, *, extra: bool = False) -> list[tuple[float, float | None]]:
        """Bounds of the flat variables: zero where a row cannot run."""
        runs = self.does.any(axis=2).ravel()
        return [(0.0, None if one else 0.0) for one in runs] + [(0.0, None)] * extra


def _does(
    jobs: Sequence[Job], rows: Sequence[tuple[int, ...]], types: Sequence[str], capacity: Floats
) -> Floats:
    does = np.zeros((len(rows), len(types), len(jobs)))
    for n, row in enumerate(rows):
        for t, kind in enumerate(types):
            gpus = jobs[row[0]].spec.gpus
            specs = [jobs[i].spec for i in row]
            if gpus > capacity[t] or any(s.gpu_types and kind not in s.gpu_types for s in specs):
                continue
            rates = [_rate(jobs, i, row, gpus, kind) for i in row]
            if all(rates):
                does[n, t, list(row)] = rates
    return does


def _rate(jobs: Sequence[Job], job: int, row: tuple[int, ...], gpus: float, kind: str) -> float:
    truth = jobs[job].truth
    if len(row) == 1:
        return float(truth.throughput.rate(gpus, kind))
    model = truth.beside.get(jobs[row[1 - row.index(job)]].spec.name)
    return float(model.rate(gpus, kind)) if model else 0.0


def _largest(
    gain: Floats, a: Floats, b: Floats, bounds: Sequence[tuple[float, float | None]]
) -> float:
    from scipy.optimize import linprog

    answer: Any = linprog(-gain, A_ub=a, b_ub=b, bounds=bounds, method="highs")
    assert answer.status == 0, answer.message
    return float(-answer.fun)


def least_over(has: Floats, need: Floats) -> float:
    """The least that jobs have for what they need."""
    asking = need > 0
    return float((has[asking] / need[asking]).min())


def best_max_min(situation: Situation) -> tuple[Floats, float]:
    """Section 4.1: gpus / (weight x proportional share) of each job, and the largest least level."""
    scale = level_scale(situation) / situation.weight
    need = situation.able.astype(float)
    return scale, situation.raised(scale, need, np.zeros(len(need)))


def level_scale(situation: Situation) -> Floats:
    """What makes throughputs comparable: GPUs over what a proportional share does."""
    share = situation.proportional
    return np.divide(situation.gpus, share, out=np.zeros_like(share), where=share > 0)


def best_levels(situation: Situation) -> Floats:
    """Section 4.3, fairness within fairness: the levels of all jobs when no more can rise.

    Who can rise no more is asked of each job in turn: the most it can have while nobody loses.
    """
    scale, jobs = level_scale(situation), len(situation.gpus)
    level, rising = np.zeros(jobs), situation.able.copy()
    while rising.any():
        need = _parts(situation, rising)
        level = level + situation.raised(scale, need, level) * need
        for job in np.flatnonzero(rising):
            one = np.zeros(jobs)
            one[job] = 1.0
            if situation.raised(scale, one, level * (1 - 1e-10)) < 1e-7 * max(level[job], 1.0):
                rising[job] = False
    return level


def _parts(situation: Situation, rising: NDArray[np.bool_]) -> Floats:
    """How fast jobs rise: their entity's weight (its quota, or the GPUs of no quota), by their own."""
    parts = np.zeros(len(rising))
    uncovered = max(float(situation.capacity.sum() - situation.quota.sum()), 1.0)
    for entity, weight in enumerate([uncovered, *situation.quota.tolist()], start=-1):
        mine = [job for job in np.flatnonzero(rising) if situation.pool[job] == entity]
        parts[mine] = weight * situation.weight[mine] / situation.weight[mine].sum()
    return parts


def best_finish_time(situation: Situation, age: Floats, left: Floats, alone: Floats) -> float:
    """Section 4.2: the smallest worst (age + left / throughput) / alone, to a part in 10^7."""
    able = situation.able

    def within(rho: float) -> bool:
        spare = rho * alone - age
        if np.any(spare[able] <= 0):
            return False
        scale = np.where(able, spare / left, 0.0)
        return situation.raised(scale, able.astype(float), np.zeros(len(left))) >= 1.0

    low, high = 0.0, 1.0
    while not within(high):
        low, high = high, 2 * high
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high


def isolated_rate(situation: Situation) -> Floats:
    """What a job does on its n-th of the cluster, its time scaled down to 1 in all."""
    jobs = max(int(situation.able.sum()), 1)
    alone = situation.does[: len(situation.gpus)].sum(axis=0).T  # jobs x types
    share = np.where(alone > 0, situation.capacity / (jobs * situation.gpus[:, None]), 0.0)
    share /= np.maximum(share.sum(axis=1), 1.0)[:, None]
    return np.asarray((alone * share).sum(axis=1))
