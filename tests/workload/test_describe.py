"""A description counts right: checked by hand on small workloads and by brute force on random ones."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.model.job import Job, JobClass, JobSpec, Truth
from volvelle.model.throughput import Table
from volvelle.model.units import DAY, HOUR
from volvelle.workload.describe import Distribution, describe, dispersion
from volvelle.workload.workload import Workload


def job(name: str, submit: float, gpus: float, seconds: float, **declared: Any) -> Job:
    spec = JobSpec(id=name, submit_time=submit, gpus=gpus, **declared)
    return Job(spec, Truth(work=gpus * seconds))


BY_HAND = Workload.of(
    [
        job("a", 0.0, 4, 2 * HOUR, user="ada", pool="vision", job_class=JobClass.STRICT),
        job("b", 1.5 * HOUR, 2, HOUR, user="ada", pool="vision", estimate_seconds=2 * HOUR),
        job("c", 1.5 * HOUR, 0.5, 4 * HOUR, user="bob"),
        job(
            "d", DAY + HOUR, 8, 10 * HOUR, user="bob", min_gpus=2, max_gpus=16, gpu_types=("a100",)
        ),
    ],
    name="by-hand",
)


def test_counts_and_load() -> None:
    description = describe(BY_HAND, 10)
    assert (description.jobs, description.users, description.pools) == (4, 2, 1)
    assert description.classes == {"strict": 1, "best-effort": 3}
    assert description.gpu_types == {"any": 3, "a100": 1}
    assert (description.elastic, description.fractional, description.unrunnable) == (1, 1, 0)
    assert description.span_seconds == 25 * HOUR
    assert description.gpu_seconds == (8 + 2 + 2 + 80) * HOUR
    assert description.load == pytest.approx(92 / 250)
    assert describe(BY_HAND).load is None


def test_series_by_hand() -> None:
    hourly = describe(BY_HAND, 10).hourly
    assert hourly.bin_seconds == HOUR and hourly.start_seconds == 0.0
    assert len(hourly.submitted_jobs) == 26
    assert hourly.submitted_jobs[:3] == (1, 2, 0)
    assert hourly.submitted_gpus[:2] == pytest.approx((8.0, 4.0))
    # a runs 4 GPUs for two hours; b 2 GPUs and c half a GPU from 1:30 on.
    assert hourly.demanded_gpus[:4] == pytest.approx((4.0, 4.0 + 1.25, 1.5, 0.5))
    assert hourly.offered_load is not None
    assert hourly.offered_load[:2] == pytest.approx((0.8, 0.4))
    assert describe(BY_HAND).hourly.offered_load is None


def test_the_busiest_day_and_the_peak() -> None:
    description = describe(BY_HAND, 10)
    day = description.busiest_day
    assert day is not None
    assert (day.day, day.start_seconds, day.submitted_jobs) == (1, DAY, 1)
    assert day.submitted_gpus == pytest.approx(80 / 24)
    assert day.offered_load == pytest.approx(8 / 24)
    assert description.peak_demanded_gpus == 8.0


def test_shares_by_width_user_and_pool() -> None:
    description = describe(BY_HAND)
    assert [width.gpus for width in description.widths] == [0.5, 2, 4, 8]
    assert [width.job_share for width in description.widths] == [0.25] * 4
    assert description.widths[-1].gpu_second_share == pytest.approx(80 / 92)
    assert [(user.name, user.jobs) for user in description.top_users] == [("bob", 2), ("ada", 2)]
    assert description.top_users[0].gpu_second_share == pytest.approx(82 / 92)
    assert [pool.name for pool in description.top_pools] == ["vision"]


def test_distributions() -> None:
    description = describe(BY_HAND)
    assert description.duration_seconds.most == 10 * HOUR
    assert description.gap_seconds.least == 0.0
    assert description.estimate_ratio.count == 1
    assert description.estimate_ratio.mean == pytest.approx(2.0)
    many = Distribution.of(np.arange(1, 10_001, dtype=np.float64))
    assert many.quantile(0.5) == pytest.approx(5000.5)
    assert len(many.cdf) == 200
    assert many.cdf[0] == (1.0, 0.0001) and many.cdf[-1] == (10_000.0, 1.0)
    assert all(share == pytest.approx(value / 10_000) for value, share in many.cdf)


def test_repeated_values_stand_once_in_the_distribution_function() -> None:
    repeated = Distribution.of(np.repeat([1.0, 2.0, 8.0], [70, 20, 10]))
    assert repeated.cdf == ((1.0, 0.7), (2.0, 0.9), (8.0, 1.0))


def test_a_job_that_cannot_run_is_counted_and_weighs_nothing() -> None:
    stuck = Job(JobSpec(id="stuck", submit_time=0.0), Truth(work=1.0, throughput=Table((0.0,))))
    description = describe(Workload.of([stuck, job("b", HOUR, 1, HOUR)]), 1)
    assert description.unrunnable == 1
    assert description.gpu_seconds == HOUR
    assert description.duration_seconds.count == 1
    assert json.loads(json.dumps(description.as_json(), allow_nan=False))["unrunnable"] == 1


@pytest.mark.parametrize("jobs", [[], [job("only", 5.0, 1, 10.0)]])
def test_an_empty_or_single_workload_is_described(jobs: list[Job]) -> None:
    description = describe(Workload.of(jobs), 8)
    assert description.jobs == len(jobs)
    assert description.load is None
    json.dumps(description.as_json(), allow_nan=False)


def test_dispersion_is_one_for_equal_variance_and_mean() -> None:
    assert dispersion(np.array([0.0, 2.0])) == 1.0
    assert dispersion(np.array([3.0])) is None
    assert dispersion(np.zeros(4)) is None


ROWS = st.lists(
    st.tuples(st.floats(0, 3 * DAY), st.sampled_from([0.5, 1, 2, 8]), st.floats(1, 2 * DAY)),
    min_size=1,
    max_size=30,
)


@given(rows=ROWS, clock=st.sampled_from([0.0, 1.6e9]))
@settings(max_examples=100, deadline=None)
def test_series_agree_with_counting_one_by_one(
    rows: list[tuple[float, float, float]], clock: float
) -> None:
    workload = Workload.of(
        job(str(index), clock + submit, gpus, seconds)
        for index, (submit, gpus, seconds) in enumerate(rows)
    )
    description = describe(workload, 16)
    for series in (description.hourly, description.daily):
        width = series.bin_seconds
        assert sum(series.submitted_jobs) == len(rows)
        assert sum(series.submitted_gpus) * width == pytest.approx(description.gpu_seconds)
        for place, demanded in enumerate(series.demanded_gpus):
            begin = series.start_seconds + place * width
            ran = sum(
                gpus * max(0.0, min(begin + width, s + seconds) - max(begin, s))
                for s, gpus, seconds in (
                    (row.spec.submit_time, row.spec.gpus, row.truth.work / row.spec.gpus)
                    for row in workload
                )
            )
            assert demanded == pytest.approx(ran / width, abs=1e-6)
