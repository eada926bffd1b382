"""The how-to notebook runs from top to bottom."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs/how-to/work-in-a-notebook.ipynb"


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "matplotlib", "pymoo"):
        pytest.importorskip(name, reason=f"the notebook uses {name}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    known: dict[str, Any] = {}
    for cell in cells:
        assert cell.get("outputs", []) == []  # they are made where it is opened
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), known)
    assert known["search"].picks.keys() >= {"balanced"}
    assert len(known["run"].outcomes) == len(known["jobs"])
