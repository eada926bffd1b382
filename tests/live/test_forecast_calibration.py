"""P50 and P90 of live forecasts: learnt from jobs of all lengths, and steered by what became of the first."""

import math

import pytest

from volvelle.live.forecasts.calibration import ForecastCalibration


def test_without_a_past_p50_is_the_forecast() -> None:
    assert ForecastCalibration().at(10.0).of(30.0) == (30.0, None)


def test_what_remains_counts_as_often_as_of_jobs_that_are_over() -> None:
    calibration = ForecastCalibration()
    for _ in range(30):
        calibration.learn(10.0, 20.0)
    p50, p90 = calibration.at(100.0).of(10_100.0)
    assert p50 == pytest.approx(20_100.0)
    assert p90 == pytest.approx(100.0 + 20_000.0 * 1.005)


@pytest.mark.parametrize("missed", [0, 50])
def test_p90_is_later_after_first_ones_that_did_not_hold(missed: int) -> None:
    calibration = ForecastCalibration()
    for ratio in range(1, 101):
        calibration.learn(100.0, float(ratio))
    for number in range(missed):
        calibration.add_first_forecast(number, 0.0, 1_000.0, (None, 50.0))
    calibration.at(60.0)
    late = calibration.at(60.0).p90_factor
    assert late == pytest.approx(0.91 * 1.005 if missed == 0 else 1.0 * 1.005)


def test_a_job_that_ended_is_judged_once() -> None:
    calibration, twice = ForecastCalibration(), ForecastCalibration()
    for ratio in range(1, 101):
        calibration.learn(100.0, float(ratio))
        twice.learn(100.0, float(ratio))
    for number in range(10):
        for each in (calibration, twice):
            each.add_first_forecast(number, 0.0, 100.0, (40.0, 50.0))
            each.at(60.0)
        twice.at(70.0)
        for each in (calibration, twice):
            each.job_ended(number, 80.0, finished=True)
    assert twice.at(90.0) == calibration.at(90.0)
    assert not math.isnan(calibration.at(90.0).p90_factor)


def test_a_number_that_is_given_again_is_not_judged_by_what_was_told_of_the_first() -> None:
    calibration, fresh = ForecastCalibration(), ForecastCalibration()
    for ratio in range(1, 101):
        calibration.learn(100.0, float(ratio))
        fresh.learn(100.0, float(ratio))
    calibration.add_first_forecast(0, 0.0, 100.0, (40.0, 50.0))
    calibration.job_ended(0, 10.0, finished=False)
    for each in (calibration, fresh):
        each.add_first_forecast(0, 20.0, 200.0, (140.0, 150.0))
    assert calibration.at(60.0) == fresh.at(60.0)
