"""A newcomer's CSV: other column names, other units, and a ready --map line to start from."""

import shlex
from pathlib import Path

import pytest
from systems_here import needs
from trace_samples import SAMPLES

from volvelle.durations import parse_duration
from volvelle.model.job import Recorded
from volvelle.model.problems import Problem
from volvelle.workload.readers.mapping import TIMES, parse_map, profiles, read_profile
from volvelle.workload.readers.own import COLUMNS
from volvelle.workload.readers.suggesting import suggested, suggested_dates, suggested_names
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


def test_hours_are_taken_as_hours_where_the_column_is_called_so_and_that_is_said(
    tmp_path: Path,
) -> None:
    path = tmp_path / "hours.csv"
    path.write_text("when,n,Runtime (h)\n0,1,\n0,1,2\n5,1,0.5\n")
    columns = {"submit_time": "when", "gpus": "n", "duration": "Runtime (h)"}
    workload = read_trace(path, columns=columns)
    assert workload.durations.tolist() == [7200.0, 1800.0]
    assert workload.report is not None
    (said,) = workload.report.assumed
    assert said.startswith("duration is taken in hours, as its column is called 'Runtime (h)'")
    told = read_trace(path, columns=columns | {"duration": "Runtime (h):s"})
    assert told.durations.tolist() == [2.0, 0.5]
    assert told.report is not None and not told.report.assumed


def test_cells_like_1_30_are_read_by_header_or_unit_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "clock.csv"
    path.write_text("when,n,Duration (h:mm),Run\n0,1,1:00:00,5\n0,1,1:30,0:90\n0,1,26:10,1:00:00\n")
    columns = {"submit_time": "when", "gpus": "n", "duration": "Duration (h:mm)"}
    workload = read_trace(path, columns=columns)
    assert workload.durations.tolist() == [3600.0, 5400.0, 94200.0]
    assert workload.report is not None
    assert workload.report.assumed[0].startswith("duration is taken in hours and minutes, as its")
    bare = read_trace(path, columns=columns | {"duration": "Run"})
    assert bare.durations.tolist() == [5.0, 90.0, 3600.0]
    assert bare.report is not None and bare.report.assumed == [
        "duration is taken in minutes and seconds: 0:90 as 1m 30s; if it is in hours and minutes, "
        "say --map duration=Run:h"
    ]
    told = read_trace(path, columns=columns | {"duration": "Run:h"})
    assert told.durations.tolist() == [18000.0, 5400.0, 3600.0]
    assert told.report is not None and not told.report.assumed
    path.write_text("when,n,Run (min)\n0,1,1:30\n")
    minutes = read_trace(path, columns=columns | {"duration": "Run (min)"})
    assert minutes.report is not None and minutes.report.assumed == [
        "duration is taken in minutes and seconds: 1:30 as 1m 30s; if it is in hours and minutes, "
        "say --map 'duration=Run (min):h'"
    ]


def test_a_column_of_gpu_names_is_a_type_and_columns_left_out_are_said(tmp_path: Path) -> None:
    path = tmp_path / "asked.csv"
    path.write_text(
        "Request ID,Submitted,GPUs requested,Length (h:mm),GPU,Requested By,Started On,Max Time,Cost\n"
        "1,0,4,1:30,A100,ada,5,2h,3\n"
    )
    with pytest.raises(Problem, match=r"\(not used below: Cost\)") as problem:
        read_trace(path)
    assert problem.value.options == (
        "--map 'id=Request ID,submit_time=Submitted,gpus=GPUs requested,duration=Length (h:mm):h,"
        "start_time=Started On,user=Requested By,gpu_type=GPU,time_limit=Max Time'"
    )


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


def test_a_name_that_was_left_open_is_asked_for_and_not_suggested_again(tmp_path: Path) -> None:
    path = tmp_path / "us.csv"
    path.write_text("When,Size,Hours,Batch\n0,2,1,0\n")
    with pytest.raises(Problem) as problem:
        read_trace(path, columns={"gpus": "?", "submit_time": "When", "duration": "Hours"})
    said = str(problem.value).partition("Perhaps they are ")[2]
    assert said == (
        "--map submit_time=When,duration=Hours:h; say which column is gpus, "
        "or a number of GPUs for all jobs: gpus=1."
    )


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
        with pytest.raises(Problem, match=r"a reader of a few lines, as docs/how-to/bring-your"):
            read_trace(path, format)


