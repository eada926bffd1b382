"""jobs.csv: what stands in it, and that it comes back as it went."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from measured_runs import Ran, outcomes_of, runs

from volvelle.metrics import per_job
from volvelle.metrics.jobs_table import write_jobs
from volvelle.metrics.outcomes import JobStatus, Outcomes


def test_the_lines_of_jobs_csv(tmp_path: Path) -> None:
    outcomes = outcomes_of(
        [
            Ran(
                0,
                [(0.1, 0.4, 8), (1, 2, 8)],
                gpus=8,
                id="a,b",
                pool='the "big" one',
                user="dana",
                predicted_finish=2.5,
            ),
            Ran(1.5, gpus=0.5, status=JobStatus.REJECTED, id="c"),
        ]
    )
    outcomes.reason[1] = "wants 2, but 1"
    write_jobs(outcomes, tmp_path / "jobs.csv")
    assert (tmp_path / "jobs.csv").read_bytes().decode() == (
        "job_id,pool,user,gpus,submit_time,first_start_time,finish_time,jct,queueing_delay,"
        "gpu_seconds,preemptions,restarts,status,predicted_finish_time,"
        "p50_finish_time,p90_finish_time,reason\n"
        '"a,b","the ""big"" one",dana,8,0.0,0.1,2.0,2.0,0.7,10.4,1,1,finished,2.5,,,\n'
        'c,,,0.5,1.5,,,,,0.0,0,0,rejected,,,,"wants 2, but 1"\n'
    )


@given(outcomes=runs())
def test_jobs_come_back_as_they_went(
    tmp_path_factory: pytest.TempPathFactory, outcomes: Outcomes
) -> None:
    path = tmp_path_factory.getbasetemp() / "jobs.csv"
    write_jobs(outcomes, path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["job_id"] for row in rows] == [spec.id for spec in outcomes.specs]
    assert [row["status"] for row in rows] == outcomes.status.tolist()
    for name, column in (
        ("first_start_time", outcomes.first_start),
        ("finish_time", outcomes.finish),
        ("predicted_finish_time", outcomes.predicted_finish),
        ("jct", per_job.jct(outcomes)),
        ("queueing_delay", per_job.queueing_delay(outcomes)),
        ("gpus", outcomes.gpus),
        ("preemptions", outcomes.preemptions),
    ):
        np.testing.assert_array_equal([float(row[name] or "nan") for row in rows], column)
