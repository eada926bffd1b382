"""Synergy-opt: the division of CPUs and memory with the greatest throughput, as a linear program (OSDI'22).

``y[j, k]`` is how far job j has the amounts ``a[j, k]`` per GPU, one of the points of its profile that
are no slower than its proportional share and that no other point beats at both. The program is

    maximise    sum over j, k   y[j, k] v[j, k]
    where       sum over k      y[j, k] = 1                                  for every job
                sum over j, k   y[j, k] a[j, k] g[j, n] <= capacity[n]       for every place, CPUs and memory

with ``g[j, n]`` GPUs at place n, and ``v`` the rate over the one at the proportional share.

Departures: GPUs have been placed when CPUs are divided, so that places bind one by one (the authors solve
for one machine as large as the cluster, and then a second program places the jobs). The authors ask for
one whole point a job; here the program is relaxed, a few jobs end between points, and `tune` makes sure
afterwards that what is given fits and leaves nobody slower than the proportional share.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volvelle.core.demand import Amounts, Declared, Wants, wants_where
from volvelle.core.stock import Standing, Stock
from volvelle.model.arrays import FloatColumn, IntColumn
from volvelle.plan.programs import Program, Rows, maximise
from volvelle.systems.synergy.tune import tune, tuned


class Optimum(NamedTuple):
    """Amounts per GPU (2, jobs), and how much better, relative to their value, any could be."""

    amounts: FloatColumn
    gap: float


def optimum(declared: Declared, standing: Standing, stock: Stock, seconds: float) -> Optimum:
    """The best of the rounded program and of `tune` by itself, found within ``seconds``.

    Raises `Problem` where the solver is not installed.
    """
    greedy, full = tuned(declared, standing, stock)
    if full:
        return Optimum(greedy, 0.0)  # everybody is at full rate
    columns = wants_where(declared, standing, stock)
    wants, fallback = list(columns.each()), columns.fallback
    points = [_points(each) for each in wants]
    owner: IntColumn = np.repeat(
        np.arange(len(wants), dtype=np.int64), [len(each) for each in points]
    )
    amounts = np.array([amounts for each in points for amounts, _ in each]).T
    gain = np.array([value for each in points for _, value in each])
    bound = sum(max(value for _, value in each) for each in points)
    program = Program(gain, np.ones(len(gain)), _rows(owner, amounts, standing, stock))
    cheapest = np.zeros(len(gain))
    cheapest[np.searchsorted(owner, np.arange(len(wants)))] = 1.0
    answer = maximise(program, cheapest, bound, seconds)
    if answer.gap == 0.0:
        bound = float(gain @ answer.x)
    mixed: FloatColumn = np.stack(
        [np.bincount(owner, answer.x * kind, len(wants)).astype(np.float64) for kind in amounts]
    )
    asked = np.where(_no_slower(wants, mixed), np.maximum(mixed, fallback), fallback)
    rounded = tune(standing, stock.capacity, asked, fallback, False)
    best = max((rounded, greedy), key=lambda given: _value(wants, given))
    reached = _value(wants, best)
    return Optimum(best, max(bound - reached, 0.0) / reached if reached else 0.0)


def _points(wants: Wants) -> list[tuple[Amounts, float]]:
    """Shares that a job may have and their worth: from the cheapest, its fallback, to its demand."""
    least = wants.value(wants.fallback)
    cpus, memory = wants.demand
    candidates = {wants.fallback, wants.demand}
    if wants.profile is not None:
        candidates |= {
            (max(c, wants.fallback[0]), max(m, wants.fallback[1]))
            for c in (*(c for c in wants.profile.cpus if c < cpus), cpus)
            for m in (*(m for m in wants.profile.memory_gb if m < memory), memory)
        }
    worth = {point: wants.value(point) / least if least else 1.0 for point in candidates}
    kept = [
        (point, value)
        for point, value in sorted(worth.items())
        if not any(
            other != point and other[0] <= point[0] and other[1] <= point[1] and better >= value
            for other, better in worth.items()
        )
    ]
    return kept


def _rows(owner: IntColumn, amounts: FloatColumn, standing: Standing, stock: Stock) -> Rows:
    """One point for each job, and no more of anything at any place than there is."""
    rows = Rows()
    jobs = len(standing.first) - 1
    for job in range(jobs):
        mine = np.flatnonzero(owner == job)
        rows.add(mine, np.ones(len(mine)), 1.0, 1.0)
    there = np.zeros((len(stock.gpus), jobs))
    there[standing.place, np.repeat(np.arange(jobs), np.diff(standing.first))] = standing.gpus
    for place in np.flatnonzero(there.any(axis=1)):
        points = np.flatnonzero(there[place, owner])
        for kind, capacity in enumerate(stock.capacity[:, place].tolist()):
            if np.isfinite(capacity):
                weights = amounts[kind, points] * there[place, owner[points]]
                rows.add(points, weights, upper=capacity)
    return rows


def _no_slower(wants: Sequence[Wants], amounts: FloatColumn) -> NDArray[np.bool_]:
    """Whether each job is no slower with ``amounts`` than with its fallback."""
    return np.array(
        [
            each.value((cpus, memory)) >= each.value(each.fallback)
            for each, (cpus, memory) in zip(wants, amounts.T.tolist(), strict=True)
        ]
    )


def _value(wants: Sequence[Wants], amounts: FloatColumn) -> float:
    """Rates over those at the proportional share, added up."""
    total = 0.0
    for each, (cpus, memory) in zip(wants, amounts.T.tolist(), strict=True):
        least = each.value(each.fallback)
        total += each.value((cpus, memory)) / least if least else 1.0
    return total