def test_a_job_of_1970_among_those_of_this_century_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "us.csv"
    path.write_text("submit_time,gpus,duration\n1700000000,1,60\n0,1,60\n")
    report = read_trace(path).report
    assert report is not None
    [reason] = report.assumed
    assert report.examples[reason] == ["us.csv, job '2': 0"]


def test_a_cell_is_shown_as_the_file_has_it(tmp_path: Path) -> None:
    path = tmp_path / "german.csv"
    path.write_text(
        "Eingereicht;Ende;Beginn;Karten;Laufzeit (h)\n"
        "03.10.2026;04.10.2026;03.10.2026;1;-2,00\n"
        "03.10.2026;02.10.2026;03.10.2026;1;-\n"
        "03.10.2026;05.10.2026;02.10.2026;1;1,50\n"
    )
    columns = ["submit_time=Eingereicht,start_time=Beginn,end_time=Ende,gpus=Karten"]
    columns += ["duration=Laufzeit (h)"]
    report = read_trace(path, columns=parse_map(columns), dates="%d.%m.%Y").report
    assert report is not None
    shown = {reason: places[0].partition(", ")[2] for reason, places in report.examples.items()}
    assert shown["negative duration"] == "column Laufzeit (h): '-2,00'"
    assert shown["ends before it starts"] == "column Ende: '02.10.2026'"
    assert shown["start before they were submitted"] == "column Beginn: '02.10.2026'"


def test_start_and_end_serve_as_duration(tmp_path: Path) -> None:
    path = tmp_path / "spans.csv"
    path.write_text("s;b;e;n\n2026-01-01;2026-01-01 01:00;2026-01-01 03:00;2\n")
    columns = parse_map(["submit_time=s,start_time=b,end_time=e,gpus=n"])
    assert read_trace(path, columns=columns).jobs[0].seconds_on(2) == 7200


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


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (
            "Job ID,Start Time,End Time,GPU Count,Submit Time",
            "'id=Job ID,submit_time=Submit Time,gpus=GPU Count,start_time=Start Time,"
            "end_time=End Time'",
        ),
        (
            "job,queued_at,started_at,finished_at,gpus",
            "id=job,submit_time=queued_at,start_time=started_at,end_time=finished_at",
        ),
        ("id,submit_time,gpu,hours", "gpus=gpu,duration=hours:h"),
        (
            "arrival_s,scale_factor,runtimeMs",
            "submit_time=arrival_s,gpus=scale_factor,duration=runtimeMs:ms",
        ),
        ("job_id,num_gpu,submit_time,duration", "id=job_id,gpus=num_gpu"),
        (
            "Nr,Who,Angelegt,Karten,Laufzeit (h)",
            "'id=Nr,submit_time=Angelegt,gpus=Karten,duration=Laufzeit (h):h,user=Who'",
        ),
        (
            "Eingereicht,Gestartet,Beendet,GPUs,Laufzeit (h)",
            "'submit_time=Eingereicht,gpus=GPUs,duration=Laufzeit (h):h,start_time=Gestartet,"
            "end_time=Beendet'",
        ),
        (
            "Experiment ID,submitted,hours",
            "'id=Experiment ID,submit_time=submitted,gpus=?,duration=hours:h'",
        ),
        (
            "Job ID,Submitted,GPU Hours,GPU Count,Started On,Completed On",
            "'id=Job ID,submit_time=Submitted,gpus=GPU Count,start_time=Started On,"
            "end_time=Completed On'",
        ),
    ],
)
def test_names_are_guessed_surest_first(names: str, line: str) -> None:
    assert suggested(dict.fromkeys(names.split(","), ())) == f"--map {line}"


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (
            "Auftrag;Benutzer;Eingereicht am;Gestartet am;Beendet am;Anzahl GPUs;GPU-Typ;Zustand",
            "'id=Auftrag,submit_time=Eingereicht am,gpus=Anzahl GPUs,start_time=Gestartet am,"
            "end_time=Beendet am,user=Benutzer,gpu_type=GPU-Typ,state=Zustand'",
        ),
        (
            "Identifiant;Utilisateur;Soumis le;Durée (min);Nombre de GPU;État",
            "'id=Identifiant,submit_time=Soumis le,gpus=Nombre de GPU,duration=Durée (min):min,"
            "user=Utilisateur,state=État'",
        ),
        (
            "Trabajo;Usuario;Enviado;Duración (horas);Número de GPUs;Estado",
            "'id=Trabajo,submit_time=Enviado,gpus=Número de GPUs,duration=Duración (horas):h,"
            "user=Usuario,state=Estado'",
        ),
    ],
)
def test_names_of_other_languages_are_guessed(names: str, line: str) -> None:
    assert suggested(dict.fromkeys(names.split(";"), ())) == f"--map {line}"


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


