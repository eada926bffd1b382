"""Arrival processes keep their mean gap and have the rhythm that their parameters say."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.model.arrays import FloatColumn
from volvelle.model.units import DAY, HOUR
from volvelle.workload.describe import dispersion
from volvelle.workload.generators.arrivals import (
    WEEK,
    ArrivalProcess,
    Batches,
    Bursty,
    Diurnal,
    Poisson,
)

PROCESSES = [
    Poisson(),
    Bursty(burst=600.0),
    Batches(),
    Diurnal(),
    Diurnal(within=Batches()),
    Diurnal(within=Bursty(burst=600.0)),
]


def hourly(times: FloatColumn) -> FloatColumn:
    return np.bincount((times // HOUR).astype(np.int64)).astype(np.float64)


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_the_mean_gap_is_kept(process: ArrivalProcess) -> None:
    times = process.times(np.random.default_rng(1), 200_000, 20 * WEEK / 200_000)
    assert np.all(np.diff(times) >= 0)
    assert times[-1] == pytest.approx(20 * WEEK, rel=0.04)


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
@given(count=st.integers(0, 300), gap=st.floats(0.01, 1e5), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_any_count_gives_that_many_ascending_times(
    process: ArrivalProcess, count: int, gap: float, seed: int
) -> None:
    times = process.times(np.random.default_rng(seed), count, gap)
    assert len(times) == count
    assert np.all(np.diff(times) >= 0)
    assert np.all(np.isfinite(times)) and np.all(times >= 0)


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_times_until_stop_at_the_length(process: ArrivalProcess) -> None:
    lengths = [process.times_until(np.random.default_rng(seed), WEEK, 60.0) for seed in range(40)]
    assert all(times[-1] < WEEK for times in lengths)
    assert np.mean([len(times) for times in lengths]) == pytest.approx(WEEK / 60.0, rel=0.03)


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(Poisson().times(np.random.default_rng(2), 100_000, 10.0))
    shares = np.arange(1, len(gaps) + 1) / len(gaps)
    distance = np.abs(shares - (1 - np.exp(-np.sort(gaps) / 10.0))).max()
    assert distance < 1.63 / np.sqrt(len(gaps))  # Kolmogorov-Smirnov at 1 %


def test_poisson_counts_have_dispersion_one_and_the_others_more() -> None:
    rng = np.random.default_rng(3)
    spread = {
        type(process).__name__: dispersion(hourly(process.times(rng, 100_000, 60.0)))
        for process in (Poisson(), Bursty(), Batches(mean_batch=4.0))
    }
    assert spread["Poisson"] == pytest.approx(1.0, abs=0.1)
    assert spread["Batches"] == pytest.approx(7.0, rel=0.15)  # compound Poisson: 2 m - 1
    assert spread["Bursty"] is not None and spread["Bursty"] > 5


def test_bursts_hold_their_share_of_the_jobs() -> None:
    process = Bursty(intensity=9.0, share=0.25, burst=20 * HOUR)
    times = process.times(np.random.default_rng(4), 2_000_000, 100.0)
    counts = hourly(times)
    quiet = 36.0 / (0.25 * 9 + 0.75)  # jobs an hour outside bursts
    bursting = counts > 4 * quiet
    assert bursting.mean() == pytest.approx(0.25, abs=0.05)
    assert counts[bursting].sum() / counts.sum() == pytest.approx(0.75, abs=0.05)


def test_a_day_has_its_peak_and_trough_and_weekends_are_quieter() -> None:
    process = Diurnal(peak_to_trough=5.0, peak_hour=14.0, weekend=0.4)
    times = process.times(np.random.default_rng(5), 1_000_000, 20.0)
    times = times[times < times[-1] // WEEK * WEEK]
    weekday = times[times % WEEK < 5 * DAY]
    hours = np.bincount((weekday % DAY // HOUR).astype(np.int64), minlength=24)
    assert int(np.argmax(hours)) in (13, 14)
    assert int(np.argmin(hours)) in (1, 2)
    assert hours.max() / hours.min() == pytest.approx(5.0, rel=0.06)
    weekend_rate = (times % WEEK >= 5 * DAY).sum() / 2
    assert weekend_rate / (len(weekday) / 5) == pytest.approx(0.4, rel=0.02)


@pytest.mark.parametrize(
    "wrong", [{"peak_to_trough": 0.5}, {"peak_hour": 24}, {"weekend": 0}, {"nights": 1}]
)
def test_impossible_rhythms_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Diurnal.model_validate(wrong)
