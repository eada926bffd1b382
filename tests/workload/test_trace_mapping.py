"""A newcomer's CSV: other column names, other units, and a ready --map line to start from."""

import shlex
from pathlib import Path

import pytest
from systems_here import needs
from trace_samples import SAMPLES

from volvelle.model.job import Recorded
from volvelle.model.problems import Problem
from volvelle.workload.readers.mapping import parse_map, profiles, read_profile
from volvelle.workload.readers.own import COLUMNS
from volvelle.workload.reading import read_trace


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(
        "JobName,SubmittedAt,num_gpu,runtime_min,mem_mb\n"
        "first,2026-01-01 10:00:00,4,90,2048\n"
        "second,2026-01-01 10:30:00,1,0.5,1024\n"
    )
    return path


def test_unknown_columns_are_listed_with_a_ready_map(foreign: Path) -> None:
    with pytest.raises(Problem) as problem:
        read_trace(foreign)
    text = str(problem.value)
    assert "JobName, SubmittedAt, num_gpu, runtime_min, mem_mb" in text
    assert "--map id=JobName,submit_time=SubmittedAt,gpus=num_gpu,duration=runtime_min:min" in text


def test_the_suggested_map_reads_the_file(foreign: Path) -> None:
    with pytest.raises(Problem) as problem:
        read_trace(foreign)
    line = str(problem.value).partition("--map ")[2].rstrip(".")
    workload = read_trace(foreign, columns=parse_map([line]))
    assert [job.spec.id for job in workload] == ["first", "second"]
    assert workload.jobs[0].seconds_on(4) == 90 * 60
    assert workload.jobs[1].spec.submit_time == 1800


def test_units_turn_into_seconds_and_gigabytes(foreign: Path) -> None:
    columns = parse_map(
        ["submit_time=SubmittedAt,gpus=num_gpu:milli", "duration=runtime_min:h,memory_gb=mem_mb:mb"]
    )
    job = read_trace(foreign, columns=columns).jobs[0]
    assert job.spec.gpus == 0.004
    assert job.truth.work == pytest.approx(90 * 3600 * 0.004)
    assert job.spec.memory_gb == 2
    assert job.spec.id == "1"  # no column is the id: the row's number is


