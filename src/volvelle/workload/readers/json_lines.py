"""Tables as JSON lines: a flat object for each row, its keys the names of the columns."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from volvelle.model.problems import Problem
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.ledger import Broken, Ledger
from volvelle.workload.readers.rows import ColumnNames
from volvelle.workload.readers.text import BLOCK_LINES, Sample, text_lines


def json_cells(sample: Sample) -> dict[str, list[str]]:
    """The cells of the first lines by column; empty where the file is no JSON at all.

    Raises `Problem` where it is JSON, and its first line no flat object.
    """
    if sample.lines[0].lstrip()[:1] not in ("{", "["):
        return {}
    if flat_object(sample.lines[0]) is None:
        raise Problem(
            f"{sample.path.name}: no known trace format looks like this JSON: {sample.lines[0][:60]!r}",
            mend="write a flat object with submit_time, gpus and duration on one line for each job, "
            "or a reader of a few lines, as docs/how-to/write-a-trace-reader.md shows",
        )
    found = [one for one in map(flat_object, sample.lines) if one]
    return {
        name: [one.get(name, "") for one in found]
        for name in dict.fromkeys(key for one in found for key in one)
    }


def json_columns(path: Path, ledger: Ledger, names: list[str]) -> Iterator[Columns]:
    """The rows of a file of JSON lines as columns ``names``, a hundred or so at a time."""
    ledger.file = path.name
    header = ColumnNames(names, path.name)
    lines = enumerate(text_lines(path, ledger), 1)
    while block := list(islice(lines, BLOCK_LINES)):
        found = {line: (flat_object(text), text) for line, text in block if text.strip()}
        ledger.row(len(found))
        rows = [
            (line, [one.get(name, "") for name in names]) for line, (one, _) in found.items() if one
        ]
        columns = Columns.of_rows(header, rows)
        for line, (one, text) in found.items():
            if not one:
                columns.wrong[line] = Broken("no flat JSON object", value=text.strip())
        yield columns


def flat_object(text: str) -> dict[str, str] | None:
    """Values as a CSV has them, lists joined by ``;``; None for what is no object, or is nested further."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    parts = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    if any(isinstance(one, dict | list) for part in parts.values() for one in part):
        return None
    return {
        name: ";".join("" if one is None else str(one) for one in part)
        for name, part in parts.items()
    }
