"""Experiments after Blox: what they refuse, and what they keep."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from volvelle.metrics.outcomes import Outcomes
from volvelle.model.units import HOUR
from volvelle.workload.workload import Workload

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "blox"


@pytest.mark.parametrize("experiment", ["pollux_fifo", "pollux_load"])
def test_an_experiment_on_pollux_asks_for_its_jobs(experiment: str) -> None:
    ran = subprocess.run(
        [sys.executable, str(FOLDER / f"{experiment}.py")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "required: TRACE" in ran.stderr


def test_a_window_that_is_too_small_is_refused() -> None:
    ran = subprocess.run(
        [sys.executable, str(FOLDER / "termination.py"), "--jobs", "5"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "--jobs is at least 20" in ran.stderr


def test_what_was_kept_is_not_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    study = import_module("study")
    given = study.Options(20, (1,), 1, tmp_path, keep=tmp_path / "kept")
    other = replace(given, jobs=24)  # measures other jobs

    def measured(options: Any, workload: Callable[[], Workload]) -> Any:
        case = study.Case(("10 jobs/h", "1"), workload, study.setting(options, "fifo"))
        return study.measure([case], options, hours_of)

    def never() -> Workload:
        raise NotImplementedError

    first = measured(given, lambda: study.philly(30, 1, 10.0))
    assert measured(given, never) == first
    with pytest.raises(NotImplementedError):
        measured(other, never)


def hours_of(outcomes: Outcomes) -> dict[str, float]:
    return {"hours": float(outcomes.jct[outcomes.tracked].mean()) / HOUR}
