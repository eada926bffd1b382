"""``volvelle compare`` runs several compositions in parallel and sets them side by side."""

import json
from pathlib import Path

import pytest
from command_line import Volvelle, run_apart
from systems_here import needs

from volvelle.core.registry import forgotten_files
from volvelle.metrics.catalogue import measure
from volvelle.simulate.run_directory import read_outcomes, read_record

pytest_plugins = ["command_fixtures"]


def rows(text: str) -> dict[str, dict[str, float]]:
    return {row["run"]: row for row in json.loads(text)["rows"]}


def test_each_run_has_a_row_and_a_folder(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle(
        "compare", trace, "-c", "1x8", "-p", "fifo", "-p", "srsf", "-m", "jct:mean", "-o", "json",
        "--out", "cmp",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    table = rows(ran.out)
    for name in ("fifo", "srsf"):
        folder = Path("cmp/runs", name)
        outcomes = read_outcomes(folder, read_record(folder))
        assert table[name]["jct:mean"] == measure(outcomes, "jct:mean")
        assert (folder / "jobs.csv").is_file()
        assert (folder / "metrics.json").is_file()
        assert not (folder / "journal.jsonl").exists()
    assert table["srsf"]["jct:mean"] < table["fifo"]["jct:mean"]
    assert Path("cmp/report.html").is_file()


def test_the_best_of_each_column_is_starred_and_the_report_named(
    volvelle: Volvelle, trace: Path
) -> None:
    ran = volvelle("compare", trace, "-c", "1x8", "-p", "fifo", "-p", "srsf")
    srsf = next(line for line in ran.out.splitlines() if line.strip().startswith("srsf"))
    assert "*" in srsf
    assert ran.out.rstrip().endswith("Pictures: volvelle-compare/report.html")


SLOW = """
import time

from volvelle import policy


@policy.order("slow")
def slow(jobs, now):
    "First come, first served, after some thought."
    time.sleep(0.02)
    return jobs.submit_time
"""


def test_a_first_table_is_shown_while_slow_policies_go_on(
    volvelle: Volvelle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volvelle.cli.compare._QUICK_SECONDS", 0.0)
    Path("slow.py").write_text(SLOW)
    jobs = ("--generate", "lognormal:jobs=60", "-c", "2x8")
    ran = volvelle("compare", *jobs, "-p", "slow.py", "-p", "fifo", "-p", "srsf", "--workers", "2")
    assert ran.status == 0, ran.err
    _, _, table = ran.err.partition("The quick policies first; 1 other to follow:")
    assert [line.split()[0] for line in table.splitlines()[2:4]] == ["fifo", "srsf"]
    assert "slow" not in table
    assert "slow" in ran.out
    quiet = volvelle("compare", *jobs, "-p", "slow.py", "-p", "fifo", "-o", "csv", "--force")
    assert "first" not in quiet.err


def test_a_report_made_again_from_the_files_says_the_same(volvelle: Volvelle) -> None:
    """The first one has the summaries from the processes that made them, and the jobs as read."""
    generated = ("--generate", "lognormal:jobs=60,users=3", "-c", "2x8", "--until", "1d")
    first = volvelle("compare", *generated, "-p", "las", "-p", "srsf", "--out", "cmp", "-o", "json")
    page = Path("cmp/report.html").read_text()
    again = volvelle("report", "cmp", "-o", "json")
    assert (first.status, again.status) == (0, 0)
    assert rows(again.out) == rows(first.out)
    assert Path("cmp/report.html").read_text() == page


def test_results_do_not_depend_on_the_number_of_workers(volvelle: Volvelle) -> None:
    common = ("compare", "--generate", "lognormal:jobs=80", "-c", "2x8", "-o", "csv")
    parts = ("-p", "las", "-p", "easy", "-p", "srtf", "--estimator", "noisy")
    printed = [
        volvelle(*common, *parts, "--workers", workers, "--out", f"w{workers}").out
        for workers in (1, 3)
    ]
    assert printed[0] == printed[1]
    for name in ("las", "easy", "srtf"):
        one, three = (Path(f"w{workers}/runs/{name}/jobs.csv") for workers in (1, 3))
        assert one.read_bytes() == three.read_bytes()


def test_workers_can_be_started_without_fork(
    volvelle: Volvelle, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = ("compare", trace, "-c", "1x8", "-p", "fifo", "-o", "csv")
    forked = volvelle(*common).out
    monkeypatch.setattr("volvelle.simulate.workers.START_METHOD", "spawn")
    assert volvelle(*common, "--force").out == forked


def test_lists_multiply(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle(
        "compare", trace, "-c", "1x8", "-p", "fifo", "-p", "srsf", "--placement", "none",
        "--placement", "consolidated", "-m", "jct:mean", "-o", "json",
    )  # fmt: skip
    assert list(rows(ran.out)) == [
        "fifo + none", "fifo + consolidated", "srsf + none", "srsf + consolidated",
    ]  # fmt: skip


def test_seeds_draw_workloads_of_their_own(volvelle: Volvelle) -> None:
    ran = volvelle(
        "compare", "--generate", "lognormal:jobs=40", "-c", "2x8", "-p", "fifo", "--seed", 1,
        "--seed", 2, "-m", "makespan", "-o", "json",
    )  # fmt: skip
    table = rows(ran.out)
    assert table["fifo, seed 1"]["makespan"] != table["fifo, seed 2"]["makespan"]


def test_resume_keeps_equal_finished_runs(volvelle: Volvelle, trace: Path) -> None:
    common = ("compare", trace, "-c", "1x8", "-m", "jct:mean", "--out", "cmp")
    volvelle(*common, "-p", "fifo")
    before = Path("cmp/runs/fifo/run.json").stat().st_mtime_ns
    ran = volvelle(*common, "-p", "fifo", "-p", "srsf", "--resume")
    assert "1 of them earlier" in ran.out
    assert Path("cmp/runs/fifo/run.json").stat().st_mtime_ns == before
    assert "cmp has results of an earlier command" in volvelle(*common, "-p", "fifo").err
    volvelle(*common, "-p", "fifo", "--resume", "--overheads", "start=5")
    assert Path("cmp/runs/fifo/run.json").stat().st_mtime_ns != before


def test_a_policy_that_failed_is_made_once_it_is_mended(volvelle: Volvelle, trace: Path) -> None:
    own = Path("own.py")
    order = "from volvelle import policy\n\n@policy.order('own')\ndef own(jobs, now):\n"
    own.write_text(f"{order}    return jobs.gpu\n")
    common = ("compare", trace, "-p", "fifo", "-p", "own.py", "-m", "jct:mean", "--out", "cmp")
    with forgotten_files():
        assert "did you mean 'gpus'?" in volvelle(*common, "-c", "1x8").err
    before = Path("cmp/runs/fifo/run.json").stat().st_mtime_ns
    own.write_text(f"{order}    return jobs.gpus\n")
    other = volvelle(*common, "-c", "2x8")
    assert "Make the rest with --resume (own)" in other.err
    ran = volvelle(*common, "-c", "1x8")
    assert ran.status == 0, ran.err
    assert "note: makes what cmp lacks, own, and keeps the rest" in ran.err
    assert Path("cmp/runs/fifo/run.json").stat().st_mtime_ns == before


def test_without_a_folder_the_last_comparison_is_resumed(volvelle: Volvelle, trace: Path) -> None:
    common = ("compare", trace, "-c", "1x8", "-m", "jct:mean")
    for policy in ("fifo", "las"):
        assert volvelle(*common, "-p", policy).status == 0
    ran = volvelle(*common, "-p", "las", "-p", "srsf", "--resume")
    assert "1 of them earlier" in ran.out
    assert "Pictures: volvelle-compare-2/report.html" in ran.out


def test_runs_of_several_commands_are_reported_together(volvelle: Volvelle, trace: Path) -> None:
    volvelle("compare", trace, "-c", "1x8", "-p", "fifo", "-p", "srsf", "--out", "cmp")
    volvelle("simulate", trace, "-c", "1x8", "-p", "las", "--out", "las")
    ran = volvelle("report", "cmp", "las", "-m", "jct:mean", "-o", "json", "--out", "all")
    assert list(rows(ran.out)) == ["fifo", "srsf", "las"]
    assert Path("all/report.html").is_file()


def test_a_report_is_the_same_from_the_journal_alone(volvelle: Volvelle, trace: Path) -> None:
    volvelle("simulate", trace, "-c", "1x8", "-p", "las", "--out", "las", "--track", "1:4")
    stored = volvelle("report", "las", "-o", "csv")
    Path("las/outcomes.npz").unlink()
    assert volvelle("report", "las", "-o", "csv").out == stored.out


def test_a_config_file_says_it_all_and_options_come_before_it(
    volvelle: Volvelle, trace: Path
) -> None:
    folder = trace.parent / "study"
    folder.mkdir()
    (folder / "exp.toml").write_text(
        'trace = "../small.csv"\n'
        'policies = ["fifo", {name = "las", round = "1m"}]\n'
        "seed = 4\n"
        'metrics = ["jct:mean", "makespan"]\n'
        'track = "1:5"\n'
        'out = "results"\n'
        "overheads = {restore = 20}\n"
        "[cluster]\nnodes = [{count = 2, gpus = 4}]\n"
    )
    ran = volvelle("compare", "--config", "study/exp.toml", "-o", "json")
    assert ran.status == 0, ran.err
    assert list(rows(ran.out)) == ["fifo", "las:round=60"]
    record = read_record(folder / "results/runs/fifo")
    assert (record.seed, record.tracked, record.overheads["restore"]) == (4, (1, 5), 20.0)
    assert len(record.cluster.nodes) == 2
    again = volvelle(
        "compare", "--config", "study/exp.toml", "--resume", "-p", "srsf", "-o", "json"
    )
    assert list(rows(again.out)) == ["srsf"]


def test_the_demo_beside_other_jobs_is_refused_and_keeps_its_folder(tmp_path: Path) -> None:
    ran = run_apart("compare", "--demo", "--generate", "lognormal:jobs=9", cwd=tmp_path)
    assert ran.status == 2
    assert "--demo is a comparison of jobs of its own" in ran.err
    assert not (tmp_path / "volvelle-demo").exists()


def test_the_demo_needs_nothing_and_says_what_is_next(tmp_path: Path) -> None:
    ran = run_apart(
        "compare", "--demo", "-p", "fifo", "-p", "srsf", cwd=tmp_path
    )  # two of its policies, for time's sake
    assert ran.status == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith(
        "Demo workload: 2,000 jobs, 64 GPUs (8x8), load 0.9, seed 7 — simulated 2 policies in "
    )
    assert lines[-2].endswith("Pictures: volvelle-demo/report.html")
    assert lines[-1].startswith("Next: volvelle compare your.csv")
    assert (tmp_path / "volvelle-demo/report.html").is_file()
    assert ran.err == ""


POOLS = """
nodes = [{ gpus = 8, count = 2 }]
pools = [{ name = "queue-1", quota = 8, lends = true }, { name = "queue-2", quota = 8, lends = true }]
"""


@needs("anticipatory")
def test_all_are_judged_against_a_reference(volvelle: Volvelle) -> None:
    Path("pools.toml").write_text(POOLS)
    generated = ("--generate", "anticipatory:queues=2,length=1d", "-c", "pools.toml")
    policies = ("-p", "mmfs", "-p", "anticipatory-vc", "--reference", "fcfs-pools")
    ran = volvelle("compare", *generated, *policies, "--seed", 1, "--seed", 2, "-o", "json")
    assert ran.status == 0, ran.err
    judged = rows(ran.out)
    assert set(judged) == {
        f"{policy}, seed {seed}" for policy in ("mmfs", "anticipatory-vc") for seed in (1, 2)
    }
    for seed in (1, 2):
        found = judged[f"anticipatory-vc, seed {seed}"]
        assert (found["slowed"], found["harm:total"], found["harm:max"]) == (0, 0, 0)
        assert found["speed_up"] > 1
    assert max(judged[f"mmfs, seed {seed}"]["harm:total"] for seed in (1, 2)) > 0
    again = volvelle("report", "volvelle-compare", "--reference", "fcfs-pools", "-o", "json")
    assert rows(again.out) == judged
    page = Path("volvelle-compare/report.html").read_text()
    assert "Against fcfs-pools, by pool" in page
    assert "Speed-up against harm" in page


def test_a_run_without_its_reference_is_named(volvelle: Volvelle) -> None:
    generated = ("--generate", "lognormal:jobs=20", "-c", "1x8")
    assert volvelle("compare", *generated, "-p", "las", "-p", "srsf").status == 0
    ran = volvelle("report", "volvelle-compare", "--reference", "fifo")
    assert ran.status == 2
    assert "run 'las' has no reference" in ran.err


def test_a_row_of_many_policies_has_a_short_name(volvelle: Volvelle) -> None:
    Path("apart.csv").write_text("submit_time,gpus,duration\n0,1,10\n20,1,10\n40,1,10\n")
    several = [each for name in ("fifo", "srsf", "sjf", "edf", "las") for each in ("-p", name)]
    ran = volvelle("compare", "apart.csv", "-c", "1x8", *several)
    assert " fifo, srsf and 2 more  " in ran.out
    assert "fifo, srsf, sjf and edf decide alike on these jobs" in ran.out
    assert "from fifo, srsf and 2 more." in ran.out