def test_all_that_is_wrong_with_a_map_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("Job,Submitted,GPUs,Hours\na,13.10.2026 08:00,1,2\n")
    with pytest.raises(Problem) as raised:
        read_trace(path, columns={"submit_time": "Submit", "foo": "Job", "gpus": "GPUs:x"})
    said = str(raised.value)
    assert "no column 'Submit'" in said
    assert "no column 'foo' of ours" in said
    assert "unknown unit 'x'" in said
    assert "how long a job runs" in said
    assert said.endswith(
        "--map id=Job,submit_time=Submitted,gpus=GPUs,duration=Hours:h --dates '%d.%m.%Y %H:%M'."
    )


def test_milliseconds_are_suspected_where_times_are_impossible(tmp_path: Path) -> None:
    path = tmp_path / "epoch.csv"
    path.write_text("id,submit_time,gpus,duration\n1,1760000000000,1,60\n")
    with pytest.raises(Problem, match="--map submit_time=submit_time:ms"):
        read_trace(path)
    assert len(read_trace(path, columns={"submit_time": "submit_time:ms"})) == 1


def test_all_times_that_were_mapped_are_suspected_by_their_own_names(tmp_path: Path) -> None:
    path = tmp_path / "epoch.csv"
    path.write_text("created at,begun,over,gpus\n1760000000000,1760000001000,1760000060000,1\n")
    columns = {"submit_time": "created at", "start_time": "begun", "end_time": "over"}
    with pytest.raises(Problem) as raised:
        read_trace(path, columns=columns)
    mend = "--map 'submit_time=created at:ms,start_time=begun:ms,end_time=over:ms'."
    assert str(raised.value).endswith(mend)
    assert (
        len(read_trace(path, columns={ours: f"{theirs}:ms" for ours, theirs in columns.items()}))
        == 1
    )


def test_the_one_column_that_counts_gpus_by_its_words_is_taken() -> None:
    for name in ("GPUs Req", "req gpus", "Total GPUs Requested"):
        assert suggested_names({name: (), "GPU Hours": ()})["gpus"] == name
    assert suggested_names({"GPUs req": (), "GPUs alloc": ()})["gpus"] == "?"
    spoken = suggested_names({"Kind of GPU": ("", "H100"), "Enqueued": (), "Began": (), "Done": ()})
    assert (spoken["gpu_type"], spoken["submit_time"]) == ("Kind of GPU", "Enqueued")
    assert (spoken["start_time"], spoken["end_time"]) == ("Began", "Done")
    both = suggested_names(
        {"Accelerators": ("2x A100", "H100:4"), "Queue Wait": (), "ts_queued": ()}
    )
    assert (both["gpus"], both["submit_time"]) == ("Accelerators", "ts_queued")
    assert "gpu_type" not in both
    assert suggested_names({"gpu": ("A100", "H100"), "gpus_per_node": ("8", "4")})["gpus"] == "?"


def test_a_name_that_is_near_nothing_is_left_open() -> None:
    assert suggested({"colour": (), "shape": ()}) == "--map submit_time=?,gpus=?,duration=?"


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


