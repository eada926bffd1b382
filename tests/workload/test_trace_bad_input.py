"""Bad traces end in a count with a place, or in a problem with a mend; never in a traceback."""

import gzip
import json
from pathlib import Path

import pytest
from systems_here import needs
from trace_samples import SAMPLES

from volvelle.model.problems import Problem
from volvelle.workload.readers.ledger import PROGRESS_ROWS
from volvelle.workload.readers.suggesting import import_hint
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import ImportReport, Workload

HEADER = "id,submit_time,gpus,duration,user\n"


def trace(tmp_path: Path, rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_bytes((header + rows).encode("utf-8", "surrogateescape"))
    return path


def report_of(workload: Workload) -> ImportReport:
    assert workload.report is not None
    return workload.report


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        ("x,ten,1,60,ada", "submit_time", "unreadable submit_time"),
        ("x,,1,60,ada", "submit_time", "missing submit_time"),
        ("x,-5,1,60,ada", "submit_time", "negative submit_time"),
        ("x,nan,1,60,ada", "submit_time", "missing submit_time"),
        ("x,1e400,1,60,ada", "submit_time", "impossibly large submit_time"),
        ("x,5,1,-60,ada", "duration", "negative duration"),
        ("x,5,1,,ada", "duration", "missing duration"),
        ("x,5,1,soon,ada", "duration", "unreadable duration"),
        ("x,5,1,1e300,ada", "duration", "impossibly large duration"),
        ("x,5,four,60,ada", "gpus", "unreadable gpus"),
        ("x,5,-1,60,ada", "gpus", "negative gpus"),
        ("x,5,9" + "9" * 5000 + ",60,ada", "gpus", "impossibly large gpus"),
        ("x,5,1,60", "", "too few cells"),
        ("x,5,1,60,ada,more", "", "too many cells"),
        ("good,5,1,60,ada", "id", "duplicate id"),
    ],
)
def test_a_broken_row_is_dropped_or_stops_strict(
    tmp_path: Path, row: str, column: str, reason: str
) -> None:
    path = trace(tmp_path, f"good,0,1,60,ada\n{row}\nlast,9,1,60,ada\n")
    workload = read_trace(path)
    report = report_of(workload)
    assert [job.spec.id for job in workload] == ["good", "last"]
    assert report.dropped == {reason: 1}
    place = "jobs.csv line 3" + (f", column {column}" if column else "")
    assert report.examples[reason][0].startswith(place)
    with pytest.raises(Problem, match=f"{place}.*--strict stops here"):
        read_trace(path, strict=True)


@pytest.mark.parametrize(
    ("row", "reason"), [("x,5,0,60,ada", "no GPUs"), ("x,5,1,0,ada", "took 0 s")]
)
def test_a_sound_row_that_is_no_job_is_dropped_even_if_strict(
    tmp_path: Path, row: str, reason: str
) -> None:
    path = trace(tmp_path, f"good,0,1,60,ada\n{row}\n")
    assert report_of(read_trace(path, strict=True)).dropped == {reason: 1}


def test_a_quote_left_open_costs_its_own_line_only(tmp_path: Path) -> None:
    rows = 'a,0,1,60,ada\nb,1,1,"60,bob\n' + "".join(f"c{i},2,1,60,eve\n" for i in range(9000))
    workload = read_trace(trace(tmp_path, rows))
    report = report_of(workload)
    assert len(workload) == 9001
    assert report.dropped.total() == 1
    assert all("line 3" in places[0] for places in report.examples.values())


def test_a_quoted_cell_may_hold_commas_quotes_and_lines(tmp_path: Path) -> None:
    rows = 'a,0,1,60,"ada ""the first"",\nof her name"\nb,x,1,60,bob\n'
    workload = read_trace(trace(tmp_path, rows))
    assert workload.jobs[0].spec.user == 'ada "the first",\nof her name'
    assert "line 4" in report_of(workload).examples["unreadable submit_time"][0]


def test_lines_that_are_not_utf8_are_read_as_spreadsheets_write_them_and_counted(
    tmp_path: Path,
) -> None:
    path = trace(tmp_path, "a,0,1,60,Ren\udce9\nb,1,1,60,Renée\n")
    workload = read_trace(path)
    assert [job.spec.user for job in workload] == ["René", "Renée"]
    assert report_of(workload).repaired == {"not UTF-8: read as Windows-1252": 1}
    with pytest.raises(Problem, match="line 2"):
        read_trace(path, strict=True)


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert len(read_trace(trace(tmp_path, "a,0,1,60,ada\n", "\ufeff" + HEADER))) == 1


