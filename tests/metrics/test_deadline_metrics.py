"""Deadlines: kept, missed, undecided, and what they were worth."""

import numpy as np
from measured_runs import NAN, Ran, outcomes_of

from volvelle.metrics import deadlines
from volvelle.metrics.outcomes import JobStatus
from volvelle.model.job import JobClass, Reward

STRICT = (Reward(10, 100),)
SOFT = (Reward(10, 100), Reward(20, 50.5), Reward(30, 20))


def ran(seconds: float, rewards: tuple[Reward, ...], job_class: JobClass) -> Ran:
    return Ran(5, [(5, 5 + seconds, 1)], rewards=rewards, job_class=job_class)


OUTCOMES = outcomes_of(
    [
        ran(10, STRICT, JobClass.STRICT),  # just in time
        ran(11, STRICT, JobClass.STRICT),
        ran(15, SOFT, JobClass.SOFT),  # earns 50.5 of 100
        ran(99, (), JobClass.BEST_EFFORT),
        Ran(5, status=JobStatus.REJECTED, rewards=STRICT, job_class=JobClass.STRICT),
        Ran(5, status=JobStatus.CANCELLED, rewards=STRICT, job_class=JobClass.STRICT),
        Ran(100, status=JobStatus.WAITING, rewards=STRICT, job_class=JobClass.STRICT),
        Ran(85, status=JobStatus.WAITING, rewards=SOFT, job_class=JobClass.SOFT),
    ],
    end=104,
)


def test_a_deadline_is_that_of_the_full_reward() -> None:
    np.testing.assert_array_equal(
        deadlines.deadline_seconds(OUTCOMES), [10, 10, 10, NAN, 10, 10, 10, 10]
    )
    tied = outcomes_of([ran(1, (Reward(10, 5), Reward(20, 5)), JobClass.SOFT)])
    np.testing.assert_array_equal(deadlines.deadline_seconds(tied), [20])


def test_missed_kept_or_undecided() -> None:
    # the last job is past its first deadline, the one before could still keep its only one
    np.testing.assert_array_equal(deadlines.missed(OUTCOMES), [0, 1, 1, NAN, 1, NAN, NAN, 1])


def test_the_first_deadline_is_missed_though_a_later_one_is_kept() -> None:
    np.testing.assert_array_equal(deadlines.first_missed(OUTCOMES), [0, 1, 1, NAN, 1, NAN, NAN, 1])
    rising = (Reward(10, 5), Reward(20, 50))
    kept_later = outcomes_of([ran(15, rising, JobClass.SOFT)])
    np.testing.assert_array_equal(deadlines.first_missed(kept_later), [1])
    np.testing.assert_array_equal(deadlines.missed(kept_later), [0])


def test_the_value_earned_is_that_of_the_best_step_kept() -> None:
    np.testing.assert_array_equal(
        deadlines.earned_value(OUTCOMES), [100, 0, 50.5, NAN, 0, NAN, NAN, NAN]
    )


def test_weighted_misses_are_one_minus_equation_9() -> None:
    # (50.5 - 1) / (100 - 1) = 0.5
    expected = [0, 1, 0.5, NAN, 1, NAN, NAN, NAN]
    np.testing.assert_array_equal(deadlines.weighted_miss(OUTCOMES), expected)


def test_weighted_misses_do_not_depend_on_the_scale_of_the_rewards() -> None:
    small = tuple(Reward(step.deadline_seconds, step.value / 1000) for step in SOFT)
    jobs = [ran(15, small, JobClass.SOFT), ran(40, small, JobClass.SOFT)]
    np.testing.assert_allclose(deadlines.weighted_miss(outcomes_of(jobs)), [0.5, 1])


def test_a_run_without_deadlines_has_no_misses() -> None:
    outcomes = outcomes_of([ran(1, (), JobClass.BEST_EFFORT)])
    assert np.isnan(deadlines.missed(outcomes)).all()
    assert np.isnan(deadlines.weighted_miss(outcomes)).all()
