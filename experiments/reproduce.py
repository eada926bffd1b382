"""The papers' studies run anew and held against their committed results, cell by cell.

    python experiments/reproduce.py --list                    which there are, by paper and figure
    python experiments/reproduce.py pcs --figure 7            those of a figure
    python experiments/reproduce.py --study pcs/toy           one
    python experiments/reproduce.py --all

Pages, tables and pictures are written to a folder for each study below ``--out``, beside what the study
printed; the committed ones stay. Exit status 1 where a study failed or a cell differs. Studies of reference
data want the folder ``shared`` beside the repository, and say so where it is absent.
"""

import argparse
import csv
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs"))
from make_claims import STUDIES, Study  # noqa: E402 - the table of all studies

TRACES = {
    "blox": "shared/data/pollux/workload-*.csv",
    "chronus": "shared/data/philly-chronus/trace_job_Philly_MIX2.csv",
}
"""The traces of a paper's studies, beside the repository."""
MEASURED = re.compile(r"(cpu_)?seconds|duration|took")
"""Columns of a table that hold times of the machine in these studies."""
TIMED = ("pcs/feasibility", "pcs/told_times", "shockwave/solver")


def wanted(paper: str, figure: str, name: str) -> Iterator[tuple[str, Study]]:
    """The studies of a paper (part of its name or folder), of a figure or table, or of a name; "" for any."""
    for title, studies in STUDIES.items():
        for study in studies:
            of_paper = paper.lower() in title.lower() or study.name.startswith(f"{paper}/")
            if of_paper and (not figure or figure in shown(study)) and name in ("", study.name):
                yield title, study


def shown(study: Study) -> set[str]:
    """The numbers of the figures and tables that the study is about."""
    _, _, named = re.sub("tables?", "figure", study.where).partition("figure")
    ranges = re.findall(r"(\d+) to (\d+)", named)
    between = {str(n) for first, last in ranges for n in range(int(first), int(last) + 1)}
    return between | set(re.findall(r"\b\d+[a-z]?\b", named))


def command(study: Study) -> list[str]:
    """The study's command, with the traces that it is given."""
    words = study.made_by.replace("...", "").split()
    traces = sorted(map(str, ROOT.parent.glob(TRACES.get(study.name.partition("/")[0], "-"))))
    if "TRACE" in words and not traces:
        raise FileNotFoundError(f"no ../{TRACES[study.name.partition('/')[0]]}")
    filled = [word for each in words[1:] for word in (traces if each == "TRACE" else [each])]
    return [sys.executable, *filled]


def differences(study: Study, made: Path) -> list[str]:
    """Where the table made differs from the committed one, in words."""
    with study.page.with_suffix(".csv").open(newline="") as before, made.open(newline="") as now:
        heads, *committed = csv.reader(before)
        heads_now, *rows = csv.reader(now)
    if heads != heads_now or len(committed) != len(rows):
        return [f"another shape: {len(committed)} rows of {heads}, now {len(rows)} of {heads_now}"]
    said = []
    for place, head in enumerate(heads):
        apart = sum(old[place] != new[place] for old, new in zip(committed, rows, strict=True))
        if apart and not (study.name in TIMED and MEASURED.fullmatch(head)):
            said.append(f"{head}: {apart} of {len(rows)}")
    return said


def reproduce(study: Study, out: Path) -> bool:
    """Run the study, and say how its table compares with the committed one; whether they are the same."""
    folder, began = out / study.name, time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        words = command(study)
    except FileNotFoundError as absent:
        print(f"{study.name}: skipped, {absent}")
        return True
    with (folder / "printed.txt").open("w") as printed:
        ended = subprocess.run(
            [*words, "--out", str(folder)],
            check=False,
            cwd=ROOT,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    took = f"{time.monotonic() - began:.0f} s"
    made = folder / study.page.with_suffix(".csv").name
    if ended.returncode or not made.exists():
        print(f"{study.name}: failed after {took}, see {folder / 'printed.txt'}")
        return False
    apart = differences(study, made)
    print(f"{study.name}: {'; '.join(apart) or 'every cell is equal'} ({took})", flush=True)
    return not apart


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paper", nargs="?", default="", help="blox, pcs, chronus, ...")
    parser.add_argument("--figure", default="", help="number of a figure or table")
    parser.add_argument("--study", default="", help="name of a study, as listed")
    parser.add_argument("--all", action="store_true", help="all studies, which takes a day")
    parser.add_argument("--list", action="store_true", help="only say which they are")
    parser.add_argument("--out", type=Path, default=Path("reproduced"), help="a folder")
    given = parser.parse_args()
    if not (given.paper or given.figure or given.study or given.all or given.list):
        parser.error("name a paper, --figure, --study or --all; --list says which there are")
    chosen = list(wanted(given.paper, given.figure, given.study))
    if not chosen:
        parser.error("no study is of that paper, figure and name; --list says which there are")
    if given.list:
        for title, study in chosen:
            print(f"{title:42} {study.where:36} {study.name:30} {study.made_by}")
        return
    out = given.out.resolve()
    same = [reproduce(study, out) for _, study in chosen]
    print(f"{sum(same)} of {len(same)} as committed; pages in {given.out}")
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
