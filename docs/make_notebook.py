"""Run the notebook of the how-tos and keep what its cells show: python docs/make_notebook.py."""

import ast
import base64
import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parent / "how-to" / "work-in-a-notebook.ipynb"


def main() -> None:
    """Write the notebook with its outputs."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    run(document["cells"])
    NOTEBOOK.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def run(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Run ``cells`` in a folder of their own, and put into each what it shows; the names that they define."""
    known: dict[str, Any] = {}
    count = 0
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for cell in cells:
            if cell["cell_type"] == "code":
                count += 1
                cell["execution_count"] = count
                cell["outputs"] = list(_outputs("".join(cell["source"]), known, count))
    return known


def _outputs(source: str, known: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<cell>", "exec"), known)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), known)
    if text := printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}
    if save := getattr(getattr(value, "figure", None), "savefig", None):
        picture = io.BytesIO()
        save(picture, format="png", dpi=80)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        yield {"output_type": "display_data", "metadata": {}, "data": data}
    elif value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        if html := getattr(value, "_repr_html_", None):
            shown["text/html"] = html().splitlines(keepends=True)
        yield {
            "output_type": "execute_result",
            "metadata": {},
            "execution_count": count,
            "data": shown,
        }


if __name__ == "__main__":
    main()
