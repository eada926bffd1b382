"""Gavel: programs against their closed forms, incumbents, gaps, refusals."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import Scenario, happen, linear_job

from volvelle.core.composition import WrittenComposition
from volvelle.metrics.catalogue import measure
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import Linear, PerBatchSize, PerType
from volvelle.policies.gavel.demand import Demand, raise_together
from volvelle.policies.gavel.las import normalised, split_over_types, types_alike, water_level
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.workload import Workload

pytest.importorskip("highspy", reason="the extra 'solvers' is not installed")

Floats = NDArray[np.float64]


@st.composite
def demands(draw: st.DrawFn, alike: bool = False, pools: bool = True) -> Demand:
    """A few jobs on up to three GPU types; ``alike``: every type as fast to everybody."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, types = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    quotas = int(rng.integers(0, 3)) if pools else 0
    capacity = rng.integers(1, 9, types).astype(float)
    least = int(capacity.min()) if alike else int(capacity.max())
    gpus = rng.integers(1, least + 1, jobs).astype(float)
    rates = rng.choice([1.0, 2.0, 2.5, 7.0], (jobs, types)) * gpus[:, None]
    rates = rates[:, :1] * np.ones(types) if alike else rates * (gpus[:, None] <= capacity)
    return Demand(
        rates=rates,
        gpus=gpus,
        weight=rng.choice([0.5, 1.0, 1.0, 4.0], jobs),
        pool=rng.integers(-1, quotas, jobs),
        capacity=capacity,
        quota=rng.integers(1, 9, quotas).astype(float),
        alike=np.ones(jobs),
    )


def check_feasible(demand: Demand, fractions: Floats) -> None:
    used = (demand.alike * demand.gpus)[:, None] * fractions
    assert np.all(fractions >= 0)
    assert np.all(fractions[demand.rates == 0] == 0)
    assert np.all(fractions.sum(axis=1) <= 1 + 1e-7)
    assert np.all(used.sum(axis=0) <= demand.capacity + 1e-6)
    for pool, quota in enumerate(demand.quota.tolist()):
        assert used[demand.pool == pool].sum() <= quota + 1e-6


def level_of(demand: Demand, fractions: Floats) -> float:
    """The least normalised throughput over weight of the jobs that can run."""
    worth = (normalised(demand) * fractions).sum(axis=1) / demand.weight
    return float(worth[demand.able].min())


def solve(demand: Demand, seconds: float = 10.0) -> tuple[Floats, float, float]:
    worth = normalised(demand) / demand.weight[:, None]
    need = demand.able.astype(float)
    shared = raise_together(demand, worth, need, np.zeros(len(need)), demand.equal_split(), seconds)
    return shared.fractions, shared.level, shared.gap


@settings(max_examples=100)
@given(demands(alike=True, pools=False))
def test_where_types_are_alike_the_closed_form_solves_the_program(demand: Demand) -> None:
    assert types_alike(demand)
    fraction = water_level(demand)
    fractions = split_over_types(demand, fraction)
    check_feasible(demand, fractions)
    _, level, gap = solve(demand)
    assert gap == 0.0
    assert level_of(demand, fractions) == pytest.approx(level, rel=1e-6)
    given = float(demand.gpus @ fraction)
    assert given == pytest.approx(min(demand.gpus.sum(), demand.capacity.sum()))


@settings(max_examples=100)
@given(demands())
def test_jobs_alike_share_alike_at_no_loss(demand: Demand) -> None:
    if not demand.able.any():
        return
    groups, group = demand.grouped()
    together, level, _ = solve(groups)
    apart, _, _ = solve(demand)
    check_feasible(demand, together[group])
    assert level_of(demand, together[group]) == pytest.approx(level, rel=1e-6)
    assert level_of(demand, apart) == pytest.approx(level, rel=1e-6, abs=1e-9)


@settings(max_examples=100)
@given(demands())
def test_an_incumbent_is_at_hand_before_the_solver_starts(demand: Demand) -> None:
    split = demand.equal_split()
    check_feasible(demand, split)
    for pool, quota in enumerate(demand.quota.tolist()):
        assert quota > 0
        assert np.all(split[(demand.pool == pool) & demand.able].sum(axis=1) > 0)


@settings(max_examples=20)
@given(demands())
def test_without_time_the_incumbent_stands_and_the_gap_says_how_far_off_it_may_be(
    demand: Demand,
) -> None:
    if not demand.able.any():
        return
    fractions, level, gap = solve(demand, seconds=1e-9)
    _, best, _ = solve(demand)
    check_feasible(demand, fractions)
    assert level_of(demand, fractions) >= level - 1e-7
    assert best <= level * (1 + gap) + 1e-6
    if level < best * (1 - 1e-6):
        assert gap > 0


def two_types(number: int, a: float, b: float, seconds: float = 3600.0) -> Job:
    spec = JobSpec(id=f"job-{number}", submit_time=0.0)
    return Job(spec, Truth(work=seconds, throughput=PerType({"a": Linear(a), "b": Linear(b)})))