def test_utf16_says_how_to_convert(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes((HEADER + "a,0,1,60,ada\n").encode("utf-16"))
    with pytest.raises(Problem, match="iconv"):
        read_trace(path)


def test_a_git_lfs_pointer_says_how_to_get_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    with pytest.raises(Problem, match="git lfs pull"):
        read_trace(path)


def test_an_unknown_format_offers_the_nearest() -> None:
    with pytest.raises(Problem, match=r"'phily' \(did you mean 'philly'\?\)"):
        read_trace(SAMPLES / "philly.json", "phily")
    with pytest.raises(Problem, match=r"'slurm' \(did you mean 'sacct'\?\)"):
        read_trace(SAMPLES / "philly.json", "slurm")


def test_a_missing_file_offers_the_nearest() -> None:
    with pytest.raises(Problem, match=r"did you mean 'chronus.csv'\?"):
        read_trace(SAMPLES / "chronos.csv")


def test_a_header_without_rows_has_no_jobs(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has no jobs"):
        read_trace(trace(tmp_path, ""))


def test_a_trace_whose_rows_are_all_dropped_says_why(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"no jobs: 1 row:.*dropped \(no GPUs 1\)"):
        read_trace(trace(tmp_path, "a,0,0,60,ada\n"))


def test_a_gzip_file_cut_short_is_a_problem(tmp_path: Path) -> None:
    rows = "".join(f"job{i},{i},{i % 7 + 1},{i * 37 % 911 + 1},ada\n" for i in range(30_000))
    packed = gzip.compress((HEADER + rows).encode())
    (tmp_path / "jobs.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(Problem, match="damaged"):
        read_trace(tmp_path / "jobs.csv.gz")


def test_a_file_that_only_calls_itself_gzip_is_read(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    path.write_text(HEADER + "a,0,1,60,ada\n")
    assert len(read_trace(path)) == 1


def test_a_folder_without_a_known_table_names_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"pai_job_table\.csv"):
        read_trace(tmp_path)


@needs("tiresias")
def test_a_named_format_whose_columns_are_missing_offers_the_nearest(tmp_path: Path) -> None:
    path = trace(tmp_path, "1,2\n", "job_id,num_gpus,submit_time,duration,model_name,interval\n")
    with pytest.raises(Problem, match=r"'num_gpu' \(did you mean 'num_gpus'\?\)"):
        read_trace(path, "tiresias")


def test_a_broken_philly_job_costs_itself(tmp_path: Path) -> None:
    good = (
        '{"vc": "v", "jobid": "%s", "attempts": [{"start_time": "2017-01-01 00:00:00",'
        ' "end_time": "2017-01-01 00:01:00", "detail": [{"ip": "m", "gpus": ["g"]}]}],'
        ' "submitted_time": "2017-01-01 00:00:00", "user": "u"}'
    )
    jobs = [good % "a", (good % "b").replace('"g"', "g"), (good % "c")[:-2], good % "d"]
    path = tmp_path / "log.json"
    path.write_text("[\n" + ",\n".join(jobs) + "\n]\n")
    workload = read_trace(path)
    assert [job.spec.id for job in workload] == ["a", "d"]
    assert report_of(workload).dropped == {"no JSON": 2}
    assert report_of(workload).examples["no JSON"][0].startswith("log.json line 3")
    path.write_text("[\n" + ",\n".join(jobs)[:-40])
    assert [job.spec.id for job in read_trace(path)] == ["a"]


@needs("gavel")
def test_a_throughput_file_that_is_none_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("[]")
    for path in (tmp_path / "t.json", tmp_path / "absent.json"):
        with pytest.raises(Problem, match="throughput"):
            read_trace(SAMPLES / "gavel.trace", options={"throughputs": path})


def test_a_list_of_kubernetes_that_ends_midway_is_a_problem(tmp_path: Path) -> None:
    document = json.loads((SAMPLES / "workloads.json").read_text())
    path = tmp_path / "jobs.json"
    for indent in (None, 4):
        text = json.dumps(document, indent=indent)
        last = text.rindex("]")
        for cut in (*range(text.index("items") + 12, last, 97), last):
            path.write_text(text[:cut])
            with pytest.raises(Problem, match=r"^jobs\.json ends midway, after \d+ whole item"):
                read_trace(path, "kubernetes")
        path.write_text(text)
        assert "no JSON" not in report_of(read_trace(path)).dropped


def test_json_that_breaks_off_names_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_text('{"items": [\n')
    with pytest.raises(Problem, match=r"jobs\.json is JSON that breaks off at line 1"):
        read_trace(path)


def test_an_object_of_kubernetes_is_named_with_its_place_in_the_list(tmp_path: Path) -> None:
    document = json.loads((SAMPLES / "workloads.json").read_text())
    job = next(one for one in document["items"] if one["metadata"]["name"] == "train-a")
    copy = json.loads(json.dumps(job))
    copy["metadata"]["name"] = "train-z"
    copy["spec"]["podSets"][0]["count"] = "lots"
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [job, copy]}))
    examples = report_of(read_trace(path)).examples
    said = "jobs.json line 1, item 2 (research/train-z), field count: 'lots'"
    assert examples == {"unreadable count": [said]}