def test_dates_of_another_style_are_read_as_told(tmp_path: Path) -> None:
    path = tmp_path / "german.csv"
    path.write_text(
        "created,gpus,start_time,end_time\n"
        "03.10.2026 08:00,2,03.10.2026 08:10,03.10.2026 09:10\n"
        "03.10.2026 08:30,1,03.10.2026 08:40,4. Oktober\n"
    )
    columns = parse_map(["submit_time=created"])
    workload = read_trace(path, columns=columns, dates="%d.%m.%Y %H:%M")
    (job,) = workload.jobs
    assert (job.truth.work, job.recorded) == (7200.0, Recorded(600.0, 4200.0))
    assert workload.report is not None and workload.report.dropped == {"unreadable end_time": 1}
    for wrong in ("%d.%Q", "%d.%"):
        with pytest.raises(Problem, match=r"^dates cannot be written .*--dates"):
            read_trace(path, columns=columns, dates=wrong)


def dated(path: Path, *days: str) -> Path:
    path.write_text("submit_time,gpus,duration\n" + "".join(f"{day} 08:00,1,60\n" for day in days))
    return path


@pytest.mark.parametrize(
    ("days", "wrong", "right", "said"),
    [
        (("11/03/2026", "11/24/2026"), "%d/%m/%Y", "%m/%d/%Y", "is no date with the day first"),
        (("03/11/2026", "24/11/2026"), "%m/%d/%Y", "%d/%m/%Y", "is no date with the month first"),
        (("11/03/2026", "11/04/2026"), "%d/%m/%Y", "%m/%d/%Y", "32d 00h with gaps of weeks"),
    ],
)
def test_dates_in_the_other_order_of_day_and_month_are_refused(
    tmp_path: Path, days: tuple[str, ...], wrong: str, right: str, said: str
) -> None:
    path = dated(tmp_path / "dates.csv", *days)
    with pytest.raises(Problem, match=said) as problem:
        read_trace(path, dates=f"{wrong} %H:%M")
    assert f"--dates '{right} %H:%M'" in str(problem.value)
    workload = read_trace(path, dates=f"{right} %H:%M")
    assert len(workload.jobs) == 2
    assert workload.jobs[1].spec.submit_time in (86400.0, 21 * 86400.0)


def test_dates_by_which_jobs_end_before_they_come_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ends.csv"
    rows = "1,03/05/2026,02/05/2026,02/05/2026\n2,03/05/2026,03/05/2026,04/05/2026\n"
    path.write_text("gpus,submit_time,start_time,end_time\n" + rows)
    path.write_text(path.read_text().replace("02/05/2026,02", "01/05/2026,02"))
    with pytest.raises(Problem, match="1 of 2 jobs end before they are submitted"):
        read_trace(path, dates="%d/%m/%Y")


def test_decimal_commas_are_read_where_semicolons_are_between_cells(tmp_path: Path) -> None:
    path = tmp_path / "german.csv"
    path.write_text("submit_time;gpus;Stunden;user\n0;4;1,5;a,b\n60;0,5;2;c\n")
    first, second = read_trace(path, columns={"duration": "Stunden:h"})
    assert (first.truth.work, first.spec.user) == (4 * 1.5 * 3600, "a,b")
    assert second.spec.gpus == 0.5


def test_spreadsheets_and_unknown_dates_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "jobs.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(Problem, match=r"jobs\.xlsx is a spreadsheet\. Save its table as CSV"):
        read_trace(tmp_path / "jobs.xlsx")
    path = tmp_path / "words.csv"
    path.write_text("submit_time,gpus,duration\nNov 3 2026 9:15AM,4,60\n")
    with pytest.raises(Problem, match="its times are written: --dates '%b %d %Y %I:%M%p'"):
        read_trace(path)
    assert len(read_trace(path, dates="%b %d %Y %I:%M%p")) == 1
    path.write_text("submit_time,gpus,duration\n3rd of November,4,60\n")
    with pytest.raises(Problem, match="Say how its times are written: --dates FORMAT, as in"):
        read_trace(path)


