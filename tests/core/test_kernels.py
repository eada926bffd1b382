"""The compiled loops against their plain twins and, where it says something, a naive reference."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from volvelle.core.kernels import (
    apply,
    fill,
    note_reasons,
    serve_all,
    settle_ties,
    sort_again,
    unit_rates,
    water_fill,
    work_left,
)

from volvelle.core.columns import Column, Reason
from volvelle.core.state import JobColumns
from volvelle.policies.backfill import backfill

Floats = NDArray[np.float64]


def plain(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The undecorated function behind a compiled loop."""
    return cast(Callable[..., Any], cast(Any, loop).py_func)


@dataclass(frozen=True)
class Case:
    """A state of a cluster: a matrix of jobs, some running within what there is, and an order."""

    matrix: Floats
    order: NDArray[np.int64]
    capacity: Floats
    quota: Floats

    @property
    def least(self) -> Floats:
        least: Floats = self.matrix[Column.LEAST]
        return least

    @property
    def most(self) -> Floats:
        most: Floats = self.matrix[Column.MOST]
        return most


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, kinds, pools = draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    capacity = rng.integers(0, 7, kinds).astype(np.float64)
    quota = rng.choice([1.0, 2.0, 2.5, 4.0], pools)
    m = np.zeros_like(JobColumns().matrix[:, :jobs])
    m[Column.NUMBER] = rng.permutation(jobs)
    m[Column.LEAST] = rng.integers(1, 5, jobs)
    rigid = rng.random(jobs) < 0.5
    m[Column.GPUS] = m[Column.LEAST] + np.where(rigid, 0, rng.integers(0, 3, jobs))
    m[Column.MOST] = m[Column.GPUS] + np.where(rigid, 0, rng.integers(0, 3, jobs))
    m[Column.TYPES] = rng.integers(1, 2**kinds, jobs)
    m[Column.POOL] = rng.integers(-1, pools, jobs)
    m[Column.PREEMPTIBLE] = rng.random(jobs) < 0.7
    m[Column.TYPE] = -1
    m[Column.FIRST_START] = np.nan
    m[Column.RATE] = 1.0
    m[Column.RESTORE], m[Column.RESIZE] = rng.integers(0, 4, (2, jobs))
    m[Column.TOTAL] = rng.integers(1, 50, jobs)
    free, left = capacity.copy(), quota.copy()
    for row in np.flatnonzero(rng.random(jobs) < 0.5):
        kind, pool = int(rng.integers(kinds)), int(m[Column.POOL, row])
        gpus = float(rng.integers(m[Column.LEAST, row], m[Column.MOST, row] + 1))
        wished = int(m[Column.TYPES, row]) >> kind & 1
        if wished and gpus <= free[kind] and (pool < 0 or gpus <= left[pool]):
            m[Column.HELD, row], m[Column.TYPE, row] = gpus, kind
            m[Column.PINNED, row] = rng.random() < 0.2
            free[kind] -= gpus
            if pool >= 0:
                left[pool] -= gpus
    return Case(m, rng.permutation(jobs), capacity, quota)


flags = st.booleans()


