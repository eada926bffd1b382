"""The --map line that is suggested for a table with other column names."""

from pathlib import Path

import pytest

from volvelle.model.problems import Problem
from volvelle.workload.readers.suggesting import (
    import_hint,
    suggested_dates,
    suggested_names,
    written_map,
)
from volvelle.workload.reading import read_trace


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
    assert written_map(suggested_names(dict.fromkeys(names.split(","), ()))) == f"--map {line}"


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
    assert written_map(suggested_names(dict.fromkeys(names.split(";"), ()))) == f"--map {line}"


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
    assert (
        written_map(suggested_names({"colour": (), "shape": ()}))
        == "--map submit_time=?,gpus=?,duration=?"
    )


def test_columns_that_fit_as_well_are_named(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("created_at,submitted_at,num_gpus,runtime\n1,2,3,4\n")
    with pytest.raises(Problem, match=r"\(submit_time may also be created_at\)"):
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


def test_no_end_is_proposed_as_the_submission_and_the_start_stands_for_it(tmp_path: Path) -> None:
    path = tmp_path / "site.csv"
    row = "2026-11-24T08:00;2026-11-24T09:30"
    path.write_text(f"Ticket;GPUs;Start;Stop;wall\n7;4;{row};{row[:16]}\n")
    named = "id=Ticket,submit_time=Start,gpus=GPUs,start_time=Start,end_time=Stop"
    with pytest.raises(Problem, match=f"{named} .*the start stands for the submission"):
        read_trace(path)  # wall holds dates, which are no durations
    with pytest.raises(Problem, match=r"submit_time=Start.*the start stands for the submission"):
        read_trace(path, columns={"start_time": "Start", "end_time": "Stop", "gpus": "GPUs"})
    path.write_text(f"Ticket;GPUs;Start;Stop;wall\n7;4;{row};1:30:00\n")
    with pytest.raises(Problem, match=r"duration=wall,start_time=Start"):
        read_trace(path)
    for end in ("Stop", "End date", "Job finish", "Completed (local)"):
        assert suggested_names({end: ("2026-11-24",), "GPUs": ("4",)})["submit_time"] == "?"


def test_estimates_research_groups_and_deadlines_are_guessed() -> None:
    names = ("Created", "GPUs", "Run time", "Est. hrs", "Research group", "Due")
    line = written_map(suggested_names(dict.fromkeys(names, ())))
    for part in ("estimate=Est. hrs:h", "pool=Research group", "deadline=Due"):
        assert part in line


def test_the_order_of_most_dates_is_suggested_and_broken_ones_do_not_count() -> None:
    month_first = ["10/13/2026"] * 3
    assert suggested_dates([*month_first, "13/10/2026"]) == "--dates %m/%d/%Y"
    assert suggested_dates(["13/45/2026", *month_first]) == "--dates %m/%d/%Y"
    assert suggested_dates(["13/45/2026", "13/10/2026"]) == "--dates %d/%m/%Y"
    assert suggested_dates(["13/45/2026", "10/11/2026"]).endswith("where the day comes first")
    assert suggested_dates(["13/45/2026", "0/3/2026"]) == ""


@pytest.mark.parametrize("broken", ["13/45/2026", "13/10/2026"])
def test_few_dates_that_a_given_form_does_not_read_suggest_no_other(
    tmp_path: Path, broken: str
) -> None:
    path = tmp_path / "us.csv"
    times = ["10/13/2026", "10/14/2026", broken]
    path.write_text("submit_time,gpus,duration\n" + "".join(f"{day},1,60\n" for day in times))
    report = read_trace(path, dates="%m/%d/%Y").report
    assert report is not None and report.dropped == {"unreadable submit_time": 1}
    assert import_hint(report) == ""


def test_a_column_of_numbers_is_one_of_gpus_and_no_type(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("Submitted,Accelerators,Runtime\n0,1,60\n0,16,60\n")
    with pytest.raises(Problem) as problem:
        read_trace(path)
    named = "submit_time=Submitted,gpus=Accelerators,duration=Runtime"
    assert problem.value.options == f"--map {named}"
    with_type = suggested_names({"Accelerators": ("1", "8"), "Accelerator Type": ("A100", "H100")})
    assert (with_type["gpus"], with_type["gpu_type"]) == ("Accelerators", "Accelerator Type")
    beside = suggested_names({"Accelerators": ("A100", "H100"), "GPUs": ("1", "2")})
    assert (beside["gpus"], beside["gpu_type"]) == ("GPUs", "Accelerators")
    assert suggested_names({"Accelerators": ("A100", "H100")})["gpus"] == "?"
