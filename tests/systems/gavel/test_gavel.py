"""Gavel: programs against their closed forms, incumbents, gaps, refusals."""

import sys
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from volvelle.core.composition import WrittenComposition
from volvelle.core.policy import policies
from volvelle.metrics.catalogue import measure
from volvelle.model.cluster import Pool, parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.model.throughput import Linear, PerBatchSize, PerType
from volvelle.simulate.run import Setting, simulate
from volvelle.systems.gavel.demand import Demand, no_pairs, raise_together
from volvelle.systems.gavel.finish_time import centre, fairest, rho
from volvelle.systems.gavel.hierarchical import GavelHierarchical
from volvelle.systems.gavel.las import normaliser, split_over_types, types_alike, water_level
from volvelle.testing.scenario import Scenario, happen, linear_job
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
    demand = Demand(
        rates=rates,
        gpus=gpus,
        weight=rng.choice([0.5, 1.0, 1.0, 4.0], jobs),
        pool=rng.integers(-1, quotas, jobs),
        capacity=capacity,
        quota=rng.integers(1, 9, quotas).astype(float),
        owned=np.zeros(quotas),
        alike=np.ones(jobs),
        pairs=no_pairs(types),
    )
    return demand._replace(owned=demand.quota)


def check_feasible(demand: Demand, fractions: Floats) -> None:
    assert len(fractions) == len(demand.gpus)
    used = (demand.alike * demand.gpus)[:, None] * fractions
    assert np.all(fractions >= 0)
    assert np.all(fractions[demand.rates == 0] == 0)
    assert np.all(fractions.sum(axis=1) <= 1 + 1e-7)
    assert np.all(used.sum(axis=0) <= demand.capacity + 1e-6)
    for pool, quota in enumerate(demand.quota.tolist()):
        assert used[demand.pool == pool].sum() <= quota + 1e-6


def level_of(demand: Demand, fractions: Floats) -> float:
    """The least normalised throughput over weight of the jobs that can run."""
    level = normaliser(demand) * demand.throughput(fractions) / demand.weight
    return float(level[demand.able].min())


def solve(demand: Demand, seconds: float = 10.0) -> tuple[Floats, float, float]:
    scale = normaliser(demand) / demand.weight
    need = demand.able.astype(float)
    shared = raise_together(demand, scale, need, np.zeros(len(need)), demand.equal_split(), seconds)
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


@pytest.mark.parametrize(("ties", "finish"), [("any", [9000, 15750]), ("alike", [14400, 14400])])
def test_the_fast_type_goes_to_one_of_jobs_alike_or_to_all_in_turn(
    ties: str, finish: list[float]
) -> None:
    jobs = [two_types(number, 4.0, 1.0, 36_000.0) for number in range(2)]
    policy = f"gavel-throughput:round=60,ties={ties}"
    outcomes = happen(Scenario.of(parse_cluster("1x1:a,1x1:b"), jobs, policy=policy)).outcomes
    assert sorted(outcomes.finish) == pytest.approx(finish, rel=0.01)


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


@settings(max_examples=60)
@given(demands(pools=False))
def test_water_filling_leaves_nobody_who_could_rise_at_no_cost_to_the_lower(
    demand: Demand,
) -> None:
    if not demand.able.any():
        return
    policy = GavelHierarchical()
    fractions = policy._fill(demand, np.arange(float(len(demand.gpus))))
    check_feasible(demand, fractions)
    scale = normaliser(demand)
    level = scale * demand.throughput(fractions)
    share = level / policy._weights(demand, demand.able, np.arange(float(len(level))))
    for job in np.flatnonzero(demand.able)[:4].tolist():
        need = np.zeros(len(level))
        need[job] = 1.0
        held = np.where(share <= share[job] * (1 + 1e-6), level, 0.0) * (1 - 1e-7)
        best = raise_together(demand, scale, need, held, fractions, 10.0)
        assert level[job] >= held[job] + best.level - 1e-4 * max(level[job], 1.0)


def in_pool(job: Job, pool: str) -> Job:
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, pool=pool))


