"""Every experiment on anticipatory scheduling with Philly's pools runs, small; what its pages say is so."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "anticipatory"
SMALL = {
    "predictors": ("--days", "2"),
    "sharing": ("--draws", "1", "--days", "0.6", "--warm-up", "0.1"),
    "dial": ("--draws", "1", "--days", "0.6", "--warm-up", "0.1"),
    "locality": ("--draws", "1", "--days", "0.6", "--warm-up", "0.1"),
}


@pytest.mark.parametrize("experiment", SMALL)
@pytest.mark.usefixtures("shared")
def test_it_runs_small_and_writes_its_page(experiment: str, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    command = [sys.executable, str(FOLDER / f"{experiment}.py"), "--out", str(tmp_path)]
    ran = subprocess.run(
        [*command, *SMALL[experiment]], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    page = (tmp_path / f"{experiment}.md").read_text(encoding="utf-8")
    assert "| the paper | here |" in page
    assert (tmp_path / f"{experiment}.csv").is_file()


def rows(experiment: str) -> list[dict[str, str]]:
    with (FOLDER / "results" / f"{experiment}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["anticipatory", "anticipatory, bins"])
def test_the_page_says_what_was_measured(name: str) -> None:
    """Section 6.2 on Philly's pools: harm far below max-min's, at a speed-up that is no less."""
    every = [row for row in rows("sharing") if row["size"] == "1"]
    found = {row["scheduler"]: row for row in reversed(every)}  # figure 18's are of fewer draws
    ours, fair = found[name], found["mmfs"]
    page = (FOLDER / "results" / "sharing.md").read_text(encoding="utf-8")
    end = name.removeprefix("anticipatory")
    harm, gain = (
        next(line for line in page.splitlines() if line.startswith(f"| {claim} (6.2){end} |"))
        for claim in (
            "Total and worst harm 100 to 1,000 times below max-min's",
            "Speed-ups as good as max-min's or better",
        )
    )
    for kind in ("total", "worst"):
        column = f"harm, {kind}, h"
        assert f"{ours[column]} h against {fair[column]} h" in harm
        if harm.endswith("| yes |"):
            assert float(fair[column]) >= 99.0 * float(ours[column])
    better = float(ours["speed-up"]) >= float(fair["speed-up"])
    assert gain.endswith("| yes |") == better
