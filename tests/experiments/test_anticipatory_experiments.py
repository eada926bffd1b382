"""What the page on Philly's pools, shared, says is so."""

import csv
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "anticipatory"


def rows(experiment: str) -> list[dict[str, str]]:
    with (FOLDER / "results" / f"{experiment}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["anticipatory", "anticipatory, bins"])
def test_the_page_says_what_was_measured(name: str) -> None:
    """Section 6.2 on Philly's pools: harm far below max-min's, at a speed-up that is equivalent."""
    every = [row for row in rows("sharing") if row["size"] == "1"]
    found = {row["scheduler"]: row for row in reversed(every)}  # figure 18's are of fewer draws
    ours, fair = found[name], found["mmfs"]
    page = (FOLDER / "results" / "sharing.md").read_text(encoding="utf-8")
    end = name.removeprefix("anticipatory")
    harm, gain = (
        next(line for line in page.splitlines() if line.startswith(f"| {claim}{end} |"))
        for claim in (
            "Total and worst harm 100 to 1,000 times below max-min's (6.2)",
            "Speed-ups equivalent to max-min's or better (6.2; here: 0.9 times)",
        )
    )
    for kind in ("total", "worst"):
        column = f"harm, {kind}, h"
        assert f"{ours[column]} h against {fair[column]} h" in harm
        if harm.endswith("| yes |"):
            assert float(fair[column]) >= 99.0 * float(ours[column])
    better = float(ours["speed-up"]) >= 0.9 * float(fair["speed-up"])
    assert gain.endswith("| yes |") == better
