"""The runs of real daemons beside the project, and what they saw every ten seconds."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volvelle.incumbents.slurm.read_site import texts_of
from volvelle.incumbents.slurm.recording import Recording


def snapshots(run: Path) -> Iterator[dict[str, Any]]:
    """The ``snap`` records of a run."""
    with gzip.open(run / "log.jsonl.gz", "rt") as lines:
        for line in lines:
            record = json.loads(line)
            if record["k"] == "snap":
                yield record


def recorded(run: Path, folder: Path) -> None:
    """Write a run as attach would have recorded it; what came of it (sacct) is left out."""
    recording, site = Recording(folder), texts_of(run)
    del site["sacct"]
    names = {"part": "partition", "assoc": "assoc_mgr", "sshare": "sshare", "lic": "licenses"}
    for seen in snapshots(run):
        site |= {kind: seen[name] for name, kind in names.items() if name in seen}
        recording.site(seen["t"], site)
        answers = {"job": seen["jobs"], "node": seen["nodes"], "reservation": seen["res"]}
        recording.poll(seen["t"], answers)
    recording.close()
