"""``benchmarks/serve_load.py`` ends what it started when it gives up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from waiting import until

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serve_load.py"


def started_below(folder: Path) -> list[str]:
    """Commands of the processes that work in a folder."""
    commands = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if any(str(folder).encode() in word for word in words):
            commands.append(b" ".join(words).decode())
    return commands


def test_nothing_is_left_of_a_benchmark_that_was_ended(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--jobs", "1000000", "--nodes", "2"]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)})
    until(lambda: len(started_below(tmp_path)) == 2)  # server and agents
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 1
    assert started_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
