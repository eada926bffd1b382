"""Rates by number of GPUs: one curve for each distinct model, known when a policy asks."""

import numpy as np

from volvelle.core.curves import RateCurves
from volvelle.core.state import Jobs
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Regime, Truth
from volvelle.model.throughput import Linear, PerBatchSize, PerType, Table
from volvelle.simulate.world import World
from volvelle.testing.scenario import Scenario, happen, linear_job

TYPES = ("a", "b")
CAPACITY = np.array([3.0, 2.0])


def jobs_with(curves: int) -> Jobs:
    jobs = Jobs(curves)
    for row in range(curves):
        jobs.number[row], jobs.curve[row] = float(row), -1.0
    return jobs


def curve_of(jobs: Jobs, row: int) -> int:
    return int(jobs.curve[row])


def test_a_curve_says_the_rate_on_each_number_of_gpus_of_each_type() -> None:
    jobs = jobs_with(1)
    truth = Truth(work=1.0, throughput=PerType({"a": Table((2.0, 3.0)), "b": Linear(0.5)}))
    table = RateCurves().table(jobs, range(len(jobs)), lambda number: truth, TYPES, CAPACITY)
    rates = table[curve_of(jobs, 0)]
    assert rates[0].tolist() == [0.0, 2.0, 3.0, 3.0]
    assert rates[1].tolist() == [0.0, 0.5, 1.0, 1.5]


def test_jobs_with_equal_models_share_a_curve() -> None:
    jobs = jobs_with(3)
    models: list[Table | Linear] = [Table((1.0, 1.5)), Linear(2.0), Table((1.0, 1.5))]
    RateCurves().table(
        jobs,
        range(3),
        lambda number: Truth(work=1.0, throughput=models[number]),
        TYPES,
        CAPACITY,
    )
    assert curve_of(jobs, 0) == curve_of(jobs, 2) != curve_of(jobs, 1)


def test_a_job_moves_to_the_curve_of_its_batch_size() -> None:
    jobs = jobs_with(1)
    throughput = PerBatchSize({32: Linear(1.0), 64: Linear(3.0)}, default=32)
    regimes = (Regime(0.0, 32), Regime(10.0, 64, speed=0.5))
    truth = Truth(work=20.0, throughput=throughput, regimes=regimes)
    curves = RateCurves()
    table = curves.table(jobs, range(len(jobs)), lambda number: truth, TYPES, CAPACITY)
    assert table[curve_of(jobs, 0), 0].tolist() == [0.0, 1.0, 2.0, 3.0]
    jobs.done[0], jobs.curve[0] = 10.0, -1.0
    table = curves.table(jobs, range(len(jobs)), lambda number: truth, TYPES, CAPACITY)
    assert table[curve_of(jobs, 0), 0].tolist() == [0.0, 1.5, 3.0, 4.5]


def test_a_joining_node_widens_the_table() -> None:
    jobs = jobs_with(1)
    curves = RateCurves()
    for capacity in (2.0, 5.0, 1.0):
        most = np.array([capacity])
        table = curves.table(jobs, range(len(jobs)), lambda number: Truth(work=1.0), ("",), most)
        assert table[curve_of(jobs, 0), 0, int(capacity)] == capacity


def test_curves_of_jobs_that_have_gone_are_forgotten() -> None:
    jobs = jobs_with(2)
    curves = RateCurves()
    for model in range(1, 400):
        jobs.curve[0] = -1.0
        truth = Truth(work=1.0, throughput=Linear(float(model)))
        table = curves.table(jobs, range(len(jobs)), lambda number, now=truth: now, TYPES, CAPACITY)  # type: ignore[misc]
        assert table[curve_of(jobs, 0), 0, 2] == 2.0 * model
    assert len(table) < 150


def test_a_fork_learns_curves_of_its_own() -> None:
    jobs, curves = jobs_with(1), RateCurves()
    before = curves.table(
        jobs, range(len(jobs)), lambda number: Truth(work=1.0), TYPES, CAPACITY
    ).copy()
    fork = curves.fork()
    other = Truth(work=1.0, throughput=Linear(7.0))
    fork.table(jobs_with(1), range(1), lambda number: other, TYPES, CAPACITY)
    after = curves.table(jobs, range(len(jobs)), lambda number: Truth(work=1.0), TYPES, CAPACITY)
    assert np.array_equal(before, after)


def test_policies_that_do_not_ask_pay_nothing() -> None:
    def check(world: World) -> None:
        assert np.all(world.scheduler.view().jobs.curve == -1)

    jobs = [linear_job(n, float(n), 1.0, 10.0, max_gpus=4.0) for n in range(4)]
    happen(Scenario.of(parse_cluster("1x4"), jobs, policy="max-min"), on_moment=check)


def test_own_jobs_are_copied_and_grow_with_the_others() -> None:
    jobs = Jobs(2, more=2)
    jobs.floats[-1][1] = 5.0
    for one in (jobs, jobs.over_arrays()):
        fork = one.copy()
        fork.floats[-1][1] = 7.0
        fork.grow(4)
        assert len(fork) == 4
        assert list(fork.floats[-1]) == [0.0, 7.0, 0.0, 0.0]
        assert list(one.floats[-1]) == [0.0, 5.0]
