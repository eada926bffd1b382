"""Whether `slurm` decides as Slurm did: forecasts from snapshots of recorded runs, scored by their program.

    python experiments/slurm/conformance.py [--every 4] [--runs run1,run3] [--late] [--by reason]

At each snapshot the state is read, each job is believed to take its true time, nobody else comes, and all
pending jobs are foreseen. ``../shared/golden/slurm/score.py`` compares starts and ends with what happened,
beside Slurm's own. Snapshots before the last submission know less than Slurm did later: ``--late`` leaves
them out.
"""

import argparse
import csv
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from volvelle.incumbents.slurm.forecast import foresee
from volvelle.incumbents.slurm.read_accounts import with_usage
from volvelle.incumbents.slurm.read_jobs import read_snapshot
from volvelle.incumbents.slurm.read_site import read_site, texts_of
from volvelle.incumbents.slurm.site import Site
from volvelle.incumbents.slurm.snapshot import Snapshot

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "golden" / "slurm"
_ANSWERS = {"jobs": "job", "nodes": "node", "res": "reservation"}


def log_of(run: Path) -> list[dict[str, Any]]:
    """The records of a run's log."""
    with gzip.open(run / "log.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def true_durations(log: list[dict[str, Any]]) -> dict[str, float]:
    """How long each job really takes, in seconds, by key."""
    found: dict[str, float] = {}
    for record in log:
        if record["k"] != "submit" or not record["o"]:
            continue
        plan, number = record["p"], record["o"]
        if not plan["array"]:
            found[number] = float(plan["d"])
            continue
        first, _, last = plan["array"].partition("%")[0].partition("-")
        for task in range(int(first), int(last or first) + 1):
            seconds = plan["d"][task - int(first)] if isinstance(plan["d"], list) else plan["d"]
            found[f"{number}_{task}"] = float(seconds)
    return found


def snapshots(log: list[dict[str, Any]], site: Site) -> Iterator[Snapshot]:
    """The snapshots of a run, with the usage of associations as it was read last."""
    usage: Mapping[str, str] = {}
    for record in log:
        if record["k"] != "snap":
            continue
        if record.get("assoc"):
            usage = {"assoc_mgr": record["assoc"], "sshare": record.get("sshare", "")}
        texts = {kind: record[key] for key, kind in _ANSWERS.items()}
        snapshot = read_snapshot(texts, record["t"])
        associations = with_usage(site.associations, usage) if usage else ()
        yield Snapshot(
            time=snapshot.time,
            jobs=snapshot.jobs,
            nodes=snapshot.nodes,
            reservations=snapshot.reservations,
            associations=associations,
        )


def main() -> None:
    """Foresee, write a table, and let the score be printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="run1,run3,run5")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--by")
    parser.add_argument("--out", type=Path, default=Path("build/slurm"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for name in asked.runs.split(","):
        run = GOLDEN / name
        log = log_of(run)
        site, durations = read_site(texts_of(run)), true_durations(log)
        table, begun = asked.out / f"{name}.csv", time.perf_counter()
        with table.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["snapshot_time", "job", "predicted_start", "p90_start", "predicted_end"])
            for snapshot in list(snapshots(log, site))[:: asked.every]:
                for key, one in foresee(site, snapshot, durations).items():
                    rows.writerow([snapshot.time, key, one.start or "", "", one.end or ""])
        print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
        more = ["--late"] * asked.late + (["--by", asked.by] if asked.by else [])
        subprocess.run([sys.executable, GOLDEN / "score.py", run, table, *more], check=True)


if __name__ == "__main__":
    main()