def test_an_order_of_day_and_month_that_no_date_shows_is_said(tmp_path: Path) -> None:
    path = dated(tmp_path / "dates.csv", "03/04/2026", "04/04/2026", "05/05/2026")
    report = read_trace(path, dates="%d/%m/%Y %H:%M").report
    assert report is not None
    assert not report.repaired
    (reason,) = report.assumed
    assert "the day first is taken, which no date shows" in reason
    assert "--dates '%m/%d/%Y %H:%M'" in reason
    shown = dated(tmp_path / "shown.csv", "03/04/2026", "24/04/2026")
    report = read_trace(shown, dates="%d/%m/%Y %H:%M").report
    assert report is not None and not report.assumed


def test_times_with_and_without_a_zone_are_told(tmp_path: Path) -> None:
    path = tmp_path / "zones.csv"
    rows = ("2026-10-03T08:00:00+02:00", "2026-10-03T08:00:00", "2026-10-03 09:00:00")
    path.write_text("submit_time,gpus,duration\n" + "".join(f"{time},1,60\n" for time in rows))
    report = read_trace(path).report
    assert report is not None and report.kept == 3
    (reason,) = report.assumed
    assert "with and without a time zone" in reason
    assert "line 3, column submit_time" in report.examples[reason][0]


def test_a_column_that_counts_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "us.csv"
    path.write_text("submit_time,gpus,gpus,duration,note,note\n0,1,2,60,x,y\n")
    with pytest.raises(Problem, match=r"us\.csv line 1: 2 columns are called 'gpus'\. Rename all"):
        read_trace(path)
    with pytest.raises(Problem, match="2 columns are called 'note'"):
        read_trace(path, columns={"gpus": "3", "user": "note"})
    assert read_trace(path, columns={"gpus": "3"}).gpus.tolist() == [3.0]


