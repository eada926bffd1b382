"""A running cluster is upgraded from the commit before: ``experiments/chaos/upgrade.py``, as it stands."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_nothing_is_lost_when_a_running_cluster_is_upgraded_from_the_commit_before() -> None:
    known = ["git", "-C", str(ROOT), "rev-parse", "--verify", "-q", "HEAD~1^{commit}"]
    if subprocess.run(known, check=False, capture_output=True).returncode:
        pytest.skip("there is no commit before this one here: no history, or a part of it")
    script = ROOT / "experiments" / "chaos" / "upgrade.py"
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith("nothing was lost, run twice or interrupted\n")
