"""Themis: who is worst off, contention as it is counted, leases, and the loops against their twins."""

import numpy as np
from growth_cases import Growing, growings, plain
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import Scenario, happen, linear_job

from volvelle.core.columns import Column
from volvelle.model.cluster import parse_cluster
from volvelle.policies.themis import count_events, worst_first

Floats = NDArray[np.float64]


@settings(max_examples=200)
@given(growings(), st.integers(0, 12))
def test_the_auction_is_the_same_compiled_and_plain(case: Growing, free: int) -> None:
    by_submission = np.argsort(case.matrix[Column.NUMBER])
    fair = np.where(case.work > 500.0, np.inf, case.work)
    arguments = (case.matrix, by_submission, case.work, fair, 60.0, float(free))
    order = worst_first(*arguments)
    assert order.tolist() == plain(worst_first)(*arguments).tolist()
    assert sorted(order.tolist()) == list(range(case.matrix.shape[1]))


@settings(max_examples=200)
@given(st.data())
def test_events_are_counted_the_same_compiled_and_plain(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    survivors, arrived = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 3))
    own = np.zeros((4, survivors + arrived))
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
        self.own = np.zeros((4, 0))
        self.names: list[str] = []

    def moment(self, now: float, ended: str = "", arrived: str = "") -> dict[str, float]:
        keep = [i for i, name in enumerate(self.names) if name not in ended]
        self.names = [self.names[i] for i in keep] + list(arrived)
        self.own = np.hstack([self.own[:, keep], np.zeros((4, len(arrived)))])
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
        linear_job(0, 0.0, 4.0, 30.0, least=1.0, most=4.0),
        linear_job(1, 1.0, 4.0, 10.0, least=1.0, most=4.0),
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
