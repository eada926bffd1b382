"""``volvelle tune``: what it writes and says, and that its points can be used."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import Volvelle, command
from systems_here import needs

pytest_plugins = ["command_fixtures"]
pytestmark = needs("pcs")

SEARCH = [
    "tune", "--generate", "lognormal:jobs=200,load=1.5", "--cluster", "2x8",
    "--samples", "2", "--jobs", "100", "--population", "6",
]  # fmt: skip
SMALL = [*SEARCH, "--candidates", "12"]
FEW = [*SEARCH, "--candidates", "4"]


def test_a_search_leaves_a_front_that_can_be_used(volvelle: Volvelle) -> None:
    ran = volvelle(*SMALL, "--objective", "jct:avg", "--objective", "pred_error:p99", "--png")
    assert ran.status == 0, ran.err
    for name in ("fastest", "balanced", "most-predictable"):
        assert f" {name} " in ran.out
    assert "12 configurations of pcs tried" in ran.out
    assert "--policy pcs:volvelle-tune/front.json#balanced" in ran.out
    page = Path("volvelle-tune/front.html").read_text()
    assert "falls from" in page and "pred_error:p99 (eta_error:p99)" in page
    assert "<title>" in page
    assert Path("volvelle-tune/front.png").read_bytes().startswith(b"\x89PNG")
    picked = "pcs:volvelle-tune/front.json#balanced"
    used = volvelle(
        "simulate", "--generate", "lognormal:jobs=50", "--cluster", "2x8", "--policy", picked
    )
    assert used.status == 0, used.err
    front = json.loads(Path("volvelle-tune/front.json").read_text())
    balanced = front["points"][front["picks"]["balanced"]]["written"]
    record = json.loads(Path("volvelle-run/run.json").read_text())
    assert record["composition"]["policy"] == balanced  # the run does not depend on the file
    assert record["name"] == picked


def test_three_objectives_and_json(volvelle: Volvelle) -> None:
    objectives = ("jct:avg", "jct:p99", "unfairness:avg")
    asked = [part for name in objectives for part in ("--objective", name)]
    ran = volvelle(*SMALL, *asked, "--algorithm", "nsga2", "--output", "json", "--png")
    assert ran.status == 0, ran.err
    told = json.loads(ran.out)
    assert [one["name"] for one in told["objectives"]] == ["jct:mean", "jct:p99", "unfairness:mean"]
    assert {"fastest", "fastest-p99", "fairest", "balanced"} == set(told["picks"])
    pictures = {path.name for path in Path("volvelle-tune").glob("*.png")}
    assert pictures == {"front-1-2.png", "front-1-3.png", "front-2-3.png"}


def test_jobs_enter_and_end_as_told_while_searching(volvelle: Volvelle) -> None:
    generate = "lognormal:jobs=100,load=1.5,converging_share=1"
    fastest = {}
    for name, *more in (
        ("plain",),
        ("admitted", "--admission", "backlog:factor=1"),
        ("ended", "--termination", "loss"),
    ):
        ran = volvelle(*FEW, "--jobs", "40", "--generate", generate, *more, "--out", name)
        assert ran.status == 0, ran.err
        front = json.loads(Path(name, "front.json").read_text())
        composition = front["search"]["composition"]
        assert composition["admission"] == (more[1] if name == "admitted" else "accept-all")
        assert composition["termination"] == (more[1] if name == "ended" else "completion")
        fastest[name] = front["points"][front["picks"]["fastest"]]["train"]["jct:mean"]["mean"]
    assert fastest["ended"] < fastest["plain"] < fastest["admitted"]


def test_a_config_file_finds_a_front_beside_it(volvelle: Volvelle, tmp_path: Path) -> None:
    assert volvelle(*SMALL, "--out", "kept").status == 0
    (tmp_path / "kept" / "use.toml").write_text(
        'generate = "lognormal:jobs=30"\ncluster = "2x8"\npolicy = "pcs:front.json#fastest"\n'
    )
    assert volvelle("simulate", "--config", "kept/use.toml").status == 0


def test_ctrl_c_keeps_what_was_found_and_resume_goes_on(tmp_path: Path, volvelle: Volvelle) -> None:
    long = [*SEARCH, "--jobs", "400", "--candidates", "100000", "--workers", "1"]
    process = subprocess.Popen(
        command(*long),
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 90
    while not (tmp_path / "volvelle-tune/front.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "on the front" in out
    assert "--resume" in err
    stopped = json.loads((tmp_path / "volvelle-tune/front.json").read_text())
    tried = len(stopped["evaluated"])
    assert not stopped["complete"]
    assert tried >= 6
    resumed = volvelle(*long[:-3], str(tried + 2), "--resume")
    assert resumed.status == 0, resumed.err
    front = json.loads((tmp_path / "volvelle-tune/front.json").read_text())
    assert front["complete"]
    assert len(front["evaluated"]) == tried + 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--objective", "jtc:avg", "--objective", "jct:p99"], "unknown metric 'jtc'"),
        (["--objective", "jct:p999", "--objective", "jct:avg"], "unknown measure 'p999'"),
        (["--objective", "jct:avg"], "a trade-off needs two objectives"),
        (["--algorithm", "spea3"], "unknown algorithm 'spea3' (did you mean 'spea2'?)"),
        (["--policy", "fifo"], "policy 'fifo' does not say what a search may vary"),
        (
            ["--policy", "tiresias", "--refine", "4"],
            "'tiresias' does not say how what is found can be",
        ),
        (["--policy", "psc"], "unknown policy 'psc' (did you mean 'pcs'?)"),
        (["--test", "1"], "the share of the history to test on is 1"),
        (["--resume"], "there is nothing to resume"),
    ],
)
def test_bad_input_is_refused(volvelle: Volvelle, arguments: list[str], said: str) -> None:
    ran = volvelle(*SMALL, *arguments)
    assert ran.status == 2, ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_front_of_one_point_has_its_names_once_and_no_warning(
    volvelle: Volvelle, tmp_path: Path
) -> None:
    idle = tmp_path / "idle.csv"
    idle.write_text(
        "submit_time,gpus,duration\n" + "".join(f"{at * 1000},1,60\n" for at in range(120))
    )
    ran = volvelle("tune", idle, "--cluster", "1x8", "--candidates", "24", "--samples", "1")
    assert " fastest, most-predictable, balanced  best by mean JCT: 1m 00s" in ran.out
    assert "No other is better in anything" in ran.out
    assert "Warning" not in ran.err


def test_a_short_history_is_refused(volvelle: Volvelle, trace: Path) -> None:
    ran = volvelle("tune", trace, "--cluster", "2x8")
    assert ran.status == 2
    assert "the train window of" in ran.err
    assert "4 of its 6 jobs" in ran.err
