"""``volvelle simulate`` writes a run directory from which the run can be known and told again."""

import csv
import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Ran, Volvelle
from systems_here import needs

from volvelle.core.journal import read_journal, replay
from volvelle.core.snapshot import Snapshot

pytest_plugins = ["command_fixtures"]


def read_jobs(path: Path) -> Any:
    """The columns of a jobs.csv but the reason, in which there may be a comma."""
    table = np.genfromtxt(
        path, delimiter=",", names=True, dtype=None, encoding="utf-8", usecols=range(16)
    )
    return table.view(np.recarray)


@needs("pollux")
def test_it_is_said_that_a_policy_chooses_nodes_where_a_placement_is_given(
    volvelle: Volvelle, trace: Path
) -> None:
    said = "policy pollux chooses nodes itself: placement first-free only picks GPUs"
    runs = {
        placement: volvelle(
            command, trace, "--cluster", "1x8", "--policy", "pollux", "--placement", placement
        )
        for command, placement in (("simulate", "none"), ("compare", "first-free"))
    }
    assert [ran.status for ran in runs.values()] == [0, 0]
    assert said in runs["first-free"].err
    assert said not in runs["none"].err
    parts = ("--cluster", "1x8", "--placement", "first-free", "--force")
    other = volvelle("simulate", trace, *parts)
    assert other.status == 0
    assert "chooses nodes" not in other.err


