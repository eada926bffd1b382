"""What the committed pages of the experiments after Chronus claim is in their runs."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "chronus"


def runs(folder: Path, experiment: str) -> list[dict[str, str]]:
    """The rows of its CSV."""
    with (folder / f"{experiment}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_guarantees_are_drawn_small_and_none_is_broken_with_true_estimates(tmp_path: Path) -> None:
    script, small = FOLDER / "guarantees.py", ["--jobs", "20", "--seeds", "1", "--wrong-jobs", "20"]
    subprocess.run([sys.executable, script, *small, "--out", tmp_path], check=True)
    for folder in (tmp_path, FOLDER / "results"):
        rows = runs(folder, "guarantees")
        assert sum(int(row["made"]) for row in rows) > 0
        assert not any(int(row["broken"]) for row in rows if float(row["error"]) == 0.0)


def test_claims_of_the_page_on_guarantees_are_those_of_its_runs() -> None:
    counted: dict[tuple[str, float], list[int]] = {}
    for row in runs(FOLDER / "results", "guarantees"):
        sums = counted.setdefault((row["by"], float(row["error"])), [0, 0])
        sums[0] += int(row["made"])
        sums[1] += int(row["broken"])
    for (by, error), (made, broken) in counted.items():
        kept = broken <= (0.01 * made if error else 0.0)
        assert agrees("guarantees", f"{by}, estimates off by {error:.0%}") == kept


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
    drawn: dict[tuple[str, str, str], list[float]] = {}
    for row in runs(FOLDER / "results", "baselines"):
        key = row["mix"], row["density"], row["policy"]
        drawn.setdefault(key, []).append(float(row["wdmr"]))
    missed = {key: float(np.mean(values)) for key, values in drawn.items()}
    worse = [key for key, value in missed.items() if value < missed[(*key[:2], "chronus")]]
    srsf = any(key[2] == "srsf" for key in worse)
    papers = any(key[2] != "srsf" for key in worse)
    assert agrees("baselines", "no more missed than under srsf") == (not srsf)
    assert agrees("baselines", "9 (a, d): Chronus misses least") == (not papers)


def test_claims_of_the_page_on_the_profiling_partition_are_those_of_its_runs() -> None:
    rows = runs(FOLDER / "results", "profiler")
    missed = {row["partition"]: float(row["wdmr"]) for row in rows}
    waits = {row["partition"]: float(row["wait_seconds"]) for row in rows}
    ruled, _ = missed.pop("by the rule"), missed.pop("by the rule, every 10 min")
    smallest, *_, largest = missed
    assert agrees("profiler", "too large") == (missed[largest] > min(missed.values()))
    assert agrees("profiler", "too small") == (waits[smallest] > waits[largest])
    assert agrees("profiler", "misses least") == (ruled <= min(missed.values()))
    assert agrees("profiler", "wait 32 s") == (waits["by the rule"] <= 32.0)


def test_claims_of_the_page_on_placements_are_those_of_its_runs() -> None:
    drawn: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in runs(FOLDER / "results", "allocator"):
        figures = float(row["wdmr"]), float(row["best_effort_hours"])
        drawn.setdefault((row["hostile"], row["placement"]), []).append(figures)
    mean = {key: np.mean(figures, axis=0).tolist() for key, figures in drawn.items()}
    shares = sorted({share for share, _ in drawn})
    waits, others = "consolidated or wait", ("consolidated or wait", "quasi-consolidated")
    gains = [mean[share, waits][0] - mean[share, "round-up"][0] for share in shares]
    assert agrees("allocator", "round-up lowers wDMR") <= (min(gains) > 0.0)
    assert agrees("allocator", "it helps less") == (round(gains[0], 4) > round(gains[-1], 4))
    for at, claim in ((1, "lowest JCT"), (0, "the lowest wDMR")):
        lowest = all(
            mean[share, "local search"][at] < mean[share, other][at]
            for share in shares
            for other in others
        )
        assert agrees("allocator", claim) == lowest


def test_what_the_objective_does_to_soft_and_strict_jobs_is_as_its_table_says() -> None:
    page = (FOLDER / "results" / "selector.md").read_text(encoding="utf-8")
    lines = [
        next(line for line in page.splitlines() if line.startswith(f"| {aim} |"))
        for aim in ("declared rewards", "any deadline")
    ]
    aimed, alike = ([float(cell.strip(" %")) for cell in line.split("|")[2:4]] for line in lines)
    assert agrees("selector", "less reward of soft jobs") == (aimed[1] < alike[1])
    assert agrees("selector", "and no more of strict") == (aimed[0] <= alike[0])


def agrees(experiment: str, claim: str) -> bool:
    """Whether the committed page says that this claim holds."""
    page = (FOLDER / "results" / f"{experiment}.md").read_text(encoding="utf-8")
    [line] = [
        line for line in page.splitlines() if claim in line and line.endswith(("yes |", "**no** |"))
    ]
    return line.endswith("yes |")
