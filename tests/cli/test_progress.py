"""Long work says how far it is, how fast it goes and how long it will take."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import command

from volvelle.cli import output


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_sees_a_bar_with_rate_and_time_left(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        command(
            "compare", "--generate", "lognormal:jobs=40000", "-c", "8x8", "-p", "las:round=60",
            "-m", "jct:mean",
        ),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    assert process.wait(timeout=60) == 0
    text = shown.decode()
    assert "simulating 1 run" in text
    assert "/40,000 jobs" in text
    assert "/s" in text
    assert re.search(r"about \d+ s left", text)


def test_a_log_gets_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("volvelle.cli.output.time.monotonic", lambda: now)
    with output.progress("simulating") as update:
        update(1, 1000)
        assert capsys.readouterr().err == ""
        now = 130.0
        update(250, 1000)
        update(251, 1000)
    assert capsys.readouterr().err == "simulating  250/1,000 jobs  8/s  about 90 s left\n"


def test_the_start_up_is_no_part_of_the_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("volvelle.cli.output.time.monotonic", lambda: now)
    with output.progress("searching") as update:
        now = 300.0
        update(1, 5)
        now = 320.0
        update(2, 5)
    first, second = capsys.readouterr().err.splitlines()
    assert "left" not in first
    assert second.endswith("about 60 s left")


def test_the_time_left_is_told_by_the_rate_of_late(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quick runs first, then a slow one: by the mean rate nothing would be left of it."""
    now = 0.0
    monkeypatch.setattr("volvelle.cli.output.time.monotonic", lambda: now)
    with output.progress("simulating") as update:
        for second in range(1, 100):
            now = float(second)
            update(900 + second if second > 9 else 100 * second, 1000)
        now = 100.0
        update(1000, 1000)
    lefts = [line.rpartition("  ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lefts == [
        "about 80 s left",
        "about 60 s left",
        "about 40 s left",
        "about 20 s left",
        "finishing",
    ]