def test_types_go_to_those_who_make_most_of_them() -> None:
    """One GPU of each type; the first job is four times as fast on a, the second knows no difference."""
    jobs = [two_types(0, 4.0, 1.0), two_types(1, 1.0, 1.0)]
    scenario = Scenario.of(parse_cluster("1x1:a,1x1:b"), jobs, policy="gavel-las:round=60")
    outcomes = happen(scenario).outcomes
    assert outcomes.finish[0] == pytest.approx(3600 / 4, rel=0.1)


def test_who_does_not_know_types_gives_each_its_part_of_each() -> None:
    jobs = [two_types(n, 4.0, 1.0, 36_000.0) for n in range(2)]
    policy = "gavel-las:round=60,aware=false"
    scenario = Scenario.of(parse_cluster("1x1:a,1x1:b"), jobs, policy=policy)
    finish = happen(scenario).outcomes.finish
    assert finish == pytest.approx([36_000 / 2.5] * 2, rel=0.05)


def test_fifo_moves_to_a_faster_type_when_it_comes_free() -> None:
    jobs = [two_types(0, 4.0, 1.0, 400.0), two_types(1, 4.0, 1.0, 800.0)]
    cluster = parse_cluster("1x1:a,1x1:b")
    aware = happen(Scenario.of(cluster, jobs, policy="gavel-fifo:round=100")).outcomes
    assert aware.finish.tolist() == [100.0, 100.0 + 700 / 4]


def test_fifo_waits_behind_a_job_that_does_not_fit() -> None:
    jobs = [linear_job(0, 0, 3, 100), linear_job(1, 0, 2, 100), linear_job(2, 0, 1, 100)]
    policy = "gavel-fifo:round=10"
    outcomes = happen(Scenario.of(parse_cluster("1x4"), jobs, policy=policy)).outcomes
    assert outcomes.first_start.tolist() == [0.0, 100.0, 100.0]


def setting(policy: str, cluster: str, estimator: str = "oracle") -> Setting:
    composition = WrittenComposition(policy, estimator=estimator)
    return Setting(cluster=parse_cluster(cluster), composition=composition)


def blind_job() -> Job:
    return linear_job(0, 0.0, 1.0, 60.0)


def test_jobs_whose_rates_by_type_are_unknown_are_refused() -> None:
    with pytest.raises(Problem, match=r"not known of 1 jobs \(the first is 'job-0'\)"):
        simulate(Workload([blind_job()]), setting("gavel-las", "1x1:a,1x1:b"))


@pytest.mark.parametrize(
    ("policy", "cluster", "job"),
    [
        ("gavel-las", "1x2:a", blind_job),
        ("gavel-las:aware=false", "1x1:a,1x1:b", blind_job),
        ("gavel-las", "1x1:a,1x1:b", lambda: linear_job(0, 0.0, 1.0, 60.0, types=("a",))),
        ("gavel-las", "1x1:a,1x1:b", lambda: two_types(0, 1.0, 2.0)),
    ],
)
def test_they_are_served_where_types_do_not_matter_or_are_known(
    policy: str, cluster: str, job: Callable[[], Job]
) -> None:
    outcomes = simulate(Workload([job()]), setting(policy, cluster)).outcomes
    assert np.all(outcomes.finish > 0)


def test_an_estimator_that_does_not_know_rates_is_refused_too() -> None:
    with pytest.raises(Problem, match="an estimator that knows them"):
        simulate(
            Workload([two_types(0, 1.0, 2.0)]), setting("gavel-las", "1x1:a,1x1:b", "declared")
        )


def test_a_model_by_batch_size_knows_types_where_all_of_its_models_do() -> None:
    typed, blind = PerType({"a": Linear(1.0), "b": Linear(2.0)}), Linear(1.0)
    for models, known in (((typed, typed), True), ((typed, blind), False)):
        throughput = PerBatchSize(dict(enumerate(models)), default=0)
        job = Job(JobSpec(id="x", submit_time=0.0), Truth(work=60.0, throughput=throughput))
        where = setting("gavel-las", "1x1:a,1x1:b")
        if known:
            simulate(Workload([job]), where)
        else:
            with pytest.raises(Problem):
                simulate(Workload([job]), where)


def test_the_gap_of_the_programs_is_a_metric_of_the_run() -> None:
    jobs = Workload([two_types(n, 4.0, 1.0 + n) for n in range(4)])
    solved = simulate(jobs, setting("gavel-las", "1x1:a,1x1:b")).outcomes
    assert measure(solved, "solver_gap") == 0.0
    hurried = simulate(jobs, setting("gavel-las:time_limit=1e-9", "1x1:a,1x1:b")).outcomes
    assert measure(hurried, "solver_gap") > 0.0
    assert np.all(hurried.finish > 0)
    counted = simulate(jobs, setting("gavel-fifo", "1x1:a,1x1:b")).outcomes
    assert np.isnan(measure(counted, "solver_gap"))
