"""Told times hold in each class of observable state, from the first job on."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.estimate.told import Memory, Observed, ToldTimes, state_classes

CALM = Observed(load=3.0, arrivals=1.0, service=100.0, width=1.0)
BURST = Observed(load=300.0, arrivals=200.0, service=100.0, width=1.0)


def crowd(jobs: int, seed: int = 1) -> tuple[ToldTimes[int], dict[str, list[bool]]]:
    """Jobs that take some 1.0 times the prediction when calm, and some 8 times it in a burst."""
    rng, told = np.random.default_rng(seed), ToldTimes[int]()
    held: dict[str, list[bool]] = {"calm": [], "burst": []}
    for number in range(jobs):
        now, bursting = 1000.0 * number, number // 50 % 3 == 2
        observed = BURST if bursting else CALM
        times = told.submit(number, now, observed, 100.0)
        took = 100.0 * rng.lognormal(math.log(8.0) if bursting else 0.0, 0.4)
        told.finish(number, now + took)
        held["burst" if bursting else "calm"].append(took <= times.p90)
    return told, held


def test_p90_holds_in_each_class_of_state_and_is_no_wider_than_its_class_asks() -> None:
    told, held = crowd(3000)
    for kept in held.values():
        assert 0.86 <= np.mean(kept) <= 0.94
    assert told.ask(CALM, 100.0).p90 < 300.0 < 800.0 < told.ask(BURST, 100.0).p50 * 1.25


def test_from_the_first_job_on_times_are_told_from_a_prior_that_says_so() -> None:
    told = ToldTimes[int]()
    first = told.submit(0, 0.0, CALM, 100.0, limit_seconds=1000.0)
    assert first.prior
    assert first.p50 == pytest.approx(100.0)
    assert first.p90 == pytest.approx(1000.0)
    assert 200.0 < told.ask(CALM, 100.0).p90 < 500.0
    told, _ = crowd(19)
    assert told.ask(CALM, 100.0).prior
    told, _ = crowd(20)
    assert not told.ask(CALM, 100.0).prior


def test_jobs_that_still_wait_count_once_the_time_that_they_were_told_has_passed() -> None:
    told, _ = crowd(300)
    for number in range(300, 330):
        told.submit(number, 4e5, CALM, 100.0)
    before = told.ask(CALM, 100.0).p90
    told.pass_time(4e5 + 10_000.0)
    after = told.ask(CALM, 100.0).p90
    assert after > 1.2 * before
    told.pass_time(4e5 + 20_000.0)
    assert told.ask(CALM, 100.0).p90 == after


def test_a_key_that_is_given_again_is_not_judged_by_what_was_told_of_the_first() -> None:
    told, fresh = crowd(100)[0], crowd(100)[0]
    told.submit(7, 2e5, CALM, 10.0)
    told.withdraw(7)
    for each in (told, fresh):
        each.submit(7, 2e5 + 1.0, CALM, 1000.0)
        each.pass_time(2e5 + 200.0)
    assert told.ask(CALM, 100.0) == fresh.ask(CALM, 100.0)


def test_memory_is_plain_and_goes_on_where_it_was_saved() -> None:
    told, _ = crowd(2500)
    saved = msgspec.json.decode(msgspec.json.encode(told.memory()), type=Memory)
    again = ToldTimes[int](saved)
    for observed in (CALM, BURST):
        assert again.ask(observed, 100.0) == told.ask(observed, 100.0)
    elsewhere = ToldTimes[int](msgspec.structs.replace(saved, ended=0))
    assert elsewhere.ask(BURST, 100.0).prior
    assert elsewhere.ask(BURST, 100.0).p90 == told.ask(BURST, 100.0).p90


def test_starts_that_are_predicted_at_once_have_quantiles_too() -> None:
    told = ToldTimes[int](offset_seconds=60.0)
    for number in range(200):
        told.submit(number, 1e4 * number, CALM, 0.0)
        told.finish(number, 1e4 * number + (0.0 if number % 4 else 600.0))
    times = told.ask(CALM, 0.0)
    assert times.p50 < 30.0
    assert times.p90 >= 500.0


@given(st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e9)), max_size=60))
def test_p90_is_never_before_p50_nor_before_now(took: list[tuple[float, float]]) -> None:
    told = ToldTimes[int]()
    for number, (predicted, actual) in enumerate(took):
        times = told.submit(number, 1e10 * number, CALM, predicted)
        assert 0.0 <= times.p50 <= times.p90 < math.inf
        told.finish(number, 1e10 * number + actual)


def test_classes_of_state_are_numbered_by_their_upper_bounds() -> None:
    assert state_classes(CALM) == (0, 0, 0, 0)
    assert state_classes(BURST._replace(width=2.0)) == (4, 4, 0, 1)
