"""A run against its baseline."""

import numpy as np
import pytest
from measured_runs import NAN, Ran, outcomes_of

from volvelle.metrics.baseline import against, by_pool
from volvelle.metrics.outcomes import JobStatus
from volvelle.model.problems import Problem


def test_gains_and_losses_of_each_job() -> None:
    baseline = outcomes_of([Ran(0, [(0, 40, 1)], id="a"), Ran(0, [(0, 10, 1)], id="b")])
    run = outcomes_of([Ran(0, [(0, 20, 1)], id="b"), Ran(0, [(0, 20, 1)], id="a")])
    compared = against(run, baseline)
    np.testing.assert_array_equal(compared.speed_up, [0.5, 2.0])
    np.testing.assert_array_equal(compared.slowdown_seconds, [10, 0])
    assert compared.mean_speed_up == pytest.approx(1.0)
    assert compared.slowed_fraction == 0.5
    assert (compared.total_slowdown_seconds, compared.worst_slowdown_seconds) == (10, 10)


def test_jobs_that_did_not_finish_in_both_are_not_compared() -> None:
    baseline = outcomes_of([Ran(0, [(0, 10, 1)]), Ran(0, [(0, 10, 1)]), Ran(0, [(0, 10, 1)])])
    run = outcomes_of(
        [
            Ran(0, [(0, 5, 1)]),
            Ran(0, status=JobStatus.WAITING),
            Ran(0, [(0, 5, 1)], tracked=False),
        ]
    )
    compared = against(run, baseline)
    np.testing.assert_array_equal(compared.speed_up, [2.0, NAN, NAN])
    assert compared.compared == 1
    assert compared.worst_slowdown_seconds == 0


def test_a_run_against_itself_gains_nothing() -> None:
    run = outcomes_of([Ran(0, [(1, 9, 1)]), Ran(2, [(9, 11, 1)])])
    compared = against(run, run)
    assert compared.mean_speed_up == 1.0
    assert compared.slowed_fraction == 0.0


def test_runs_of_different_jobs_cannot_be_compared() -> None:
    one, two = (outcomes_of([Ran(0, [(0, 1, 1)], id=name)]) for name in ("a", "b"))
    with pytest.raises(Problem, match=r"job 'a' is in only one.*Compare two runs of the same"):
        against(one, two)
    with pytest.raises(Problem, match="1 jobs and its baseline 0"):
        against(one, outcomes_of([], end=0))


def test_what_each_pool_gained_and_lost() -> None:
    before = [
        Ran(0, [(0, 40, 1)], pool="red"),
        Ran(0, [(0, 10, 1)]),
        Ran(0, [(0, 8, 1)], pool="red"),
    ]
    after = [
        Ran(0, [(0, 20, 1)], pool="red"),
        Ran(0, [(0, 15, 1)]),
        Ran(0, [(0, 9, 1)], pool="red"),
    ]
    run = outcomes_of([*after, Ran(0, [(0, 5, 1)], pool="blue", tracked=False)])
    compared = against(run, outcomes_of([*before, Ran(0, [(0, 1, 1)], pool="blue")]))
    pools = by_pool(run, compared)
    assert list(pools) == ["", "red"]
    assert (pools["red"].compared, pools["red"].slowed) == (2, 1)
    assert pools["red"].total_slowdown_seconds == 1.0
    assert pools[""].worst_slowdown_seconds == 5.0
    assert sum(pool.slowed for pool in pools.values()) == compared.slowed == 2
    assert compared.speed_up_at(100.0) == 2.0