def test_places_name_columns_as_the_file_does(tmp_path: Path) -> None:
    header = "Requested,# of GPUs,Started,Completed\n"
    rows = "0,lots,0,60\n0,1,60,60\n0,1,60,99\n"
    columns = {"submit_time": "Requested", "gpus": "# of GPUs", "start_time": "Started"}
    columns["end_time"] = "Completed"
    examples = report_of(read_trace(trace(tmp_path, rows, header), columns=columns)).examples
    assert examples == {
        "unreadable gpus": ["jobs.csv line 2, column # of GPUs: 'lots'"],
        "started and ended at the same time": ["jobs.csv line 3, column Completed: '60'"],
    }
    clock = "0,1,1970-01-01 08:00,1970-01-01 08:00\n"
    dropped = report_of(read_trace(trace(tmp_path, rows + clock, header), columns=columns)).dropped
    assert any("in the same minute; times with seconds" in reason for reason in dropped)
    date = columns | {"duration": "Completed:min"}
    with pytest.raises(
        Problem, match=r"'Completed' holds dates.* no duration: say end_time=Completed"
    ):
        read_trace(trace(tmp_path, clock, header), columns=date)
    minutes = columns | {"end_time": "Completed:min"}
    wrong = trace(tmp_path, "0,1,60,soon\n0,1,0,9\n", header)
    [place] = report_of(read_trace(wrong, columns=minutes)).examples["unreadable end_time"]
    assert place == "jobs.csv line 2, column Completed: 'soon'"


def test_sacct_names_the_column_that_it_has(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    row = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|COMPLETED|60"
    path.write_text(
        f"JobIDRaw|Submit|Start|End|State|ElapsedRaw|AllocTRES\n1|{row}|cpu=1\n2|{row}|gres/gpu=1\n"
    )
    [place] = report_of(read_trace(path)).examples["no GPUs"]
    assert place == "jobs.txt line 2, column AllocTRES: 'cpu=1'"


def test_progress_is_told_how_many_rows_were_read(tmp_path: Path) -> None:
    rows = "".join(f"job{i},{i},1,60,ada\n" for i in range(2 * PROGRESS_ROWS + 1))
    seen: list[int] = []
    read_trace(trace(tmp_path, rows), progress=seen.append)
    assert seen == [PROGRESS_ROWS, 2 * PROGRESS_ROWS]


DUE = "id,submit_time,gpus,duration,{column}\n"


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("deadline", "1970-01-01T00:00:05", "deadline in the past"),
        ("deadline", "-1h", "unreadable deadline"),
        ("rewards", "0s:10", "deadline in the past"),
        ("rewards", "1h:10;2h:20", "reward that rises"),
        ("rewards", "2h:10;1h:-1", "reward below zero"),
        ("rewards", "1h:nan", "reward below zero"),
    ],
)
def test_deadlines_that_mean_nothing_are_dropped_with_their_column(
    tmp_path: Path, column: str, cell: str, reason: str
) -> None:
    path = trace(tmp_path, f"good,0,1,60,1h:5;2h:3\nbad,9,1,60,{cell}\n", DUE.format(column=column))
    if column == "deadline":
        path = trace(tmp_path, f"good,0,1,60,1h\nbad,9,1,60,{cell}\n", DUE.format(column=column))
    report = report_of(read_trace(path))
    assert report.dropped == {reason: 1}
    assert report.examples[reason][0].startswith(f"jobs.csv line 3, column {column}")


CHRONUS = (
    "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,"
    "expect_time_list,expect_value_list,best_effort,job_type\n"
)


