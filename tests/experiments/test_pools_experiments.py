"""The pages on pools with exact knowledge say what holds, and so it is."""

import csv
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "experiments" / "anticipatory"


def verdicts(page: str) -> dict[str, bool]:
    """What the page says of each claim."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.endswith("|")]
    return {row[0]: row[-1] == "yes" for row in rows if row[-1] in ("yes", "**no**")}


def committed(experiment: str) -> tuple[dict[str, bool], list[dict[str, str]]]:
    """The verdicts of a committed page, and its runs."""
    folder = FOLDER / "results"
    page = (folder / f"{experiment}.md").read_text(encoding="utf-8")
    with (folder / f"{experiment}.csv").open(encoding="utf-8", newline="") as file:
        return verdicts(page), list(csv.DictReader(file))


def test_what_the_page_of_theorem_1_says_is_in_its_runs() -> None:
    found, runs = committed("theorem_1")
    assert len(runs) >= 2000
    assert all(found.values()) == (sum(int(run["slowed"]) for run in runs) == 0)
    assert all(found.values())


def test_what_the_page_of_potentials_says_of_harm_is_in_its_runs() -> None:
    found, runs = committed("potential")
    ahead = [run for run in runs if run["scheduler"] in ("anticipatory-vc", "oracle")]
    others = [run for run in runs if run not in ahead]
    assert found["anticipation slows down no job, in any workload"]
    assert all(float(run["total"]) == 0.0 for run in ahead)
    slow = {
        (run["workload"], run["scheduler"]) for run in others if float(run["slowed"]) > 0.0
    } == {(run["workload"], run["scheduler"]) for run in others}
    assert found["all others slow down some, sometimes by much"] is slow
    by = {(run["workload"], run["scheduler"], run["seed"]): float(run["mean_jct"]) for run in runs}
    oracles = [key for key in by if key[1] == "oracle"]
    assert all(by[w, one, s] >= by[w, "anticipatory-vc", s] - 1e-9 for w, one, s in oracles)


def test_what_the_page_of_closed_loops_says_of_the_conjecture_is_in_its_runs() -> None:
    found, runs = committed("closed_loops")
    ends = {
        loop: sorted(
            float(run["earlier"])
            for run in runs
            if (run["loop"], run["policy"]) == (loop, "anticipatory-vc")
        )
        for loop in ("open", "closed")
    }
    claim = next(one for one in found if one.startswith("jobs end still earlier"))
    middle = {loop: values[len(values) // 2] for loop, values in ends.items()}
    assert found[claim] is (middle["closed"] > middle["open"])
    assert all(
        float(run["slowed"]) == 0.0
        for run in runs
        if (run["loop"], run["policy"]) == ("open", "anticipatory-vc")
    )
