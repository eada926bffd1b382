"""How tables write times, lengths and numbers: in which unit, by which date and zone, as spreadsheets do."""

import shlex
from pathlib import Path

import pytest

from volvelle.durations import parse_duration
from volvelle.model.job import Recorded
from volvelle.model.problems import Problem
from volvelle.workload.readers.mapping import TIMES, parse_map
from volvelle.workload.readers.suggesting import suggested_dates
from volvelle.workload.reading import read_trace


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
    path.write_text("when,n,Duration (h:mm),Run\n0,1,1:00:00,5\n0,1,1:30,1:30\n0,1,26:10,1:00:00\n")
    columns = {"submit_time": "when", "gpus": "n", "duration": "Duration (h:mm)"}
    workload = read_trace(path, columns=columns)
    assert workload.durations.tolist() == [3600.0, 5400.0, 94200.0]
    assert workload.report is not None
    assert workload.report.assumed[0].startswith("duration is taken in hours and minutes, as its")
    bare = read_trace(path, columns=columns | {"duration": "Run"})
    assert bare.durations.tolist() == [5.0, 90.0, 3600.0]
    assert bare.report is not None and bare.report.assumed == [
        "duration is taken in minutes and seconds: 1:30 as 1m 30s; if it is in hours and minutes, "
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


@pytest.mark.parametrize(
    ("end", "told"),
    [("2026-10-25 03:30", True), ("2026-10-25T03:30:00Z", False), ("1792899000", False)],
)
def test_ends_without_a_zone_that_say_how_long_jobs_ran_are_told(
    tmp_path: Path, end: str, told: bool
) -> None:
    path = tmp_path / "ends.csv"
    path.write_text(f"submit_time,gpus,start_time,Ended\n0,1,1792890000,\n0,1,1792890000,{end}\n")
    report = read_trace(path, columns={"end_time": "Ended"}).report
    assert report is not None
    mapped = "start_time=start_time:Europe/Berlin,end_time=Ended:Europe/Berlin"
    told_of = [one for one in report.assumed if mapped in one]
    assert bool(told_of) is told
    if told:
        assert "line 3, column Ended" in report.examples[told_of[0]][0]
        zoned = read_trace(path, columns={"end_time": "Ended:Europe/Berlin"}).report
        assert zoned is not None and not zoned.assumed
    path.write_text(f"submit_time,gpus,duration,end_time\n2026-10-25 01:30,1,60,{end}\n")
    report = read_trace(path).report
    assert report is not None and not report.assumed, "no length goes by them"


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


@pytest.mark.parametrize("text", ["1 day, 2:03:04", "1 days 02:03:04", "1-02:03:04"])
def test_lengths_are_read_as_python_and_slurm_write_them(text: str) -> None:
    assert parse_duration(text) == 93784.0


@pytest.mark.parametrize(
    "text", ["3-25:99:00", "3-24:00:00", "1:60:00", "0:90", "1:00:60", "1-2:60"]
)
def test_lengths_with_more_minutes_than_an_hour_has_are_unreadable(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        parse_duration(text)
    path = tmp_path / "jobs.csv"
    path.write_text(f"submit_time,gpus,duration\n0,1,60\n0,1,{text}\n")
    for columns in ({}, {"duration": "duration:h"}):
        report = read_trace(path, columns=columns).report
        assert report is not None and report.dropped == {"unreadable duration": 1}


@pytest.mark.parametrize("text", ["26:10:00", "1570:00"])
def test_the_first_number_of_a_length_may_be_of_any_size(text: str) -> None:
    assert parse_duration(text) == 94200.0


def test_rows_far_below_say_whether_the_month_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = [f"job-{row},{4 if row < 5000 else 13}/05/2026 08:00,2,60\n" for row in range(5001)]
    path.write_text("Name,Requested On,# of GPUs,Minutes\n" + "".join(rows))
    with pytest.raises(Problem, match=r"--dates '%d/%m/%Y %H:%M'\.$"):
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
