"""jobs.csv: what stands in it, and that it comes back as it went."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from measured_runs import Ran, outcomes_of, runs

from volvelle.metrics import per_job
from volvelle.metrics.jobs_table import read_jobs, write_jobs
from volvelle.metrics.outcomes import JobStatus, Outcomes
from volvelle.model.problems import Problem


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
    write_jobs(outcomes, tmp_path / "jobs.csv")
    assert (tmp_path / "jobs.csv").read_bytes().decode() == (
        "job_id,pool,user,gpus,submit_time,first_start_time,finish_time,jct,queueing_delay,"
        "gpu_seconds,preemptions,restarts,status,predicted_finish_time,"
        "p50_finish_time,p90_finish_time\n"
        '"a,b","the ""big"" one",dana,8,0.0,0.1,2.0,2.0,0.7,10.4,1,1,finished,2.5,,\n'
        "c,,,0.5,1.5,,,,,0.0,0,0,rejected,,,\n"
    )


@given(outcomes=runs())
def test_jobs_come_back_as_they_went(
    tmp_path_factory: pytest.TempPathFactory, outcomes: Outcomes
) -> None:
    path = tmp_path_factory.getbasetemp() / "jobs.csv"
    write_jobs(outcomes, path)
    table = read_jobs(path)
    assert table.job_id == [spec.id for spec in outcomes.specs]
    assert table.status == outcomes.status.tolist()
    np.testing.assert_array_equal(table.first_start_time, outcomes.first_start)
    np.testing.assert_array_equal(table.finish_time, outcomes.finish)
    np.testing.assert_array_equal(table.predicted_finish_time, outcomes.predicted_finish)
    np.testing.assert_array_equal(table.jct, per_job.jct(outcomes))
    np.testing.assert_array_equal(table.queueing_delay, per_job.queueing_delay(outcomes))
    np.testing.assert_array_equal(table.gpus, outcomes.gpus)
    np.testing.assert_array_equal(table.preemptions, outcomes.preemptions)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    with pytest.raises(Problem, match=r"there is no file .*jobs\.csv"):
        read_jobs(path)
    path.write_text("job,when\n")
    with pytest.raises(Problem, match="line 1 is not the header"):
        read_jobs(path)
    write_jobs(outcomes_of([Ran(0, [(0, 1, 1)])]), path)
    whole = path.read_text()
    path.write_text(whole.replace(",finished", ""))
    with pytest.raises(Problem, match="line 2 has 15 fields, not 16"):
        read_jobs(path)
    path.write_text(whole.replace("0.0,0.0,1.0", "0.0,soon,1.0"))
    with pytest.raises(Problem, match="line 2, column first_start_time: cannot read 'soon'"):
        read_jobs(path)
    path.write_text(whole.replace(",0,0,finished", ",,0,finished"))
    with pytest.raises(Problem, match="line 2, column preemptions: a count is missing"):
        read_jobs(path)
