"""Attach beside a simulated Kueue, as its page shows it: every workload has an answer."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_each_seed_is_a_row_in_which_no_workload_is_without_an_answer(tmp_path: Path) -> None:
    program, page = PROJECT / "experiments" / "kueue" / "attach_kueue.py", tmp_path / "page.md"
    given = ["--seeds", "1", "--hours", "2", "--every", "600", "--load", "1.3", "--page", str(page)]
    done = subprocess.run([sys.executable, str(program), *given], check=True, capture_output=True)
    assert done.stdout
    rows = [line.split(" | ") for line in page.read_text().splitlines() if line[:3] == "| 0"]
    assert [row[0] for row in rows] == ["| 0"] * 2, "with quota alone, and in racks"
    assert all(row[2].startswith("0 of ") for row in rows)