def test_columns_that_fit_as_well_are_named(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("created_at,submitted_at,num_gpus,runtime\n1,2,3,4\n")
    with pytest.raises(Problem, match=r"\(submit_time may also be created_at\)"):
        read_trace(path)


AMERICAN = (
    "Job Number,Owner,# of GPUs,Requested On,Run Time (min)\n"
    "1,amy,4,11/03/2026 09:15:00 AM,90\n"
    "2,bob,1,11/14/2026 01:15:00 PM,0.5\n"
)


def test_a_table_with_american_names_and_dates_is_read_as_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "american.csv"
    path.write_text(AMERICAN)
    with pytest.raises(Problem) as problem:
        read_trace(path)
    _, _, line = str(problem.value).rstrip(".").partition("Say which is which: ")
    _, columns, _, dates = shlex.split(line)
    first, second = read_trace(path, columns=parse_map([columns]), dates=dates)
    assert (first.spec.gpus, second.spec.gpus) == (4.0, 1.0)
    assert second.spec.submit_time == 11 * 86400 + 4 * 3600
    with pytest.raises(Problem, match="--dates '%m/%d/%Y %I:%M:%S %p'"):
        read_trace(path, columns=parse_map([columns]))


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("24.12.2026", "--dates %d.%m.%Y"),
        ("24/12/26 9:05", "--dates '%d/%m/%y %H:%M'"),
        ("03/04/2026", "--dates %m/%d/%Y, or with %d before %m where the day comes first"),
        ("2026/11/03 10:00", "--dates '%Y/%m/%d %H:%M'"),
        ("09 Mar 2026 08:08:01", "--dates '%d %b %Y %H:%M:%S'"),
        ("March 9, 2026 8:08 PM", "--dates '%B %d, %Y %I:%M %p'"),
        ("9-Mar-2026", "--dates %d-%b-%Y"),
        ("2026-11-03 10:00:00", ""),
        ("1.5", ""),
    ],
)
def test_dates_are_suggested_by_how_times_are_written(text: str, option: str) -> None:
    assert suggested_dates([text]) == option


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('when,gpus,duration\n0,1,"33,608"\n', "commas in numbers are taken to stand between"),
        ("when,gpus,duration\n46090.5,1,33608\n", "say --map submit_time=when:d"),
    ],
)
def test_numbers_as_spreadsheets_write_them_are_read_and_said(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "sheet.csv"
    path.write_text(text)
    workload = read_trace(path, columns={"submit_time": "when"})
    assert workload.durations.tolist() == [33608.0]
    assert workload.report is not None and said in workload.report.assumed[0]


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
    with pytest.raises(Problem, match="without one, the start stands for it"):
        read_trace(path)


@pytest.mark.parametrize("text", ["1 day, 2:03:04", "1 days 02:03:04", "1-02:03:04"])
def test_lengths_are_read_as_python_and_slurm_write_them(text: str) -> None:
    assert parse_duration(text) == 93784.0


def test_sacct_with_commas_is_slurms(tmp_path: Path) -> None:
    path = tmp_path / "sacct.csv"
    path.write_text(
        "JobID,Submit,Start,End,State,AllocTRES\n"
        '1,2026-03-09T08:00:00,2026-03-09T08:10:00,2026-03-09T09:00:00,COMPLETED,"cpu=4,gres/gpu=2"\n'
    )
    (job,) = read_trace(path)
    assert (job.spec.gpus, job.truth.work) == (2.0, 2 * 3000.0)


def test_rows_far_below_say_whether_the_month_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = [f"job-{row},{4 if row < 5000 else 13}/05/2026 08:00,2,60\n" for row in range(5001)]
    path.write_text("Name,Requested On,# of GPUs,Minutes\n" + "".join(rows))
    with pytest.raises(Problem, match=r"--dates '%d/%m/%Y %H:%M'\.$"):
        read_trace(path)


def test_the_only_column_of_dates_is_proposed_as_the_submission(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(
        "Ticket #,Kicked Off,Cards,Wall Clock,Squad\n"
        "1,11/24/2026 02:05 PM,4,1:30:00,vision\n2,11/25/2026 02:05 AM,4,1:30:00,speech\n"
    )
    with pytest.raises(Problem, match="no known trace format has these columns") as problem:
        read_trace(path)
    assert problem.value.options == (
        "--map 'id=Ticket #,submit_time=Kicked Off,gpus=Cards,duration=Wall Clock,pool=Squad' "
        "--dates '%m/%d/%Y %I:%M %p'"
    )
    path.write_text("Kicked Off,Signed Off,Cards,Wall Clock\n2026-11-24,2026-11-25,4,1:30:00\n")
    with pytest.raises(Problem, match=r"submit_time=\?"):
        read_trace(path)


def test_a_python_file_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("import csv, json\n")
    with pytest.raises(Problem, match=r"own\.py is a Python file.*If it has a policy: --policy"):
        read_trace(path)


def test_local_times_are_read_in_their_zone_also_while_clocks_go_back(tmp_path: Path) -> None:
    path = tmp_path / "local.csv"
    path.write_text(
        "Asked (local),n,From,To\n2026-11-01 01:40,1,2026-11-01 01:45,2026-11-01 01:20\n"
        "2026-11-01 01:40,1,2026-11-01 03:00,2026-11-01 03:10\n"
    )
    columns = {"submit_time": "Asked (local)", "gpus": "n", "start_time": "From", "end_time": "To"}
    report = read_trace(path, columns=columns).report
    assert report is not None and report.kept == 1
    assert any("clocks set back?" in reason for reason in report.dropped)
    assert any("are read as UTC" in reason for reason in report.assumed)
    zoned = columns | {ours: f"{columns[ours]}:America/New_York" for ours in TIMES}
    job, _ = (workload := read_trace(path, columns=zoned)).jobs
    assert job.truth.work == 35 * 60.0
    assert workload.report is not None and not workload.report.assumed
    dotted = path.read_text().replace("2026-11-01", "01.11.2026")
    path.write_text(dotted)
    again, _ = read_trace(path, columns=zoned, dates="%d.%m.%Y %H:%M").jobs
    assert again == job
    with pytest.raises(Problem, match=r"unknown unit 'America/Nowhere'.* or a time zone"):
        read_trace(path, columns=columns | {"submit_time": "Asked (local):America/Nowhere"})