def test_one_column_may_serve_twice_with_two_units(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("t,g,m\n0,1,2\n")
    columns = parse_map(["submit_time=t,gpus=g,duration=m:min,estimate=m:h"])
    job = read_trace(path, columns=columns).jobs[0]
    assert job.truth.work == 120
    assert job.spec.estimate_seconds == 7200


def test_gpus_may_be_a_number_for_all_or_stand_with_their_type(tmp_path: Path) -> None:
    path = tmp_path / "typed.csv"
    path.write_text(
        "submit_time,cards,duration\n0,1x A100,5\n1,2 x V100,5\n2,h100:4,5\n3,3 GPUs,5\n4,8,5\n"
    )
    specs = read_trace(path, columns={"gpus": "cards"}).specs
    assert [one.gpus for one in specs] == [1.0, 2.0, 4.0, 3.0, 8.0]
    assert [one.gpu_types for one in specs] == [("A100",), ("V100",), ("h100",), (), ()]
    same = read_trace(path, columns={"gpus": "2", "duration": "1:h"})
    assert same.gpus.tolist() == [2.0] * 5
    assert same.durations.tolist() == [3600.0] * 5


def test_a_column_of_count_and_type_is_the_number_of_gpus(tmp_path: Path) -> None:
    path = tmp_path / "us.csv"
    path.write_text("Submitted,GPU Spec,Hours\n0,2x A100,1\n")
    with pytest.raises(Problem) as problem:
        read_trace(path)
    _, line = shlex.split(problem.value.options)
    assert line == "submit_time=Submitted,gpus=GPU Spec,duration=Hours:h"
    [spec] = read_trace(path, columns=parse_map([line])).specs
    assert (spec.gpus, spec.gpu_types) == (2.0, ("A100",))


def test_a_start_before_the_submission_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "us.csv"
    rows = "0,0,9,1\n2026-01-01 08:00,2026-01-01 07:00,2026-01-01 09:00,1\n"
    path.write_text("submit_time,start_time,end_time,gpus\n" + rows)
    report = read_trace(path).report
    assert report is not None and report.kept == 2
    assert str(report).endswith("1 odd (start before they were submitted 1)")
    [place] = report.examples["start before they were submitted"]
    assert place == "us.csv line 3, column start_time: '2026-01-01 07:00'"


def test_flat_json_lines_are_a_table_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "us.jsonl"
    path.write_text(
        '{"id": 1, "submit_time": 0, "gpus": 2, "duration": 30}\n\n{"id": 2, "gpus":\n'
        '{"duration": "1m", "gpus": 1, "submit_time": 5, "user": null, "after": ["1"]}\n'
    )
    workload = read_trace(path)
    assert workload.durations.tolist() == [30.0, 60.0]
    assert workload.report is not None
    assert workload.report.dropped == {"no flat JSON object": 1}
    path.write_text('{"when": 0, "n": 2, "hours": 3}\n')
    with pytest.raises(Problem, match="no known trace format has these columns: when, n, hours"):
        read_trace(path)
    mapped = read_trace(path, columns=parse_map(["submit_time=when,gpus=n,duration=hours:h"]))
    assert mapped.durations.tolist() == [10800.0]
    path.write_text('{"jobs": [{"submit_time": 0, "gpus": 2, "duration": 30}]}')
    for format in (None, "volvelle"):
        with pytest.raises(
            Problem, match=r"a reader of a few lines, as docs/how-to/write-a-trace-reader"
        ):
            read_trace(path, format)


def test_a_mapped_column_that_is_missing_offers_the_nearest(foreign: Path) -> None:
    with pytest.raises(Problem, match=r"no column 'num_gpus' \(did you mean 'num_gpu'\?\)"):
        read_trace(foreign, columns={"gpus": "num_gpus"})


def test_a_column_of_ours_that_is_unknown_offers_the_nearest(foreign: Path) -> None:
    with pytest.raises(Problem, match=r"'submit' of ours \(did you mean 'submit_time'\?\)"):
        read_trace(foreign, columns={"submit": "SubmittedAt"})


def test_an_unknown_unit_lists_the_known(foreign: Path) -> None:
    with pytest.raises(Problem, match="unknown unit 'minutes'"):
        read_trace(foreign, columns={"duration": "runtime_min:minutes"})


def test_what_is_still_missing_is_named(foreign: Path) -> None:
    with pytest.raises(Problem, match="no column 'gpus'"):
        read_trace(foreign, columns={"submit_time": "SubmittedAt"})
    with pytest.raises(Problem, match="how long a job runs"):
        read_trace(foreign, columns={"submit_time": "SubmittedAt", "gpus": "num_gpu"})


@needs("chronus")
def test_a_map_does_not_apply_to_a_format_with_known_columns() -> None:
    with pytest.raises(Problem, match="--map does not apply"):
        read_trace(SAMPLES / "chronus.csv", "chronus", columns={"gpus": "num_gpu"})


@pytest.mark.parametrize("entry", ["gpus", "=num_gpu", "gpus=", ""])
def test_a_map_that_cannot_be_read_shows_the_form(entry: str) -> None:
    with pytest.raises(Problem, match="OURS=THEIRS"):
        parse_map([entry])


STATES = """id,submit_time,gpus,start_time,end_time,Status
1,0,1,0,60,COMPLETED
2,0,1,0,60,FAILED
3,0,1,0,60,CANCELLED by 1001
4,0,1,0,60,Abgebrochen
5,0,1,0,60,OUT_OF_MEMORY
6,0,1,0,60,
7,0,1,0,,läuft
8,0,1,,,Pending
"""


def test_jobs_are_counted_by_state_and_chosen_by_it(tmp_path: Path) -> None:
    path = tmp_path / "states.csv"
    path.write_bytes(STATES.encode("cp1252"))
    report = read_trace(path).report
    assert report is not None
    assert report.states == {
        "completed": 1, "failed": 1, "cancelled": 2, "out_of_memory": 1, "": 1
    }  # fmt: skip
    assert report.dropped == {"still running": 1, "never ran": 1}
    assert "6 jobs kept (cancelled 2, completed 1, failed 1, out_of_memory 1, no state 1)" in str(
        report
    )
    chosen = read_trace(path, columns={"state": "Status:ok+out_of_memory"})
    assert [job.spec.id for job in chosen] == ["1", "5"]
    with pytest.raises(Problem, match=r"no row is in state 'fialed' \(did you mean 'failed'\?\)"):
        read_trace(path, columns={"state": "Status:fialed+completed"})


AURORA = (
    "COBALT_JOBID,JOB_NAME,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,NODES_REQUESTED,NODES_USED,"
    "CORES_REQUESTED,CORES_USED,WALLTIME_SECONDS,RUNTIME_SECONDS,USERNAME_GENID,LOCATION\n"
    "81,lqcd,2025-01-02 00:00:00,2025-01-02 01:00:00,2025-01-02 03:00:00,4,4,416,416,10800,7200,u17,x1\n"
)


def test_a_profile_maps_a_published_table(tmp_path: Path) -> None:
    path = tmp_path / "aurora.csv"
    path.write_text(AURORA)
    [job] = read_trace(path, columns=parse_map(["aurora"])).jobs
    assert (job.spec.id, job.spec.gpus, job.spec.user) == ("81", 24, "u17")  # six a node
    assert (job.spec.estimate_seconds, job.seconds_on(24)) == (10800, 7200)
    assert job.recorded == Recorded(3600, 10800)
    [other] = read_trace(path, columns=parse_map(["aurora,pool=LOCATION"])).jobs
    assert other.spec.pool == "x1"


def test_every_profile_maps_columns_of_ours() -> None:
    assert {"aurora", "pm100"} <= profiles().keys()
    for name in profiles():
        columns = read_profile(name)
        assert {"submit_time", "gpus", "duration"} <= columns.keys() <= COLUMNS.keys()


def test_a_profile_of_ones_own_is_a_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[map]\ngpus = "n:0.5"\n')
    assert parse_map([str(mine)]) == {"gpus": "n:0.5"}
    mine.write_text("[map]\ngpus = 4\n")
    with pytest.raises(Problem, match=r"table \[map\]"):
        parse_map([str(mine)])
    with pytest.raises(Problem, match="did you mean 'aurora'"):
        parse_map(["auroraa"])


def test_a_column_that_counts_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "us.csv"
    path.write_text("submit_time,gpus,gpus,duration,note,note\n0,1,2,60,x,y\n")
    with pytest.raises(Problem, match=r"us\.csv line 1: 2 columns are called 'gpus'\. Rename all"):
        read_trace(path)
    with pytest.raises(Problem, match="2 columns are called 'note'"):
        read_trace(path, columns={"gpus": "3", "user": "note"})
    assert read_trace(path, columns={"gpus": "3"}).gpus.tolist() == [3.0]


def test_a_table_below_a_title_and_times_without_a_date_say_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text("Usage\nof March\n\nname,submitted,gpus\na,0,1\nb,0,1\n")
    with pytest.raises(
        Problem, match="has 2 lines above the names of its columns, 'name,submitted,"
    ):
        read_trace(path)
    path.write_text("submit_time,gpus,duration\n08:08,1,60\n")
    with pytest.raises(Problem, match="Put the date and the time of day into one column"):
        read_trace(path)
    path.write_text("when,gpus,duration,card\n0,1,60,NVIDIA H100\n0,1,60,T4\n")
    with pytest.raises(Problem, match="gpu_type=card"):
        read_trace(path)
    path.write_text("1,ada,2026-03-09,2\n")
    with pytest.raises(Problem, match="has a number among the names of its columns"):
        read_trace(path)
    path.write_text("Start,End,GPUs\n0,9,2\n")
    with pytest.raises(Problem, match=r"submit_time=Start,.*the start stands for the submission"):
        read_trace(path)


def test_sacct_with_commas_is_slurms(tmp_path: Path) -> None:
    path = tmp_path / "sacct.csv"
    path.write_text(
        "JobID,Submit,Start,End,State,AllocTRES\n"
        '1,2026-03-09T08:00:00,2026-03-09T08:10:00,2026-03-09T09:00:00,COMPLETED,"cpu=4,gres/gpu=2"\n'
    )
    (job,) = read_trace(path)
    assert (job.spec.gpus, job.truth.work) == (2.0, 2 * 3000.0)


def test_a_python_file_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("import csv, json\n")
    with pytest.raises(Problem, match=r"own\.py is a Python file.*If it has a policy: --policy"):
        read_trace(path)


def test_deadlines_are_dates_in_the_form_and_zone_of_other_times_or_durations(
    tmp_path: Path,
) -> None:
    path = tmp_path / "due.csv"
    path.write_text(
        "submit_time,gpus,duration,Due\n11/24/2026 02:00 PM,1,60,11/24/2026 05:30 PM\n"
        "11/24/2026 03:00 PM,1,60,4h30m\n11/24/2026 03:00 PM,1,60,\n"
    )
    dates, zone = "%m/%d/%Y %I:%M %p", "America/New_York"
    plain = read_trace(path, columns={"deadline": "Due"}, dates=dates)
    zoned = {"submit_time": f"submit_time:{zone}", "deadline": f"Due:{zone}"}
    for workload in (plain, read_trace(path, columns=zoned, dates=dates)):
        steps = [[one.deadline_seconds for one in job.spec.rewards] for job in workload]
        assert steps == [[3.5 * 3600], [4.5 * 3600], []]
    apart = read_trace(path, columns={"deadline": f"Due:{zone}"}, dates=dates)
    assert apart.jobs[0].spec.rewards[0].deadline_seconds == (3.5 + 5.0) * 3600


def test_units_add_no_digits_that_nobody_wrote(tmp_path: Path) -> None:
    path = tmp_path / "hours.csv"
    path.write_text("submit_time,gpus,duration,hours\n0,1,1.1h,1.1\n")
    [job] = read_trace(path, columns={"estimate": "hours:h"})
    assert (job.spec.estimate_seconds, job.truth.work) == (3960.0, 3960.0)