@needs("chronus")
@pytest.mark.parametrize(
    ("iterations", "values", "column", "reason"),
    [
        ("0", "10-8", "iterations", "no iterations"),
        ("50", "8-10", "expect_value_list", "reward that rises"),
        ("50", "10--1", "expect_value_list", "unreadable expect_value_list"),
    ],
)
def test_jobs_of_chronus_without_iterations_or_with_rising_rewards_are_dropped(
    tmp_path: Path, iterations: str, values: str, column: str, reason: str
) -> None:
    rows = (
        "0,ada,1,0,10,vgg,5,1,10-20,10-8,0,soft\n"
        f"1,ada,1,0,{iterations},vgg,5,1,10-20,{values},0,soft\n"
    )
    report = report_of(read_trace(trace(tmp_path, rows, CHRONUS)))
    assert report.dropped == {reason: 1}
    assert report.examples[reason][0].startswith(f"jobs.csv line 3, column {column}")


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("JobID  JobName  Partition\n-----  -------  ---------\n1  a  gpu\n", "sacct -a -X -P"),
        ("JobID|JobName|Partition|State|ExitCode\n1|a|gpu|COMPLETED|0:0\n", "sacct -a -X -P"),
        ("apiVersion: v1\nkind: List\nitems: []\n", "kubectl get jobs -A -o json"),
    ],
)  # fmt: skip
def test_a_table_that_another_command_would_have_written_whole_names_it(
    tmp_path: Path, text: str, mend: str
) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    with pytest.raises(Problem, match=f"Make it with: {mend}"):
        read_trace(path)


@pytest.mark.parametrize(
    ("wrong", "other", "hinted"),
    [
        (1, "at noon", ""),
        (1, "13/10/2026 08:00", "these times are written: --dates '%d/%m/%Y %H:%M'"),
        (4, "13/10/2026 08:00", "its times are written: --dates '%d/%m/%Y %H:%M'"),
    ],
)
def test_a_form_of_dates_is_proposed_for_rows_that_have_another(
    tmp_path: Path, wrong: int, other: str, hinted: str
) -> None:
    times = ["2026-10-01 08:00"] * (5 - wrong) + [other] * wrong
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration\n" + "".join(f"{each},1,60\n" for each in times))
    report = read_trace(path).report
    assert report is not None
    assert import_hint(report).removeprefix("say how ") == hinted


@pytest.mark.parametrize(
    "table",
    [
        "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\n",
        "node_name,gpu_model,gpu_capacity_num,cpu_num\nn1,A10,4,64\n",
    ],
)
def test_a_table_of_nodes_is_said_to_be_one_and_where_it_belongs(
    tmp_path: Path, table: str
) -> None:
    path = trace(tmp_path, "", table)
    mend = f"beside the trace of the jobs: --cluster {path}"
    with pytest.raises(Problem, match=f"jobs.csv is a table of nodes, not of jobs.*{mend}"):
        read_trace(path)


def test_jobs_cancelled_before_they_started_are_counted_as_such(tmp_path: Path) -> None:
    header = "submit_time,gpus,start_time,end_time,state\n"
    rows = "0,1,,60,CANCELLED\n0,1,10,60,CANCELLED\n0,1,,60,FAILED\n"
    report = report_of(read_trace(trace(tmp_path, rows, header), strict=False))
    assert report.dropped == {"cancelled before they started": 1, "missing start_time": 1}


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (
            "JobIDRaw|Submit|Start|ElapsedRaw|State|ReqTRES\n"
            "1.0|2026-02-01|2026-02-01|60|COMPLETED|gres/gpu=1\n"
            "2|2026-02-01|2026-02-01|60|COMPLETED|gres/gpu=1\n"
            "2|2026-02-01|2026-02-01|60|COMPLETED|gres/gpu=1\n",
            {"job step": "JobIDRaw", "duplicate id": "JobIDRaw"},
        ),
        (
            "job_id,submission_time,duration,num_gpu\na,0,10,1\na,0,10,1\nb,0,10,0\n",
            {"no GPUs": "num_gpu", "duplicate id": "job_id"},
        ),
    ],
)
def test_a_note_names_the_columns_of_the_file(
    tmp_path: Path, table: str, columns: dict[str, str]
) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(table)
    report = report_of(read_trace(path))
    assert report.dropped.keys() == columns.keys()
    for reason, column in columns.items():
        assert f", column {column}: " in report.examples[reason][0]
