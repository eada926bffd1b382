"""PCS over GPU types: what weights by type entitle to, exchanges, the closed form, first in first out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from volvelle.core import columns
from volvelle.core.policy import policies
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import Linear, PerBatchSize, PerType
from volvelle.systems.gavel.demand import Demand, no_pairs
from volvelle.systems.pcs.heterogeneous import PcsGavel, fill_alike, fill_queues, own_gpus
from volvelle.systems.pcs.policy import Pcs
from volvelle.systems.pcs.shares import fair_shares, join
from volvelle.testing.scenario import Scenario, happen

pytest.importorskip("highspy", reason="the extra 'solvers' is not installed")

Floats = NDArray[np.float64]


def demand_of(rates: object, gpus: object, capacity: object, quota: object = ()) -> Demand:
    """Jobs with ``rates`` by type, for one GPU, and no pools."""
    wide = np.array(gpus, dtype=float)
    table = np.array(rates, dtype=float) * wide[:, None]
    none = no_pairs(table.shape[1])
    return Demand(
        rates=table,
        gpus=wide,
        weight=np.ones(len(wide)),
        pool=np.full(len(wide), -1),
        capacity=np.array(capacity, dtype=float),
        quota=np.array(quota, dtype=float),
        owned=np.array(quota, dtype=float),
        alike=np.ones(len(wide)),
        pairs=none,
    )


@st.composite
def queued(draw: st.DrawFn, alike: bool = False) -> tuple[Demand, NDArray[np.int64], Floats]:
    """A few jobs on up to three GPU types, in up to three queues with weights by type."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, types, queues = (int(rng.integers(low, high)) for low, high in ((1, 12), (1, 4), (1, 4)))
    capacity = rng.integers(1, 9, types)
    gpus = rng.integers(1, (capacity.min() if alike else capacity.max()) + 1, jobs)
    rates = rng.choice([1.0, 2.0, 2.5, 7.0], (jobs, types))
    rates = rates[:, :1] * np.ones(types) if alike else rates * (gpus[:, None] <= capacity)
    weights = np.exp(-np.outer(np.arange(queues), rng.choice([0.0, 0.5, 3.0], types)))
    return demand_of(rates, gpus, capacity), rng.integers(0, queues, jobs), weights


def filled(demand: Demand, queue: NDArray[np.int64], weights: Floats) -> Floats:
    fractions, gap = fill_queues(demand, queue, weights, np.arange(len(queue)), 600.0)
    assert gap == 0.0
    used = demand.gpus[:, None] * fractions
    assert np.all(fractions >= 0)
    assert np.all(fractions[demand.rates == 0] == 0)
    assert np.all(fractions.sum(axis=1) <= 1 + 1e-7)
    assert np.all(used.sum(axis=0) <= demand.capacity + 1e-6)
    return fractions


def closed_form(demand: Demand, queue: NDArray[np.int64], weights: Floats) -> Floats:
    rows = np.arange(len(queue))
    return fill_alike(rows, demand.gpus, demand.able, queue, weights, demand.capacity)


@settings(max_examples=100)
@given(queued(alike=True))
def test_where_types_are_alike_the_closed_form_solves_the_programs(
    case: tuple[Demand, NDArray[np.int64], Floats],
) -> None:
    demand, queue, weights = case
    closed = closed_form(demand, queue, weights)
    assert filled(*case).sum(axis=1) == pytest.approx(closed, abs=1e-5)


@settings(max_examples=100)
@given(queued(alike=True), st.floats(0.0, 4.0))
def test_with_one_disparity_on_types_that_are_alike_queues_have_the_shares_of_plain_pcs(
    case: tuple[Demand, NDArray[np.int64], Floats], disparity: float
) -> None:
    demand, queue, weights = case
    same = np.exp(-disparity * np.arange(len(weights)))
    fraction = closed_form(demand, queue, same[:, None] * np.ones(weights.shape))
    wanted = np.bincount(queue, demand.gpus, len(weights)).astype(np.float64)
    shares = fair_shares(same, wanted, float(demand.capacity.sum()))
    given_ = np.bincount(queue, fraction * demand.gpus, len(weights))
    assert given_ == pytest.approx(shares, abs=1e-9)
    for each in range(len(weights)):  # first in, first out: all, then a part, then nothing
        mine = fraction[queue == each]
        assert np.all(mine[:-1] >= np.where(mine[1:] > 0, 1.0 - 1e-9, 0.0))


@settings(max_examples=200)
@given(queued())
def test_the_first_of_each_queue_does_as_well_as_on_the_queues_own_gpus(
    case: tuple[Demand, NDArray[np.int64], Floats],
) -> None:
    """Where all of them can use as many GPUs as are their queue's."""
    demand, queue, weights = case
    demand = demand._replace(rates=np.where(demand.rates > 0, demand.rates, 0.5))
    heads = np.array([np.flatnonzero(queue == q)[0] for q in np.unique(queue)])
    rising = np.isin(np.arange(len(weights)), queue)
    own = own_gpus(weights, rising, demand.capacity)[rising]
    gpus = demand.gpus.copy()
    gpus[heads] = np.maximum(gpus[heads], own.sum(axis=1))
    demand = demand._replace(gpus=gpus)
    level = demand.throughput(filled(demand, queue, weights))[heads]
    alone = (own * demand.rates[heads]).sum(axis=1) / gpus[heads]
    assert np.all(level >= alone * (1 - 1e-6))


