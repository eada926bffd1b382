"""The how-to notebook runs from top to bottom, and has the outputs that it gives."""

import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOK = DOCS / "how-to/work-in-a-notebook.ipynb"


def test_every_cell_runs_and_shows_what_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "matplotlib", "pymoo"):
        pytest.importorskip(name, reason=f"the notebook uses {name}")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.delitem(sys.modules, "make_notebook", raising=False)
    from make_notebook import run  # type: ignore[import-not-found, unused-ignore]

    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    kept = [shown_by(cell) for cell in cells]
    known = run(cells)
    assert [shown_by(cell) for cell in cells] == kept
    assert known["search"].picks.keys() >= {"balanced"}
    assert len(known["run"].outcomes) == len(known["jobs"])


def shown_by(cell: dict[str, list[dict[str, object]]]) -> list[object]:
    """Its outputs, without pictures, which differ by the fonts of a machine."""
    shown: list[object] = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        assert isinstance(data, dict)
        shown.append(output.get("text") or data.get("text/plain"))
    return shown
