"""Every experiment after Chronus runs, small, and what its committed page claims is in its runs."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "chronus"
EXPERIMENTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "chronus_study")
TRACE = Path("data") / "philly-chronus" / "trace_job_Philly_MIX2.csv"


def runs(folder: Path, experiment: str) -> list[dict[str, str]]:
    """The rows of its CSV."""
    with (folder / f"{experiment}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_it_runs_small_and_writes_its_page(experiment: str, shared: Path, tmp_path: Path) -> None:
    if not (shared / TRACE).is_file():
        pytest.skip(f"no jobs: there is no {TRACE}")
    ran = subprocess.run(
        [
            sys.executable, str(FOLDER / f"{experiment}.py"), str(shared / TRACE),
            "--thin", "400", "--out", str(tmp_path),
        ],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    page = (tmp_path / f"{experiment}.md").read_text(encoding="utf-8")
    assert ran.stdout.startswith(page.rstrip())
    assert "| the paper | here | agrees |" in page
    assert "nan" not in page
    assert all(0.0 <= float(row["wdmr"]) <= 1.0 for row in runs(tmp_path, experiment))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_its_results_are_committed(experiment: str) -> None:
    page = (FOLDER / "results" / f"{experiment}.md").read_text(encoding="utf-8")
    assert page.startswith("# ")
    assert runs(FOLDER / "results", experiment)


def test_no_promise_was_broken_with_true_estimates_and_few_with_wrong_ones() -> None:
    shares: dict[tuple[str, str, str], float] = {}
    for row in runs(FOLDER / "results", "promises"):
        broken, promised = int(row["broken"]), int(row["promised"])
        assert promised > 0
        if float(row["error"]) == 0.0:
            assert broken == 0
        else:
            shares[row["by"], row["error"], row["margin"]] = broken / promised
    page = (FOLDER / "results" / "promises.md").read_text(encoding="utf-8")
    for by in ("chronus", "fifo + deadlines", "srsf + deadlines"):
        adapted = [share for key, share in shares.items() if key[::2] == (by, "adapts")]
        [claim] = [line for line in page.splitlines() if f"adapts ({by}, ours)" in line]
        assert claim.endswith("| yes |") == (max(adapted) <= 0.01)
    for (by, error, margin), share in shares.items():
        assert margin == "none" or share < max(shares[by, error, "none"], 1e-3)


def test_a_claim_of_the_page_on_baselines_is_that_of_its_runs() -> None:
    missed = {
        (row["mix"], row["density"], row["policy"]): float(row["wdmr"])
        for row in runs(FOLDER / "results", "baselines")
    }
    page = (FOLDER / "results" / "baselines.md").read_text(encoding="utf-8")
    [claim] = [line for line in page.splitlines() if "no more missed than under srsf" in line]
    worse = [
        key
        for key, value in missed.items()
        if value < missed[(*key[:2], "chronus")] and key[2] == "srsf"
    ]
    assert claim.endswith("| yes |") == (not worse)
