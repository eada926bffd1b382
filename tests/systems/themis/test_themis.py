"""Themis: who is worst off, contention as it is counted, leases, partial allocation, and the loops
against their twins."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from growth_cases import Growing, growings, plain
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from volvelle.core import columns
from volvelle.model.cluster import parse_cluster
from volvelle.systems.themis.auction import (
    OWN_COLUMNS,
    after_payments,
    by_rho,
    contention,
    count_events,
    count_seconds,
    hand_out_by_share,
    hand_out_in_order,
    least_share_first,
    most_in_lease,
    rho_terms,
    share_out,
    worst_first,
)
from volvelle.testing.scenario import Scenario, happen, linear_job

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOW = 60.0


def turn_of(case: Growing) -> Ints:
    return np.argsort(case.matrix[columns.NUMBER]).astype(np.int64)


def terms_of(case: Growing) -> Floats:
    """Jobs of a case with what is left to them, on a fair share that makes some rho equal."""
    fair = np.where(case.work > 500.0, 20.0, case.work)
    return np.stack([NOW - case.matrix[columns.SUBMIT], case.work, fair])


def auctioned_slowly(case: Growing, terms: Floats, free: float) -> list[int]:
    """The auction as the module's docstring says it: who wins, one after another."""
    waiting, winners = turn_of(case).tolist(), []
    while free > 0:
        fitting = [row for row in waiting if case.matrix[columns.LEAST, row] <= free]
        if not fitting:
            break
        gpus = {row: min(free, case.matrix[columns.MOST, row]) for row in fitting}
        rho = {row: (terms[0, row] + terms[1, row] / gpus[row]) / terms[2, row] for row in fitting}
        worst = max(rho.values())
        winner = next(row for row in fitting if rho[row] >= worst * (1 - 1e-9))
        winners.append(winner)
        waiting.remove(winner)
        free -= gpus[winner]
    return winners


@settings(max_examples=300)
@given(growings(), st.integers(0, 20))
def test_the_worst_off_wins_and_is_the_same_compiled_plain_and_slow(
    case: Growing, free: int
) -> None:
    terms, turn = terms_of(case), turn_of(case)
    order = worst_first(case.matrix, turn, terms, float(free))
    assert order.tolist() == plain(worst_first)(case.matrix, turn, terms, float(free)).tolist()
    winners = auctioned_slowly(case, terms, float(free))
    assert order[: len(winners)].tolist() == winners
    assert sorted(order.tolist()) == list(range(case.matrix.shape[1]))


@settings(max_examples=100)
@given(growings(), st.integers(1, 20), st.floats(1.0, 9.0))
def test_rho_and_shares_are_the_same_compiled_and_plain(
    case: Growing, gpus: int, mean: float
) -> None:
    m, turn = case.matrix, turn_of(case)
    m[columns.TOTAL], m[columns.SCALE] = case.work, 1.0
    means = np.full(m.shape[1], mean)
    terms = rho_terms(m, case.table, means, NOW, float(gpus))
    assert np.array_equal(terms, plain(rho_terms)(m, case.table, means, NOW, float(gpus)))
    assert np.all(terms[2] > 0)
    loops: list[tuple[Callable[..., Floats | Ints], tuple[object, ...]]] = [
        (by_rho, (m, turn, terms, float(gpus))),
        (least_share_first, (m, turn, case.work, NOW, 10.0)),
        (most_in_lease, (m, case.work, 10.0)),
    ]
    for loop, arguments in loops:
        assert np.array_equal(loop(*arguments), plain(loop)(*arguments))
    by_least = least_share_first(m, turn, case.work, NOW, 10.0)
    share = case.work / (NOW - m[columns.SUBMIT] + 10.0)
    assert np.all(np.diff(share[by_least]) >= -1e-6)


@settings(max_examples=100)
@given(growings(), st.booleans(), st.integers(0, 3))
def test_gpus_are_handed_out_the_same_compiled_and_plain(
    case: Growing, linear: bool, outside: int
) -> None:
    m, terms, turn = case.matrix, terms_of(case), turn_of(case)
    most = most_in_lease(m, case.work, 10.0)
    rows, others = turn[outside:], turn[:outside]
    auction = (m, rows, most, terms, case.free, linear)
    gpus = share_out(*auction)
    assert np.array_equal(gpus, plain(share_out)(*auction))
    kept = after_payments(*auction, gpus)
    assert np.array_equal(kept, plain(after_payments)(*auction, gpus))
    assert np.all((kept <= gpus) & ((kept == 0) | (kept >= m[columns.LEAST])))
    free = case.free - kept.sum()
    by_share = (case.work, NOW, 10.0)
    loops: list[tuple[Callable[..., float], tuple[object, ...]]] = [
        (hand_out_in_order, ()),
        (hand_out_by_share, by_share),
    ]
    for loop, more in loops:
        given_, twin = kept.copy(), kept.copy()
        left = loop(m, others, most, given_, free, *more)
        assert left == plain(loop)(m, others, most, twin, free, *more)
        assert np.array_equal(given_, twin)
        assert left + given_.sum() == case.free
        assert np.all(given_ <= most)
        assert not np.any((given_[others] == 0) & (m[columns.LEAST][others] <= left))


