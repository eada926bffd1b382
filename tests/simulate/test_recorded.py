"""What a trace recorded of its jobs, as a run beside the simulated ones."""

from pathlib import Path

import numpy as np
import pytest

from volvelle.metrics.catalogue import measure
from volvelle.metrics.outcomes import RECORDED
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.compare import compare
from volvelle.simulate.experiment import Experiment
from volvelle.simulate.recorded import as_recorded, recorded_jobs
from volvelle.simulate.run_directory import read_outcomes, read_record
from volvelle.workload.proposing import most_recorded_gpus
from volvelle.workload.reading import read_trace

HEADER = "id,submit_time,start_time,end_time,gpus,user\n"
ROWS = "a,100,150,250,4,ann\nb,110,105,205,4,bob\nc,120,250,300,8,ann\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "march.csv"
    path.write_text(HEADER + ROWS)
    return path


def test_starts_and_ends_are_the_traces_own(trace: Path) -> None:
    outcomes = as_recorded(read_trace(trace), parse_cluster("1x8")).outcomes
    assert outcomes.first_start.tolist() == [
        50,
        10,
        150,
    ]  # b began before it came: at its submission
    assert outcomes.finish.tolist() == [150, 105, 200]
    assert outcomes.gpu_seconds.tolist() == [400, 380, 400]
    assert outcomes.segments.job.tolist() == [1, 0, 2]
    assert measure(outcomes, "utilisation") == pytest.approx(100 * (400 + 380 + 400) / (8 * 200))
    assert outcomes.status.tolist() == ["finished"] * 3


def test_contention_is_that_of_a_simulation_with_the_same_starts(trace: Path) -> None:
    alone = trace.with_name("alone.csv")
    alone.write_text(HEADER + "a,0,0,10,8,\nb,5,10,30,8,\n")
    experiment = Experiment(trace=alone, cluster="1x8")
    cluster = experiment.read_cluster()
    runs, sources = experiment.runs(cluster), experiment.sources(cluster)
    recorded = experiment.recorded_run(runs, sources)
    assert recorded is not None
    made = compare([recorded, *runs], sources, trace.with_name("out"), workers=1)
    one, other = (read_outcomes(run.directory, read_record(run.directory)) for run in made)
    assert [run.name for run in made] == [RECORDED, "fifo"]
    for column in ("first_start", "finish", "contention", "gpu_seconds", "exclusive_seconds"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column))
    assert read_record(made[0].directory).composition.policy == RECORDED


def test_what_could_never_run_here_is_rejected_as_in_simulations(trace: Path) -> None:
    outcomes = as_recorded(read_trace(trace), parse_cluster("1x4")).outcomes
    assert outcomes.status.tolist() == ["finished", "finished", "rejected"]
    assert "wants 8 GPUs" in outcomes.reason[2]
    assert np.isnan(outcomes.finish[2])
    assert outcomes.gpu_seconds[2] == 0.0


def test_there_is_none_where_a_start_is_missing_or_jobs_come_otherwise(trace: Path) -> None:
    def recorded(path: Path, **given: object) -> bool:
        experiment = Experiment.of(None, {"trace": path, "cluster": "1x8"} | given)
        cluster = experiment.read_cluster()
        sources = experiment.sources(cluster)
        return experiment.recorded_run(experiment.runs(cluster), sources) is not None

    assert recorded(trace)
    assert not recorded(trace, jobs_per_hour=2)
    assert not recorded(trace, until=50)
    assert not recorded(trace, cluster="1x4")  # eight were held at once
    partly = trace.with_name("partly.csv")
    partly.write_text("submit_time,start_time,duration,gpus\n0,1,5,1\n1,,5,1\n")
    assert recorded_jobs(read_trace(partly)) == 1
    assert not recorded(partly)


def test_the_most_gpus_at_once(trace: Path) -> None:
    workload = read_trace(trace)
    assert most_recorded_gpus(workload.jobs) == 8  # who starts as another ends takes over its GPUs


def test_starts_to_the_minute_overlap_by_rounding_alone(tmp_path: Path) -> None:
    path = tmp_path / "rounded.csv"  # 8 GPUs, each job's the last one's 30 s or more after it ended
    path.write_text(
        "submit_time,start_time,duration,gpus\n0,60,3630,8\n0,3660,7236,8\n0,10860,600,8\n"
    )
    assert most_recorded_gpus(read_trace(path).jobs) == 8
    path.write_text(path.read_text().replace("0,60,", "0,61,"))
    assert most_recorded_gpus(read_trace(path).jobs) == 16