def naive_fill(case: Case, preemptive: bool, strict: bool) -> list[tuple[float, int, int]]:
    """What `fill` promises, job by job over plain Python values."""
    jobs: list[list[float]] = case.matrix.T.tolist()
    free, left = case.capacity.tolist(), case.quota.tolist()
    given: dict[int, list[float]] = {}

    def take(row: int, gpus: float, kind: int) -> None:
        free[kind] -= gpus
        if jobs[row][Column.POOL] >= 0:
            left[int(jobs[row][Column.POOL])] -= gpus
        given.setdefault(row, [0.0, kind])[0] += gpus

    for row, job in enumerate(jobs):
        stays = not preemptive or job[Column.PINNED] or not job[Column.PREEMPTIBLE]
        if job[Column.HELD] and stays:
            elastic = job[Column.LEAST] < job[Column.MOST] and not job[Column.PINNED]
            least = min(job[Column.HELD], job[Column.LEAST]) if elastic else job[Column.HELD]
            take(row, least, int(job[Column.TYPE]))
    reasons = [Reason.NONE] * len(jobs)
    blocked = False
    for row in case.order.tolist():
        job = jobs[row]
        pool = int(job[Column.POOL])

        def room(kind: int, pool: int = pool) -> float:
            return float(min(free[kind], left[pool] if pool >= 0 else np.inf))

        if row in given:
            have, kind = given[row][0], int(given[row][1])
            while (
                job[Column.LEAST] < job[Column.MOST]
                and not job[Column.PINNED]
                and given[row][0] < job[Column.MOST]
                and room(kind) >= 1
            ):
                take(row, 1.0, kind)
            assert given[row][0] >= have
            continue
        wished = [k for k in range(len(free)) if int(job[Column.TYPES]) >> k & 1]
        held = int(job[Column.TYPE])
        kinds = [*([held] if held >= 0 else []), *wished]
        fitting = [k for k in kinds if room(k) >= job[Column.LEAST]]
        if blocked or not fitting:
            over = pool >= 0 and left[pool] < job[Column.LEAST]
            none_left = sum(free) <= 0
            short = Reason.QUOTA if over and not none_left else Reason.GPUS
            reasons[row] = Reason.ORDER if blocked else short
            blocked = strict
            continue
        take(row, job[Column.LEAST], fitting[0])
        while given[row][0] < job[Column.MOST] and room(fitting[0]) >= 1:
            take(row, 1.0, fitting[0])
    return [
        (given[row][0], int(given[row][1]), 0) if row in given else (0.0, -1, int(reasons[row]))
        for row in range(len(jobs))
    ]


@settings(max_examples=300)
@given(cases(), flags, flags)
def test_fill_does_what_it_promises(case: Case, preemptive: bool, strict: bool) -> None:
    result = fill(
        case.matrix,
        case.order,
        case.least,
        case.most,
        case.capacity,
        case.quota,
        preemptive,
        strict,
    )
    assert [tuple(column) for column in result.T.tolist()] == naive_fill(case, preemptive, strict)


@settings(max_examples=100)
@given(cases(), flags, flags)
def test_fill_equals_its_plain_twin(case: Case, preemptive: bool, strict: bool) -> None:
    arguments = (case.order, case.least, case.most, case.capacity, case.quota, preemptive, strict)
    before = case.matrix.copy()
    assert np.array_equal(fill(case.matrix, *arguments), plain(fill)(case.matrix, *arguments))
    assert np.array_equal(case.matrix, before, equal_nan=True)


@settings(max_examples=100)
@given(cases())
def test_backfill_equals_its_plain_twin(case: Case) -> None:
    total = case.matrix[Column.TOTAL]
    arguments = (case.matrix, case.order, total, case.capacity, case.quota)
    assert np.array_equal(backfill(*arguments), plain(backfill)(*arguments))


@settings(max_examples=100)
@given(cases(), st.floats(0, 9))
def test_water_fill_equals_its_plain_twin_and_is_fair(case: Case, free: float) -> None:
    start = np.where(case.matrix[Column.HELD] > 0, case.least, 0.0)
    twin_target, twin_left = start.copy(), case.quota.copy()
    target, left = start.copy(), case.quota.copy()
    rest = water_fill(case.matrix, case.order, target, case.most, free, left)
    assert rest == plain(water_fill)(
        case.matrix, case.order, twin_target, case.most, free, twin_left
    )
    assert np.array_equal(target, twin_target)
    assert np.array_equal(left, twin_left)
    assert target.sum() - start.sum() == pytest.approx(free - rest)
    assert np.all(target <= np.maximum(case.most, start))
    raised = target - start
    pool = case.matrix[Column.POOL].astype(np.int64)
    for row in np.flatnonzero((start > 0) & (case.matrix[Column.PINNED] == 0)):
        could_grow = target[row] + 1 <= case.most[row] and (pool[row] < 0 or left[pool[row]] >= 1)
        if could_grow:  # it stopped only because the GPUs ran out: in the same round as the others
            assert rest < 1
            assert raised[row] >= raised.max() - 1


