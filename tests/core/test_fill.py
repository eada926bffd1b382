"""Serving all jobs at once: compiled, plain, and against a naive reference."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from volvelle.core import columns
from volvelle.core.compiled import compiled as compile_loop
from volvelle.core.fill import fill, water_fill, work_left
from volvelle.core.state import Reason
from volvelle.model.cluster import parse_cluster
from volvelle.policies.backfill import backfill
from volvelle.testing.audit import audited
from volvelle.testing.scenario import Scenario, linear_job

Floats = NDArray[np.float64]


_BACKFILLS_BY = (
    columns.HELD,
    columns.TYPE,
    columns.POOL,
    columns.GPUS,
    columns.TYPES,
    columns.TOTAL,
)


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
        least: Floats = self.matrix[columns.LEAST]
        return least

    @property
    def most(self) -> Floats:
        most: Floats = self.matrix[columns.MOST]
        return most


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, kinds, pools = draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    capacity = rng.integers(0, 7, kinds).astype(np.float64)
    quota = rng.choice([1.0, 2.0, 2.5, 4.0], pools)
    m = np.zeros((columns.COUNT, jobs))
    m[columns.NUMBER] = rng.permutation(jobs)
    m[columns.LEAST] = rng.integers(1, 5, jobs)
    rigid = rng.random(jobs) < 0.5
    m[columns.GPUS] = m[columns.LEAST] + np.where(rigid, 0, rng.integers(0, 3, jobs))
    m[columns.MOST] = m[columns.GPUS] + np.where(rigid, 0, rng.integers(0, 3, jobs))
    m[columns.TYPES] = rng.integers(1, 2**kinds, jobs)
    m[columns.POOL] = rng.integers(-1, pools, jobs)
    m[columns.PREEMPTIBLE] = rng.random(jobs) < 0.7
    m[columns.TYPE] = -1
    m[columns.FIRST_START] = np.nan
    m[columns.RATE] = 1.0
    m[columns.TOTAL] = rng.integers(1, 50, jobs)
    free, left = capacity.copy(), quota.copy()
    for row in np.flatnonzero(rng.random(jobs) < 0.5):
        kind, pool = int(rng.integers(kinds)), int(m[columns.POOL, row])
        gpus = float(rng.integers(m[columns.LEAST, row], m[columns.MOST, row] + 1))
        wished = int(m[columns.TYPES, row]) >> kind & 1
        if wished and gpus <= free[kind] and (pool < 0 or gpus <= left[pool]):
            m[columns.HELD, row], m[columns.TYPE, row] = gpus, kind
            m[columns.PINNED, row] = rng.random() < 0.2
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
        if jobs[row][columns.POOL] >= 0:
            left[int(jobs[row][columns.POOL])] -= gpus
        given.setdefault(row, [0.0, kind])[0] += gpus

    for row, job in enumerate(jobs):
        stays = not preemptive or job[columns.PINNED] or not job[columns.PREEMPTIBLE]
        if job[columns.HELD] and stays:
            elastic = job[columns.LEAST] < job[columns.MOST] and not job[columns.PINNED]
            least = min(job[columns.HELD], job[columns.LEAST]) if elastic else job[columns.HELD]
            take(row, least, int(job[columns.TYPE]))
    reasons = [Reason.NONE] * len(jobs)
    blocked = False
    for row in case.order.tolist():
        job = jobs[row]
        pool = int(job[columns.POOL])

        def room(kind: int, pool: int = pool) -> float:
            return float(min(free[kind], left[pool] if pool >= 0 else np.inf))

        if row in given:
            have, kind = given[row][0], int(given[row][1])
            while (
                job[columns.LEAST] < job[columns.MOST]
                and not job[columns.PINNED]
                and given[row][0] < job[columns.MOST]
                and room(kind) >= 1
            ):
                take(row, 1.0, kind)
            assert given[row][0] >= have
            continue
        wished = [k for k in range(len(free)) if int(job[columns.TYPES]) >> k & 1]
        held = int(job[columns.TYPE])
        kinds = [*([held] if held >= 0 else []), *wished]
        fitting = [k for k in kinds if room(k) >= job[columns.LEAST]]
        if blocked or not fitting:
            over = pool >= 0 and left[pool] < job[columns.LEAST]
            none_left = sum(free) <= 0
            short = Reason.QUOTA if over and not none_left else Reason.GPUS
            reasons[row] = Reason.ORDER if blocked else short
            blocked = strict
            continue
        take(row, job[columns.LEAST], fitting[0])
        while given[row][0] < job[columns.MOST] and room(fitting[0]) >= 1:
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


def test_a_job_grows_by_whole_gpus_where_parts_leave_less_than_a_whole_number_by_rounding() -> None:
    """With what is there at once, and in a run, where three parts of 0.3 came and went."""
    matrix = np.zeros((columns.COUNT, 1))
    matrix[columns.HELD], matrix[columns.POOL] = 1.0, -1.0
    capacity = np.array([np.nextafter(4.0, 0.0)])
    one, most = np.ones(1), np.full(1, 4.0)
    given = fill(matrix, np.arange(1), one, most, capacity, np.zeros(0), False, False)
    assert given[0, 0] == 4.0

    jobs = [linear_job(n, 0.0, 0.3, seconds) for n, seconds in enumerate([10.0, 20.0, 15.0])]
    jobs.append(linear_job(3, 5.0, 3.0, 500.0, min_gpus=1.0, max_gpus=4.0, preemptible=False))
    run = audited(Scenario.of(parse_cluster("1x4"), jobs))
    assert run.outcomes.segments.gpus.tolist()[-1] == 4.0


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
    compiled = compile_loop(backfill)
    ends = case.matrix[columns.TOTAL]
    arguments = (case.matrix, case.order, ends, case.capacity, case.quota)
    assert np.array_equal(compiled(*arguments), backfill(*arguments))


@settings(max_examples=100)
@given(cases(), st.floats(0, 9))
def test_water_fill_equals_its_plain_twin_and_is_fair(case: Case, free: float) -> None:
    start = np.where(case.matrix[columns.HELD] > 0, case.least, 0.0)
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
    pool = case.matrix[columns.POOL].astype(np.int64)
    for row in np.flatnonzero((start > 0) & (case.matrix[columns.PINNED] == 0)):
        could_grow = target[row] + 1 <= case.most[row] and (pool[row] < 0 or left[pool[row]] >= 1)
        if could_grow:  # it stopped only because the GPUs ran out: in the same round as the others
            assert rest < 1
            assert raised[row] >= raised.max() - 1


@settings(max_examples=50)
@given(cases(), st.floats(0, 99))
def test_the_work_left_equals_its_plain_twin(case: Case, now: float) -> None:
    jobs = case.matrix.shape[1]
    left = work_left(case.matrix, jobs, now)
    assert np.array_equal(left, plain(work_left)(case.matrix, jobs, now))
