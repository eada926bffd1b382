"""Promises of estimators."""

import pytest
from hypothesis import strategies as st

from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.core.parts import Estimator, estimators
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.simulate.world import World
from volvelle.testing.machine_code import check_machine_code, small_setting
from volvelle.testing.promises import Promises, on_random
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.testing.strategies import KNOWN, scenarios

estimator_promises: Promises[Estimator] = Promises(estimators.make)


def submitted(job: Job, number: int = 0, *, truth: bool = True) -> JobSubmitted:
    """The submission of ``job``, with the truth about it or without."""
    return JobSubmitted(job.spec.submit_time, number, job.spec, job.truth if truth else None)


@estimator_promises.promise()
def beliefs_are_positive_and_repeatable(estimator: str) -> None:
    """Two estimators that learn the same believe the same."""

    def check(scenario: Scenario, seed: int) -> None:
        one, other = estimators.make(estimator), estimators.make(estimator)
        for number, job in enumerate(scenario.jobs):
            belief = one.believe(submitted(job, number), seed)
            assert belief.truth.work > 0
            assert belief.scale > 0
            assert belief == other.believe(submitted(job, number), seed)
            one.learn(job.spec, 10.0 + number)
            other.learn(job.spec, 10.0 + number)

    on_random(15, check, scenario=scenarios(KNOWN), seed=st.integers(0, 99))


@estimator_promises.promise()
def its_parent_does_not_know_what_a_fork_learns(estimator: str) -> None:
    """Memory is copied by `fork`."""
    parent = estimators.make(estimator)
    job = linear_job(0, 0.0, 1.0, 50.0)
    before = parent.believe(submitted(job), 0)
    parent.fork().learn(job.spec, 7.0)
    assert parent.believe(submitted(job), 0) == before


@estimator_promises.promise()
def no_job_is_forecast_to_finish_in_the_past(estimator: str) -> None:
    """Forecasts by its beliefs cover all jobs and only the future."""

    def check(scenario: Scenario, policy: str) -> None:
        def look(world: World) -> None:
            foreseen = Fork(world.scheduler).until()
            assert set(foreseen.finish) == set(world.scheduler.known)
            assert all(finish >= world.now * (1 - 1e-12) for finish in foreseen.finish.values())

        happen(scenario.under(policy, estimator=estimator), on_moment=look)

    under = st.sampled_from(["fifo", "srtf", "easy", "las:round=30"])
    on_random(8, check, scenario=scenarios(KNOWN), policy=under)


@estimator_promises.promise()
def a_job_alone_is_forecast_to_take_what_its_view_says_remains(estimator: str) -> None:
    """A policy's view and a forecast agree."""
    jobs = [linear_job(0, 0.0, 2.0, 100.0), linear_job(1, 30.0, 1.0, 1.0)]
    scenario = Scenario.of(parse_cluster("1x4"), jobs, estimator=estimator)
    seen: list[float] = []

    def look(world: World) -> None:
        scheduler = world.scheduler
        if world.now == 30.0:
            remaining = scheduler.view().jobs.remaining_seconds[scheduler.view().jobs.row_of[0]]
            seen.append(world.now + float(remaining))
            seen.append(Fork(scheduler).until().finish[0])

    happen(scenario, on_moment=look)
    assert seen[0] == pytest.approx(seen[1])


@estimator_promises.promise(lambda estimator: estimator.needs_truth)
def a_job_without_its_truth_is_refused(estimator: str) -> None:
    """An estimator that needs the truth says so."""
    job = linear_job(0, 0.0, 1.0, 50.0)
    with pytest.raises(RuntimeError, match="needs the truth about job 'job-0'"):
        estimators.make(estimator).believe(submitted(job, truth=False), 0)


@estimator_promises.promise(lambda estimator: not estimator.needs_truth)
def the_truth_is_ignored(estimator: str) -> None:
    """An estimator that does not need the truth believes the same without it."""
    made, job = estimators.make(estimator), linear_job(0, 0.0, 1.0, 50.0)
    assert made.believe(submitted(job), 0) == made.believe(submitted(job, truth=False), 0)


@estimator_promises.promise()
def machine_code_predicts_and_measures_the_same(estimator: str) -> None:
    """Predictions, the choices of a synthesizer and figures of a search, compiled and interpreted."""
    check_machine_code(small_setting(estimator=estimator))
