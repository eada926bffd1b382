"""Optimus' fit of the loss, and what is believed of a job by it."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.core.events import JobSubmitted
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, LossPoint
from volvelle.simulate.world import World
from volvelle.systems.optimus.estimator import Convergence, fit_loss
from volvelle.testing.scenario import Scenario, happen, linear_job


@given(
    a=st.floats(0.01, 10.0), b=st.floats(0.05, 2.0), c=st.floats(0.0, 3.0),
    steps=st.integers(5, 60), scale=st.sampled_from([1.0, 1e-3, 1e6]),
)  # fmt: skip
def test_a_curve_of_this_form_is_found_again(
    a: float, b: float, c: float, steps: int, scale: float
) -> None:
    k = np.arange(steps, dtype=np.float64)
    fit = fit_loss(k * scale, 1.0 / (a * k + b) + c)
    assert min(fit.a, fit.b, fit.c) >= 0
    assert fit.error == pytest.approx(0.0, abs=1e-4 / b)
    later = 1.0 / (a * 2 * steps + b) + c
    assert 1.0 / (fit.a * 2 * steps * scale + fit.b) + fit.c == pytest.approx(later, rel=0.01)


def test_noise_moves_the_fit_but_little() -> None:
    rng = np.random.default_rng(3)
    k = np.arange(200.0)
    true = 1.0 / (0.05 * k + 0.2) + 0.8
    fit = fit_loss(k, true * (1 + 0.01 * rng.standard_normal(200)))
    assert fit.c == pytest.approx(0.8, rel=0.05)
    assert fit.reaches(0.9) == pytest.approx((1 / 0.1 - 0.2) / 0.05, rel=0.5)


@given(st.lists(st.floats(0.1, 10.0), min_size=3, max_size=30))
def test_any_losses_have_a_fit_with_no_negative_number(losses: list[float]) -> None:
    fit = fit_loss(np.arange(len(losses), dtype=np.float64), losses)
    assert min(fit.a, fit.b, fit.c) >= 0
    assert np.isfinite([fit.a, fit.b, fit.c]).all()


def test_a_constant_loss_never_gets_lower() -> None:
    fit = fit_loss([0.0, 1.0, 2.0, 3.0], [2.0, 2.0, 2.0, 2.0])
    assert fit.error == pytest.approx(0.0, abs=1e-6)
    assert fit.reaches(1.0) > 1e5


def early(number: int, at: float, seconds: float) -> Job:
    """A job within 0.1 % of its lowest loss, 1, at the share ``at`` of its work."""
    job = linear_job(number, 0.0, 1.0, seconds)
    r = (9.0 * (1.0 - at) / 0.001 - 1.0) / at
    curve = tuple(
        LossPoint(float(x * seconds), float(1.0 + 9.0 * (1.0 - x) / (1.0 + r * x)))
        for x in np.linspace(0.0, 1.0, 2001)
    )
    spec = msgspec.structs.replace(job.spec, lowest_loss=1.0, estimate_seconds=seconds)
    return Job(spec, msgspec.structs.replace(job.truth, loss_curve=curve))


def test_a_job_is_believed_to_end_where_it_converges() -> None:
    scenario = Scenario.of(
        parse_cluster("1x1"), [early(0, 0.4, 1000.0)],
        estimator="convergence:every=10", termination="loss:every=10",
    )  # fmt: skip
    believed: dict[float, float] = {}

    def look(world: World) -> None:
        jobs = world.scheduler.view().jobs
        if len(jobs):
            believed[world.now] = float(jobs.column("total")[0])

    outcomes = happen(scenario, on_moment=look).outcomes
    assert believed[40.0] == 1000.0  # four losses are too few
    assert believed[100.0] == pytest.approx(400.0, rel=0.02)
    assert outcomes.finish[0] == pytest.approx(400.0, abs=10.0)


def test_optimus_gives_more_to_the_job_that_is_nearly_converged() -> None:
    """By epochs both have as much left; by their losses the second is nearly done."""
    jobs = [early(0, 0.95, 2000.0), early(1, 0.3, 2000.0)]
    jobs = [
        Job(msgspec.structs.replace(job.spec, min_gpus=1.0, max_gpus=4.0), job.truth)
        for job in jobs
    ]
    scenario = Scenario.of(
        parse_cluster("1x5"), jobs, policy="optimus", estimator="convergence:every=50",
        termination="loss:every=10",
    )  # fmt: skip
    held: dict[float, tuple[float, float]] = {}

    def look(world: World) -> None:
        jobs = world.scheduler.view().jobs
        if len(jobs) == 2:
            held[world.now] = (float(jobs.held[0]), float(jobs.held[1]))

    happen(scenario, on_moment=look)
    assert held[0.0] == (3.0, 2.0)
    assert held[max(held)] == (3.0, 2.0) or held[max(held)][0] > held[max(held)][1]
    assert any(first != (3.0, 2.0) for first in held.values())


def test_a_finished_job_is_forgotten_and_forks_hear_their_own_news() -> None:
    estimator = Convergence(least_points=3)
    job = early(0, 0.4, 1000.0)
    fork = estimator.fork()
    for work in (0.0, 100.0, 200.0):
        estimator.observe(job.spec, work, job.truth.loss_at(work))
    assert fork.observe(job.spec, 300.0, job.truth.loss_at(300.0)) is None
    assert estimator.observe(job.spec, 300.0, job.truth.loss_at(300.0)) is not None
    estimator.learn(job.spec, 400.0)
    assert estimator.observe(job.spec, 0.0, 10.0) is None
    assert estimator.believe(JobSubmitted(0.0, 0, job.spec), 0).truth.work == 1000.0