def test_a_run_directory_holds_configuration_jobs_metrics_journal_and_report(
    volvelle: Volvelle, trace: Path
) -> None:
    ran = volvelle(
        "simulate", trace, "--cluster", "1x8", "--policy", "las:round=60", "--seed", 3,
        "--overheads", "restore=20,checkpoint=5", "--out", "run",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    run = trace.parent / "run"
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished"
    assert record["composition"]["policy"] == "las:round=60"
    assert record["overheads"]["restore"] == 20.0
    assert record["seed"] == 3
    assert record["workload"]["jobs"] == 6
    assert len(record["workload"]["sha256"]) == 64
    assert {"volvelle", "python", "numpy"} <= set(record["versions"])
    assert len(read_jobs(run / "jobs.csv")) == 6
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["jobs"]["status"]["finished"] == 6
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert not list(run.glob("*.png"))
    assert not list(run.glob("*.partial"))
    assert "las:round=60: 6 finished" in ran.out
    assert "Report: run/report.html" in ran.out


def test_charts_are_painted_on_request_and_do_not_outlive_their_run(
    volvelle: Volvelle, trace: Path
) -> None:
    charts = {f"{name}.png" for name in ("gantt", "jct_cdf", "queue", "utilisation", "wait_cdf")}
    asked = ("simulate", trace, "-c", "1x8", "-p", "fifo", "--out", "run")
    assert volvelle(*asked, "--png").status == 0
    assert {path.name for path in (trace.parent / "run").glob("*.png")} == charts
    assert volvelle(*asked, "--force").status == 0
    assert not list((trace.parent / "run").glob("*.png"))
    assert volvelle("report", "run", "--png").status == 0
    assert {path.name for path in (trace.parent / "run").glob("*.png")} == charts


def test_the_journal_replays(volvelle: Volvelle, trace: Path) -> None:
    assert volvelle("simulate", trace, "-c", "1x8", "-p", "srsf", "--out", "run").status == 0
    assert not replay(*read_journal(trace.parent / "run" / "journal.jsonl")).known


def test_json_holds_raw_numbers(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("simulate", trace, "-c", "1x8", "-p", "fifo", "-o", "json")
    document = json.loads(ran.out)
    jobs = read_jobs(trace.parent / "volvelle-run" / "jobs.csv")
    assert document["status"] == "finished"
    assert document["metrics"]["jct"]["mean"] == float(np.mean(jobs.jct))


def test_csv_has_a_line_for_each_metric(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("simulate", trace, "-c", "1x8", "-p", "fifo", "-o", "csv", "--no-journal")
    lines = {line["metric"]: line for line in csv.DictReader(io.StringIO(ran.out))}
    assert lines["jct"]["unit"] == "s"
    assert int(lines["jct"]["count"]) == 6
    assert not (trace.parent / "volvelle-run" / "journal.jsonl").exists()


def test_only_tracked_jobs_are_measured(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("simulate", trace, "-c", "1x8", "-p", "fifo", "--track", "2:4", "-o", "json")
    document = json.loads(ran.out)
    assert document["jobs"]["tracked"] == 3
    again = volvelle("report", "volvelle-run", "-o", "csv")
    assert ",3," in again.out.splitlines()[1]


def test_until_ends_the_simulation(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("simulate", trace, "-c", "1x8", "--until", "10m", "-o", "json")
    assert json.loads(ran.out)["jobs"]["status"]["running"] >= 1


def test_a_job_wider_than_the_cluster_is_rejected_with_its_reason(
    volvelle: Volvelle, tmp_path: Path
) -> None:
    (tmp_path / "wide.csv").write_text(
        "id,submit_time,gpus,duration\nllm-70b,0,512,100\nb,1,1,10\nc,2,8,10\nd,3,700,3\n"
    )
    ran = volvelle("simulate", "wide.csv", "-c", "42x8", "--out", "run")
    assert ran.status == 0
    assert (
        "job 'llm-70b' wants 512 GPUs, the cluster has 336 (1 more like it): "
        "rejected, 2 others simulated." in ran.err
    )
    assert (read_jobs(tmp_path / "run" / "jobs.csv").status == "rejected").sum() == 2


def test_jobs_that_end_by_their_time_limits_are_said_to(volvelle: Volvelle, tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text(
        "id,submit_time,gpus,duration,time_limit\na,0,1,100,50\nb,0,1,100,\nc,9,1,100,60\n"
    )
    ran = volvelle("simulate", "limits.csv", "-c", "1x8", "--out", "run")
    assert "job 'a' failed: its time limit of 50s is over (1 more like it)." in ran.err
    assert "failed,,,,its time limit of 1m 00s is over" in (tmp_path / "run/jobs.csv").read_text()


def test_jobs_that_are_all_rejected_are_an_error(volvelle: Volvelle) -> None:
    Path("us.csv").write_text("id,submit_time,gpus,duration\na,0,64,100\n")
    for command in (["simulate"], ["compare", "-p", "fifo", "--workers", "1"]):
        ran = volvelle(*command, "us.csv", "-c", "4x8")
        assert ran.status == 1
        assert "'us' has no job that runs: all 1 are rejected; job 'a' wants 64 GPUs" in ran.err


def test_running_again_replaces_the_run_if_it_may(volvelle: Volvelle, trace: Path) -> None:
    def simulated(policy: str, *more: str) -> tuple[Ran, str]:
        ran = volvelle("simulate", trace, "-c", "1x8", "-p", policy, "--out", "run", *more)
        record = json.loads((trace.parent / "run" / "run.json").read_text())
        return ran, record["composition"]["policy"]

    simulated("fifo")
    refused, policy = simulated("srsf")
    assert (refused.status, policy) == (1, "fifo")
    assert "run has results of an earlier command. Choose another folder with --out" in refused.err
    forced, policy = simulated("srsf", "--force")
    assert (forced.status, policy) == (0, "srsf")


def test_without_a_folder_each_run_has_one_of_its_own(volvelle: Volvelle, trace: Path) -> None:
    for _ in range(2):
        assert volvelle("simulate", trace, "-c", "1x8").status == 0
    assert "volvelle-run-2/report.html" in volvelle("report", "volvelle-run-2").out
    volvelle("simulate", trace, "-c", "1x8", "--force")
    assert not (trace.parent / "volvelle-run-3").exists()


def test_a_folder_with_other_files_is_left_alone(volvelle: Volvelle, trace: Path) -> None:
    (trace.parent / "home").mkdir()
    (trace.parent / "home" / "thesis.tex").write_text("...")
    ran = volvelle("simulate", trace, "-c", "1x8", "--out", "home")
    assert ran.status == 1
    assert "home has other files in it (thesis.tex)" in ran.err


def test_the_same_configuration_gives_the_same_files(volvelle: Volvelle) -> None:
    for folder in ("one", "two"):
        ran = volvelle(
            "simulate", "--generate", "lognormal:jobs=60", "-c", "2x8", "-p", "las",
            "--estimator", "noisy", "--seed", 5, "--out", folder,
        )  # fmt: skip
        assert ran.status == 0, ran.err
    for name in ("jobs.csv", "metrics.json", "journal.jsonl"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()


def test_a_policy_file_plugs_in(volvelle: Volvelle, trace: Path) -> None:
    (trace.parent / "widest.py").write_text(
        "from volvelle import policy\n\n"
        "@policy.order('widest-first')\n"
        "def widest(jobs, now):\n"
        '    """Widest first."""\n'
        "    return -jobs.gpus\n"
    )
    ran = volvelle("simulate", trace, "-c", "1x8", "-p", "widest.py")
    assert ran.status == 0, ran.err
    assert "widest-first: 6 finished" in ran.out


def test_a_metric_file_is_measured_shown_and_kept_by_its_name(
    volvelle: Volvelle, trace: Path
) -> None:
    (trace.parent / "late.py").write_text(
        "from volvelle.metrics import per_job\n"
        "from volvelle.metrics.catalogue import metric\n\n"
        "@metric('late_share', '%', 'lower', title='share waited')\n"
        "def late_share(outcomes):\n"
        '    """Share of its stay that a job waits."""\n'
        "    return 100.0 * per_job.queueing_delay(outcomes) / per_job.jct(outcomes)\n"
    )
    (trace.parent / "exp.toml").write_text('metric = "late.py:late_share:max"\ncluster = "1x8"\n')
    volvelle("simulate", trace, "--cluster", "1x8", "--out", "plain")
    jobs = read_jobs(Path("plain/jobs.csv"))
    wanted = 100.0 * np.asarray(jobs.queueing_delay) / np.asarray(jobs.jct)
    asked = volvelle("simulate", trace, "--config", "exp.toml", "--out", "asked", "-o", "json")
    assert json.loads(asked.out)["rows"][0]["late_share:max"] == pytest.approx(wanted.max())
    kept = json.loads(Path("asked/metrics.json").read_text())["metrics"]["late_share"]
    assert (kept["unit"], kept["mean"]) == ("%", pytest.approx(wanted.mean()))
    assert "Share waited" in Path("asked/report.html").read_text()
    policies = ("-p", "fifo", "-p", "srtf")
    compared = volvelle("compare", trace, "-c", "1x8", *policies, "-m", "late.py", "-o", "json")
    assert json.loads(compared.out)["rows"][0]["late_share:mean"] == pytest.approx(wanted.mean())
    shown = volvelle("report", "asked", "-m", "late.py:late_share:p50", "-o", "csv")
    assert shown.out.splitlines()[0] == "run,late_share:p50 [%]"
    wrong = volvelle("simulate", trace, "-c", "1x8", "-m", "late.py:latest")
    assert (wrong.status, "did you mean" in wrong.err) == (2, True)


def test_predictions_are_measured_and_kept(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle(
        "simulate", trace, "--cluster", "1x8", "--policy", "srsf", "--refresh", "--out", "run"
    )
    assert ran.status == 0, ran.err
    run = trace.parent / "run"
    assert json.loads((run / "run.json").read_text())["predict"] is True
    jobs = read_jobs(run / "jobs.csv")
    assert not np.isnan(jobs.predicted_finish_time).any()
    assert json.loads((run / "metrics.json").read_text())["metrics"]["eta_error"]["count"] == 6
    with (run / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["job_id"] for row in rows} == set(jobs.job_id.tolist())
    assert all(float(row["finish_time"]) >= float(row["time"]) for row in rows)


def test_without_refresh_there_is_no_file_of_predictions(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("simulate", trace, "--cluster", "1x8", "--predict", "--out", "run")
    assert ran.status == 0, ran.err
    assert not (trace.parent / "run" / "predictions.csv").exists()
    assert not np.isnan(read_jobs(trace.parent / "run" / "jobs.csv").predicted_finish_time).any()


def test_a_run_can_be_had_again_from_its_journal_and_under_another_policy(
    volvelle: Volvelle, trace: Path
) -> None:
    told = ("--cluster", "1x8", "--estimator", "declared", "--overheads", "start=5")
    ran = volvelle("simulate", trace, *told, "--policy", "srsf", "--out", "run")
    assert ran.status == 0, ran.err
    again = volvelle("simulate", "--from-journal", "run", "--out", "again")
    assert again.status == 0, again.err
    folder = trace.parent
    one, other = (read_jobs(folder / name / "jobs.csv") for name in ("run", "again"))
    np.testing.assert_allclose(one.finish_time, other.finish_time, rtol=1e-9)
    under_fifo = ("--policy", "fifo", "--out", "fifo")
    ran = volvelle("simulate", "--from-journal", "run/journal.jsonl", *under_fifo)
    assert ran.status == 0, ran.err
    assert "fifo: 6 finished" in ran.out


def test_a_journal_that_is_not_there_is_named(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("simulate", "--from-journal", "nowhere", "--out", "run")
    assert ran.status == 2
    assert "nowhere" in ran.err


def test_the_jobs_of_a_snapshot_go_on_to_their_believed_ends(
    volvelle: Volvelle, trace: Path
) -> None:
    ran = volvelle(
        "simulate", trace, "--cluster", "1x8", "--placement", "first-free", "--out", "run"
    )  # fmt: skip
    assert ran.status == 0, ran.err
    header, entries = read_journal(trace.parent / "run" / "journal.jsonl")
    scheduler = replay(header, islice(entries, 3))
    (trace.parent / "now.json").write_bytes(Snapshot.of(scheduler, "0").encode())
    ran = volvelle("simulate", "--from-snapshot", "now.json", "--policy", "srtf", "--out", "on")
    assert ran.status == 0, ran.err
    assert f"snapshot now.json, {len(scheduler.known)} jobs" in ran.out
    assert (trace.parent / "on" / "report.html").is_file()
    ran = volvelle("simulate", "--from-snapshot", "run/run.json", "--out", "other")
    assert ran.status == 1
    assert "run.json is no snapshot" in ran.err