def test_queues_exchange_types_that_matter_to_one_of_them() -> None:
    """Type a is four times as fast for the small job only: it has all of a, and the large one all of b."""
    demand = demand_of([[4, 1], [1, 1]], gpus=[2, 2], capacity=[2, 2])
    fractions = filled(demand, np.array([0, 1]), np.ones((2, 2)))
    assert fractions == pytest.approx(np.eye(2), abs=1e-6)


def test_a_weight_on_one_type_entitles_to_that_type() -> None:
    """Each can run on either; three quarters of a are the first queue's, and half of b."""
    queue, weights = np.array([0, 1]), np.array([[1.0, 1.0], [1 / 3, 1.0]])
    demand = demand_of([[1, 1], [1, 1]], gpus=[8, 8], capacity=[4, 4])
    assert closed_form(demand, queue, weights) == pytest.approx([5 / 8, 3 / 8])
    bound = demand_of([[1, 0], [1, 0], [0, 1], [0, 1]], gpus=[4, 4, 4, 4], capacity=[4, 4])
    alone = filled(bound, np.array([0, 1, 0, 1]), weights)
    assert alone.sum(axis=1)[:2] == pytest.approx([3 / 4, 1 / 4], abs=1e-6)


def test_the_next_of_a_queue_is_asked_when_the_first_has_all_it_can_use() -> None:
    demand = demand_of([[2, 1]] * 3, gpus=[1, 1, 1], capacity=[1, 1])
    fractions = filled(demand, np.zeros(3, dtype=np.int64), np.ones((1, 2)))
    assert fractions == pytest.approx(np.array([[1, 0], [0, 1], [0, 0]]), abs=1e-6)


def test_pools_that_are_full_hold_nobody_else_down() -> None:
    demand = demand_of([[2, 1]] * 4, gpus=[1] * 4, capacity=[2, 2], quota=[1])
    demand = demand._replace(pool=np.array([0, 0, 0, -1]))
    fractions = filled(demand, np.zeros(4, dtype=np.int64), np.ones((1, 2)))
    assert fractions.sum(axis=1) == pytest.approx([1, 0, 0, 1], abs=1e-6)


def two_types(number: int, a: float, b: float, work: float) -> Job:
    spec = JobSpec(id=f"job-{number}", submit_time=0.0)
    return Job(spec, Truth(work=work, throughput=PerType({"a": Linear(a), "b": Linear(b)})))


def outcomes_of(policy: str, jobs: list[Job]) -> Outcomes:
    return happen(Scenario.of(parse_cluster("1x1:a,1x1:b"), jobs, policy=policy)).outcomes


def test_rounds_give_each_class_the_type_that_is_its_own() -> None:
    """Small jobs gain on a, the large one does not: it has b, though it came first."""
    jobs = [two_types(0, 1.0, 1.0, 36_000.0), *[two_types(n, 4.0, 1.0, 3600.0) for n in (1, 2, 3)]]
    finish = outcomes_of("pcs-gavel:thresholds=1h,round=60", jobs).finish
    assert finish == pytest.approx([36_000, 900, 1800, 2700], rel=0.02)


def test_a_size_is_that_on_the_type_that_is_fastest() -> None:
    """7,200 units at 1 a second, or at 4 on the second type where that will do."""
    matrix = np.zeros((columns.COUNT + 2, 2))
    matrix[[columns.LEAST, columns.SCALE]] = 1.0
    matrix[columns.TOTAL] = 7200.0
    matrix[columns.TYPES] = [1, 3]
    rates = np.array([[[0.0, 1.0], [0.0, 4.0]]])
    join(matrix, 2, columns.COUNT, rates, np.array([3600.0]))
    assert matrix[columns.COUNT :].tolist() == [[2.0, 1.0], [7200.0, 1800.0]]


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(Problem, match="cannot read 'a100' as W of a GPU type"):
        policies.make("pcs-gavel:disparity=a100")
    with pytest.raises(Problem, match="one W, or one for each GPU type"):
        policies.make("pcs-gavel:disparity=2/a100:1")
    with pytest.raises(Problem, match="thresholds must ascend"):
        policies.make("pcs-gavel:thresholds=2/1")
    with pytest.raises(Problem, match="disparity for a, and GPU type 'b' has none"):
        policies.make("pcs-gavel:disparity=a:1").refuse(parse_cluster("1x1:a,1x1:b"), [])


def test_a_search_varies_the_disparity_on_each_type() -> None:
    jobs = [two_types(n, 4.0, 1.0, 100.0 * 2**n) for n in range(8)]
    space = PcsGavel.search_space(jobs)
    assert [dimension.name for dimension in space.dimensions] == ["T", "W_a", "W_b"]
    written = space.write((0.1, 1.0, 2.0))
    made = policies.make(f"pcs-gavel:{written}")
    assert isinstance(made, PcsGavel)
    weights = made.weights(("b", "a"))
    assert weights[1] == pytest.approx(np.exp([-2.0, -1.0]))
    plain = Pcs.search_space(jobs).write((0.1, 1.0, 0.5))
    assert plain.split(",")[0] == written.split(",")[0]  # the same sizes


def test_where_nobody_knows_of_types_a_search_varies_one_disparity() -> None:
    one = PerBatchSize({8: Linear(2.0)}, default=8)
    jobs = [Job(JobSpec(id="x", submit_time=0.0), Truth(work=9.0, throughput=one))]
    space = PcsGavel.search_space(jobs)
    assert [dimension.name for dimension in space.dimensions] == ["T", "W"]
    assert space.write((1.0, 1.5)) == "disparity=1.5"