def service_in_pools(policy: str) -> list[float]:
    """GPU hours in ten hours on 6 GPUs: three jobs of pool x, then three of y, one GPU each."""
    pools = (Pool("x", 3.0), Pool("y", 3.0))
    cluster = msgspec.structs.replace(parse_cluster("1x2:a,1x4:b"), pools=pools)
    jobs = [in_pool(two_types(n, 2.0, 1.0, 1e6), "x" if n < 3 else "y") for n in range(6)]
    composition = WrittenComposition(policy)
    where = Setting(cluster=cluster, composition=composition, until=36_000.0)
    service: list[float] = (simulate(Workload(jobs), where).outcomes.gpu_seconds / 3600).tolist()
    return service


def test_pools_that_can_have_all_they_want_have_it() -> None:
    assert service_in_pools("gavel-hierarchical") == pytest.approx([10.0] * 6, rel=0.01)


def entity_levels(within: str, weights: tuple[float, float]) -> list[float]:
    """Levels of two jobs of pool 0 and one of pool 1, all of which want 2 of the 2 GPUs."""
    demand = Demand(
        rates=np.full((3, 1), 2.0),
        gpus=np.full(3, 2.0),
        weight=np.array([3.0, 1.0, 1.0]),
        pool=np.array([0, 0, 1]),
        capacity=np.array([2.0]),
        quota=np.array(weights),
        owned=np.array(weights),
        alike=np.ones(3),
        pairs=no_pairs(1),
    )
    policy = GavelHierarchical.model_validate({"within": within})
    fractions = policy._fill(demand, np.array([5.0, 4.0, 6.0]))
    level: list[float] = (normaliser(demand) * demand.throughput(fractions)).tolist()
    return level


def test_an_entitys_weight_is_divided_by_its_jobs_weights() -> None:
    assert entity_levels("fairness", (2.0, 2.0)) == pytest.approx([0.75, 0.25, 1.0])
    assert entity_levels("fairness", (3.0, 1.0)) == pytest.approx([1.125, 0.375, 0.5])


def test_or_goes_to_its_first_job() -> None:
    assert entity_levels("fifo", (3.0, 1.0)) == pytest.approx([0.0, 1.5, 0.5], abs=1e-6)


def finish_times(policy: str, *jobs: Job) -> list[float]:
    scenario = Scenario.of(parse_cluster("1x1:a,1x1:b"), jobs, policy=policy)
    finish: list[float] = happen(scenario).outcomes.finish.tolist()
    return finish


def test_throughput_goes_to_who_does_most_steps() -> None:
    finish = finish_times(
        "gavel-throughput:round=60", two_types(0, 2.0, 1.5), two_types(1, 9.0, 1.0)
    )
    assert finish[1] == pytest.approx(3600 / 9)


def test_cost_prefers_the_cheap_type_where_it_does_more_for_the_money() -> None:
    jobs = [two_types(0, 4.0, 3.0), two_types(1, 4.0, 1.0)]
    finish = finish_times("gavel-cost:prices=a:2/b:1,round=60", *jobs)
    assert finish == pytest.approx([3600 / 3, 3600 / 4])


def test_types_may_be_filled_with_whoever_wants_them_as_in_the_simulator() -> None:
    """When the second job is done, the first is drawn to the dear type that stands idle."""
    jobs = [two_types(0, 4.0, 3.0), two_types(1, 4.0, 1.0)]
    finish = finish_times("gavel-cost:prices=a:2/b:1,round=60,by_type=true", *jobs)
    assert finish == pytest.approx([900 + (3600 - 2700) / 4, 3600 / 4])


def test_makespan_lets_jobs_end_together() -> None:
    """Three jobs of 2, 1 and 1 hours on one GPU each of two: they can all be done in two hours."""
    jobs = [two_types(n, 1.0, 1.0, work) for n, work in enumerate((7200.0, 3600.0, 3600.0))]
    finish = finish_times("gavel-makespan:round=60", *jobs)
    assert max(finish) == pytest.approx(7200, rel=0.01)
    assert min(finish) > 7000


