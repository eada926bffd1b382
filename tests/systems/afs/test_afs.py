"""AFS: who wins a GPU, whose turn it is, and the compiled loop against its plain twin."""

import numpy as np
import pytest
from growth_cases import LINEAR, Growing, elastic, first_shares, growings, plain
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core import columns
from volvelle.core.compiled import compiled
from volvelle.core.fill import ClusterNow
from volvelle.model.cluster import parse_cluster
from volvelle.systems.afs.policy import decide_by_length, grow_by_contest
from volvelle.testing.scenario import Scenario, happen, linear_job

COINS = st.sampled_from([0, 1, 7, 2**31 - 2])


@settings(max_examples=200)
@given(growings(), st.booleans(), COINS)
def test_the_contest_is_the_same_compiled_and_plain(case: Growing, known: bool, coin: int) -> None:
    more = known, coin
    assert case.under(grow_by_contest, *more) == case.under(plain(grow_by_contest), *more)


@settings(max_examples=100)
@given(growings(), st.booleans(), COINS)
def test_gpus_are_left_only_where_nobody_can_use_them(
    case: Growing, known: bool, coin: int
) -> None:
    gpus, left = case.gpus.copy(), case.left.copy()
    more = left, case.table, 0, case.work, known, coin
    free = grow_by_contest(case.matrix, case.rows, gpus, case.free, *more)
    if free >= 1.0:
        assert case.under(grow_by_contest, known, coin)[0] == gpus.tolist()
        again = gpus.copy()
        assert grow_by_contest(case.matrix, case.rows, again, free, *more) == free


@settings(max_examples=200)
@given(growings(), st.integers(0, 14), st.booleans())
def test_the_decision_is_the_same_compiled_and_plain(case: Growing, gpus: int, later: bool) -> None:
    m, jobs = case.matrix, case.matrix.shape[1]
    m[columns.NUMBER] = np.arange(jobs)
    m[columns.TYPES], m[columns.TYPE], m[columns.PINNED] = 1.0, -1.0, 0.0
    m[columns.TOTAL], m[columns.SCALE] = case.work, 1.0
    lends = np.ones(len(case.left))
    cluster = ClusterNow(60.0, np.array([float(gpus)]), case.left, case.left, lends, case.table)
    memory, given_, twin = np.array([float(later)]), np.zeros((4, jobs)), np.zeros((4, jobs))
    compiled(decide_by_length)(m, cluster, memory, given_)
    decide_by_length(m, cluster, memory, twin)
    assert np.array_equal(given_, twin)
    assert given_[0].sum() <= gpus
    assert np.all((given_[0] == 0) | (given_[0] >= m[columns.LEAST]))
    free = gpus - given_[0].sum()
    within = (m[columns.POOL] < 0) | (len(case.left) == 0)
    assert not np.any(within & (given_[0] == 0) & (m[columns.LEAST] <= free))


def test_a_further_gpu_goes_to_the_shorter_of_two_that_scale_alike() -> None:
    jobs = elastic(0, 0.0, 900.0, LINEAR), elastic(1, 0.0, 100.0, LINEAR)
    assert first_shares("afs-l", 3, *jobs) == {0: 1.0, 1: 2.0}


def test_the_longer_job_wins_where_the_shorter_gains_too_little() -> None:
    """r_l(1)/r_l(2) + r_h(2)/r_h(1) = 1.2 + 0.5 < 2."""
    jobs = elastic(0, 0.0, 900.0, LINEAR), elastic(1, 0.0, 100.0, (1.0, 1.2, 1.3, 1.4))
    assert first_shares("afs-l", 3, *jobs) == {0: 2.0, 1: 1.0}


def test_where_there_are_too_many_the_shortest_have_one_gpu_each() -> None:
    jobs = [elastic(n, 0.0, work, LINEAR) for n, work in enumerate([30.0, 10.0, 20.0])]
    assert first_shares("afs-l", 2, *jobs) == {1: 1.0, 2: 1.0}


@pytest.mark.parametrize(("ties", "served"), [("earlier", 0), ("later", 1)])
def test_ties_go_to_the_submission_that_is_asked_for(ties: str, served: int) -> None:
    jobs = [elastic(n, 0.0, 10.0, LINEAR) for n in range(2)]
    assert first_shares(f"afs-l:ties={ties}", 1, *jobs) == {served: 1.0}


def test_a_gang_takes_its_first_step_whole() -> None:
    jobs = [linear_job(0, 0.0, 3.0, 100.0), elastic(1, 0.0, 10.0, LINEAR)]
    assert first_shares("afs-l", 4, *jobs) == {0: 3.0, 1: 1.0}


def test_without_lengths_two_that_scale_alike_share_equally() -> None:
    jobs = [elastic(n, 0.0, 10.0 ** (n + 1), LINEAR) for n in range(2)]
    assert first_shares("afs-p", 4, *jobs) == {0: 2.0, 1: 2.0}


def test_coins_are_fair_and_the_same_for_the_same_seed() -> None:
    """Of two that scale alike one has a GPU more where their number is odd."""
    jobs = [elastic(n, 0.0, 1e4, (1.0, 2.0, 3.0, 4.0, 5.0)) for n in range(2)]
    policies = [f"afs-p:ties=coin,seed={seed}" for seed in range(200)]
    later = [first_shares(policy, 5, *jobs)[1] for policy in policies]
    assert later == [first_shares(policy, 5, *jobs)[1] for policy in policies]
    assert set(later) == {2.0, 3.0}
    assert np.mean(later) == pytest.approx(2.5, abs=4 * 0.5 / np.sqrt(200))  # four standard errors


def test_without_lengths_the_one_that_scales_better_grows() -> None:
    jobs = elastic(0, 0.0, 10.0, LINEAR), elastic(1, 0.0, 900.0, (1.0, 1.2, 1.3, 1.4))
    assert first_shares("afs-p", 4, *jobs) == {0: 3.0, 1: 1.0}


def test_turns_go_round_where_there_are_too_many() -> None:
    jobs = [linear_job(n, 0.0, 1.0, 25.0) for n in range(3)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="afs-p:turn=10")
    outcomes = happen(scenario).outcomes
    order = np.argsort(outcomes.segments.start)
    assert outcomes.segments.job[order].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]
    assert outcomes.finish.tolist() == [65.0, 70.0, 75.0]


def test_a_newcomer_waits_for_a_turn_to_end() -> None:
    jobs = [linear_job(0, 0.0, 1.0, 25.0), linear_job(1, 4.0, 1.0, 5.0)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="afs-p:turn=10")
    assert happen(scenario).outcomes.first_start.tolist() == [0.0, 10.0]


def test_turns_count_from_the_start_however_late_a_job_comes() -> None:
    jobs = [linear_job(0, 1000.0, 1.0, 25.0), linear_job(1, 1004.0, 1.0, 5.0)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="afs-p:turn=10")
    assert happen(scenario).outcomes.first_start.tolist() == [1000.0, 1010.0]
