"""Optimus: GPUs go where they shorten what is left the most."""

from growth_cases import LINEAR, Growing, elastic, first_shares, growings, plain
from hypothesis import given, settings
from measured_training import training_job

from volvelle.core import columns
from volvelle.core.events import JobSubmitted, TrainingReported
from volvelle.model.cluster import parse_cluster
from volvelle.systems.optimus.policy import grow_by_gain
from volvelle.testing.scenario import Scenario


@settings(max_examples=200)
@given(growings())
def test_growth_by_gain_is_the_same_compiled_and_plain(case: Growing) -> None:
    assert case.under(grow_by_gain) == case.under(plain(grow_by_gain))


@settings(max_examples=100)
@given(growings())
def test_nobody_grows_beyond_what_helps(case: Growing) -> None:
    gpus, _ = case.under(grow_by_gain)
    for row in case.rows:
        now, before = int(gpus[row]), int(case.gpus[row])
        if now > before:
            curve = case.table[int(case.matrix[columns.CURVE, row]), 0]
            assert curve[now] > curve[now - 1]


def test_the_longest_job_gains_most_where_all_scale_alike() -> None:
    jobs = elastic(0, 0.0, 100.0, LINEAR), elastic(1, 0.0, 1000.0, LINEAR)
    assert first_shares("optimus", 4, *jobs) == {0: 1.0, 1: 3.0}


def test_a_job_that_does_not_scale_gets_nothing_more() -> None:
    jobs = elastic(0, 0.0, 100.0, LINEAR), elastic(1, 0.0, 1000.0, (1.0, 1.0, 1.0, 1.0))
    assert first_shares("optimus", 4, *jobs) == {0: 3.0, 1: 1.0}


def test_the_first_gpu_goes_by_submission() -> None:
    jobs = [elastic(n, 0.0, work, LINEAR) for n, work in enumerate([30.0, 10.0, 20.0])]
    assert first_shares("optimus", 2, *jobs) == {0: 1.0, 1: 1.0}


def test_narrow_jobs_are_placed_first_and_reports_say_what_is_left() -> None:
    """The job that told of its epochs is believed nearer its end than the one that told nothing."""
    jobs = [training_job(n, 0.0, 1.0, most=4.0) for n in range(2)]
    view = Scenario.of(parse_cluster("2x4"), jobs, policy="optimus:remaining=reported")
    policy = view.scheduler().composition.policy
    policy.hear(TrainingReported(1.0, 0, 1, jobs[0].truth.work - 1.0))
    scheduler = view.scheduler()
    scheduler.composition = scheduler.composition._replace(policy=policy)
    given = scheduler.handle(
        2.0, [JobSubmitted(2.0, n, job.spec, job.truth) for n, job in enumerate(jobs)]
    )
    assert dict(zip(given.job.tolist(), given.gpus.tolist(), strict=True))[1] == 4.0
