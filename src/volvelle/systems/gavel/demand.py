"""The demand in Gavel's programs: jobs, their rates on the GPU types, and the GPUs to share.

With space sharing two jobs that request as many GPUs may run on the same ones (a **pair**), each at the
rate it has beside the other. Fractions then have a row for each job, when it is alone, and behind these one
for each pair. Left out are pairs whose rates add up to no more than the whole of one job's alone: taking
turns gives both as much. (Not so where pools have quotas, of which each of a pair takes half only.)
"""

from typing import NamedTuple, Self

import numpy as np

from volvelle.core.view import View
from volvelle.model.arrays import BoolColumn, FloatColumn, Floats, IntColumn
from volvelle.plan.programs import Program, Rows, maximise

_NO_ROWS: IntColumn = np.zeros(0, dtype=np.int64)


class Pairs(NamedTuple):
    """Jobs that may share GPUs, by entry; their rates (pairs x types) beside each other, 0 where not."""

    first: IntColumn
    second: IntColumn
    first_rates: Floats
    second_rates: Floats

    def __len__(self) -> int:
        return len(self.first)


def no_pairs(types: int) -> Pairs:
    """No two jobs share GPUs."""
    return Pairs(_NO_ROWS, _NO_ROWS, np.zeros((0, types)), np.zeros((0, types)))


class Demand(NamedTuple):
    """Jobs that share ``capacity`` GPUs by type; ``pool`` (-1: none) indexes the ``quota`` they share,
    and what their pool has ``owned`` of it.

    ``rates`` (jobs x types) is units per second on all the ``gpus`` a job requests, 0 where it cannot
    run now. ``alike`` is how many jobs alike an entry stands for; they share alike.
    """

    rates: Floats
    gpus: FloatColumn
    weight: FloatColumn
    pool: IntColumn
    capacity: FloatColumn
    quota: FloatColumn
    owned: FloatColumn
    alike: FloatColumn
    pairs: Pairs

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
        return np.concatenate([split, np.zeros((len(self.pairs), split.shape[1]))])

    def throughput(self, fractions: Floats) -> FloatColumn:
        """The rate of each job, alone and beside others."""
        jobs = len(self.gpus)
        rate: FloatColumn = (self.rates * fractions[:jobs]).sum(axis=1)
        if len(self.pairs):
            shared = fractions[jobs:]
            first, second = self.pairs.first_rates * shared, self.pairs.second_rates * shared
            np.add.at(rate, self.pairs.first, first.sum(axis=1))
            np.add.at(rate, self.pairs.second, second.sum(axis=1))
        return rate

    def among(self, rows: IntColumn) -> tuple[Self, IntColumn]:
        """The entries ``rows`` alone, with the pairs of two of them; which pairs these are."""
        place = np.full(len(self.gpus), -1)
        place[rows] = np.arange(len(rows))
        first, second = place[self.pairs.first], place[self.pairs.second]
        kept = np.flatnonzero((first >= 0) & (second >= 0))
        pairs = Pairs(
            first[kept],
            second[kept],
            self.pairs.first_rates[kept],
            self.pairs.second_rates[kept],
        )
        return (
            self._replace(
                rates=self.rates[rows],
                gpus=self.gpus[rows],
                weight=self.weight[rows],
                pool=self.pool[rows],
                alike=self.alike[rows],
                pairs=pairs,
            ),
            kept,
        )

    def grouped(self) -> tuple[Self, IntColumn]:
        """Entries that differ in nothing as one each, and the group of every entry. Without pairs.

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


def demand_of(view: View, rates: Floats, *, aware: bool, sharing: bool) -> Demand:
    """The jobs of ``view``. Unless ``aware`` every type is taken to be as fast as the job's first one.

    rates: (jobs, types), units per second on all the GPUs that each job requests.
    """
    jobs = view.jobs
    gpus = jobs.gpus
    types = len(view.capacity)
    usable = (jobs.column("types").astype(np.int64)[:, None] >> np.arange(types)) & 1 == 1
    usable &= (gpus[:, None] <= view.capacity) & (view.capacity > 0)
    rates = np.where(usable, rates, 0.0)
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
        view.owned.copy(),
        np.ones(len(gpus)),
        _pairs_of(view, rates) if sharing else no_pairs(types),
    )


def _pairs_of(view: View, rates: Floats) -> Pairs:
    """All pairs that may gain by sharing, by the jobs' numbers."""
    jobs = view.jobs
    numbers = jobs.number.astype(np.int64)
    may = rates.any(axis=1) & (jobs.column("preemptible") > 0)
    order = np.flatnonzero(may)[np.argsort(numbers[may])]
    i, j = np.triu_indices(len(order), 1)
    same = jobs.gpus[order[i]] == jobs.gpus[order[j]]
    i, j = i[same], j[same]
    if not len(i):
        return no_pairs(rates.shape[1])
    beside, name = _beside_names(view, numbers[order].tolist())
    ours, theirs = beside[i, name[j]], beside[j, name[i]]
    alone, alone_theirs = rates[order[i]], rates[order[j]]
    part = np.divide(ours, alone, out=np.zeros_like(ours), where=alone > 0)
    part += np.divide(theirs, alone_theirs, out=np.zeros_like(ours), where=alone_theirs > 0)
    gains = (part > 1.0 + _DUST) | (len(view.quota) > 0)
    gains &= (ours > 0) & (theirs > 0) & (alone > 0) & (alone_theirs > 0)
    kept = gains.any(axis=1)
    ours, theirs = np.where(gains, ours, 0.0), np.where(gains, theirs, 0.0)
    return Pairs(order[i[kept]], order[j[kept]], ours[kept], theirs[kept])


