"""Watches Gavel's policies while they run: is every answer feasible, and as good as can be?

Programs have many optima, so objectives are compared with those of `gavel_programs`, not the answers.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest
from gavel_programs import (
    Floats,
    Situation,
    best_finish_time,
    best_levels,
    best_max_min,
    isolated_rate,
    least_over,
    level_scale,
)

from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.model.cluster import Cluster
from volvelle.model.job import Job
from volvelle.policies.rounds import decide
from volvelle.systems.gavel.base import Gavel
from volvelle.systems.gavel.demand import Demand
from volvelle.systems.gavel.totals import GavelCost, GavelMakespan, read_prices

EXACT = 1e-6
"""How far an objective may be from the optimum, relative to it."""
SECOND = 2e-6
"""The same where a second program follows, which may take a part in 10^6 off the first's optimum."""
HALVED = 1.1e-3
"""The same where an interval is halved until it is this narrow (`gavel-ftf`)."""


class Solved(msgspec.Struct):
    """One allocation: what there was, and the answer by the rows of the situation."""

    situation: Situation
    answer: Floats
    left: Floats
    age: Floats
    alone: Floats
    """Seconds that all its work would take on an n-th of the cluster, as that was in its time."""
    policy: Gavel
    shared: bool
    """Whether there are two that may gain by sharing."""

    @property
    def throughput(self) -> Floats:
        return self.situation.throughput(self.answer)


@contextmanager
def watched(
    policy: str, jobs: Sequence[Job], cluster: Cluster, *, every: int = 1
) -> Iterator[None]:
    """The allocations of the policy are checked while this lasts, all or ``every`` so many."""
    kind = type(policies.make(policy))
    assert issubclass(kind, Gavel)
    real, check = kind.fractions, CHECKS[kind.name]
    count = itertools.count()
    books = _Isolated()

    def spy(self: Gavel, view: View, demand: Demand) -> Floats:
        answer = real(self, view, demand)
        here = [jobs[number] for number in view.jobs.number.astype(int).tolist()]
        alone = books.seconds(view, Situation.of(here, cluster, sharing=False))
        if next(count) % every:
            return answer
        situation = Situation.of(here, cluster, sharing=self.shares_gpus)
        solved = Solved(
            situation,
            _by_row(situation, demand, answer),
            view.jobs.remaining_work.copy(),
            view.now - view.jobs.submit_time,
            alone,
            self,
            len(demand.pairs) > 0,
        )
        situation.check(solved.answer)
        check(solved)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "fractions", spy)
        patch.setattr(kind, "decision", property(lambda policy: decide))  # asks for all fractions
        yield
    assert next(count), "the policy was asked"


class _Isolated:
    """What each job's work would have taken on its n-th of the cluster, added up at allocations."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._before: dict[int, tuple[float, float]] = {}

    def seconds(self, view: View, situation: Situation) -> Floats:
        """Of each job: for what it has done, and for what is left, as things are now."""
        rate, done = isolated_rate(situation), view.jobs.work_done
        numbers = view.jobs.number.astype(int).tolist()
        for row, number in enumerate(numbers):
            before, former = self._before.get(number, (0.0, 1.0))
            past = self._seconds.get(number, 0.0)
            self._seconds[number] = past + (float(done[row]) - before) / former
            self._before[number] = float(done[row]), float(rate[row])
        so_far = np.array([self._seconds[number] for number in numbers])
        return np.asarray(so_far + view.jobs.remaining_work / rate)


def _by_row(situation: Situation, demand: Demand, answer: Floats) -> Floats:
    """The policy's fractions by the situation's rows; it leaves out pairs that gain nothing."""
    row_of = {row: n for n, row in enumerate(situation.rows)}
    fractions = np.zeros(situation.does.shape[:2])
    jobs = len(demand.gpus)
    fractions[:jobs] = answer[:jobs]
    pairs = zip(demand.pairs.first.tolist(), demand.pairs.second.tolist(), strict=True)
    for n, (i, j) in enumerate(pairs, start=jobs):
        fractions[row_of[min(i, j), max(i, j)]] = answer[n]
    return fractions


# ---------------------------------------------------------------------- what each is to achieve


def check_max_min(solved: Solved) -> None:
    scale, best = best_max_min(solved.situation)
    able = solved.situation.able.astype(float)
    reached = least_over(scale * solved.throughput, able)
    assert reached == pytest.approx(best, rel=SECOND if solved.shared else EXACT)
    if solved.shared:
        types, levels = np.ones(len(solved.situation.capacity)), scale @ solved.throughput
        assert levels >= solved.situation.most(scale, types, able * best) * (1 - EXACT)
        floor = able * best * (1 - SECOND)
        assert levels <= solved.situation.most(scale, types, floor) * (1 + EXACT)


def check_levels(solved: Solved) -> None:
    best = best_levels(solved.situation)
    level = level_scale(solved.situation) * solved.throughput
    assert np.all(level >= best * (1 - EXACT) - EXACT)


def check_makespan(solved: Solved) -> None:
    able = solved.situation.able.astype(float)
    scale = 1.0 / solved.left
    best = solved.situation.raised(scale, able, np.zeros(len(able)))
    early = isinstance(solved.policy, GavelMakespan) and solved.policy.early
    reached = least_over(scale * solved.throughput, able)
    assert reached == pytest.approx(best, rel=SECOND if early else EXACT)
    if early:
        types, within = np.ones(len(solved.situation.capacity)), scale / best
        rates = within @ solved.throughput
        assert rates >= solved.situation.most(within, types, able) * (1 - EXACT)
        assert rates <= solved.situation.most(within, types, able * (1 - SECOND)) * (1 + EXACT)


def check_total(solved: Solved) -> None:
    count = len(solved.situation.gpus)
    by_type = np.ones(len(solved.situation.capacity))
    if isinstance(solved.policy, GavelCost):
        prices = read_prices(solved.policy.prices)
        by_type = np.array([1.0 / prices[kind] for kind in solved.situation.types])
    best = solved.situation.most(np.ones(count), by_type, np.zeros(count))
    reached = float((solved.answer * by_type * solved.situation.does.sum(axis=2)).sum())
    assert reached == pytest.approx(best, rel=EXACT)


def check_finish_time(solved: Solved) -> None:
    best = best_finish_time(solved.situation, solved.age, solved.left, solved.alone)
    finish = (solved.age + solved.left / solved.throughput) / solved.alone
    assert best * (1 - EXACT) <= finish.max() <= best * (1 + HALVED)


CHECKS: dict[str, Callable[[Solved], None]] = {
    "gavel-las": check_max_min,
    "gavel-hierarchical": check_levels,
    "gavel-ftf": check_finish_time,
    "gavel-makespan": check_makespan,
    "gavel-throughput": check_total,
    "gavel-cost": check_total,
}
