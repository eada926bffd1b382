"""The runs of real daemons beside the project, and what they saw every ten seconds."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from volvelle.incumbents.attach.recording import Recording
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.incumbents.slurm.read_site import texts_of


def snapshots(run: Path) -> Iterator[dict[str, Any]]:
    """The ``snap`` records of a run."""
    with gzip.open(run / "log.jsonl.gz", "rt") as lines:
        for line in lines:
            record = json.loads(line)
            if record["k"] == "snap":
                yield record


def recorded(run: Path, folder: Path) -> None:
    """Write a run as attach would have recorded it; what came of it (sacct) is left out."""
    recording, site = Recording(folder, incumbent()), texts_of(run)
    del site["sacct"]
    names = {"part": "partition", "assoc": "assoc_mgr", "sshare": "sshare", "lic": "licenses"}
    for seen in snapshots(run):
        site |= {kind: seen[name] for name, kind in names.items() if name in seen}
        recording.site(seen["t"], site)
        answers = {"job": seen["jobs"], "node": seen["nodes"], "reservation": seen["res"]}
        recording.poll(seen["t"], answers)
    recording.close()


class RecordedSlurm:
    """A run's answers in place of a running Slurm's: each poll has those of the next snapshot."""

    def __init__(self, run: Path) -> None:
        self._site = texts_of(run)
        del self._site["sacct"]
        self._snapshots = snapshots(run)
        self.time = 0.0
        """The moment of the last poll, and of those to come where the clock is asked."""

    def site(self) -> dict[str, str]:
        """The answers that describe the site."""
        return self._site

    def poll(self) -> dict[str, str]:
        """The answers of the next snapshot."""
        seen = next(self._snapshots)
        self.time = seen["t"]
        return {"job": seen["jobs"], "node": seen["nodes"], "reservation": seen["res"]}
