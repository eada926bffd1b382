"""Experiments after PCS say which traces they need, and the toy is exact."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "pcs"

ON_TRACES = {
    "held_back": "0e4a51",
    "long_traces": "6c71a0",
    "themis_error": "2869ce",
    "told_times": "0e4a51",
    "parameterisation": "0e4a51",
    "workload1": "themis1_scaled",
    "workload2": "0e4a51",
}
"""Those that read traces beside the repository, and which they read first."""


def run(experiment: str, out: Path, *options: str) -> str:
    command = [
        sys.executable,
        str(FOLDER / f"{experiment}.py"),
        "--out",
        str(out),
        "--workers",
        "1",
    ]
    ran = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rows(experiment: str, out: Path) -> list[dict[str, str]]:
    with (out / f"{experiment}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("experiment", sorted(ON_TRACES))
def test_without_its_traces_it_says_so_and_ends(experiment: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "repository" / "experiments"
    shutil.copytree(FOLDER.parent, elsewhere, ignore=shutil.ignore_patterns("results"))
    ran = subprocess.run(
        [sys.executable, str(elsewhere / "pcs" / f"{experiment}.py")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    needed = f"skipped: this experiment needs trace_{ON_TRACES[experiment]}.csv"
    assert ran.stderr.startswith(needed)


def test_the_toy_of_figure_1_is_exact(tmp_path: Path) -> None:
    run("toy", tmp_path)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows("toy", tmp_path):
        figures = (row["predicted_jct"], row["jct"], row["unfairness_percent"])
        predicted, jct, unfairness = map(float, figures)
        found.setdefault(row["policy"], []).append((predicted, jct, unfairness))
    del found["PCS"]
    peak = 100.0 * (27.0 / 24.5 - 1.0)  # J1: 24.5 where all share the GPU
    assert found == {
        "Tiresias": [
            (10.0, 27.0, pytest.approx(peak)), (8.0, 9.0, 0.0), (1.0, 1.0, 0.0), (8.0, 8.0, 0.0),
        ],
        "Themis": [(10.0, 19.0, 0.0), (15.0, 16.0, 0.0), (2.0, 2.0, 0.0), (17.0, 17.0, 0.0)],
        "FIFO": [(10.0, 10.0, 0.0), (18.0, 18.0, 0.0), (18.0, 18.0, 500.0), (17.0, 17.0, 0.0)],
    }  # fmt: skip
