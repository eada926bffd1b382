"""One command runs a paper's studies anew and holds their tables against the committed ones."""

import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "experiments" / "reproduce.py"


def reproduce(*arguments: str, program: Path = PROGRAM) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_studies_are_found_by_paper_figure_and_table() -> None:
    listed = {
        arguments: [
            line.split("python ")[1] for line in reproduce(*arguments, "--list").stdout.splitlines()
        ]
        for arguments in ((), ("pcs", "--figure", "5"), ("blox", "--figure", "4"))
    }
    assert len(listed[()]) > 40
    assert listed["pcs", "--figure", "5"] == ["experiments/pcs/workload1.py"]
    assert "experiments/blox/bandwidth.py" in listed["blox", "--figure", "4"]
    nothing = reproduce("pcs", "--figure", "99")
    assert nothing.returncode == 2
    assert "--list says which there are" in nothing.stderr


def test_a_study_made_anew_has_the_cells_of_the_committed_table(tmp_path: Path) -> None:
    same = reproduce("--study", "pcs/toy", "--out", str(tmp_path))
    assert same.returncode == 0, same.stdout
    assert "pcs/toy: every cell is equal" in same.stdout
    assert (tmp_path / "pcs" / "toy" / "toy.md").exists()


def test_a_cell_that_differs_is_counted_in_its_column(tmp_path: Path) -> None:
    for folder in ("docs", "experiments"):
        shutil.copytree(PROGRAM.parents[1] / folder, tmp_path / folder)
    table = tmp_path / "experiments" / "pcs" / "results" / "toy.csv"
    lines = table.read_text().splitlines(keepends=True)
    cells = lines[1].split(",")
    lines[1] = ",".join([*cells[:3], "7", *cells[4:]])
    table.write_text("".join(lines))
    program = tmp_path / "experiments" / "reproduce.py"
    apart = reproduce("--study", "pcs/toy", "--out", str(tmp_path), program=program)
    assert apart.returncode == 1
    assert "pcs/toy: jct: 1 of " in apart.stdout
