"""Every experiment after Blox runs, small, and its page says what the paper says beside what is seen."""

import csv
import re
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
EXPERIMENTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "study")


def traces(experiment: str, folder: Path) -> list[str]:
    """What the command must name: for those on Pollux the jobs that the how-to on Pollux makes up."""
    if not experiment.startswith("pollux"):
        return []
    page = (ROOT / "docs/how-to/tune-batch-sizes-with-pollux.md").read_text(encoding="utf-8")
    program = re.search(r"```python file=measure\.py\n(.*?)```", page, re.DOTALL)
    assert program is not None
    subprocess.run([sys.executable, "-c", program[1]], cwd=folder, check=True)
    return [str(folder / "workload.csv")]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_it_runs_small_and_writes_its_page(
    experiment: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if experiment == "tiresias_jct":
        request.getfixturevalue("shared")
    jobs = "60" if experiment == "tiresias_jct" else "40"  # its smallest trace
    ran = subprocess.run(
        [
            sys.executable, str(FOLDER / f"{experiment}.py"), "--jobs", jobs, "--seeds", "1",
            "--workers", "1", "--out", str(tmp_path), *traces(experiment, tmp_path),
        ],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    page = (tmp_path / f"{experiment}.md").read_text(encoding="utf-8")
    assert ran.stdout.startswith(page.rstrip())
    assert "| the paper | here |" in page or "the paper" in page
    assert "nan" not in page
    for picture in tmp_path.glob("*.png"):
        assert f"({picture.name})" in page
    with (tmp_path / f"{experiment}.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert rows
    assert all(len(row) == len(head) for row in rows)
    assert all(float(row[-1]) >= 0 for row in rows)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_its_results_are_committed(experiment: str) -> None:
    page = FOLDER / "results" / f"{experiment}.md"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert (page.parent / f"{experiment}.csv").is_file()


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
