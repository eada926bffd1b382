"""The runs of real daemons beside the project, and what they saw every ten seconds."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def snapshots(run: Path) -> Iterator[dict[str, Any]]:
    """The ``snap`` records of a run."""
    with gzip.open(run / "log.jsonl.gz", "rt") as lines:
        for line in lines:
            record = json.loads(line)
            if record["k"] == "snap":
                yield record
