"""Per-job columns, against figures worked out by hand."""

from pathlib import Path

import numpy as np
import pytest
from measured_runs import NAN, Ran, outcomes_of, read_columns

from volvelle.metrics import per_job
from volvelle.metrics.outcomes import JobStatus

OUTCOMES = outcomes_of(
    [
        # submitted at 10, ran 20-30 and 40-55 on 2 GPUs: JCT 45, held 25 s, waited 20 s
        Ran(10, [(20, 30, 2), (40, 55, 2)], gpus=2, exclusive=15, predicted_finish=40),
        Ran(12, [(12, 20, 1)], status=JobStatus.FAILED, exclusive=30),
        Ran(15, status=JobStatus.REJECTED, exclusive=5),
        Ran(16, [(50, 60, 4)], gpus=4, status=JobStatus.RUNNING, exclusive=100),
        Ran(17, status=JobStatus.WAITING),
    ],
    end=60,
)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (per_job.jct, [45, NAN, NAN, NAN, NAN]),
        (per_job.queueing_delay, [20, NAN, NAN, NAN, NAN]),
        (per_job.responsiveness, [10, 0, NAN, 34, NAN]),
        (per_job.slowdown, [3, NAN, NAN, NAN, NAN]),
        (per_job.attained_service, [50, 8, NAN, 40, 0]),
        (per_job.preemptions, [1, 0, NAN, 0, 0]),
        (per_job.restarts, [1, 0, NAN, 0, 0]),
        (per_job.lost_gpu_seconds, [0, 0, NAN, 0, 0]),
        # predicted to take 30 s, took 45 s
        (per_job.prediction_error, [50, NAN, NAN, NAN, NAN]),
        (per_job.signed_prediction_error, [50, NAN, NAN, NAN, NAN]),
    ],
)
def test_what_a_job_has_not_is_nan(column, expected):  # type: ignore[no-untyped-def]
    np.testing.assert_array_equal(column(OUTCOMES), expected)


def test_the_signed_error_of_an_early_finish_is_below_nothing() -> None:
    early = outcomes_of([Ran(10, [(20, 30, 2)], predicted_finish=50)])
    assert per_job.signed_prediction_error(early).tolist() == [-50.0]
    assert per_job.prediction_error(early).tolist() == [50.0]


def test_an_early_finish_is_an_error_too() -> None:
    error = per_job.relative_error(np.array([30.0, 10.0]), np.array([40.0, 0.0]))
    np.testing.assert_array_equal(error, [25.0, NAN])


@pytest.mark.parametrize("policy", ["FIFO", "AFS", "THEMIS", "PCS_jct"])
def test_prediction_error_of_pcs(shared: Path, policy: str) -> None:
    path = shared / "golden" / "pcs" / f"themis1_n100__{policy}.csv"
    jct, predicted, expected = read_columns(path, "jct_s", "pred_jct_s", "pred_err_pct")
    ours = per_job.relative_error(jct, predicted)
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


def test_metrics_do_not_write_into_the_outcomes() -> None:
    before = OUTCOMES.finish.copy()
    per_job.jct(OUTCOMES)[:] = 0
    np.testing.assert_array_equal(OUTCOMES.finish, before)