@settings(max_examples=100)
@given(cases(), st.data())
def test_apply_equals_its_plain_twin_and_settles_what_was_attained(
    case: Case, data: st.DataObject
) -> None:
    jobs = case.matrix.shape[1]
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, jobs - 1)))), dtype=np.int64)
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    gpus = rng.integers(0, 4, len(rows)).astype(np.float64)
    arguments = (rows, gpus, gpus - 1, gpus * 0.7, 12.5)
    twin, matrix = case.matrix.copy(), case.matrix.copy()
    attempts = apply(matrix, *arguments)
    assert np.array_equal(attempts, plain(apply)(twin, *arguments))
    assert np.array_equal(attempts, matrix[Column.ATTEMPT, rows])
    assert np.array_equal(matrix, twin, equal_nan=True)
    held = case.matrix[Column.HELD, rows]
    attained = matrix[Column.ATTAINED_GPU, rows] - case.matrix[Column.ATTAINED_GPU, rows]
    assert attained.tolist() == (held * 12.5).tolist()
    starts = (held == 0) & (gpus > 0)
    assert matrix[Column.ATTEMPT, rows].tolist() == starts.astype(float).tolist()
    stops = (held > 0) & (gpus == 0)
    assert matrix[Column.PREEMPTIONS, rows].tolist() == stops.astype(float).tolist()


def numbered(numbers: NDArray[np.int64]) -> Floats:
    """The columns of jobs of which only the numbers matter."""
    matrix = np.zeros((Column.COUNT, len(numbers)))
    matrix[Column.NUMBER] = numbers
    return matrix


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 999))
def test_ties_are_settled_by_number(keys: list[int], seed: int) -> None:
    values = np.array(keys, dtype=np.float64)
    matrix = numbered(np.random.default_rng(seed).permutation(len(keys)))
    compiled, twin = np.argsort(values), np.argsort(values)
    settle_ties(compiled, values, matrix)
    plain(settle_ties)(twin, values, matrix)
    assert np.array_equal(compiled, twin)
    assert np.array_equal(compiled, np.lexsort((matrix[Column.NUMBER], values)))


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 999))
def test_sorting_again_from_a_hint_equals_sorting(keys: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, matrix = np.array(keys, dtype=np.float64), numbered(rng.permutation(len(keys)))
    hint = rng.permutation(len(keys) + 2)[: len(keys)].astype(np.int64)
    order, complete = sort_again(hint, values, matrix)
    twin, twin_complete = plain(sort_again)(hint, values, matrix)
    assert complete
    assert twin_complete
    assert np.array_equal(order, twin)
    assert np.array_equal(order, np.lexsort((matrix[Column.NUMBER], values)))


@settings(max_examples=100)
@given(cases(), st.floats(0, 40))
def test_where_everybody_can_have_the_most_no_order_is_needed(case: Case, capacity: float) -> None:
    jobs = case.matrix.shape[1]
    given = serve_all(case.matrix, jobs, case.most, capacity)
    assert np.array_equal(given, plain(serve_all)(case.matrix, jobs, case.most, capacity))
    fits = case.most.sum() <= capacity and not case.matrix[Column.PINNED].any()
    assert given.shape[1] == (jobs if fits else 0)
    assert given[0].tolist() == (case.most.tolist() if fits else [])


@settings(max_examples=50)
@given(cases(), st.floats(0, 99))
def test_the_small_loops_equal_their_plain_twins(case: Case, now: float) -> None:
    jobs = case.matrix.shape[1]
    left = work_left(case.matrix, jobs, now)
    assert np.array_equal(left, plain(work_left)(case.matrix, jobs, now))
    rows = np.arange(0, jobs, 2)
    numbers, rates, asked = unit_rates(case.matrix, rows, case.least[rows])
    twin_numbers, twin_rates, twin_asked = plain(unit_rates)(case.matrix, rows, case.least[rows])
    assert numbers.tolist() == twin_numbers.tolist()
    assert np.array_equal(rates, twin_rates, equal_nan=True)
    assert asked == twin_asked == np.isnan(rates).any()
    noted, twin_noted = case.matrix.copy(), case.matrix.copy()
    arguments = (case.most, case.matrix[Column.TYPE], case.least)
    changed, total = note_reasons(noted, *arguments)
    twin_changed, twin_total = plain(note_reasons)(twin_noted, *arguments)
    assert changed.tolist() == twin_changed.tolist()
    assert total == twin_total
    assert np.array_equal(noted, twin_noted, equal_nan=True)
