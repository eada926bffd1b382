"""Finish-time fairness and unfairness: by hand and against the papers' artifacts."""

import json
from pathlib import Path

import numpy as np
import pytest
from measured_runs import NAN, Ran, outcomes_of, read_columns

from volvelle.metrics import fairness, measures
from volvelle.metrics.fairness import FairShare
from volvelle.metrics.outcomes import JobStatus

# 8 GPUs, 4 jobs about: a fair share is 2 GPUs.
JOBS = [
    Ran(0, [(0, 30, 4)], gpus=4, exclusive=10, contention=4),  # fair: 10 s x 4/2 = 20 s
    Ran(0, [(5, 15, 1)], gpus=1, exclusive=10, contention=4),  # fair: 10 s, asked for less
    Ran(0, [(0, 10, 2)], gpus=2, exclusive=20, contention=16),  # fair: 20 s x 2/0.5 = 80 s
    Ran(0, status=JobStatus.WAITING, exclusive=10, contention=4),
]


def test_rho_is_completion_time_over_the_time_on_a_fair_share() -> None:
    np.testing.assert_array_equal(fairness.rho(outcomes_of(JOBS)), [1.5, 1.5, 0.125, NAN])


def test_rho_as_shockwaves_artifact_counts_it() -> None:
    outcomes = outcomes_of(JOBS, capacity=2)
    # four jobs on two GPUs: a factor of 2 for everyone
    np.testing.assert_array_equal(fairness.rho(outcomes, FairShare.STATIC), [1.5, 0.75, 0.25, NAN])
    np.testing.assert_array_equal(
        fairness.rho(outcomes, FairShare.CONTENTION), [1.5, 0.75, 10 / 160, NAN]
    )


def test_a_job_without_a_rho_is_neither_fair_nor_unfair() -> None:
    outcomes = outcomes_of(JOBS)
    np.testing.assert_array_equal(fairness.unfair(outcomes), [1, 1, 0, NAN])
    np.testing.assert_array_equal(fairness.unfair(outcomes, threshold=1.5), [0, 0, 0, NAN])


def test_unfairness_is_the_time_beyond_the_fair_finish_in_percent() -> None:
    outcomes = outcomes_of(JOBS)
    np.testing.assert_array_equal(fairness.fair_finish_seconds(outcomes), [20, 10, 80, 20 / 2])
    np.testing.assert_array_equal(fairness.unfairness(outcomes), [50, 50, 0, NAN])


def test_fair_finish_uses_the_work_on_one_gpu_where_it_is_known() -> None:
    # a job that scales badly: 40 s on one GPU, 15 s on four
    job = Ran(0, [(0, 30, 4)], gpus=4, exclusive=15, contention=4)
    outcomes = outcomes_of([job], single_gpu_seconds=[40])
    np.testing.assert_array_equal(fairness.fair_finish_seconds(outcomes), [20])


def test_a_cluster_that_shrinks_counts_with_its_time_average() -> None:
    outcomes = outcomes_of([Ran(0, [(0, 10, 1)])], capacity=[(0, 8), (5, 4)])
    assert fairness.present_gpus(outcomes) == 6
    renamed = outcomes_of([Ran(0, [(0, 0.3, 1)])], capacity=[(0, 7), (0.1, 7)])
    assert fairness.present_gpus(renamed) == 7


PCS_CASES = [
    ("themis1_n100", 64),
    ("gavel_n150", 64),
    ("gavel_g16_n200", 16),
    ("gavelreal_n150", 64),
    ("t0e4a51_n600", 64),
    ("t0e4a51_g16_n200", 16),
    ("tee9e8c_n200", 64),
]


@pytest.mark.parametrize("policy", ["FIFO", "SRSF", "PCS_bal"])
@pytest.mark.parametrize(("case", "cluster_gpus"), PCS_CASES)
def test_fair_finish_and_unfairness_of_pcs(
    shared: Path, case: str, cluster_gpus: int, policy: str
) -> None:
    folder = shared / "golden" / "pcs"
    jobs, work, gpus = read_columns(
        folder / f"{case}__jobs.csv", "app_id", "service_gpu_s", "max_gpus"
    )
    app, jct, contention, fft, unfair = read_columns(
        folder / f"{case}__{policy}.csv", "app_id", "jct_s", "avg_contention", "fft_s", "unfairness"
    )
    np.testing.assert_array_equal(app, jobs)
    ours = fairness.fair_finish(work, gpus, contention, cluster_gpus)
    np.testing.assert_allclose(ours, fft, rtol=1e-9)
    # the files hold shares, we speak of percents
    np.testing.assert_allclose(fairness.excess(jct, ours), 100 * unfair, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", ["120_32_fifo_reset0", "120_32_allox", "220_64_max_min_fairness"])
def test_rho_of_shockwave(shared: Path, case: str) -> None:
    folder = shared / "golden" / "shockwave"
    arrival, finish, alone, expected = read_columns(
        folder / f"perjob_{case}.csv", "arrival_s", "finish_s", "isolated_runtime_s", "rho_static"
    )
    summary = json.loads((folder / f"summary_{case}.json").read_text())
    ran = [
        Ran(submit, [(submit, end, 1)], exclusive=seconds)
        for submit, end, seconds in zip(
            arrival.tolist(), finish.tolist(), alone.tolist(), strict=True
        )
    ]
    outcomes = outcomes_of(ran, capacity=summary["gpus"])
    ours = fairness.rho(outcomes, FairShare.STATIC)
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert measures.of_jobs(ours, "max")[0] == pytest.approx(summary["worst_ftf"], abs=1e-5)
    for threshold, key in ((1.0, "unfair_pct_gt1"), (1.05, "unfair_pct_gt1_05")):
        fraction = fairness.unfair(outcomes, FairShare.STATIC, threshold).mean()
        assert 100 * fraction == pytest.approx(summary[key])
