"""What every estimator promises by being registered (`volvelle.testing`), and each of ours beyond."""

import statistics

import msgspec
import numpy as np
import pytest

from volvelle.core.events import JobSubmitted
from volvelle.core.parts import Estimator, estimators
from volvelle.estimate.basic import Noisy
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.world import World
from volvelle.testing import Scenario, estimator_promises, happen, linear_job
from volvelle.testing.estimators import submitted
from volvelle.testing.promises import Promise


@pytest.mark.parametrize(
    ("estimator", "promise"),
    [(name, promise) for name in estimators.all() for promise in estimator_promises.of(name)],
    ids=str,
)
def test_an_estimator_keeps_its_promises(estimator: str, promise: Promise[Estimator]) -> None:
    promise.check(estimator)


def scales(estimator: str, count: int = 4000) -> list[float]:
    made, job = estimators.make(estimator), linear_job(0, 0.0, 1.0, 50.0)
    return [made.believe(submitted(job, number), 3).scale for number in range(count)]


def test_gaussian_noise_has_mean_one_and_the_stated_deviation() -> None:
    drawn = scales("noisy:error=0.2")
    assert statistics.mean(drawn) == pytest.approx(1.0, abs=0.01)
    assert statistics.stdev(drawn) == pytest.approx(0.2, rel=0.05)
    within = np.mean(np.abs(np.array(drawn) - 1.0) < 0.2)
    assert within == pytest.approx(0.683, abs=0.02)


def test_uniform_noise_fills_its_interval_and_no_more() -> None:
    drawn = scales("noisy:error=0.3,shape=uniform")
    assert min(drawn) == pytest.approx(0.7, abs=0.01)
    assert max(drawn) == pytest.approx(1.3, abs=0.01)
    assert statistics.mean(drawn) == pytest.approx(1.0, abs=0.01)
    assert statistics.stdev(drawn) == pytest.approx(0.3 / 3**0.5, rel=0.05)


def test_noise_never_makes_a_remainder_negative() -> None:
    assert min(scales("noisy:error=3")) > 0


def test_noise_of_zero_is_the_oracle() -> None:
    job = linear_job(0, 0.0, 1.0, 50.0)
    assert Noisy(error=0.0).believe(submitted(job), 1).scale == 1.0


def test_history_believes_the_mean_of_name_then_user_then_all() -> None:
    history = estimators.make("history:default=500")
    base = linear_job(0, 0.0, 1.0, 1.0).spec

    def believed(user: str, name: str) -> float:
        spec = msgspec.structs.replace(base, user=user, name=name)
        return history.believe(JobSubmitted(0.0, 0, spec), 0).truth.work

    def learn(user: str, name: str, seconds: float) -> None:
        history.learn(msgspec.structs.replace(base, user=user, name=name), seconds)

    assert believed("ada", "lm") == 500.0
    learn("ada", "lm", 10.0)
    learn("ada", "lm", 30.0)
    learn("ada", "cv", 80.0)
    learn("bo", "cv", 200.0)
    assert believed("ada", "lm") == 20.0
    assert believed("ada", "new") == 40.0
    assert believed("cy", "lm") == 80.0


def test_declared_believes_the_user_and_defaults_otherwise() -> None:
    declared = estimators.make("declared:default=60")
    spec = linear_job(0, 0.0, 4.0, 1.0).spec
    assert declared.believe(JobSubmitted(0.0, 0, spec), 0).truth.work == 240.0
    spec = msgspec.structs.replace(spec, estimate_seconds=10.0)
    assert declared.believe(JobSubmitted(0.0, 0, spec), 0).truth.work == 40.0


def test_orders_receive_the_scaled_remaining_times() -> None:
    jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 0.0, 1.0, 100.0)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="srtf", estimator="noisy:error=0.5")
    noisy = estimators.make("noisy:error=0.5")
    factors = [noisy.believe(submitted(job, n), 0).scale for n, job in enumerate(jobs)]

    def check(world: World) -> None:
        if world.now == 0.0:
            scheduler = world.scheduler
            remaining = scheduler.view().jobs.remaining_seconds
            for number, factor in enumerate(factors):
                row = scheduler.view().jobs.row_of[number]
                assert remaining[row] == pytest.approx(100.0 * factor)

    outcomes = happen(scenario, on_moment=check).outcomes
    first = int(np.argmin(factors))
    assert outcomes.finish[first] == 100.0
    assert outcomes.finish[1 - first] == 200.0
