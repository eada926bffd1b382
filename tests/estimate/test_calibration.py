"""Calibrated quantiles hold as often as they say, also where the past misleads."""

import math

import numpy as np
import pytest

from volvelle.estimate.calibration import Agreement, Calibration

NONE = np.zeros(0)


def coverage(share: float, ratios: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """How often what is stated for 100 s holds, where jobs take so many times as long."""
    calibration = Calibration(share)
    held = []
    for ratio in ratios.tolist():
        stated = calibration.stated(100.0, NONE)
        if not math.isnan(stated):
            held.append(100.0 * ratio <= stated)
            calibration.steer(stated, 100.0 * ratio)
        calibration.learn(100.0, 100.0 * ratio)
    return float(np.mean(held))


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_a_quantile_holds_as_often_as_it_says(share: float, spread: float) -> None:
    ratios = np.random.default_rng(1).lognormal(0.7, spread, 3000)
    assert coverage(share, ratios) == pytest.approx(share, abs=0.02)


def test_it_follows_a_world_that_grows_slower() -> None:
    rng = np.random.default_rng(2)
    ratios = rng.lognormal(0.0, 0.3, 3000) * np.linspace(1.0, 4.0, 3000)
    assert coverage(0.9, ratios) == pytest.approx(0.9, abs=0.03)


def test_nothing_is_stated_before_there_is_a_past() -> None:
    calibration = Calibration(0.9, least=3)
    for _ in range(2):
        calibration.learn(1.0, 1.0)
        assert math.isnan(calibration.stated(1.0, NONE))
    calibration.learn(1.0, 2.0)
    assert calibration.stated(10.0, NONE) == pytest.approx(20.0)


def test_times_of_no_length_are_not_learnt() -> None:
    calibration = Calibration(0.9, least=1)
    calibration.learn(0.0, 5.0)
    calibration.learn(5.0, 0.0)
    assert math.isnan(calibration.stated(5.0, NONE))


def test_who_is_overdue_counts_with_the_time_so_far() -> None:
    calibration = Calibration(0.9, least=5)
    for _ in range(10):
        calibration.learn(10.0, 10.0)
    assert calibration.stated(10.0, NONE) == pytest.approx(10.0)
    assert calibration.stated(10.0, np.full(5, 7.0)) == pytest.approx(70.0)


def test_long_jobs_that_were_quick_are_not_the_past_of_a_long_one_alone() -> None:
    """Of those that are as long as a burst's only the lucky are over when it comes."""
    calibration = Calibration(0.9)
    for _ in range(200):
        calibration.learn(10.0, 15.0)
    for _ in range(100):
        calibration.learn(10_000.0, 5_000.0)
    assert calibration.stated(10_000.0, NONE) == pytest.approx(15_000.0)


def test_kinds_are_kept_apart_once_enough_of_one_is_known() -> None:
    calibration = Calibration(0.9, least=5)
    for _ in range(40):
        calibration.learn(10.0, 10.0, kind=True)
    for took in (20.0, 30.0, 40.0, 50.0):
        calibration.learn(10.0, took)
    assert calibration.stated(10.0, NONE, asked=0.5) == pytest.approx(20.0)  # 41st of 44
    calibration.learn(10.0, 60.0)
    assert calibration.stated(10.0, NONE) == pytest.approx(60.0)
    assert calibration.stated(10.0, NONE, asked=0.5) == pytest.approx(40.0)
    assert calibration.stated(10.0, NONE, kind=True) == pytest.approx(10.0)
    assert calibration.stated(10.0, np.full(9, 7.0), kind=True) > 60.0


def test_of_the_uncertain_as_many_are_to_hold_as_make_up_for_the_certain() -> None:
    agreement = Agreement(window=10)
    assert agreement.asked(0.9) == 0.9
    for agreed in (True, True, True, False, False):
        agreement.saw(agreed=agreed)
    assert 0.6 + 0.4 * agreement.asked(0.9) == pytest.approx(0.9)
    assert agreement.asked(0.5) == 0.5
    for _ in range(10):
        agreement.saw(agreed=True)
    assert agreement.asked(0.9) == 0.5


def test_where_most_jobs_take_just_as_long_as_stated_half_of_them_are_on_either_side() -> None:
    ratios = np.random.default_rng(3).choice([0.5, 1.0, 2.0], 3000, p=[0.3, 0.6, 0.1])
    calibration = Calibration(0.5, tie=0.5)
    held = []
    for ratio in ratios.tolist():
        stated = calibration.stated(100.0, NONE)
        if not math.isnan(stated):
            held.append(0.5 if stated == pytest.approx(100.0 * ratio) else 100.0 * ratio < stated)
            calibration.steer(stated, 100.0 * ratio)
        calibration.learn(100.0, 100.0 * ratio)
    assert np.mean(held) == pytest.approx(0.6, abs=0.02)  # 0.3, and half of 0.6
    assert calibration.stated(100.0, NONE) == pytest.approx(100.0)


def test_what_did_not_hold_is_made_up_for_by_later_statements() -> None:
    """Fourteen of fifteen hold: enough for a run that begins, not for one in which many did not."""
    stated = {}
    for missed in (0, 60):
        calibration = Calibration(0.9)
        for ratio in range(1, 101):
            calibration.learn(100.0, float(ratio))
        for _ in range(missed):
            calibration.steer(1.0, math.inf)
        for n in range(600):
            calibration.steer(1.0, math.inf if n % 15 == 0 else 0.5)
        stated[missed] = calibration.stated(100.0, NONE)
    assert stated[0] == pytest.approx(82.0)  # of 101, at 0.81
    assert stated[60] > 95.0


def test_what_makes_all_jobs_a_little_late_at_once_is_met_by_slack_and_no_longer_than_needed() -> (
    None
):
    calibration = Calibration(0.9, slack=0.005, least=5)
    for _ in range(10):
        calibration.learn(10.0, 10.0)
    assert calibration.stated(10.0, NONE) == pytest.approx(10.05)
    for _ in range(30):
        calibration.steer(10.0, 9.0)
    assert calibration.stated(10.0, NONE) == pytest.approx(10.0)
    for _ in range(2):
        calibration.steer(10.0, math.inf)
    assert 10.03 < calibration.stated(10.0, NONE) < 10.05
