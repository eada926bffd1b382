"""Rounds by GPU type: against trying all X[j, type, t] of small windows."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import plain

from volvelle.plan.plan import Window
from volvelle.systems.shockwave.exchange import Cells, exchange
from volvelle.systems.shockwave.rounds import RoundJobs, share_rounds
from volvelle.systems.shockwave.typed_rounds import share_typed_rounds

pytest.importorskip("highspy")


class TypedCase(NamedTuple):
    """Jobs, their speeds on two types, slots of 10 s, GPUs by type, what a second of makespan costs."""

    jobs: RoundJobs
    speed: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    slots: int
    gpus: np.ndarray[tuple[int], np.dtype[np.float64]]
    weight: float

    def worth(self, work: tuple[float, ...]) -> float:
        """The objective with rounds that count as ``work``, over that with none."""
        most, total = np.ceil(self.jobs.seconds / 10.0), 0.0
        used = np.minimum(work, most)
        for gain, one in zip(self.jobs.gain, used, strict=True):
            total += float(
                np.interp(one, np.arange(self.slots + 1), np.concatenate([[0.0], gain.cumsum()]))
            )
        return total + self.weight * (self.makespan(0.0 * used) - self.makespan(used))

    def makespan(self, used: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        left = np.maximum(self.jobs.seconds - 10.0 * used, 0.0)
        return max(float(left @ self.jobs.gpus) / float(self.gpus.sum()), float(left.max()))

    @property
    def best(self) -> float:
        """By trying all X[j, type, t]."""
        count = len(self.jobs.number)
        choices = []
        for kinds in product((-1, 0, 1), repeat=count):
            took = [sum(self.jobs.gpus[np.equal(kinds, kind)]) for kind in (0, 1)]
            steps = [self.speed[row, kind] * (kind >= 0) for row, kind in enumerate(kinds)]
            possible = all(kind < 0 or step > 0.0 for kind, step in zip(kinds, steps, strict=True))
            if possible and np.all(took <= self.gpus):
                choices.append(steps)
        reached = {(0.0,) * count}
        for _ in range(self.slots):
            reached = {
                tuple(round(a + b, 9) for a, b in zip(work, steps, strict=True))
                for work in reached
                for steps in choices
            }
        return max(map(self.worth, reached))


@st.composite
def typed_cases(draw: st.DrawFn) -> TypedCase:
    count, slots = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    speed = np.ones((count, 2))
    slower = rng.choice([0.0, 0.5, 0.75, 1.0], count)
    speed[np.arange(count), rng.integers(0, 2, count)] = slower
    jobs = RoundJobs(
        number=rng.permutation(count),
        gpus=rng.integers(1, 4, count).astype(float),
        gain=-np.sort(-rng.uniform(0.0, 1.0, (count, slots)), axis=1),
        seconds=rng.integers(0, 50, count).astype(float),
    )
    gpus = rng.integers(0, 5, 2).astype(float)
    gpus[0] += 1.0
    return TypedCase(jobs, speed, slots, gpus, draw(st.sampled_from([0.0, 0.01])))


@settings(max_examples=20, deadline=None)
@given(typed_cases())
def test_a_plan_is_possible_and_as_good_as_it_says(case: TypedCase) -> None:
    jobs, speed, slots, gpus, weight = case
    none = np.full(len(jobs.number), -1)
    window = Window(0.0, 10.0, slots)
    found = share_typed_rounds(
        jobs, speed, none, window, gpus, makespan_weight=weight, gap=0.0, seconds=60.0
    )
    types = found.plan.types
    assert types is not None
    assert np.array_equal(types >= 0, found.plan.gpus > 0.0)
    for kind in (0, 1):
        assert np.all(jobs.gpus @ (types == kind) <= gpus[kind])
        assert np.all(speed[(types == kind).any(axis=1), kind] > 0.0)
    work = (speed * found.plan.rounds_by_type(2)).sum(axis=1)
    assert found.value == pytest.approx(case.worth(tuple(work)))
    best = case.best
    assert found.value <= best + 1e-9
    assert best <= found.bound + 1e-6
    assert found.value >= 0.9 * best - 1e-9


@settings(max_examples=10, deadline=None)
@given(typed_cases())
def test_cells_chosen_anew_are_the_same_compiled_and_plain(case: TypedCase) -> None:
    jobs, speed, slots, gpus, weight = case
    held = np.zeros((len(jobs.number), 2 * slots), dtype=np.bool_)
    twin = held.copy()
    most = np.minimum(np.ceil(jobs.seconds / 10.0), slots).astype(np.int64)
    about = (jobs.gpus.astype(np.int64), speed, jobs.gain, jobs.gain, most, jobs.seconds, 10.0)
    cells = Cells(*about, gpus.astype(np.int64), weight)
    exchange(held, cells)
    plain(exchange)(twin, cells)
    assert np.array_equal(held, twin)
    assert np.all(held.reshape(-1, slots, 2).sum(axis=2) <= 1)


def test_two_types_alike_are_worth_what_one_is_where_gangs_fit() -> None:
    rng = np.random.default_rng(3)
    gain = -np.sort(-rng.uniform(0.0, 1.0, (8, 5)), axis=1)
    jobs = RoundJobs(np.arange(8), np.ones(8), gain, rng.uniform(10.0, 90.0, 8))
    window, none = Window(0.0, 10.0, 5), np.full(8, -1)
    one = share_rounds(jobs, window, 4.0, makespan_weight=0.01)
    two = share_typed_rounds(
        jobs, np.ones((8, 2)), none, window, np.array([2.0, 2.0]), makespan_weight=0.01
    )
    assert two.value == pytest.approx(one.value, rel=1e-3)


def test_a_job_that_no_type_will_do_for_is_named() -> None:
    jobs = RoundJobs(np.array([3, 7]), np.ones(2), np.ones((2, 1)), np.ones(2))
    speed, none = np.array([[1.0, 0.5], [0.0, 0.0]]), np.full(2, -1)
    with pytest.raises(ValueError, match="job 7 can run on no GPU type"):
        share_typed_rounds(jobs, speed, none, Window(0.0, 10.0, 1), np.ones(2))