@settings(max_examples=100)
@given(st.data(), st.booleans())
def test_partial_allocation_makes_the_product_of_values_largest(
    data: st.DataObject, linear: bool
) -> None:
    """Against all divisions of up to 7 GPUs among up to 4 jobs that run on one GPU or more."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    jobs = data.draw(st.integers(1, 4))
    free = data.draw(st.integers(jobs, 7))
    matrix = np.zeros((columns.COUNT, jobs))
    matrix[columns.LEAST] = 1.0
    most = rng.integers(1, 6, jobs).astype(float)
    terms = np.stack([rng.uniform(0, 50, jobs), rng.uniform(1, 90, jobs), np.ones(jobs)])
    gpus = share_out(matrix, np.arange(jobs), most, terms, float(free), linear)

    def product(division: Floats) -> float:
        rho = (terms[0] + terms[1] / division) / terms[2]
        return float(np.prod(division if linear else 1.0 / rho))

    divisions = itertools.product(*(range(1, int(each) + 1) for each in most))
    best = max(product(np.array(each)) for each in divisions if sum(each) <= free)
    assert product(gpus) == pytest.approx(best)


def test_a_bidder_pays_for_what_its_presence_takes_from_the_others() -> None:
    """Of 4 GPUs 3 and 2 are wanted: each gets 2. Without the second the first would have 3."""
    matrix = np.zeros((columns.COUNT, 2))
    matrix[columns.LEAST] = 1.0
    most, terms, rows = np.array([3.0, 2.0]), np.ones((3, 2)), np.arange(2)
    gpus = share_out(matrix, rows, most, terms, 4.0, True)
    assert gpus.tolist() == [2.0, 2.0]
    kept = after_payments(matrix, rows, most, terms, 4.0, True, gpus)
    assert kept.tolist() == [2.0, 1.0]  # 2/3 of two GPUs is one whole GPU


@settings(max_examples=100)
@given(st.data())
def test_job_seconds_are_counted_the_same_compiled_and_plain(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    jobs = data.draw(st.integers(1, 6))
    own = rng.integers(0, 5, (OWN_COLUMNS, jobs)).astype(float)
    own[1] += own[0]
    matrix = np.zeros((columns.COUNT, jobs))
    matrix[columns.SUBMIT] = rng.integers(0, 11, jobs)
    twin = own.copy()
    count_seconds(own, matrix, 10.0)
    plain(count_seconds)(twin, matrix, 10.0)
    assert np.array_equal(own, twin)
    own[0] = np.maximum(own[0], 1.0)
    for over_time in (True, False):
        mean = contention(own, matrix, 10.0, over_time)
        assert np.array_equal(mean, plain(contention)(own, matrix, 10.0, over_time))


def test_contention_over_time_is_the_mean_number_of_jobs_in_the_system() -> None:
    """One job alone for 10 s, with a second for 5 s more: 20 job-seconds in 15 s."""
    own, matrix = np.zeros((OWN_COLUMNS, 2)), np.zeros((columns.COUNT, 2))
    matrix[columns.SUBMIT, 1] = 10.0
    for now, jobs in ((0.0, 1), (10.0, 2), (15.0, 2)):
        here = own[:, :jobs]
        count_seconds(here, matrix, now)
        count_events(here, np.arange(jobs), now, 99.0, True)
    assert contention(own, matrix, 15.0, True).tolist() == [20.0 / 15.0, 2.0]


@settings(max_examples=200)
@given(st.data())
def test_events_are_counted_the_same_compiled_and_plain(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    survivors, arrived = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3))
    own = np.zeros((OWN_COLUMNS, survivors + arrived))
    own[0, :survivors] = rng.integers(1, 9, survivors)
    own[1, :survivors] = rng.integers(1, 90, survivors)
    own[2, :survivors] = survivors + rng.integers(0, 3)
    own[3, :survivors] = rng.choice([0.0, 5.0])
    order = np.concatenate([rng.permutation(survivors), np.arange(survivors, own.shape[1])])
    order = order.astype(np.int64)
    twin, running = own.copy(), bool(rng.integers(2))
    count_events(own, order, 10.0, 5.0, running)
    plain(count_events)(twin, order, 10.0, 5.0, running)
    assert np.array_equal(own, twin)
    assert np.all(own[0] >= 1.0)


class Counted:
    """Contention of jobs by name, moment after moment."""

    def __init__(self) -> None:
        self.own = np.zeros((OWN_COLUMNS, 0))
        self.names: list[str] = []

    def moment(self, now: float, ended: str = "", arrived: str = "") -> dict[str, float]:
        keep = [i for i, name in enumerate(self.names) if name not in ended]
        self.names = [self.names[i] for i in keep] + list(arrived)
        self.own = np.hstack([self.own[:, keep], np.zeros((OWN_COLUMNS, len(arrived)))])
        count_events(self.own, np.arange(len(self.names)), now, 10.0, True)
        mean = self.own[1] / self.own[0]
        return dict(zip(self.names, mean.tolist(), strict=True))


def test_contention_is_the_mean_over_events_the_last_one_counting_later() -> None:
    counted = Counted()
    assert counted.moment(0.0, arrived="a") == {"a": 1.0}
    # a has seen its own arrival, twice now; b only itself.
    assert counted.moment(5.0, arrived="b") == {"a": 1.0, "b": 2.0}
    assert counted.moment(15.0) == {"a": 4.0 / 3, "b": 2.0}  # a lease is over
    assert counted.moment(20.0, ended="a") == {"b": 2.0}
    assert counted.moment(30.0) == {"b": 7.0 / 4}


def test_of_two_that_come_together_each_is_an_event() -> None:
    counted = Counted()
    assert counted.moment(0.0, arrived="ab") == {"a": 1.0, "b": 2.0}
    assert counted.own[0].tolist() == [2.0, 1.0]
    assert counted.moment(5.0, arrived="c") == {"a": 4.0 / 3, "b": 2.0, "c": 3.0}


def test_a_lease_that_ends_as_a_job_comes_counts_but_not_as_one_ends() -> None:
    counted = Counted()
    counted.moment(0.0, arrived="a")
    assert counted.moment(10.0, arrived="b") == {"a": 1.0, "b": 2.0}
    assert counted.own[0].tolist() == [3.0, 1.0]
    assert counted.moment(20.0, ended="a") == {"b": 2.0}
    assert counted.own[0].tolist() == [2.0]


def test_the_job_that_is_furthest_behind_has_all_it_can_use_first() -> None:
    """At 10 s the waiting job is at rho = (10 + 40/4) / (40/2) = 1, the other at (10 + 1) / (...)."""
    jobs = [
        linear_job(0, 0.0, 4.0, 30.0, min_gpus=1.0, max_gpus=4.0),
        linear_job(1, 1.0, 4.0, 10.0, min_gpus=1.0, max_gpus=4.0),
    ]
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="themis:lease=10")
    outcomes = happen(scenario).outcomes
    assert outcomes.finish[1] < outcomes.finish[0]
    assert outcomes.first_start[1] > 1.0


def test_without_events_gpus_are_auctioned_anew_after_every_lease() -> None:
    jobs = [linear_job(n, 0.0, 1.0, 60.0) for n in range(2)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="themis:lease=10")
    segments = happen(scenario).outcomes.segments
    assert np.all(segments.start % 10.0 == 0.0)
    assert len(segments.job) > 4


@pytest.mark.parametrize(
    ("filter", "served"), [("0.25", {0}), ("0.5", {0, 1}), ("1", {0, 1, 2, 3})]
)
def test_a_filter_offers_gpus_to_the_share_of_jobs_that_is_worst_off(
    filter: str, served: set[int]
) -> None:
    """The earlier a job came, the further it is behind; on 4 GPUs each can use all of them."""
    jobs = [linear_job(n, 0.0, 4.0, 100.0 + n, min_gpus=1.0, max_gpus=4.0) for n in range(4)]
    policy = f"themis:lease=10,filter={filter},by=share"
    segments = happen(Scenario.of(parse_cluster("1x4"), jobs, policy=policy)).outcomes.segments
    assert set(segments.job[segments.start == 0.0].tolist()) == served


def test_no_job_is_leased_gpus_it_has_no_work_for() -> None:
    jobs = [linear_job(0, 0.0, 4.0, 5.0, min_gpus=1.0, max_gpus=4.0)]
    for policy, gpus in (("themis:lease=10,filter=1", 2.0), ("themis:lease=10", 4.0)):
        outcomes = happen(Scenario.of(parse_cluster("1x4"), jobs, policy=policy)).outcomes
        assert outcomes.segments.gpus.tolist() == [gpus]


def test_turns_pass_on_from_lease_to_lease() -> None:
    jobs = [linear_job(n, 0.0, 1.0, 20.0) for n in range(2)]
    policy = "themis:lease=10,by=share,filter=0.5,ties=turns"
    segments = happen(Scenario.of(parse_cluster("1x1"), jobs, policy=policy)).outcomes.segments
    assert segments.job[np.argsort(segments.start)].tolist() == [0, 1, 0, 1]
