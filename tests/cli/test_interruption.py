"""Ctrl-C keeps what is done and says that it is not all."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from command_line import Ran, command
from waiting import until

from volvelle.simulate.sources import generated
from volvelle.workload.writing import write_trace

pytest_plugins = ["command_fixtures"]


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "long.csv"
    write_trace(generated("lognormal:jobs=15000,load=1.0", 1, 64).workload, path)
    return path


SLOW = """
import time
from volvelle import policy

@policy.order("slow")
def slow(jobs, now):
    \"""First in, first out, after a while.\"""
    time.sleep(0.002 if len(jobs) else 0.0)
    return jobs.submit_time - jobs.submit_time.mean()
"""
"""With 15,000 jobs it takes a minute, however quick the simulation is."""


def interrupted_when(condition: Path, *arguments: object, cwd: Path) -> Ran:
    """Runs a command, sends it and its children Ctrl-C once ``condition`` exists and it goes on."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not condition.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.7)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out, err)


def test_simulate_writes_what_is_done_so_far(tmp_path: Path, long_trace: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "slow.py").write_text(SLOW)
    ran = interrupted_when(
        run / "journal.jsonl.partial",
        "simulate", long_trace, "-c", "8x8", "-p", "slow.py", "--until", "9000d", "--out", "run",
        cwd=tmp_path,
    )  # fmt: skip
    assert ran.status == 130, ran.err
    assert "interrupted" in ran.err
    assert "Traceback" not in ran.err
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
    metrics = json.loads((run / "metrics.json").read_text())
    assert 0 < metrics["jobs"]["submitted"] < 15000
    assert "(interrupted)" in (run / "report.html").read_text()


def test_compare_keeps_the_finished_runs(tmp_path: Path, long_trace: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    arguments = (
        "compare", long_trace, "-c", "8x8", "-p", "fifo", "-p", "slow.py", "--workers", 1,
        "--out", "cmp", "-m", "jct:mean", "-o", "json",
    )  # fmt: skip
    second = tmp_path / "cmp/runs/slow/run.json"
    ran = interrupted_when(second, *arguments, cwd=tmp_path)
    assert ran.status == 130, ran.err
    assert [row["run"] for row in json.loads(ran.out)["rows"]] == ["fifo"]
    assert "interrupted: slow" in ran.err
    assert "Traceback" not in ran.err
    assert json.loads(second.read_text())["status"] == "interrupted"
    with np.load(second.with_name("outcomes.npz")) as columns:
        assert len(columns["submit_time"]) < 15000


ENDLESS = """
from pathlib import Path
from volvelle import policy

@policy.register
class Endless(policy.Policy):
    \"""Never answers.\"""

    name = "endless"
    optimises = "nothing"

    def allocate(self, view):
        Path("asked").touch()
        while True:
            pass
"""

ON_ENDLESS = [
    "--generate", "lognormal:jobs=40,load=2", "-c", "2x4", "-p", "endless.py", "--out", "out",
]  # fmt: skip


@pytest.mark.parametrize("named", [["simulate"], ["compare", "-p", "fifo", "--workers", "2"]])
def test_a_policy_that_never_answers_is_interrupted(tmp_path: Path, named: list[str]) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    ran = interrupted_when(tmp_path / "asked", *named, *ON_ENDLESS, cwd=tmp_path)
    assert ran.status == 130, ran.err
    assert "interrupted" in ran.err
    assert "Traceback" not in ran.err
    [record] = tmp_path.glob(
        "out/run.json" if named == ["simulate"] else "out/runs/endless/run.json"
    )
    assert json.loads(record.read_text())["status"] == "interrupted"


def in_session(session: int) -> list[int]:
    """Processes of a session, without zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if stat[0] not in "ZX" and int(stat[3]) == session:
                    found.append(int(entry.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers outlive a killed parent")
def test_workers_die_with_a_command_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    process = subprocess.Popen(
        command("compare", "-p", "fifo", "--workers", "2", *ON_ENDLESS),
        cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until((tmp_path / "asked").exists)
    assert len(in_session(process.pid)) > 1
    process.kill()
    process.wait()
    until(lambda: not in_session(process.pid), "the workers to be gone")