def _beside_names(view: View, numbers: list[int]) -> tuple[Floats, IntColumn]:
    """The rates of jobs beside a job of each name (jobs x names x types), and the name of each."""
    names: dict[str, int] = {}
    sample: list[int] = []
    name = np.empty(len(numbers), dtype=np.int64)
    for row, number in enumerate(numbers):
        name[row] = names.setdefault(view.spec(number).name, len(names))
        if len(names) > len(sample):
            sample.append(number)
    beside = [[view.beside(number, other) for other in sample] for number in numbers]
    return np.array(beside, dtype=np.float64), name


class Shared(NamedTuple):
    """Fractions by (job or pair, type), what was maximised, its gap, and whose rows hold it down."""

    fractions: Floats
    level: float
    gap: float
    binding: BoolColumn | None


_DUST = 1e-9
"""Duals, and gains by sharing, below this are rounding."""


class _Variables:
    """The fractions a program is about, and what each is to which job.

    entry, gpu_type: of each variable. job, variable, rate: a line for each job that a variable serves,
    by job; held: the GPUs that count as this job's while it is served.
    """

    def __init__(self, demand: Demand) -> None:
        pairs, jobs = demand.pairs, len(demand.gpus)
        alone, alone_type = np.nonzero(demand.rates)
        pair, pair_type = np.nonzero(pairs.first_rates)
        self.entry = np.concatenate([alone, jobs + pair])
        self.gpu_type = np.concatenate([alone_type, pair_type])
        first, second = pairs.first[pair], pairs.second[pair]
        gpus = demand.alike * demand.gpus
        self.gpus = np.concatenate([gpus[alone], demand.gpus[first]])
        shared = len(alone) + np.arange(len(pair))
        job = np.concatenate([alone, first, second])
        order = np.argsort(job, kind="stable")
        self.job = job[order]
        self.variable = np.concatenate([np.arange(len(alone)), shared, shared])[order]
        rates = (
            demand.rates[alone, alone_type],
            pairs.first_rates[pair, pair_type],
            pairs.second_rates[pair, pair_type],
        )
        self.rate = np.concatenate(rates)[order]
        half = demand.gpus[first] / 2
        self.held = np.concatenate([gpus[alone], half, half])[order]
        self.starts = np.searchsorted(self.job, np.arange(jobs + 1))
        self._shape = (jobs + len(pairs), demand.rates.shape[1])

    def __len__(self) -> int:
        return len(self.entry)

    def rows(self, demand: Demand) -> Rows:
        """Constraints of all programs: GPUs of each type, time of each job, quotas of pools."""
        rows = Rows()
        for each, capacity in enumerate(demand.capacity.tolist()):
            mine = np.flatnonzero(self.gpu_type == each)
            rows.add(mine, self.gpus[mine], upper=capacity)
        jobs, lines = len(demand.gpus), len(self.job)
        unbound = np.full(jobs, -np.inf)
        rows.extend(np.diff(self.starts), self.variable, np.ones(lines), unbound, np.ones(jobs))
        for pool, quota in enumerate(demand.quota.tolist()):
            mine = np.flatnonzero(demand.pool[self.job] == pool)
            used: FloatColumn = np.zeros(len(self))
            np.add.at(used, self.variable[mine], self.held[mine])
            variables = np.flatnonzero(used)
            rows.add(variables, used[variables], upper=quota)
        return rows

    def lines_of(self, jobs: IntColumn) -> tuple[IntColumn, IntColumn]:
        """The lines of ``jobs``, ascending, one job's behind the other's, and where each job's end."""
        chosen = np.zeros(len(self.starts) - 1, dtype=np.bool_)
        chosen[jobs] = True
        return np.flatnonzero(chosen[self.job]), np.cumsum(np.diff(self.starts)[jobs])

    def matrix(self, x: FloatColumn) -> Floats:
        """Fractions by (job or pair, type)."""
        fractions = np.zeros(self._shape)
        fractions[self.entry, self.gpu_type] = x[: len(self)]
        return fractions

    def column(self, fractions: Floats) -> FloatColumn:
        """The variables' values."""
        column: FloatColumn = fractions[self.entry, self.gpu_type]
        return column