@settings(max_examples=60)
@given(demands(), st.integers(0, 2**32 - 1))
def test_no_other_fractions_are_fairer_by_finish_times(demand: Demand, seed: int) -> None:
    """None of many at random, and none that the interval does not allow."""
    if not demand.able.any():
        return
    rng = np.random.default_rng(seed)
    jobs = len(demand.gpus)
    age, left = rng.uniform(0, 100, jobs), rng.uniform(1, 100, jobs)
    alone = rng.uniform(10, 200, jobs)
    best, gap = fairest(demand, age, left, alone, 10.0)
    check_feasible(demand, best)
    reached = rho(demand, best, age, left, alone)
    assert gap <= 1.1e-3
    split = demand.equal_split()
    assert reached <= rho(demand, split, age, left, alone) * (1 + 1e-9)
    for _ in range(20):
        other = split * rng.uniform(0.5, 1.0, split.shape)
        mixed = 0.5 * best + 0.5 * other
        assert reached <= rho(demand, mixed, age, left, alone) * (1 + 1.1e-3)


@settings(max_examples=20)
@given(demands(alike=True, pools=False), st.integers(0, 2**32 - 1))
def test_the_centre_is_far_from_all_bounds_at_once(demand: Demand, seed: int) -> None:
    """No fractions beside it have a larger product of distances from floors, from 1 and from all GPUs."""
    rng = np.random.default_rng(seed)
    one = demand._replace(capacity=demand.capacity[:1], rates=demand.rates[:, :1])
    floor = rng.uniform(0, 0.9, len(one.gpus))
    floor *= min(1.0, 0.9 * one.capacity[0] / (one.gpus @ floor))

    def distances(x: Floats) -> float:
        all_ = np.concatenate([x - floor, 1 - x, one.capacity - one.gpus @ x])
        return float(np.log(all_).sum()) if all_.min() > 0 else -np.inf

    best = centre(one, floor)
    most = distances(best)
    assert np.isfinite(most)
    for scale in (1e-3, 1e-2, 0.1) * 5:
        assert distances(best + scale * rng.uniform(-1, 1, len(best)) * (1 - floor)) <= most + 1e-9


def test_the_centre_is_refused_where_gpus_are_not_alike() -> None:
    with pytest.raises(Problem, match="on one GPU type without pools"):
        simulate(
            Workload([two_types(0, 1.0, 1.0)]), setting("gavel-ftf:ties=centre", "1x1:a,1x1:b")
        )


def test_a_job_that_has_waited_long_catches_up() -> None:
    """The second job came an hour later and would end as late: finish times make it wait."""
    late = msgspec.structs.replace(two_types(1, 1.0, 1.0, 7200.0))
    late = msgspec.structs.replace(
        late, spec=msgspec.structs.replace(late.spec, submit_time=3600.0)
    )
    jobs = [two_types(0, 1.0, 1.0, 7200.0), two_types(2, 1.0, 1.0, 7200.0), late]
    finish = np.array(finish_times("gavel-ftf:round=60", *jobs))
    assert finish[:2].max() < finish[2]


def test_prices_are_read_or_refused() -> None:
    with pytest.raises(Problem, match="cannot read 'v100' as a GPU type and its price"):
        policies.make("gavel-cost:prices=v100")
    with pytest.raises(Problem, match="GPU type 'a' has none"):
        simulate(Workload([two_types(0, 1.0, 2.0)]), setting("gavel-cost", "1x1:a,1x1:b"))


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
        ("gavel-las", "1x1:a,1x1:b", lambda: linear_job(0, 0.0, 1.0, 60.0, gpu_types=("a",))),
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


def test_without_the_solver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    jobs = Workload([two_types(n, 4.0, 1.0 + n) for n in range(4)])
    with pytest.raises(Problem, match=r"-e '.\[solvers\]'"):
        simulate(jobs, setting("gavel-las", "1x1:a,1x1:b"))
    simulate(jobs, setting("gavel-las", "1x1:a"))  # has a closed form


def test_the_gap_of_the_programs_is_a_metric_of_the_run() -> None:
    jobs = Workload([two_types(n, 4.0, 1.0 + n) for n in range(4)])
    solved = simulate(jobs, setting("gavel-las", "1x1:a,1x1:b")).outcomes
    assert measure(solved, "solver_gap") == 0.0
    hurried = simulate(jobs, setting("gavel-las:time_limit=1e-9", "1x1:a,1x1:b")).outcomes
    assert measure(hurried, "solver_gap") > 0.0
    assert np.all(hurried.finish > 0)
    counted = simulate(jobs, setting("gavel-fifo", "1x1:a,1x1:b")).outcomes
    assert np.isnan(measure(counted, "solver_gap"))
