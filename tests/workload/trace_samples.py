"""The invented sample of every format, and the options it needs to be read."""

from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent / "samples"

SAMPLE_OF: dict[str, tuple[str, dict[str, Any]]] = {
    "volvelle": ("volvelle.csv", {}),
    "sacct": ("sacct.txt", {}),
    "swf": ("swf.swf", {"procs_as": "gpu"}),
    "philly": ("philly.json", {}),
    "helios": ("cluster_log.csv", {}),
    "acme": ("trace_seren.csv", {}),
    "elasticflow": ("elasticflow.csv", {}),
    "elasticflow-measured": ("elasticflow/jobs.csv", {}),
    "slurm-database": ("slurm-log.csv", {}),
    "kubernetes": ("workloads.json", {}),
    "pai": ("pai", {}),
    "openb": ("openb", {}),
    "spot-gpu": ("spot", {}),
    "gavel": ("gavel.trace", {"throughputs": SAMPLES / "throughputs.json"}),
    "pcs": ("pcs.csv", {"speedups": SAMPLES / "speedups.csv"}),
    "chronus": ("chronus.csv", {}),
    "tiresias": ("tiresias.csv", {}),
    "journal": ("journal/journal.jsonl", {}),
    "pollux": ("pollux/workload-1.csv", {}),
    "sia": ("sia/jobs.csv", {"types": "small:2/large:4"}),
}
"""Format -> file or folder under ``samples``, options. Parquet's is written where it is needed."""
