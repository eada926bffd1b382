"""Programs solved by HiGHS."""

import subprocess
import sys

import pytest

pytest.importorskip("highspy", reason="the extra 'solvers' is not installed")

SOLVED = """
import numpy as np
from volvelle.plan.programs import Program, Rows, maximise

gain, rows = np.random.default_rng(1).random(40), Rows()
for _ in range(12):
    rows.add(np.arange(40), np.random.default_rng(2).random(40), upper=5.0)
for whole in (None, np.ones(40, dtype=bool)):
    for seconds in (10.0, 0.0):
        maximise(Program(gain, np.ones(40), rows, whole), np.zeros(40), np.inf, seconds)
"""


def test_the_solver_writes_nothing_to_the_terminal() -> None:
    # In a process of its own: what C has buffered is written at its end.
    ran = subprocess.run([sys.executable, "-c", SOLVED], capture_output=True, check=True)
    assert (ran.stdout, ran.stderr) == (b"", b"")