def raise_together(
    demand: Demand,
    scale: FloatColumn,
    need: FloatColumn,
    base: FloatColumn,
    incumbent: Floats,
    seconds: float,
) -> Shared:
    """Maximise L where each job i has ``scale(i) x its throughput >= base(i) + L need(i)``.

    Jobs that need nothing only keep their base. ``incumbent``: fractions that give every job its base.
    ``binding`` of the answer are jobs that can have more in no answer as good; None without proof.
    """
    variables = _Variables(demand)
    level = len(variables)
    rows = variables.rows(demand)
    first = len(rows)
    worth = variables.rate * scale[variables.job]
    asking = np.flatnonzero((need > 0) | (base > 0))
    asked, ends = variables.lines_of(asking)
    rows.extend(
        np.diff(ends, prepend=0) + 1,
        np.insert(variables.variable[asked], ends, level),
        np.insert(worth[asked], ends, -need[asking]),
        base[asking],
        np.full(len(asking), np.inf),
    )
    gain = np.zeros(level + 1)
    gain[level] = 1.0
    upper = np.append(np.ones(level), np.inf)
    most = np.zeros(len(need))
    np.maximum.at(most, variables.job, worth)
    start = max(_least(scale * demand.throughput(incumbent) - base, need), 0.0)
    answer = maximise(
        Program(gain, upper, rows),
        np.append(variables.column(incumbent), start),
        _least(most - base, need),
        seconds,
    )
    binding = None
    if answer.duals is not None:
        binding = np.zeros(len(need), dtype=np.bool_)
        binding[asking] = np.abs(answer.duals[first:]) > _DUST
        binding &= need > 0
    return Shared(variables.matrix(answer.x), float(answer.x[level]), answer.gap, binding)


def _least(has: FloatColumn, need: FloatColumn) -> float:
    """The least that jobs have for what they need, of those that need something."""
    asking = need > 0
    return float((has[asking] / need[asking]).min(initial=np.inf))


def maximise_sum(
    demand: Demand,
    scale: FloatColumn,
    by_type: FloatColumn,
    floor: FloatColumn,
    incumbent: Floats,
    seconds: float,
) -> Shared:
    """Maximise the sum of ``scale(i) x rate`` over all jobs, on GPU type t counted ``by_type(t)`` times.

    Each job's ``scale(i) x its throughput`` stays at least ``floor(i)``, as it is in ``incumbent``.
    """
    variables = _Variables(demand)
    worth = variables.rate * scale[variables.job]
    gain = np.zeros(len(variables))
    np.add.at(gain, variables.variable, worth * demand.alike[variables.job])
    gain *= by_type[variables.gpu_type]
    rows = variables.rows(demand)
    held = np.flatnonzero(floor > 0)
    lines, ends = variables.lines_of(held)
    unbound = np.full(len(held), np.inf)
    rows.extend(
        np.diff(ends, prepend=0), variables.variable[lines], worth[lines], floor[held], unbound
    )
    most = np.zeros(len(demand.gpus))
    np.maximum.at(most, variables.job, gain[variables.variable])
    answer = maximise(
        Program(gain, np.ones(len(variables)), rows),
        variables.column(incumbent),
        float(most.sum()),
        seconds,
    )
    return Shared(variables.matrix(answer.x), float(gain @ answer.x), answer.gap, None)
