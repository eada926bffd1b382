"""What Shockwave (NSDI'23) compares itself with: AlloX, Gandiva-Fair and the largest sum of steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Regime, Truth
from volvelle.model.throughput import Linear
from volvelle.systems.allox.matching import cheapest
from volvelle.systems.allox.policy import heads
from volvelle.systems.gandiva_fair.policy import shares_by_tickets
from volvelle.testing.scenario import Scenario, happen, linear_job


def test_shares_of_time_are_proportional_to_tickets() -> None:
    assert shares_by_tickets(np.array([1.0, 3.0]), 1.0) == pytest.approx([0.25, 0.75])


def test_what_one_job_cannot_use_is_shared_by_the_others() -> None:
    """Nine tickets would be worth 2.7 of three GPUs; the two others share what one job leaves."""
    shares = shares_by_tickets(np.array([9.0, 0.5, 0.5]), 2.0)
    assert shares == pytest.approx([1.0, 0.5, 0.5])


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=8), st.floats(0.1, 10.0))
def test_as_many_gpus_are_shared_as_jobs_with_tickets_can_use(
    tickets: list[float], gpus: float
) -> None:
    held = np.array([ticket if ticket > 1e-3 else 0.0 for ticket in tickets])
    shares = shares_by_tickets(held, gpus)
    assert (shares <= 1.0).all()
    assert (shares[held == 0.0] == 0.0).all()
    assert shares.sum() == pytest.approx(min(gpus, np.count_nonzero(held)))


def test_rounds_follow_tickets_whatever_jobs_are_like() -> None:
    """Three of four rounds are for the job with three tickets: its 600 s take 800."""
    heavy = Job(JobSpec(id="heavy", submit_time=0.0, weight=3.0), Truth(work=600.0))
    jobs = [heavy, linear_job(0, 0.0, 1.0, 1e5)]
    run = happen(Scenario.of(parse_cluster("1x1"), jobs, policy="gandiva-fair:round=10"))
    finish = dict(zip([spec.id for spec in run.outcomes.specs], run.outcomes.finish, strict=True))
    assert finish["heavy"] == pytest.approx(800.0, abs=20.0)


def test_the_shortest_jobs_are_at_the_heads_of_queues() -> None:
    """On alike GPUs matching is the order of run times."""
    work = np.array([50.0, 10.0, 40.0, 20.0])
    assert heads(work, np.ones((1, 4)), np.array([2])).tolist() == [-1, 0, -1, 0]


def test_a_job_that_is_alone_quick_on_a_type_is_matched_with_it() -> None:
    rates = np.array([[1.0, 1.0], [0.1, 0.9]])
    assert heads(np.array([10.0, 10.0]), rates, np.array([1, 1])).tolist() == [0, 1]


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1))
def test_of_equal_matchings_it_is_the_one_that_scipy_finds(seed: int) -> None:
    assignment = pytest.importorskip("scipy.optimize").linear_sum_assignment
    rng = np.random.default_rng(seed)
    cost = rng.integers(0, rng.integers(1, 30), rng.integers(1, 12, 2)) * rng.choice([1.0, 0.7])
    column_of = cheapest(cost)
    rows, matched = assignment(cost)
    assert np.flatnonzero(column_of >= 0).tolist() == rows.tolist()
    assert column_of[rows].tolist() == matched.tolist()
    np.testing.assert_array_equal(cheapest.py_func(cost), column_of)


def test_a_job_of_one_gpu_keeps_it_until_it_ends() -> None:
    """A shorter one that comes later waits."""
    jobs = [linear_job(0, 0.0, 1.0, 500.0), linear_job(1, 30.0, 1.0, 20.0)]
    run = happen(Scenario.of(parse_cluster("1x1"), jobs, policy="allox:round=10"))
    assert run.outcomes.finish.tolist() == pytest.approx([500.0, 520.0])


def test_steps_of_a_large_batch_count_less() -> None:
    """Once it has changed, one does two units in a step a second; the other 1.5, in 1.5 steps."""
    regimes = (Regime(0.0, 32, 1.0), Regime(100.0, 64, 2.0))
    jobs = [
        Job(JobSpec(id="changes", submit_time=0.0), Truth(work=1000.0, regimes=regimes)),
        Job(JobSpec(id="steady", submit_time=150.0), Truth(work=450.0, throughput=Linear(1.5))),
    ]
    first = {}
    for steps in ("false", "true"):
        policy = f"gavel-throughput:round=10,steps={steps}"
        run = happen(Scenario.of(parse_cluster("1x1"), jobs, policy=policy))
        first[steps] = float(run.outcomes.finish[1])
    assert first["true"] < first["false"]
