"""Errors name the thing and the mend, in one line, with the exit status promised."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Volvelle, command

pytest_plugins = ["command_fixtures"]

USAGE = [
    (["--policy", "srff"], "unknown policy 'srff' (did you mean 'sr"),
    (["--policy", "srfs"], "unknown policy 'srfs' (did you mean 'srsf'?)"),
    (["--policy", "las:rund=4"], "policy 'las': unknown key 'rund' (did you mean 'round'?)"),
    (
        ["--placement", "consolidate"],
        "unknown placement 'consolidate' (did you mean 'consolidated'",
    ),
    (["--overheads", "restor=4"], "--overheads: unknown key 'restor' (did you mean 'restore'?)"),
    (["--overheads", "restore"], "--overheads: 'restore': cannot read 'restore', write key=value"),
    (["--track", "5"], "--track: '5': write FIRST:LAST"),
    (["--track", "2:4000"], "cannot track jobs 2 to 4000 of 6"),
    (["--tick", "soon"], "--tick: 'soon': cannot read 'soon' as a duration"),
    (["--map", "gpus"], "cannot read 'gpus' as a column mapping"),
    (["--config", "none.toml"], "there is no file none.toml"),
]


@pytest.mark.parametrize(("options", "said"), USAGE)
def test_a_misused_option_ends_with_2(
    volvelle: Volvelle, trace: Path, options: list[str], said: str
) -> None:
    ran = volvelle("simulate", trace, "--cluster", "1x8", *options)
    assert ran.status == 2
    assert said in ran.err
    assert ran.err.startswith("error: ")
    assert not Path("volvelle-run").exists()


def test_what_is_missing_is_named(volvelle: Volvelle, trace: Path) -> None:
    for arguments, said in (
        (["simulate", trace], "no cluster is given. Say --cluster"),
        (["simulate", "-c", "1x8"], "no workload is given"),
        (["simulate", trace, "-c", "1x8", "--bogus"], "No such option: --bogus"),
        (["trace", "generate", "gavel"], "where to write is not said"),
        (["trace", "generate", "demo:jobs=-5"], "key 'jobs' is '-5'"),
        (["trace", "generate", "--out", "x.csv"], "a generator or --like TRACE is needed"),
        (["list", "policies", "srff"], "there is no 'srff' among the policies (did you mean"),
        (["list", "colours"], "colours"),
        (
            ["compare", trace, "-c", "1x8", "-m", "jtc"],
            "unknown metric 'jtc' (did you mean 'jct'?)",
        ),
        (["compare", trace, "-c", "1x8", "-m", "wait"], "(did you mean 'responsiveness'?)"),
        (["simulate", trace, "--format", "slrum", "-c", "1x8"], "(did you mean 'sacct'?)"),
        (["compare", trace, "-c", "1x8", "--price", "cheap"], "'cheap' is no price"),
        (["simulate", trace, "-c", "8y8"], "cannot read '8y8' as a cluster"),
        (["compare", trace, "-c", "8y8", "-p", "srff"], "as a cluster; unknown policy 'srff'"),
        (
            ["compare", trace, "own.py", "-c", "1x8"],
            "own.py is no trace. A policy of your own is --policy own.py:NAME.",
        ),
        (["list", "policis"], "there is no kind 'policis' (did you mean 'policies'?)"),
        (["simulate", trace, "-c", "1x8", "-p", "fifo:x=1"], "Its keys are round, preemptive"),
        (["submit", "--array", "0-3", "--", "true"], "'0-3', which is not a number of jobs"),
        (["simulate", trace, "-c", "99999999x8"], "'99999999x8' has more than 1,000,000 nodes"),
    ):
        ran = volvelle(*arguments)
        assert ran.status == 2, said
        assert said in ran.err


def test_bad_files_end_with_1(volvelle: Volvelle, trace: Path) -> None:
    Path("empty.csv").write_text("")
    Path("head.csv").write_text("id,submit_time,gpus,duration\n")
    Path("bad.toml").write_text("nodes = [{count = 1, gpus = 8}]\npools = [{name='a', quota=9}]\n")
    Path("node.toml").write_text("[[node]]\ngpus = 4\n")
    Path("four.toml").write_text("[[nodes]]\ngpus = 'four'\n")
    Path("missing.py").write_text("import volvelle\nimport no_such_module\n")
    for arguments, said in (
        (["simulate", trace, "-c", "node.toml"], "unknown key 'node' (did you mean 'nodes'?)"),
        (["simulate", trace, "-c", "four.toml"], "'four': it has to be a whole number."),
        (
            ["compare", "node.toml", "-c", "1x8"],
            "If it describes an experiment: --config node.toml",
        ),
        (
            ["simulate", trace, "-c", "1x8", "-p", "missing.py"],
            "missing.py cannot be loaded at line 2",
        ),
        (["simulate", "nil.csv", "-c", "1x8"], "there is no file nil.csv. Check"),
        (["simulate", "smal.csv", "-c", "1x8"], "there is no file smal.csv (did you mean"),
        (["simulate", "empty.csv", "-c", "1x8"], "empty.csv is empty. Give a table"),
        (["simulate", "head.csv", "-c", "1x8"], "0 jobs kept. It needs a row for each job."),
        (["simulate", trace, "-c", "bad.toml"], "the pools' quotas add up to 9 GPUs"),
        (["report", "nowhere"], "nowhere is not a run directory"),
    ):
        ran = volvelle(*arguments)
        assert ran.status == 1, said
        assert said in ran.err
        assert "Traceback" not in ran.err


def test_an_unknown_key_of_a_config_is_named_with_the_nearest(volvelle: Volvelle) -> None:
    Path("exp.toml").write_text('policis = ["fifo"]\n')
    ran = volvelle("compare", "--config", "exp.toml")
    assert ran.status == 2
    assert "exp.toml: unknown key 'policis' (did you mean 'policies'?)" in ran.err


def test_a_command_of_another_name_leads_to_ours(volvelle: Volvelle) -> None:
    for name, said in (
        ("what-if", "See: volvelle why JOB, submit --dry-run"),
        ("squeue", "See: volvelle queue"),
        ("cancl", "Did you mean 'cancel'?"),
        ("policy fifo", "To set a policy: volvelle policy set NAME"),
    ):
        ran = volvelle(*name.split())
        assert ran.status == 2
        assert said in " ".join(ran.err.replace("│", " ").split())


def test_a_duration_that_contradicts_start_and_end_is_remarked_on(volvelle: Volvelle) -> None:
    rows = "".join(f"{60 * i},{60 * i},{60 * i + 900 + i},{1 + i % 4}\n" for i in range(20))
    Path("t.csv").write_text("submit_time,start_time,end_time,gpus\n" + rows)
    said = "t.csv: for 20 of 20 jobs the duration (column gpus) is not the time from start_time"
    assert said in volvelle("trace", "describe", "t.csv", "--map", "duration=gpus").err
    assert "duration" not in volvelle("trace", "describe", "t.csv").err


def test_a_policy_of_a_file_under_which_no_job_waits_is_remarked_on(volvelle: Volvelle) -> None:
    Path("wrong.py").write_text(
        "from volvelle import policy\n\n\n"
        "@policy.order('wrong')\ndef wrong(job, now):\n    return job.no_such_thing\n"
    )
    Path("t.csv").write_text("submit_time,gpus,duration\n0,1,10\n20,1,10\n20,1,10\n")
    said = "no job waited under wrong.py, which may never have been asked"
    for verb in ("simulate", "compare"):
        ran = volvelle(verb, "t.csv", "-c", "1x8", "-p", "wrong.py", "--out", verb)
        assert ran.status == 0
        assert said in ran.err
    asked = volvelle("simulate", "t.csv", "-c", "1x1", "-p", "wrong.py", "--out", "asked")
    assert asked.status == 1
    assert "no_such_thing" in asked.err
    unlike = volvelle("simulate", "t.csv", "-c", "1x8", "-p", "fifo", "--out", "fifo")
    assert "no job waited" not in unlike.err


def test_a_policy_of_a_file_that_takes_long_is_said_to_be_asked_often(
    volvelle: Volvelle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volvelle.cli.output._LONG", 0.0)
    Path("nearest.py").write_text(
        "from volvelle import policy\n\n\n"
        "@policy.order('nearest')\ndef nearest(jobs, now):\n    return abs(jobs.gpus - jobs.gpus.mean())\n"
    )
    Path("t.csv").write_text("submit_time,gpus,duration\n0,1,10\n1,1,10\n2,1,10\n")
    for verb in ("simulate", "compare"):
        policies = ["-p", "nearest.py"] + ["-p", "fifo"] * (verb == "compare")
        ran = volvelle(verb, "t.csv", "-c", "1x1", *policies, "--out", verb)
        assert ran.err.count(" times, ") == 1
        assert "note: nearest.py was asked 6 times, " in ran.err
        assert ran.err.endswith("quicker by `round=60`, or an order by each job alone\n")


def test_dropped_rows_are_told(volvelle: Volvelle) -> None:
    Path("t.csv").write_text("id,submit_time,gpus,duration\na,0,1,10\nb,1,four,10\n")
    ran = volvelle("simulate", "t.csv", "-c", "1x8")
    assert ran.status == 0
    assert "1 job kept, 1 dropped" in ran.err
    assert "'four'" in ran.err
    compared = volvelle("compare", "t.csv", "-c", "1x8", "-p", "fifo", "--out", "compared")
    assert compared.out.startswith("t.csv (volvelle), 1 job; 8 GPUs")
    strict = volvelle("simulate", "t.csv", "-c", "1x8", "--strict", "--out", "other")
    assert strict.status == 1
    assert "t.csv line 3" in strict.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named_and_nothing_partial_is_left(volvelle: Volvelle, trace: Path) -> None:
    run = trace.parent / "run"
    run.mkdir()
    (run / "journal.jsonl.partial").symlink_to("/dev/full")
    ran = volvelle("simulate", trace, "-c", "1x8", "--out", "run")
    assert ran.status == 1
    assert "error: cannot write run/journal.jsonl: No space left on device" in ran.err
    assert [path.name for path in run.iterdir()] == ["run.json"]
    assert '"status": "failed"' in (run / "run.json").read_text()


def test_a_worker_that_cannot_write_fails_its_run(tmp_path: Path, trace: Path) -> None:
    limited = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); "
        "sys.argv[0] = 'volvelle'; runpy.run_module('volvelle.cli.main', run_name='__main__')"
    )
    arguments = command("compare", trace, "-c", "1x8", "-p", "fifo", "-p", "srsf", "--out", "cmp")
    ran = subprocess.run(
        [sys.executable, "-c", limited, *arguments[3:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert "cannot write cmp/runs/fifo/metrics.json: File too large" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not list((tmp_path / "cmp").rglob("*.partial"))
    assert '"status": "failed"' in (tmp_path / "cmp/runs/fifo/run.json").read_text()


def test_output_that_cannot_be_delivered_is_an_error(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            command("list", "formats", "-o", "csv"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 1
    assert "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_mistake_of_ours_keeps_its_traceback(
    volvelle: Volvelle, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("volvelle.notebook.runs.simulate_run", broken)
    with pytest.raises(ZeroDivisionError):
        volvelle("simulate", trace, "-c", "1x8")
